// The screen Check: a worked solution beside the exact one.

import { get, latest } from "./api.js";
import { arrows } from "./arrows.js";
import { downloads, lectures } from "./controls.js";
import dock from "./dock.js";
import { button, h, svg } from "./dom.js";
import finding from "./finding.js";
import { legend } from "./legend.js";
import { light } from "./lights.js";
import { math } from "./math.js";
import matrix from "./matrix.js";
import { Model } from "./model.js";
import { paste } from "./paste.js";
import { sheet } from "./sheet.js";

const SIGNS = { right: "✓", rounded: "≈", follows: "↳", wrong: "✗", blank: "?" };
const LEGEND = [["wrong", "✗", "wrong"], ["follows", "↳", "follows from a wrong number"], ["", "≈", "off by rounding"], ["blank", "?", "left blank"]];
const HINT = "Point at a number, or walk with the arrow keys, to see what it should be. Enter changes a claimed one.";
const SLIDE = "A slide or a note: matrices by name (X = …, Q = …, weights = …) in LaTeX, Markdown or a program's print; or a problem file. Settings go in comments: % workings: scale = \"none\"";

export default {
  title: "Check",
  render({ store, el }) {
    return new Check(store, el).start();
  },
};

class Check {
  #store;
  #el;
  #report = null;
  #steps = new Map();
  #found = new Model({ findings: [], claimed: {} });
  #cell = new Model({ working: null, said: HINT });
  #parts = {};
  #overlay = svg("svg", { class: "lines", "aria-hidden": "true" });
  #ask = latest((report) => this.#answered(report), (line) => this.#refuse(line));
  #askCell = latest((working) => this.#cell.set("working", working), () => this.#cell.set("working", null));
  #jump = true;  // to the first wrong number, when something new was opened
  #hints = new Map();

  constructor(store, el) {
    this.#store = store;
    this.#el = el;
  }

  start() {
    const store = this.#store;
    const parts = this.#parts;
    const refuse = (line) => this.#refuse(line);
    parts.status = h("p", { class: "status", role: "alert" });
    parts.verdict = h("div", { class: "verdict", role: "status" });
    parts.list = h("ol", {});
    parts.judged = h("div", { class: "judged" }, this.#overlay, parts.list);
    parts.found = h("div", {});
    parts.open = h("div", { class: "more" });
    parts.sheet = h("div", {});
    parts.dock = h("div", {});
    parts.title = h("p", { class: "title-shown" });
    const pasting = () => paste({ title: "Paste a worked solution", hint: SLIDE, files: true, action: "Check it", take: async (text) => this.#open(await get("/api/open", { text }), false) });
    const making = button("Make a sheet", () => {
      const shown = parts.sheet.childElementCount > 0;
      parts.sheet.replaceChildren(...(shown ? [] : [sheet((table) => this.#open(table, true), refuse)]));
      making.setAttribute("aria-expanded", String(!shown));
    }, { "aria-expanded": "false" });
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Check a worked solution"),
      h("div", { class: "bar-top" }, parts.title, lectures((table) => this.#open(table, false), refuse), button("Paste a solution…", pasting, { class: "main" }), making, downloads(store, refuse, true)),
      parts.sheet, parts.status, parts.verdict,
      h("div", { class: "beside" }, h("div", {}, parts.judged, parts.open), parts.found), legend(...LEGEND), parts.dock);
    finding.render({ model: this.#found, el: parts.found });
    dock.render({ model: this.#cell, el: parts.dock });
    this.#found.on("change:wanted", () => this.#goto(this.#found.get("wanted")));
    const watch = new ResizeObserver(() => this.#arrows());
    watch.observe(parts.list);
    const end = store.listen(() => this.#changed());
    this.#changed();
    return () => { end(); watch.disconnect(); };
  }

  #open(table, practice) {
    this.#jump = true;
    this.#hints.clear();
    this.#store.change((state) => { state.table = table; state.practice = practice; });
  }

  #changed() {
    this.#ask("/api/check", this.#store.asked);
  }

  #refuse(line) {
    this.#parts.status.textContent = line;
  }

  #answered(report) {
    const parts = this.#parts;
    this.#report = report;
    parts.status.textContent = "";
    parts.title.textContent = report.title || "A problem without a title";
    parts.title.title = report.title.slice(0, 300);
    parts.verdict.replaceChildren(...this.#verdict(report));
    this.#found.set("claimed", Object.fromEntries(report.steps.map((step) => [`${step.claimed.key} ${step.again}`, step.claimed.texts])));
    this.#found.set("practice", this.#store.state.practice);
    this.#found.set("findings", report.findings);
    this.#showSteps(report);
    parts.open.replaceChildren(...this.#openSteps(report));
    this.#arrows();
    if (this.#jump && report.findings.length && report.steps.length) this.#goto(report.findings[0]);
    this.#jump = false;
  }

  #verdict(report) {
    if (!report.steps.length)
      return [h("p", { class: "empty" }, "Nothing is claimed yet. Open a lecture’s example, paste a slide or a problem file, make a sheet, or write a step of this problem down: every number is judged as you write it.")];
    const blank = report.counts.blank && !report.counts.wrong;
    const wrong = report.verdict === "wrong";
    const counts = Object.entries(report.counts).filter(([, n]) => n).map(([verdict, n]) => `${n} ${verdict}`).join(", ");
    return [h("b", { class: wrong ? "is-wrong" : "is-right" }, wrong ? "✗ Wrong" : blank ? "✓ Right so far" : "✓ Right"), h("span", { class: "counts" }, counts)];
  }

  #showSteps(report) {
    const items = report.steps.map((step) => this.#step(step));
    const keys = new Set(items.map((item) => item.name));
    for (const name of this.#steps.keys()) if (!keys.has(name)) this.#steps.delete(name);
    const wanted = items.map((item) => item.el);
    const { list } = this.#parts;
    if (wanted.some((el, k) => list.children[k] !== el) || list.children.length !== wanted.length) list.replaceChildren(...wanted);
  }

  #step(step) {
    const name = `${step.claimed.key} ${step.again} ${step.claimed.texts.length}`;
    const known = this.#steps.get(name) ?? this.#newStep(name, step);
    const claim = this.#store.state.table.claims.find((one) => one.key === step.claimed.key && one.again === step.again);
    const first = this.#report.findings.find((one) => one.key === step.claimed.key && one.again === step.again);
    known.claimed.set("notes", this.#store.state.practice ? null : step.notes);
    known.claimed.set("first", first && first === this.#report.findings[0] ? [first.row, first.column] : null);
    known.claimed.set("cells", claim?.cells ?? null);
    known.claimed.set("matrix", step.claimed);
    known.exact.set("matrix", { ...step.exact, key: `${step.exact.key} exact` });
    known.chip.className = `chip is-${step.verdict}`;
    known.chip.textContent = `${SIGNS[step.verdict]} ${step.verdict}`;
    known.exactBox.hidden = Boolean(this.#store.state.practice);
    known.hints.hidden = !this.#store.state.practice;
    return known;
  }

  #newStep(name, step) {
    const { key } = step.claimed;
    const claimed = new Model({ matrix: step.claimed, cells: null, signs: true, again: step.again, label: `${step.claimed.name}, as claimed` });
    const exact = new Model({ matrix: { ...step.exact, key: `${key} exact` }, cells: null, label: `${step.exact.name}, exact` });
    const [left, right, chip, hints] = [h("div", { class: "claimed" }), h("div", {}), h("span", { class: "chip" }), h("div", { class: "hints" })];
    matrix.render({ model: claimed, el: left });
    matrix.render({ model: exact, el: right });
    claimed.on("change:focus", () => this.#look(claimed.get("focus")));
    exact.on("change:focus", () => this.#look(exact.get("focus") && { ...exact.get("focus"), key }));
    claimed.on("change:edited", () => this.#edit(key, step.again, claimed.get("edited")));
    claimed.on("change:pasted", () => this.#read(key, step.again, claimed.get("pasted")).catch((error) => this.#refuse(error.message)));
    this.#drawHints(hints, key);
    const exactBox = h("div", {}, h("h3", {}, "exact"), right);
    const el = h("li", {}, h("h2", {}, math(step.claimed.formula), step.again ? h("span", { class: "chip" }, "printed again") : null, chip),
      h("div", { class: "pair" }, h("div", {}, h("h3", {}, "claimed"), left), exactBox, hints));
    const made = { name, el, claimed, exact, chip, exactBox, hints };
    this.#steps.set(name, made);
    return made;
  }

  // Help a step at a time: the formula, then a cell's working, then its number.
  #drawHints(box, key) {
    const told = this.#hints.get(key) ?? [];
    const more = async () => {
      try {
        const hint = await get("/api/hint", { ...this.#store.asked, key, level: told.length + 1 });
        this.#hints.set(key, [...told, hint.help]);
        this.#drawHints(box, key);
        box.querySelector("button")?.focus();
      } catch (error) {
        this.#refuse(error.message);
      }
    };
    const again = () => { this.#hints.delete(key); this.#drawHints(box, key); box.querySelector("button")?.focus(); };
    box.replaceChildren(h("h3", {}, "hints"), ...told.map((help) => h("div", {}, math(help))),
      told.length < 3 ? button(told.length ? "Another hint" : "A hint", more, { "aria-label": `${told.length ? "Another" : "A"} hint for ${key}` }) : button("For the next number", again, { "aria-label": `Hints for the next number of ${key}` }));
  }

  #openSteps(report) {
    if (!report.open.length) return [];
    const claim = (step) => this.#store.change((state) => { state.table.claims.push({ key: step.key, again: 0, cells: step.texts }); });
    return [h("span", {}, "Not claimed; write down:"), ...report.open.map((step) => button(`+ ${step.name}`, () => claim(step)))];
  }

  #edit(key, again, { row, column, text, done }) {
    this.#store.change((state) => {
      const claim = state.table.claims.find((one) => one.key === key && one.again === again);
      claim.cells[row][column] = text.trim() || "?";
    }, { live: !done });
  }

  async #read(key, again, text) {
    const { cells } = await get("/api/read", { text });
    this.#store.change((state) => { state.table.claims.find((one) => one.key === key && one.again === again).cells = cells; });
  }

  #look(focus) {
    light(this.#el, focus);
    const step = focus && this.#report.steps.find((one) => one.claimed.key === focus.key);
    if (!step || focus.row === null || focus.column === null || this.#store.state.practice) {
      this.#cell.set("said", HINT);
      this.#cell.set("working", null);
    } else this.#askCell("/api/cell", { ...this.#store.asked, key: focus.key, row: focus.row, column: focus.column });
  }

  #goto({ key, again, row, column }) {
    const figure = [...this.#parts.list.querySelectorAll(".claimed figure.matrix")].find((one) => one.dataset.key === key && Number(one.dataset.again) === again);
    figure?.querySelector(`td[data-row="${row}"][data-column="${column}"]`)?.focus();
  }

  #arrows() {
    if (this.#report) arrows(this.#parts.judged, this.#overlay, this.#report.links);
  }
}
