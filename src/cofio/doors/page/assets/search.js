// Results as one types: the same page is asked for, and its results take the place of those that are shown.

import { bind, localize } from "./page.js";

const PAUSE = 80; // milliseconds without a key before a search begins
const form = document.querySelector("[data-search]");
const box = form.querySelector("input[type=search]");
let timer = 0;
let running = null;
let shown = box.value;

function makeAddress() {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (value && !(name === "mode" && value === "hybrid")) fields.append(name, value);
  }
  const query = fields.toString();
  return query ? `/?${query}` : "/?q=";
}

async function load(address) {
  running?.abort();
  running = new AbortController();
  const results = document.getElementById("results");
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: running.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("results");
    if (!fresh) {
      location.assign(address); // a page of another kind: let the browser show it
      return;
    }
    const isOpen = results.querySelector("[data-drawer]")?.checked;
    localize(fresh);
    results.replaceChildren(...fresh.childNodes);
    form.querySelector("[data-state]").replaceChildren(...page.querySelector("[data-state]").childNodes);
    const drawer = results.querySelector("[data-drawer]");
    if (drawer) drawer.checked = isOpen;
    document.title = page.title;
    results.removeAttribute("data-stale");
    running = null;
  } catch (error) {
    if (error.name === "AbortError") return;
    running = null;
    results.setAttribute("data-stale", "");
    const status = results.querySelector("[role=status]");
    if (status) status.textContent = "The server does not answer. These are the results from before; typing tries again.";
  }
}

function search(replace) {
  clearTimeout(timer);
  const address = makeAddress();
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  shown = box.value;
  return load(address);
}

box.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => { if (box.value !== shown) search(true); }, PAUSE);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  search(false);
});
form.addEventListener("change", (event) => { if (event.target.name === "mode") search(false); });
addEventListener("popstate", () => location.reload());

box.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown" && event.key !== "Enter") return;
  if (event.key === "Enter" && box.value !== shown) return;
  const first = document.querySelector("#results [data-item] a");
  if (first) {
    event.preventDefault();
    first.focus();
  }
});

bind("w", "show what stood below the floor", () => document.querySelector("#results .summary a")?.click());
