// A matrix: a grid to walk in with the arrow keys, and to write in where it may be changed.
//
// In:  matrix (as the server tells it), cells (texts to edit; null: only to look at), signs, notes,
//      first ([row, column] of the cell to start at), label.
// Out: focus {key, row, column} (null: nothing; a header has only one of both), edited {row, column,
//      text, done}, pasted (text).

import { h } from "./dom.js";
import { math } from "./math.js";

const SIGNS = { wrong: "✗", follows: "↳", rounded: "≈" };
const WORDS = {
  masked: "masked", wrong: "wrong", follows: "follows from a wrong number before it",
  rounded: "off by no more than rounding", blank: "left blank",
};
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export default {
  render({ model, el }) {
    const grid = new Grid(model, el);
    grid.draw();
    for (const name of ["matrix", "cells", "first"]) model.on(`change:${name}`, () => grid.draw());
  },
};

class Grid {
  #model;
  #el;
  #shape = "";
  #cells = [];
  #at = [0, 0];
  #editing = null;

  constructor(model, el) {
    this.#model = model;
    this.#el = el;
  }

  draw() {
    const matrix = this.#model.get("matrix");
    const shape = JSON.stringify([matrix.key, matrix.row_names, matrix.column_names, matrix.formula?.text, matrix.axes]);
    if (shape !== this.#shape) this.#build(matrix);
    this.#shape = shape;
    matrix.texts.forEach((row, i) => row.forEach((_, j) => this.#fill(matrix, i, j)));
  }

  #build(matrix) {
    const { key, row_names: rows, column_names: columns, axes } = matrix;
    this.#editing = null;
    this.#at = this.#model.get("first") ?? [0, 0];
    const size = `${rows.length}×${columns.length}`;
    const label = `${this.#model.get("label") ?? matrix.name}, ${rows.length} by ${columns.length}`;
    this.#cells = rows.map((_, i) => columns.map((_, j) => h("td", {
      class: `${j === 0 ? "open" : ""} ${j === columns.length - 1 ? "close" : ""}`,
      tabindex: i === this.#at[0] && j === this.#at[1] ? "0" : "-1", data: { row: i, column: j },
    })));
    const head = (name, scope, index) => h("th", {
      scope, dir: "auto", title: name.length > 12 ? name.slice(0, 300) : null,
      class: `axis ${axes[scope === "row" ? 0 : 1]}`, data: { [scope === "row" ? "row" : "column"]: index },
    }, name);
    const table = h("table", { role: "grid", "aria-label": label, "aria-readonly": this.#model.get("cells") ? "false" : "true" },
      h("thead", {}, h("tr", {}, h("td", { class: "size" }, size), columns.map((name, j) => head(name, "col", j)))),
      h("tbody", {}, rows.map((name, i) => h("tr", {}, head(name, "row", i), this.#cells[i]))));
    const shown = matrix.formula ?? matrix.symbol;
    const caption = h("figcaption", {}, math(shown));
    const figure = h("figure", {
      class: `matrix ${matrix.role}`, data: { key, rows: axes[0], columns: axes[1], again: this.#model.get("again") ?? 0 },
      onkeydown: (event) => this.#pressed(event), onmouseover: (event) => this.#pointed(event),
      onmouseleave: () => this.#model.set("focus", this.#focused()), onfocusin: (event) => this.#pointed(event),
      onfocusout: () => setTimeout(() => this.#model.set("focus", this.#focused())),
      ondblclick: (event) => this.#edit(event.target.closest("tbody td")),
      onpaste: (event) => this.#paste(event),
    }, caption, h("div", { class: "scroll" }, table));
    this.#el.replaceChildren(figure);
  }

  #fill(matrix, i, j) {
    const cell = this.#cells[i][j];
    if (this.#editing?.cell === cell) return;
    const mark = matrix.marks[i][j];
    const text = matrix.texts[i][j];
    const first = this.#model.get("first");
    const here = first && first[0] === i && first[1] === j;
    const kinds = ["v", matrix.colours[i][j], mark === "right" ? "" : mark, here ? "first" : ""].join(" ");
    const inside = mark === "masked" ? h("span", {}, text) : text;
    const sign = this.#model.get("signs") && matrix.marks.some((row) => row[j] in SIGNS) ? h("span", { class: `sign ${mark}-sign`, "aria-hidden": "true" }, SIGNS[mark] ?? "") : null;
    const words = here ? "the first wrong number" : WORDS[mark];
    const said = words ? h("span", { class: "unseen" }, ` (${words})`) : null;
    const value = h("span", { class: kinds }, inside, sign, said);
    if (cell.firstChild?.isEqualNode(value)) return;
    cell.replaceChildren(value);
    cell.title = "";
    const exact = matrix.values[i][j];
    if (exact && exact !== text) cell.title = exact;
    const note = this.#model.get("notes")?.[i]?.[j];
    if (note) cell.title = note;
    if (!cell.title) cell.removeAttribute("title");
  }

  #focused() {
    const cell = this.#el.getRootNode().activeElement?.closest("td[data-row]");  // a notebook may have its own root
    return cell && this.#el.contains(cell) ? this.#place(cell) : null;
  }

  #place(element) {
    const { row, column } = element.dataset;
    const number = (value) => (value === undefined ? null : Number(value));
    return { key: this.#model.get("matrix").key, row: number(row), column: number(column) };
  }

  #pointed(event) {
    const target = event.target.closest("td[data-row], th");
    if (!target) return;
    if (event.type === "focusin" && target.tagName === "TD") this.#here(target);
    this.#model.set("focus", this.#place(target));
  }

  #here(cell) {
    const [row, column] = this.#at;
    const before = this.#cells[row]?.[column];
    if (before) before.tabIndex = -1;
    cell.tabIndex = 0;
    this.#at = [Number(cell.dataset.row), Number(cell.dataset.column)];
  }

  #go(row, column) {
    const cell = this.#cells[row]?.[column];
    if (!cell) return false;
    cell.focus();
    return true;
  }

  #pressed(event) {
    const cell = event.target.closest("td[data-row]");
    if (!cell || this.#editing) return;
    const { key } = event;
    const [row, column] = [Number(cell.dataset.row), Number(cell.dataset.column)];
    const last = [this.#cells.length - 1, this.#cells[0].length - 1];
    if (MOVES[key] && !event.altKey) this.#go(row + MOVES[key][0], column + MOVES[key][1]);
    else if (key === "Home") this.#go(event.ctrlKey ? 0 : row, 0);
    else if (key === "End") this.#go(event.ctrlKey ? last[0] : row, last[1]);
    else if (key === "Enter" || key === "F2") this.#edit(cell);
    else if (key === "Escape") cell.blur();
    else if (/^[\d.,?+\-−/]$/.test(key) && !event.ctrlKey && !event.metaKey) this.#edit(cell, key);
    else if (key === "Delete" || key === "Backspace") this.#edit(cell, "");
    else return;
    event.preventDefault();
  }

  #edit(cell, start) {
    const cells = this.#model.get("cells");
    if (!cells || !cell || this.#editing) return;
    const place = this.#place(cell);
    const before = cells[place.row][place.column];
    const input = h("input", {
      class: "cell", type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", maxlength: "60",
      "aria-label": `${this.#model.get("matrix").key}, row ${place.row + 1}, column ${place.column + 1}`, value: start ?? before,
    });
    this.#editing = { cell, input };
    cell.replaceChildren(input);
    input.focus();
    if (start === undefined) input.select();
    const tell = (text, done) => this.#model.set("edited", { ...place, text, done });
    const end = (text, move) => {
      if (!this.#editing) return;
      this.#editing = null;
      tell(text, true);
      this.#fill(this.#model.get("matrix"), place.row, place.column);
      if (move) this.#go(place.row + move[0], place.column + move[1]) || cell.focus();
    };
    input.addEventListener("input", () => tell(input.value, false));
    input.addEventListener("blur", () => end(input.value, null));
    input.addEventListener("keydown", (event) => {
      const across = event.key === "Tab" && this.#cells[place.row][place.column + (event.shiftKey ? -1 : 1)];
      if (event.key === "Escape") end(before, [0, 0]);
      else if (event.key === "Enter" || event.key === "ArrowDown") end(input.value, [1, 0]);
      else if (event.key === "ArrowUp") end(input.value, [-1, 0]);
      else if (across) end(input.value, [0, event.shiftKey ? -1 : 1]);
      else return event.stopPropagation();
      event.preventDefault();
      event.stopPropagation();
    });
    if (start !== undefined) tell(start, false);
  }

  #paste(event) {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!this.#model.get("cells") || this.#editing || !text.trim()) return;
    event.preventDefault();
    this.#model.set("pasted", text);
  }
}
