// @ts-check
// The screen Work: a problem to edit, and all of its steps.

import { button, h, redraw } from "./dom.js";
import { kindMenu } from "./kind_menu.js";
import { t } from "./language.js";
import { Model } from "./model.js";
import {
  downloadButtons,
  findScores,
  lectureList,
  openPasteDialog,
  settingControls,
  sizeControls,
} from "./problem_controls.js";
import { API, fetchJson, messageOf, Query } from "./request.js";
import solution from "./solution.js";
import { replaceMatrix } from "./store.js";
/** @import { Store } from "./store.js" */

const matrixFormats = () =>
  t("LaTeX, a printed NumPy array or PyTorch tensor, a list, Markdown, CSV or tab-separated numbers.");

export default {
  /**
   * @param {{ store: Store, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ store, el }) {
    return new Work(store, el).start();
  },
};

class Work {
  #store;
  #el;
  /** @type {Model<SolutionState>} */
  #model = new Model({ data: null, cells: {} });
  #settings = h("div", { class: "toggles" });
  #moreSettings = h("div", { class: "toggles" });
  #sizes = h("div", { class: "toggles sizes" });
  #status = h("p", { class: "status", role: "alert" });
  #absent = h("div", { class: "absent", role: "group", "aria-label": t("Add a matrix") });
  #title;
  #tokens;
  #context;
  #problemQuery;
  #cellQuery;
  /** @type {Api.Size[]} */
  #dimensions = []; // of the problem that is shown

  /**
   * @param {Store} store
   * @param {HTMLElement} el
   */
  constructor(store, el) {
    this.#store = store;
    this.#el = el;
    this.#title = h("input", {
      class: "title",
      "aria-label": t("Title"),
      placeholder: t("Untitled problem"),
      maxlength: "300",
      onchange: () =>
        store.changeProblem(({ table }) => {
          table.title = this.#title.value;
        }),
    });
    this.#tokens = tokenField(store, "tokens", t("Tokens"));
    this.#context = tokenField(store, "context_tokens", t("Context"));
    /** @type {Query<Api.Solution>} */
    this.#problemQuery = new Query({
      el,
      onAnswer: (answer) => this.#show(answer),
      onError: (message) => {
        this.#showError(message);
        focusedCellInput()?.setAttribute("aria-invalid", "true");
      },
    });
    /** @type {Query<Api.Working>} */
    this.#cellQuery = new Query({
      onAnswer: (working) => this.#model.set("working", working),
      onError: () => this.#model.set("working", null),
    });
  }

  start() {
    const store = this.#store;
    const showError = (/** @type {string} */ message) => this.#showError(message);
    const open = (/** @type {Api.Table} */ table) =>
      store.changeProblem((problem) => Object.assign(problem, { table }));
    const content = h("div", { class: "solution" });
    this.#settings.replaceChildren(h("p", { class: "hint", role: "status" }, t("Solving…")));
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, t("Work a problem")),
      h(
        "div",
        { class: "bar-top" },
        this.#title,
        kindMenu(open, showError),
        button(t("Paste…"), () => this.#pasteProblem(open)),
        lectureList(open, showError),
        downloadButtons(store, showError, false),
      ),
      h(
        "div",
        { class: "settings-line" },
        this.#settings,
        h(
          "details",
          { class: "settings" },
          h("summary", {}, t("Settings")),
          this.#moreSettings,
          h("div", { class: "more" }, this.#tokens.el, this.#context.el, this.#absent),
          this.#sizes,
        ),
      ),
      this.#status,
      content,
    );
    const endSolution = solution.render({ model: this.#model, el: content });
    this.#listen();
    const endListening = store.listen(() => this.#ask());
    this.#ask();
    return () => {
      endListening();
      endSolution();
      this.#problemQuery.cancel();
      this.#cellQuery.cancel();
    };
  }

  #listen() {
    const model = this.#model;
    model.on("change:requested_cell", () =>
      this.#cellQuery.ask(API.cell, { ...this.#store.requestWithoutClaims, ...model.get("requested_cell") }),
    );
    model.on("change:edit", () => {
      const edit = model.get("edit");
      if (edit) this.#edit(edit);
    });
    model.on("change:paste", () => {
      const { key = "", text = "" } = model.get("paste") ?? {};
      this.#readMatrix(key, text).catch((error) => this.#showError(messageOf(error)));
    });
    model.on("change:command", () => {
      const { key = "", action } = model.get("command") ?? {};
      if (action === "remove") this.#remove(key);
      else this.#paste(key);
    });
  }

  #ask() {
    this.#problemQuery.ask(API.solve, this.#store.requestWithoutClaims);
  }

  /** @param {string} message */
  #showError(message) {
    this.#status.textContent = message;
  }

  /** @param {Api.Solution} answer */
  #show(answer) {
    const store = this.#store;
    const { table } = store.problem;
    this.#status.textContent = "";
    focusedCellInput()?.removeAttribute("aria-invalid");
    if (document.activeElement !== this.#title) this.#title.value = table.title;
    this.#tokens.show(table.tokens, answer.settings.length > 0);
    this.#context.show(table.context_tokens, "context" in table.given);
    const { main, more } = settingControls(store, answer);
    redraw(this.#settings, main);
    redraw(this.#moreSettings, more);
    this.#dimensions = answer.sizes;
    redraw(this.#sizes, sizeControls(store, answer));
    const addMatrix = (/** @type {[string, Cells]} */ [name, cells]) =>
      button(`+ ${name}`, () =>
        store.changeProblem((problem) => {
          problem.table.given[name] = cells;
        }),
      );
    this.#absent.replaceChildren(...Object.entries(answer.absent).map(addMatrix));
    const { mask } = table.settings;
    const given = Array.isArray(mask) ? [...answer.given, ...maskMatrix(answer, mask)] : answer.given;
    this.#model.set("cells", Object.fromEntries(given.map(({ key }) => [key, matrices(table, key)[key]])));
    this.#model.set("data", { ...answer, given });
    this.#focusInitialCell();
  }

  /** Focus the cell that another screen has opened Work for. */
  #focusInitialCell() {
    const { key, row, column } = this.#store.initialCell ?? {};
    this.#store.initialCell = null;
    if (!key) return;
    const selector = `figure[data-key="${key}"] td[data-row="${row}"][data-column="${column}"]`;
    /** @type {HTMLElement | null} */ (this.#el.querySelector(selector))?.focus();
  }

  /** @param {CellEdit} edit */
  #edit({ key, row, column, text, done }) {
    if (isHalfTyped(text)) return; // the steps keep the number before
    const edit = (/** @type {ProblemState} */ { table }) => {
      const line = matrices(table, key)[key]?.[row];
      if (line) line[column] = text.trim();
    };
    this.#store.changeProblem(edit, { live: !done });
  }

  /** @param {string} key */
  #paste(key) {
    openPasteDialog({
      title: t("Paste {key}", { key }),
      hint: matrixFormats(),
      onSubmit: (text) => this.#readMatrix(key, text),
    });
  }

  /** @param {string} key */
  #remove(key) {
    this.#store.changeProblem(({ table }) => {
      delete table.given[key];
      if (key === "mask") table.settings.mask = "none";
    });
  }

  /**
   * @param {string} key
   * @param {string} text
   */
  async #readMatrix(key, text) {
    const cells = await fetchJson(API.readMatrix, { text });
    this.#store.changeProblem((problem) => replaceMatrix(problem, key, cells, this.#dimensions));
  }

  /** @param {(table: Api.Table) => void} open */
  #pasteProblem(open) {
    openPasteDialog({
      title: t("Paste a problem"),
      hint: t("A problem file, or named matrices: X = …, W_Q = … in LaTeX, in Markdown or as printed by NumPy."),
      action: t("Open"),
      acceptsFile: true,
      onSubmit: async (text) => open(await fetchJson(API.readProblem, { text })),
    });
  }
}

/**
 * Return whether a text is the beginning of a number, such as "-", "1/" or nothing.
 * @param {string} text
 */
function isHalfTyped(text) {
  return /^\s*[+\-−]?\s*(\d*[.,]?\d*([eE][+\-−]?|\/[+\-−]?))?\s*$/.test(text) && !/\d[.,]?\s*$/.test(text);
}

/** Return the input of a matrix's cell that has the focus. */
function focusedCellInput() {
  return document.activeElement?.matches("input.cell") ? document.activeElement : null;
}

/**
 * Return the part of a problem that holds a matrix: a mask is a setting.
 * @param {Api.Table} table
 * @param {string} key
 */
function matrices(table, key) {
  return /** @type {Record<string, Cells>} */ (key === "mask" ? table.settings : table.given);
}

/**
 * Return a custom mask as a given matrix.
 * @param {Api.Solution} answer
 * @param {Cells} cells
 * @returns {Api.Matrix[]}
 */
function maskMatrix(answer, cells) {
  const scores = findScores(answer);
  if (!scores) return [];
  const symbol = /** @type {Api.Formula} */ ({
    tree: ["math", {}, ["mi", {}, "mask"]],
    text: t("mask: 1 is visible, 0 is masked"),
  });
  const colors = cells.map((row) => row.map(() => "z"));
  const marks = cells.map((row) => row.map((cell) => (cell === "0" ? "masked" : "")));
  const texts = { texts: cells, values: cells };
  return [
    {
      ...scores,
      key: "mask",
      name: "mask",
      formula: null,
      role: "",
      sources: [],
      is_backward: false,
      symbol,
      colors,
      marks,
      ...texts,
    },
  ];
}

/**
 * Return a field with the names of tokens: separated by spaces, or by commas where a name has a space.
 * @param {Store} store
 * @param {"tokens" | "context_tokens"} name
 * @param {string} label
 */
function tokenField(store, name, label) {
  const input = h("input", {
    type: "text",
    "aria-label": t("{label}, separated by spaces or commas", { label }),
    spellcheck: "false",
    placeholder: t("numbers"),
    onchange: () =>
      store.changeProblem(({ table }) => {
        table[name] = splitNames(input.value);
      }),
  });
  const el = h("label", { class: "words" }, `${label} `, input);
  const show = (/** @type {string[] | null} */ names, /** @type {boolean} */ isUsed) => {
    el.hidden = !isUsed;
    if (document.activeElement !== input) input.value = joinNames(names ?? []).slice(0, 2000);
  };
  return { el, show };
}

/** @param {string} text */
function splitNames(text) {
  const names = text.split(text.includes(",") ? "," : /\s+/).map((name) => name.trim());
  const filled = names.filter(Boolean);
  return filled.length ? filled : null;
}

/** @param {string[]} names */
function joinNames(names) {
  return names.some((name) => /\s/.test(name)) ? names.map((name) => `${name},`).join(" ") : names.join(" ");
}
