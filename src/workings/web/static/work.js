// The screen Work: a problem to change, and every step of it following.

import { get, latest } from "./api.js";
import { downloads, lectures, redraw, sizes, toggles } from "./controls.js";
import dock from "./dock.js";
import { button, h } from "./dom.js";
import flow from "./flow.js";
import { legend } from "./legend.js";
import { light } from "./lights.js";
import { Model } from "./model.js";
import { paste } from "./paste.js";

const HINT = "Point at a number, or reach it with Tab and the arrow keys, to see how it comes about. Enter changes a given one.";
const FORMS = "LaTeX, a NumPy or PyTorch print, a list, Markdown, CSV or tab-separated numbers.";

export default {
  title: "Work",
  render({ store, el }) {
    return new Work(store, el).start();
  },
};

class Work {
  #store;
  #el;
  #worked = null;
  #flow = new Model({ givens: [], steps: [] });
  #cell = new Model({ working: null, said: HINT });
  #workings = new Map();
  #parts = {};
  #ask = latest((worked) => this.#answered(worked), (line) => this.#refuse(line));
  #askCell = latest((working, asked) => this.#written(working, asked), () => this.#cell.set("working", null));
  #focus = null;

  constructor(store, el) {
    this.#store = store;
    this.#el = el;
  }

  start() {
    const store = this.#store;
    const parts = this.#parts;
    parts.toggles = h("div", { class: "toggles" });
    parts.sizes = h("div", { class: "toggles sizes" });
    parts.status = h("p", { class: "status", role: "alert" });
    parts.absent = h("div", { class: "absent", role: "group", "aria-label": "Give another matrix" });
    parts.flow = h("div", {});
    parts.dock = h("div", {});
    parts.title = h("input", { class: "title", "aria-label": "Title", placeholder: "A problem without a title", maxlength: "300",
      onchange: () => store.change((state) => { state.table.title = parts.title.value; }) });
    parts.tokens = words(store, "tokens", "Tokens");
    parts.context = words(store, "context_tokens", "Context");
    const open = (table) => store.change((state) => { state.table = table; state.practice = false; });
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Work a problem"),
      h("div", { class: "bar-top" }, parts.title, lectures(open, (line) => this.#refuse(line)), downloads(store, (line) => this.#refuse(line), false)),
      h("details", { class: "settings", open: matchMedia("(min-width: 44rem)").matches }, h("summary", {}, "Settings"), parts.toggles,
        h("div", { class: "more" }, parts.tokens.el, parts.context.el, parts.absent,
          h("details", { class: "sizing" }, h("summary", {}, "Sizes"), parts.sizes))),
      parts.status,
      h("section", { "aria-label": "Steps" }, parts.flow), legend(), parts.dock);
    flow.render({ model: this.#flow, el: parts.flow });
    dock.render({ model: this.#cell, el: parts.dock });
    for (const [name, take] of Object.entries({
      focus: (focus) => this.#look(focus),
      edited: (edited) => this.#edit(edited),
      pasted: ({ key, text }) => this.#read(key, text).catch((error) => this.#refuse(error.message)),
      wanted: ({ key, what }) => (what === "paste" ? this.#paste(key) : this.#remove(key)),
    })) this.#flow.on(`change:${name}`, () => take(this.#flow.get(name)));
    const end = store.listen(() => this.#changed());
    this.#changed();
    return end;
  }

  #changed() {
    this.#ask("/api/work", this.#store.asked);
  }

  #refuse(line) {
    this.#parts.status.textContent = line;
    this.#el.classList.add("stale");
    document.activeElement?.matches("input.cell") && document.activeElement.setAttribute("aria-invalid", "true");
  }

  #answered(worked) {
    const parts = this.#parts;
    const { table } = this.#store.state;
    this.#worked = worked;
    this.#workings.clear();
    parts.status.textContent = "";
    this.#el.classList.remove("stale");
    document.activeElement?.removeAttribute("aria-invalid");
    if (document.activeElement !== parts.title) parts.title.value = table.title;
    parts.tokens.show(table.tokens, worked.settings.length > 0);
    parts.context.show(table.context_tokens, "context" in table.given);
    redraw(parts.toggles, ...toggles(this.#store, worked));
    redraw(parts.sizes, ...sizes(this.#store, worked));
    parts.absent.replaceChildren(...worked.absent.map(({ name, cells }) =>
      button(`+ ${name}`, () => this.#store.change((state) => { state.table.given[name] = cells; }))));
    const shown = Array.isArray(table.settings.mask) ? [...worked.given, maskMatrix(worked, table)] : worked.given;
    this.#flow.set("givens", shown.map((given) => ({ matrix: given, cells: held(this.#store.state, given.key)[given.key] })));
    this.#flow.set("steps", worked.steps);
    this.#look(this.#focus);
    this.#begin();
  }

  // Go to the cell that another screen has asked for.
  #begin() {
    const { key, row, column } = this.#store.wanted ?? {};
    this.#store.wanted = null;
    this.#el.querySelector(`figure[data-key="${key}"] td[data-row="${row}"][data-column="${column}"]`)?.focus();
  }

  #edit({ key, row, column, text, done }) {
    this.#store.change((state) => { held(state, key)[key][row][column] = text.trim(); }, { live: !done });
  }

  #paste(key) {
    paste({ title: `Paste ${key}`, hint: FORMS, take: (text) => this.#read(key, text) });
  }

  #remove(key) {
    this.#store.change((state) => {
      delete state.table.given[key];
      if (key === "mask") state.table.settings.mask = "none";
    });
  }

  async #read(key, text) {
    const { cells } = await get("/api/read", { text });
    this.#store.change((state) => { held(state, key)[key] = cells; });
  }

  // Show what a cell has to do with, at once; and its working, as soon as it is there.
  #look(focus) {
    this.#focus = focus;
    const known = focus && this.#workings.get(`${focus.key} ${focus.row} ${focus.column}`);
    light(this.#el, focus, known?.reads);
    if (!focus || focus.row === null || focus.column === null) {
      this.#cell.set("said", HINT);
      this.#cell.set("working", null);
      return;
    }
    const given = this.#flow.get("givens").find(({ matrix }) => matrix.key === focus.key)?.matrix;
    if (given) {
      this.#cell.set("said", `${focus.key}[${focus.row + 1},${focus.column + 1}] = ${given.texts[focus.row]?.[focus.column] ?? ""}, given.`);
      this.#cell.set("working", null);
    } else if (known) this.#show(known);
    else this.#askCell("/api/cell", { ...this.#store.asked, ...focus });
  }

  #written(working, asked) {
    this.#workings.set(`${asked.key} ${asked.row} ${asked.column}`, working);
    const { key, row, column } = this.#focus ?? {};
    if (key !== asked.key || row !== asked.row || column !== asked.column) return;
    light(this.#el, this.#focus, working.reads);
    this.#show(working);
  }

  #show(working) {
    const step = this.#worked.steps.find((one) => one.key === working.key);
    const names = [step.row_names[working.row], step.column_names[working.column]];
    const named = (axis) => { const k = step.axes.indexOf(axis); return k < 0 ? null : names[k]; };
    this.#cell.set("place", { from: named("tokens"), to: named("context") });
    this.#cell.set("working", working);
  }
}

function held(state, key) {
  return key === "mask" ? state.table.settings : state.table.given;
}

function maskMatrix(worked, table) {
  const scores = worked.steps.find((step) => step.key.startsWith("scores"));
  const cells = table.settings.mask;
  return {
    ...scores, key: "mask", name: "mask", formula: null, role: "", sources: [], texts: cells, values: cells,
    symbol: { tree: ["math", {}, ["mi", {}, "mask"]], text: "mask: 1 may look, 0 may not" },
    colours: cells.map((row) => row.map(() => "z")), marks: cells.map((row) => row.map((cell) => (cell === "0" ? "masked" : ""))),
  };
}

// Names of tokens in one line, a space between them.
function words(store, name, label) {
  const input = h("input", { type: "text", "aria-label": `${label}, one word each`, spellcheck: "false", placeholder: "numbers",
    onchange: () => store.change((state) => { state.table[name] = input.value.trim() ? input.value.trim().split(/\s+/) : null; }) });
  const el = h("label", { class: "words" }, `${label} `, input);
  return { el, show(list, there) {
    el.hidden = !there;
    if (document.activeElement !== input) input.value = (list ?? []).join(" ").slice(0, 2000);
  } };
}
