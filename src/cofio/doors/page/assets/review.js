// The review by keyboard: a decision is sent without leaving the page, and the next one comes up.

import { bind, send } from "./page.js";

const list = document.querySelector("[data-review]");
const items = () => [...list.querySelectorAll("[data-item]")];
const findCurrent = () => items().find((each) => each.contains(document.activeElement)) ?? items()[0];

function tell(message, isProblem = false) {
  let toast = document.querySelector(".toast");
  if (!toast) {
    toast = document.createElement("p");
    toast.className = "toast";
    toast.setAttribute("role", "status");
    document.body.append(toast);
  }
  toast.classList.toggle("problem", isProblem);
  toast.textContent = message;
}

async function decide(form, button) {
  if (form.dataset.busy) return;
  const box = form.querySelector("details.merge");
  if ("opens" in button.dataset && !box.open) {  // it is to be edited first
    box.open = true;
    box.querySelector("textarea").focus();
    return;
  }
  form.dataset.busy = "1";
  try {
    const { message } = await send(form, { decision: button.value });
    const all = items();
    const next = all[all.indexOf(form) + 1] ?? all[all.indexOf(form) - 1];
    form.remove();
    tell(message);
    if (next) {
      next.querySelector("h2").focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest" });
    } else {
      location.reload();
    }
  } catch (error) {
    delete form.dataset.busy;
    tell(error.message, true);
  }
}

list.addEventListener("submit", (event) => {
  event.preventDefault();
  decide(event.target, event.submitter ?? event.target.querySelector("[data-key=y]"));
});

list.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.matches("textarea")) return;
  event.preventDefault();
  decide(event.target.form, event.target.form.querySelector("[data-key=m]"));
});

const KEYS = [
  ["y", "keep it as it is"], ["m", "merge the two, or mask the secret"], ["t", "take what the file of the vault said"],
  ["d", "delete it, the older of two, or the file"],
];
for (const [key, label] of KEYS) {
  bind(key, label, () => {
    const form = findCurrent();
    const button = form?.querySelector(`[data-key="${key}"]`);
    if (button) decide(form, button);
  });
}
