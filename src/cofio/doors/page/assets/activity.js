// The live feed of the activity page: what is written and searched for appears as it happens.

import { localize } from "./page.js";

const MOST = 200;
const feed = document.querySelector("[data-feed]");
const list = document.querySelector("[data-list]");
const searches = document.querySelector("[data-searches]");
const live = document.querySelector("[data-live]");
const cut = (text, length) => (text.length > length ? `${text.slice(0, length)} …` : text);
const covers = (scope, other) => !scope || other === scope || other.startsWith(`${scope}/`);

function tell(state, text) {
  live.hidden = false;
  live.dataset.live = state;
  live.querySelector("[data-live-text]").textContent = text;
}

function fill(template) {
  return document.querySelector(template).content.firstElementChild.cloneNode(true);
}

function setTime(element, at) {
  element.dateTime = at;
  element.title = at;
}

function makeEntry(each) {
  const made = fill("template[data-entry]");
  made.dataset.id = each.id;
  made.dataset.version = each.version;
  const name = made.querySelector(".kind");
  name.classList.add(`kind-${each.kind}`);
  name.textContent = each.kind;
  setTime(made.querySelector("time"), each.updated_at);
  made.querySelector(".door").textContent = `${each.version > 1 ? "changed " : ""}via ${each.door}`;
  const author = made.querySelector(".author");
  author.hidden = !each.author;
  author.querySelector("b").textContent = each.author;
  const scope = made.querySelector(".scope");
  scope.textContent = scope.title = each.scope;
  scope.href = `/page/activity?scope=${encodeURIComponent(each.scope)}`;
  const title = made.querySelector("h3 a");
  title.href = each.link;
  title.textContent = each.title;
  const text = made.querySelector(".prose");
  text.textContent = each.is_cut ? `${each.text} …` : each.text;
  text.hidden = !each.text;
  return made;
}

function makeSearch(each) {
  const made = fill("template[data-search]");
  setTime(made.querySelector("time"), each.at);
  made.querySelector(".door").textContent = `via ${each.door || "a program"}`;
  made.querySelector(".number").textContent = `${each.count} hit${each.count === 1 ? "" : "s"}`;
  made.querySelector("h3").textContent = each.query || "(no words)";
  const hits = made.querySelector("ol");
  for (const hit of each.hits) {
    const item = document.createElement("li");
    const name = document.createElement("span");
    name.className = `kind kind-${hit.kind}`;
    name.textContent = hit.kind;
    const target = document.createElement("a");
    target.href = `/page/record?id=${encodeURIComponent(hit.id)}`;
    target.textContent = cut(hit.title || hit.id, 80);
    item.append(name, " ", target);
    hits.append(item);
  }
  return made;
}

function put(place, made) {
  localize(made);
  place.prepend(made);
  while (place.children.length > MOST) place.lastElementChild.remove();
}

function show(each) {
  const { scope, source, kind } = feed.dataset;
  if (!covers(scope, each.scope) || (source && source !== each.source) || (kind && kind !== each.kind)) return;
  list.querySelector("[data-nothing]")?.remove();
  const known = list.querySelector(`[data-id="${CSS.escape(each.id)}"]`);
  if (known && Number(known.dataset.version) >= each.version) return;
  known?.remove();
  put(list, makeEntry(each));
}

// What was written before the connection stood, or while there was none.
async function catchUp() {
  const answer = await fetch(`/api/page/activity${location.search}`).catch(() => null);
  if (!answer?.ok) return;
  const { entries } = await answer.json();
  for (const each of entries.reverse()) show(each);
}

let source = null;

function connect() {
  source?.close();
  source = new EventSource(feed.dataset.feed);
  source.addEventListener("open", () => {
    tell("on", "Live");
    catchUp();
  });
  source.addEventListener("error", (event) => {
    if (event.target !== source) return;
    if (source.readyState !== EventSource.CLOSED) {
      tell("wait", "Connecting again …");
      return;
    }
    tell("off", "Not connected; trying again …");
    setTimeout(() => { if (event.target === source && !document.hidden) connect(); }, 5000);
  });
  source.addEventListener("written", (event) => show(JSON.parse(event.data)));
  source.addEventListener("search", (event) => {
    const each = JSON.parse(event.data);
    if (covers(feed.dataset.scope, each.scope)) put(searches, makeSearch(each));
  });
  source.addEventListener("missed", catchUp);
  source.addEventListener("forgotten", (event) => {
    const { count } = JSON.parse(event.data);
    tell("on", `Live · ${count} forgotten or expired`);
  });
  source.addEventListener("unavailable", (event) => tell("off", JSON.parse(event.data).reason));
}

if (feed.dataset.feed) {
  // A page that none sees asks for nothing, and no search is noted for it.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      tell("wait", "Paused");
    } else {
      connect();
    }
  });
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
  connect();
}
