// @ts-check
// A matrix as a grid: the arrow keys move in it, and its numbers can be edited where that is allowed.

import { h, math } from "./dom.js";
import { t } from "./language.js";
/** @import { Model } from "./model.js" */

/** @type {Record<string, string>} */
const SIGNS = { wrong: "✗", follows: "↳", rounded: "≈" };
/** @type {Record<string, () => string>} */
const DESCRIPTIONS = {
  masked: () => t("masked"),
  wrong: () => t("wrong"),
  follows: () => t("follows from an earlier mistake"),
  rounded: () => t("differs by rounding only"),
  blank: () => t("left blank"),
};
const MAX_NUMBER_COLUMNS = 20; // a wider matrix is a strip of colors
/** @type {Record<string, [number, number]>} */
export const ARROW_KEYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export default {
  /** @param {{ model: Model<MatrixState>, el: HTMLElement }} options */
  render({ model, el }) {
    const grid = new Grid(model, el);
    grid.draw();
    model.on("change:matrix", () => grid.draw());
    model.on("change:cells", () => grid.draw());
    model.on("change:first", () => grid.draw());
  },
};

class Grid {
  #model;
  #el;
  #shape = "";
  /** @type {HTMLTableCellElement[][]} */
  #cells = [];
  /** @type {[number, number]} */
  #tabStop = [0, 0];
  /** @type {HTMLTableCellElement | null} */
  #edited = null; // the cell that has an input

  /**
   * @param {Model<MatrixState>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.#model = model;
    this.#el = el;
  }

  draw() {
    const matrix = this.#model.get("matrix");
    const { key, row_names: rows, column_names: columns, formula, axes } = matrix;
    const shape = JSON.stringify([key, rows, columns, formula?.text, axes]);
    if (shape !== this.#shape) this.#build(matrix);
    this.#shape = shape;
    this.#cells.forEach((row, i) => row.forEach((_, j) => this.#fill(matrix, i, j)));
  }

  /** @param {Api.Matrix} matrix */
  #build({ key, name: matrixName, row_names: rows, column_names: columns, axes, role, formula, symbol }) {
    this.#edited = null;
    this.#tabStop = this.#model.get("first") ?? [0, 0];
    const label = t("{name}, {rows} by {columns}", {
      name: this.#model.get("label") ?? matrixName,
      rows: rows.length,
      columns: columns.length,
    });
    this.#cells = rows.map((_, i) =>
      columns.map((_, j) =>
        h("td", {
          class: `${j === 0 ? "open" : ""} ${j === columns.length - 1 ? "close" : ""}`,
          tabindex: i === this.#tabStop[0] && j === this.#tabStop[1] ? "0" : "-1",
          data: { row: i, column: j },
        }),
      ),
    );
    const header = (/** @type {string} */ name, /** @type {number} */ index, /** @type {"row" | "col"} */ scope) =>
      h(
        "th",
        {
          scope,
          dir: "auto",
          title: name.length > 12 ? name.slice(0, 300) : null,
          class: `axis ${axes[scope === "row" ? 0 : 1]}`,
          data: { [scope === "row" ? "row" : "column"]: index },
        },
        name,
      );
    const corner = h("td", { class: "size" }, `${rows.length}×${columns.length}`);
    const table = h(
      "table",
      { role: "grid", "aria-label": label, "aria-readonly": this.#model.get("cells") ? "false" : "true" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          corner,
          columns.map((name, j) => header(name, j, "col")),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((name, i) => h("tr", {}, header(name, i, "row"), this.#cells[i])),
      ),
    );
    const isSingle = String([...rows, ...columns]) === "1,1"; // one number that has no name
    const form = columns.length > MAX_NUMBER_COLUMNS ? "strip" : isSingle ? "single" : "";
    const figure = h(
      "figure",
      {
        class: `matrix ${role} ${form}`,
        data: { key, rows: axes[0], columns: axes[1], reprint: this.#model.get("reprint") ?? 0 },
        onkeydown: (event) => this.#onKey(event),
        onmouseover: (event) => this.#onPoint(event),
        onfocusin: (event) => this.#onPoint(event),
        onmouseleave: () => this.#model.set("focus", this.#focusedCell()),
        onfocusout: () => setTimeout(() => this.#model.set("focus", this.#focusedCell())),
        ondblclick: (event) => this.#edit(event.target.closest("tbody td")),
        onpaste: (event) => this.#onPaste(event),
      },
      h("figcaption", {}, math(formula ?? symbol)),
      h("div", { class: "scroll" }, table),
    );
    this.#el.replaceChildren(figure);
  }

  /**
   * Write a cell's number, with its color and marks, unless it is being edited.
   * @param {Api.Matrix} matrix
   * @param {number} i
   * @param {number} j
   */
  #fill(matrix, i, j) {
    const cell = this.#cells[i]?.[j];
    if (!cell || this.#edited === cell) return;
    const mark = matrix.marks[i]?.[j] ?? "";
    const text = matrix.texts[i]?.[j] ?? "";
    const first = this.#model.get("first");
    const isFirst = first?.[0] === i && first[1] === j;
    const classes = ["v", matrix.colors[i]?.[j], mark === "right" ? "" : mark, isFirst ? "first" : ""];
    const hasSigns = this.#model.get("showSigns") && matrix.marks.some((row) => (row[j] ?? "") in SIGNS);
    const description = isFirst ? t("the first wrong number") : DESCRIPTIONS[mark]?.();
    const value = h(
      "span",
      { class: classes.join(" ") },
      mark === "masked" ? h("span", {}, text) : text,
      hasSigns && h("span", { class: `sign ${mark}-sign`, "aria-hidden": "true" }, SIGNS[mark]),
      description && h("span", { class: "unseen" }, ` (${description})`),
    );
    if (cell.firstChild?.isEqualNode(value)) return;
    cell.replaceChildren(value);
    const exact = matrix.values[i]?.[j];
    const title = this.#model.get("notes")?.[i]?.[j] || (exact !== text && exact);
    if (title) cell.title = title;
    else cell.removeAttribute("title");
  }

  #focusedCell() {
    const root = /** @type {Document | ShadowRoot} */ (this.#el.getRootNode()); // a notebook may have a shadow root
    const cell = root.activeElement?.closest("td[data-row]");
    return cell && this.#el.contains(cell) ? this.#place(/** @type {HTMLElement} */ (cell)) : null;
  }

  /**
   * @param {HTMLElement} element
   * @returns {CellFocus}
   */
  #place({ dataset: { row, column } }) {
    const number = (/** @type {string | undefined} */ value) => (value === undefined ? null : Number(value));
    return { key: this.#model.get("matrix").key, row: number(row), column: number(column) };
  }

  /** @param {{ type: string, target: Element }} event */
  #onPoint(event) {
    const target = /** @type {HTMLTableCellElement | null} */ (event.target.closest("td[data-row], th"));
    if (!target) return;
    if (event.type === "focusin" && target.tagName === "TD") this.#moveTabStop(target);
    this.#model.set("focus", this.#place(target));
  }

  /** @param {HTMLTableCellElement} cell */
  #moveTabStop(cell) {
    const previous = this.#cells[this.#tabStop[0]]?.[this.#tabStop[1]];
    if (previous) previous.tabIndex = -1;
    cell.tabIndex = 0;
    this.#tabStop = [Number(cell.dataset.row), Number(cell.dataset.column)];
  }

  /**
   * Focus a cell; return false if there is none.
   * @param {number} row
   * @param {number} column
   */
  #goTo(row, column) {
    const cell = this.#cells[row]?.[column];
    cell?.focus();
    return cell !== undefined;
  }

  /** @param {KeyboardEvent & { target: Element }} event */
  #onKey(event) {
    const cell = /** @type {HTMLTableCellElement | null} */ (event.target.closest("td[data-row]"));
    if (!cell || this.#edited) return;
    const { key } = event;
    const [row, column] = [Number(cell.dataset.row), Number(cell.dataset.column)];
    const [lastRow, lastColumn] = [this.#cells.length - 1, (this.#cells[0]?.length ?? 0) - 1];
    const move = ARROW_KEYS[key];
    if (move && !event.altKey) this.#goTo(row + move[0], column + move[1]);
    else if (key === "Home") this.#goTo(event.ctrlKey ? 0 : row, 0);
    else if (key === "End") this.#goTo(event.ctrlKey ? lastRow : row, lastColumn);
    else if (key === "Enter" || key === "F2") this.#edit(cell);
    else if (key === "Escape") cell.blur();
    else if (/^[\d.,?+\-−/]$/.test(key) && !event.ctrlKey && !event.metaKey) this.#edit(cell, key);
    else if (key === "Delete" || key === "Backspace") this.#edit(cell, "");
    else return;
    event.preventDefault();
  }

  /**
   * Put an input into a cell.
   * @param {HTMLTableCellElement | null} cell
   * @param {string} [start] replaces the number; without it, the number is selected
   */
  #edit(cell, start) {
    const cells = this.#model.get("cells");
    if (!cells || !cell || this.#edited) return;
    const { key } = this.#model.get("matrix");
    const [row, column] = [Number(cell.dataset.row), Number(cell.dataset.column)];
    const original = cells[row]?.[column] ?? "";
    const input = h("input", {
      class: "cell",
      type: "text",
      inputmode: "decimal",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: "60",
      "aria-label": t("{key}, row {row}, column {column}", { key, row: row + 1, column: column + 1 }),
      value: start ?? original,
    });
    this.#edited = cell;
    cell.replaceChildren(input);
    input.focus();
    if (start === undefined) input.select();
    const report = (/** @type {string} */ text, /** @type {boolean} */ done) =>
      this.#model.set("edit", { key, row, column, text, done });
    const finish = (/** @type {string} */ text, /** @type {[number, number]} */ move, focus = true) => {
      if (!this.#edited) return;
      this.#edited = null;
      report(text, true);
      this.#fill(this.#model.get("matrix"), row, column);
      if (focus && !this.#goTo(row + move[0], column + move[1])) cell.focus();
    };
    input.addEventListener("input", () => report(input.value, false));
    input.addEventListener("blur", () => finish(input.value, [0, 0], false));
    input.addEventListener("keydown", (event) => {
      const side = event.shiftKey ? -1 : 1;
      const hasNeighbor = event.key === "Tab" && this.#cells[row]?.[column + side] !== undefined;
      event.stopPropagation();
      if (event.key === "Escape") finish(original, [0, 0]);
      else if (event.key === "Enter" || event.key === "ArrowDown") finish(input.value, [1, 0]);
      else if (event.key === "ArrowUp") finish(input.value, [-1, 0]);
      else if (hasNeighbor) finish(input.value, [0, side]);
      else return;
      event.preventDefault();
    });
    if (start !== undefined) report(start, false);
  }

  /** @param {ClipboardEvent} event */
  #onPaste(event) {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!this.#model.get("cells") || this.#edited || !text.trim()) return;
    event.preventDefault();
    this.#model.set("pastedText", text);
  }
}
