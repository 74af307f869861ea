// The screen Work: a problem to change, and every step of it following.

import { get, latest } from "./api.js";
import { downloads, lectures, redraw, scoresOf, sizes, toggles } from "./controls.js";
import { button, h } from "./dom.js";
import { Model } from "./model.js";
import { paste } from "./paste.js";
import solution from "./solution.js";

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
  #shown = new Model({ told: null, cells: {} });
  #parts = {};
  #ask = latest((worked) => this.#answered(worked), (line) => this.#refuse(line));
  #askCell = latest((working) => this.#shown.set("working", working), () => this.#shown.set("working", null));

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
    parts.shown = h("div", {});
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
      parts.status, parts.shown);
    const leave = solution.render({ model: this.#shown, el: parts.shown });
    for (const [name, take] of Object.entries({
      asked: (cell) => this.#askCell("/api/cell", { ...store.unclaimed, ...cell }),
      edited: (edited) => this.#edit(edited),
      pasted: ({ key, text }) => this.#read(key, text).catch((error) => this.#refuse(error.message)),
      wanted: ({ key, what }) => (what === "paste" ? this.#paste(key) : this.#remove(key)),
    })) this.#shown.on(`change:${name}`, () => take(this.#shown.get(name)));
    const end = store.listen(() => this.#changed());
    this.#changed();
    return () => { end(); leave(); };
  }

  #changed() {
    this.#ask("/api/work", this.#store.unclaimed);
  }

  #refuse(line) {
    this.#parts.status.textContent = line;
    this.#el.classList.add("stale");
    document.activeElement?.matches("input.cell") && document.activeElement.setAttribute("aria-invalid", "true");
  }

  #answered(worked) {
    const parts = this.#parts;
    const { table } = this.#store.state;
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
    this.#shown.set("cells", Object.fromEntries(shown.map(({ key }) => [key, held(this.#store.state, key)[key]])));
    this.#shown.set("told", { ...worked, given: shown });
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
}

function held(state, key) {
  return key === "mask" ? state.table.settings : state.table.given;
}

function maskMatrix(worked, table) {
  const scores = scoresOf(worked);
  const cells = table.settings.mask;
  return {
    ...scores, key: "mask", name: "mask", formula: null, role: "", sources: [], texts: cells, values: cells,
    symbol: { tree: ["math", {}, ["mi", {}, "mask"]], text: "mask: 1 may look, 0 may not" },
    colours: cells.map((row) => row.map(() => "z")), marks: cells.map((row) => row.map((cell) => (cell === "0" ? "masked" : ""))),
  };
}

// Names of tokens in one line: a space between them, or a comma where a name has a space itself.
function words(store, name, label) {
  const input = h("input", { type: "text", "aria-label": `${label}, one word each, or commas between them`, spellcheck: "false", placeholder: "numbers",
    onchange: () => store.change((state) => { state.table[name] = named(input.value); }) });
  const el = h("label", { class: "words" }, `${label} `, input);
  return { el, show(list, there) {
    el.hidden = !there;
    if (document.activeElement !== input) input.value = joined(list ?? []).slice(0, 2000);
  } };
}

function named(text) {
  const names = text.split(text.includes(",") ? "," : /\s+/).map((name) => name.trim()).filter((name) => name);
  return names.length ? names : null;
}

function joined(names) {
  return names.some((name) => /\s/.test(name)) ? names.map((name) => `${name},`).join(" ") : names.join(" ");
}
