// The screen Check: a worked solution beside the exact one.

import { get, latest } from "./api.js";
import { downloads, lectures } from "./controls.js";
import { button, h } from "./dom.js";
import { Model } from "./model.js";
import { paste } from "./paste.js";
import report from "./report.js";
import { sheet } from "./sheet.js";

const SLIDE = "A slide or a note: matrices by name (X = …, Q = …, weights = …) in LaTeX, Markdown or a program's print; or a problem file. Settings go in comments: % workings: scale = \"none\"";
const EMPTY = "Nothing is claimed yet. Open a lecture’s example, paste a slide or a problem file, make a sheet, or write a step of this problem down: every number is judged as you write it.";
const MOST_HINTS = 3;

export default {
  title: "Check",
  render({ store, el }) {
    return new Check(store, el).start();
  },
};

class Check {
  #store;
  #el;
  #shown = new Model({ told: null, claims: [], hints: {} });
  #parts = {};
  #ask = latest((told) => this.#answered(told), (line) => this.#refuse(line));
  #askCell = latest((working) => this.#shown.set("working", working), () => this.#shown.set("working", null));
  #jump = true;  // to the first wrong number, when something new was opened

  constructor(store, el) {
    this.#store = store;
    this.#el = el;
  }

  start() {
    const store = this.#store;
    const parts = this.#parts;
    const refuse = (line) => this.#refuse(line);
    parts.status = h("p", { class: "status", role: "alert" });
    parts.empty = h("div", {});
    parts.shown = h("div", {});
    parts.sheet = h("div", {});
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
      parts.sheet, parts.status, parts.empty, parts.shown);
    const leave = report.render({ model: this.#shown, el: parts.shown });
    for (const [name, take] of Object.entries({
      asked: (cell) => this.#askCell("/api/cell", { ...store.asked, ...cell }),
      edited: (edited) => this.#edit(edited),
      pasted: (pasted) => this.#read(pasted).catch((error) => refuse(error.message)),
      begun: ({ key, texts }) => store.change((state) => { state.table.claims.push({ key, again: 0, cells: texts }); }),
      helped: (key) => this.#help(key).catch((error) => refuse(error.message)),
    })) this.#shown.on(`change:${name}`, () => take(this.#shown.get(name)));
    const end = store.listen(() => this.#changed());
    this.#changed();
    return () => { end(); leave(); };
  }

  #open(table, practice) {
    this.#jump = true;
    this.#shown.set("hints", {});
    this.#store.change((state) => { state.table = table; state.practice = practice; });
  }

  #changed() {
    this.#ask("/api/check", this.#store.asked);
  }

  #refuse(line) {
    this.#parts.status.textContent = line;
  }

  #answered(told) {
    const parts = this.#parts;
    const { practice, table } = this.#store.state;
    parts.status.textContent = "";
    parts.title.textContent = told.title || "A problem without a title";
    parts.title.title = told.title.slice(0, 300);
    parts.empty.replaceChildren(...(told.steps.length ? [] : [h("p", { class: "empty" }, EMPTY)]));
    this.#shown.set("practice", practice);
    this.#shown.set("claims", table.claims);
    this.#shown.set("told", told);
    if (this.#jump && told.findings.length) this.#shown.set("wanted", told.findings[0]);
    this.#jump = false;
  }

  #claimed(edit, key, again, how) {
    this.#store.change((state) => edit(state.table.claims.find((one) => one.key === key && one.again === again)), how);
  }

  #edit({ key, again, row, column, text, done }) {
    this.#claimed((claim) => { claim.cells[row][column] = text.trim() || "?"; }, key, again, { live: !done });
  }

  async #read({ key, again, text }) {
    const { cells } = await get("/api/read", { text });
    this.#claimed((claim) => { claim.cells = cells; }, key, again);
  }

  async #help(key) {
    const hints = this.#shown.get("hints");
    const told = hints[key] ?? [];
    const more = told.length < MOST_HINTS ? await get("/api/hint", { ...this.#store.asked, key, level: told.length + 1 }) : null;
    this.#shown.set("hints", { ...hints, [key]: more ? [...told, more.help] : [] });
  }
}
