// A record by keyboard: e to edit, d to delete, Esc to leave it as it is.

import { bind } from "./page.js";

const follow = (selector) => () => document.querySelector(selector)?.click();
bind("e", "edit this record", follow("[data-edit-link]"));
bind("d", "delete it, once you have seen what goes along", follow(".actions .danger"));
bind("Esc", "leave a field, close what is open", follow("[data-cancel]"));

const form = document.querySelector("[data-edit]");
if (form) {
  let isSent = false;
  const before = new URLSearchParams(new FormData(form)).toString();
  const isChanged = () => new URLSearchParams(new FormData(form)).toString() !== before;
  form.addEventListener("submit", () => { isSent = true; });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  addEventListener("beforeunload", (event) => { if (!isSent && isChanged()) event.preventDefault(); });
}
