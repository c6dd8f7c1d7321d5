// Plots by keyboard: one stop of the tab key for each, and arrows from column to column.

import { bind } from "./page.js";

for (const plot of document.querySelectorAll("svg.plot[role=group]")) {
  const columns = [...plot.querySelectorAll("a.column")];
  if (!columns.length) continue;
  const current = columns.findIndex((each) => each.matches(".current"));
  let at = current < 0 ? columns.length - 1 : current;
  const settle = () => columns.forEach((each, index) => each.setAttribute("tabindex", index === at ? "0" : "-1"));
  const go = (index) => { at = Math.max(0, Math.min(columns.length - 1, index)); settle(); };
  settle();
  plot.addEventListener("focusin", (event) => go(columns.indexOf(event.target.closest("a.column"))));
  plot.addEventListener("keydown", (event) => {
    const target = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: columns.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    go(target);
    columns[at].focus();
  });
  if (plot.closest("[data-days]")) {
    const open = (index) => { if (columns[index]) location.assign(columns[index].getAttribute("href")); };
    bind("[", "the day before", () => open(at - 1));
    bind("]", "the day after", () => open(at + 1));
  }
}
