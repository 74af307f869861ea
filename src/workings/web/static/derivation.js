// One cell of a head, written out: its largest terms, what the others come to, and the model's own number.
//
// In: derivation (as the server tells it). Out: opened (the head as a problem), closed (by hand).

import { button, h } from "./dom.js";
import { math } from "./math.js";

export default {
  render({ model, el }) {
    const draw = () => el.replaceChildren(...content(model));
    draw();
    model.on("change:derivation", draw);
  },
};

function content(model) {
  const told = model.get("derivation");
  if (!told) return [];
  const formula = (one) => h("div", { class: "formula", tabindex: "0", role: "math", "aria-label": one.text }, math(one));
  return [h("div", { class: "derivation" },
    h("div", {}, h("div", { class: "title" }, h("p", { dir: "auto" }, told.title), button("Close", () => { model.set("derivation", null); model.set("closed", true); })), h("h2", {}, told.name), h("p", { dir: "auto" }, told.says), formula(told.formula), told.before.map(formula), formula(told.working)),
    h("div", {}, told.lines.length ? sum(told) : null, told.elsewhere.length ? elsewhere(told) : null, told.notes.map((note) => h("p", { class: "hint" }, note)),
      told.table ? button("Open this head in Work", () => model.set("opened", told.table), { class: "main" })
        : h("p", { class: "hint" }, "This head has more than 64 rows or columns: too large for Work.")))];
}

function sum(told) {
  return h("table", { class: "listed" }, h("thead", {}, h("tr", {}, told.head.map((words) => h("th", { scope: "col" }, words)))),
    h("tbody", {}, told.lines.map((line) => h("tr", { class: line.marked ? "marked" : null }, h("th", { scope: "row", dir: "auto" }, line.marked ? "▸ " : "", line.name), line.numbers.map((text) => h("td", {}, text))))));
}

function elsewhere(told) {
  return h("table", { class: "listed" }, h("tbody", {}, told.elsewhere.map(([what, value, apart]) =>
    h("tr", {}, h("th", { scope: "row" }, what), h("td", {}, value), h("td", { class: "soft" }, apart)))));
}
