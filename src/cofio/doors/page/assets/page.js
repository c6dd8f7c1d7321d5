// What every page does once its script has come: times in the reader's zone, and the keyboard.

const pad = (number) => String(number).padStart(2, "0");

// Show the times under an element in the reader's zone, in as many characters as before.
export function localize(root) {
  for (const each of root.querySelectorAll("time[datetime]")) {
    const at = new Date(each.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
    each.textContent = "clock" in each.dataset ? clock : `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock}`;
  }
}

// Send a form without leaving the page; what came of it, or an error with the server's sentence.
export async function send(form, fields = {}) {
  const body = new URLSearchParams(new FormData(form));
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  return request(form.getAttribute("action"), { method: "POST", body });
}

export async function request(address, options = {}) {
  const answer = await fetch(address, { ...options, headers: { Accept: "application/json", ...options.headers } });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.error?.message ?? `The server answered with ${answer.status}.`);
  return data;
}

const bindings = new Map();

// Have a key do something, unless somebody is typing; `label` is for the help.
export function bind(key, label, action) {
  bindings.set(key, { label, action });
}

const isTyping = (target) => target.closest?.("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");

const items = () => [...document.querySelectorAll("[data-item]")].filter((each) => each.offsetParent !== null);

export function move(step) {
  const all = items();
  if (!all.length) return;
  const current = all.findIndex((each) => each.contains(document.activeElement));
  const next = all[current < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, current + step))];
  const target = next.matches("a, button, [tabindex]") ? next : next.querySelector("a[href], button, [tabindex]");
  target?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function showHelp() {
  let dialog = document.querySelector("dialog[data-keys]");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.dataset.keys = "";
    dialog.setAttribute("aria-labelledby", "keys-title");
    const title = document.createElement("h2");
    title.id = "keys-title";
    title.textContent = "Keys";
    const list = document.createElement("dl");
    for (const [key, { label }] of bindings) {
      const term = document.createElement("dt");
      const cap = document.createElement("kbd");
      cap.textContent = key === " " ? "Space" : key;
      term.append(cap);
      const meaning = document.createElement("dd");
      meaning.textContent = label;
      list.append(term, meaning);
    }
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    dialog.append(title, list, close);
    document.body.append(dialog);
  }
  dialog.showModal();
}

bind("/", "go to the search", () => {
  const box = document.querySelector("input[type=search]");
  if (box) box.select();
  else location.assign("/");
});
bind("j", "the next one", () => move(1));
bind("k", "the one before", () => move(-1));
bind("Enter", "open it", null);
bind("Esc", "leave a field, close what is open", null);
bind("?", "show the keys", showHelp);

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) {
    event.target.blur();
    return;
  }
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const found = bindings.get(event.key === "Escape" ? "Esc" : event.key);
  if (!found?.action) return;
  event.preventDefault();
  found.action(event);
});

for (const each of document.querySelectorAll("[data-help]")) {
  each.hidden = false;
  each.addEventListener("click", showHelp);
}
for (const each of document.querySelectorAll("[data-copy]")) {
  each.hidden = false;
  each.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(each.dataset.copy).textContent);
    const before = each.textContent;
    each.textContent = "Copied";
    setTimeout(() => { each.textContent = before; }, 1500);
  });
}
// After the first paint: to load the names of zones takes a browser longer than all else here.
requestAnimationFrame(() => setTimeout(() => {
  localize(document);
  for (const each of document.querySelectorAll("[data-zone]")) {
    each.textContent = `Times in ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  }
}));
