// @ts-check
// The working of a cell: a bar along the bottom of the window, and highlights of the cells that it is computed from.

import { formulaBox, h, present } from "./dom.js";
import { t } from "./language.js";
/** @import { Model } from "./model.js" */

const HIGHLIGHTS = ["current", "same-line", "query-token", "key-token", "input-cell"];

export default {
  /** @param {{ model: Model<DockState>, el: HTMLElement }} options */
  render({ model, el }) {
    const draw = () => el.replaceChildren(...present(content(model)));
    el.classList.add("dock");
    el.setAttribute("role", "status");
    el.setAttribute("aria-label", t("Working of a cell"));
    model.on("change:working", draw);
    model.on("change:message", draw);
    draw();
  },
};

/**
 * @param {Model<DockState>} model
 * @returns {Child[]}
 */
function content(model) {
  const working = model.get("working");
  if (!working) return [h("p", { class: "hint" }, model.get("message"))];
  const { query = null, key = null } = model.get("place") ?? {};
  const tokens =
    (query || key) &&
    h(
      "span",
      { class: "tokens" },
      query && key && `${t("query")} `,
      h("b", { class: "query" }, query),
      query && key && `, ${t("key")} `,
      h("b", { class: "key" }, key),
    );
  return [
    h("p", { class: "where" }, h("b", {}, working.name), tokens || null),
    formulaBox(working.working),
    h("p", { class: "exact" }, `${t("exact")}: `, h("span", {}, working.value)),
  ];
}

/**
 * Shows the working of the cell that has the focus: highlights at once, the formula in the dock when the host has
 * answered. The host's model gets `requested_cell` for a cell whose working is unknown, and sets `working`.
 */
export class CellInspector {
  #model;
  #root;
  #dock;
  #hint;
  /** @type {Map<string, Api.Working>} */
  #known = new Map();
  /** @type {CellFocus | null} */
  #focus = null;
  /** @type {Api.Matrix | null} */
  #matrix = null;

  /**
   * @param {Model<any>} model the host's, a `WidgetState`
   * @param {Element} root with the matrices
   * @param {Model<DockState>} dock
   * @param {string} hint shown while no cell has the focus
   */
  constructor(model, root, dock, hint) {
    this.#model = model;
    this.#root = root;
    this.#dock = dock;
    this.#hint = hint;
    model.on("change:working", () => this.#answer(model.get("working")));
    this.#answer(model.get("working"));
  }

  /** Forget all workings, because the numbers have changed. */
  clear() {
    this.#known.clear();
  }

  /**
   * Move the focus to a cell.
   * @param {CellFocus | null} focus
   * @param {Api.Matrix | null} [matrix] the cell's, if its cells have workings
   * @param {string} [message] shown where there is no working
   */
  inspect(focus, matrix = null, message = this.#hint) {
    const isCell = focus !== null && focus.row !== null && focus.column !== null;
    this.#focus = focus;
    this.#matrix = isCell ? matrix : null;
    const known = focus && this.#matrix ? this.#known.get(cellId(focus)) : undefined;
    highlight(this.#root, focus, known?.reads);
    if (known) this.#show(known);
    else if (this.#matrix) {
      this.#model.set("requested_cell", focus);
      this.#model.save_changes();
    } else {
      this.#dock.set("message", message);
      this.#dock.set("working", null);
    }
  }

  /** @param {Api.Working | null | undefined} working */
  #answer(working) {
    if (!working) return this.#dock.set("working", null);
    this.#known.set(cellId(working), working);
    if (!this.#matrix || !this.#focus || cellId(this.#focus) !== cellId(working)) return;
    highlight(this.#root, this.#focus, working.reads);
    this.#show(working);
  }

  /** @param {Api.Working} working */
  #show(working) {
    const matrix = this.#matrix;
    if (!matrix) return;
    const names = [matrix.row_names[working.row], matrix.column_names[working.column]];
    const nameOf = (/** @type {string} */ axis) => names[matrix.axes.indexOf(axis)] ?? null;
    this.#dock.set("place", { query: nameOf("tokens"), key: nameOf("context") });
    this.#dock.set("working", working);
  }
}

/** @param {CellFocus} cell */
function cellId({ key, row, column }) {
  return `${key} ${row} ${column}`;
}

/**
 * Highlight a cell, its row and column, its tokens in every matrix, and the cells that it is computed from.
 * @param {Element} root
 * @param {CellFocus | null} focus
 * @param {Api.Block[]} [reads]
 */
function highlight(root, focus, reads = []) {
  for (const name of HIGHLIGHTS)
    for (const element of root.querySelectorAll(`.${name}`)) element.classList.remove(name);
  const figures = /** @type {HTMLElement[]} */ ([...root.querySelectorAll("figure.matrix")]);
  const home = focus && figures.find((figure) => figure.dataset.key === focus.key);
  if (!home) return;
  /** @type {Record<string, Set<number>>} */
  const tokens = { tokens: new Set(), context: new Set() };
  const collect = (/** @type {string | undefined} */ axes, /** @type {number | null} */ index) => {
    if (index !== null) for (const name of axes?.split(" ") ?? []) tokens[name]?.add(index);
  };
  collect(home.dataset.rows, focus.row);
  collect(home.dataset.columns, focus.column);
  for (const figure of figures) {
    const blocks = reads.filter((block) => block.key === figure.dataset.key);
    highlightMatrix(figure, tokens, blocks, figure.dataset.key === focus.key ? focus : null);
  }
}

/**
 * @param {HTMLElement} figure
 * @param {Record<string, Set<number>>} tokens
 * @param {Api.Block[]} blocks
 * @param {CellFocus | null} focus if it is a cell of this matrix
 */
function highlightMatrix(figure, tokens, blocks, focus) {
  const rows = figure.dataset.rows?.split(" ") ?? [];
  const columns = figure.dataset.columns?.split(" ") ?? [];
  const cells = /** @type {NodeListOf<HTMLElement>} */ (figure.querySelectorAll("[data-row], [data-column]"));
  for (const { classList, dataset } of cells) {
    const [row, column] = [Number(dataset.row), Number(dataset.column)];
    const has = (/** @type {string} */ axis) =>
      (rows.includes(axis) && tokens[axis]?.has(row)) || (columns.includes(axis) && tokens[axis]?.has(column));
    if (has("tokens")) classList.add("query-token");
    if (has("context")) classList.add("key-token");
    if (focus && (row === focus.row || column === focus.column)) classList.add("same-line");
    if (focus && row === focus.row && column === focus.column) classList.add("current");
    if (blocks.some((block) => block.rows.includes(row) && block.columns.includes(column))) classList.add("input-cell");
  }
}
