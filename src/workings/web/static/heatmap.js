// @ts-check
// A heat map: a table of numbers where it is small; where it is large, a drawing with a table of the largest values.

import { currentColors, decodeBytes, decodeShorts, formatFixed, MASKED, onColorScheme, paint } from "./colors.js";
import { clamp, h, present, svg } from "./dom.js";
import { ARROW_KEYS } from "./matrix.js";
/** @import { Model } from "./model.js" */

const MAX_LABELS = 48; // a larger drawing has no room for the names of rows and columns
const COMPACT_FROM = 10; // rows or columns of a table above which it is set in small type
const MAX_NAME = 40; // characters of a name

/** @typedef {[number, number]} Place row and column */

export default {
  /**
   * @param {{ model: Model<HeatmapState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    const heatmap = new Heatmap(model, el);
    heatmap.draw();
    model.on("change:map", () => heatmap.draw());
    model.on("change:pinned", () => heatmap.mark());
    return onColorScheme(() => heatmap.draw());
  },
};

class Heatmap {
  #model;
  #el;
  /** @type {Api.Heatmap | null} */
  #map = null;
  #levels = new Uint8Array();
  /** @type {Int16Array | null} */
  #numbers = null; // decoded when the first one is read
  /** @type {Place} */
  #cursor = [0, 0];
  /** @type {Place | null} */
  #pointed = null;
  /** @type {HTMLTableCellElement[][] | null} */
  #cells = null; // of a table
  /** @type {Record<"row" | "column" | "current" | "pinned", SVGRectElement> | null} */
  #marks = null; // of a drawing
  /** @type {{ row: number, name: HTMLElement, tokens: HTMLElement[] } | null} */
  #rowText = null; // of a drawing: one row as text
  #readout = h("p", { class: "readout", role: "status" });

  /**
   * @param {Model<HeatmapState>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.#model = model;
    this.#el = el;
  }

  get #axes() {
    return this.#model.get("axes") ?? ["row", "column"];
  }

  draw() {
    const start = performance.now();
    const map = this.#model.get("map");
    this.#map = map;
    if (!map) return this.#el.replaceChildren();
    const { rows, columns, texts, name } = map;
    const hadFocus = this.#el.contains(document.activeElement);
    const pinned = this.#model.get("pinned");
    this.#levels = decodeBytes(map.levels);
    this.#numbers = this.#pointed = this.#cells = this.#marks = this.#rowText = null;
    this.#cursor = [Math.min(pinned?.row ?? 0, rows.length - 1), Math.min(pinned?.column ?? 0, columns.length - 1)];
    const isCompact = Math.max(rows.length, columns.length) > COMPACT_FROM;
    const figure = h(
      "figure",
      { class: texts ? `map table-map ${isCompact ? "compact" : ""}` : "map", data: { name } },
      h("figcaption", {}, h("b", {}, name), h("span", { class: "size" }, ` ${rows.length}×${columns.length}`)),
      texts ? this.#table(map, texts) : this.#drawing(map),
      this.#readout,
      this.#colorBar(map),
      !texts && [this.#textOfRow(map), this.#largestValues(map)],
    );
    this.#el.replaceChildren(figure);
    this.mark();
    if (hadFocus) this.#focus();
    performance.measure("map", { start });
  }

  /**
   * Return a number as text.
   * @param {Api.Heatmap} map
   * @param {Place} place
   */
  #text(map, [row, column]) {
    this.#numbers ??= decodeShorts(map.numbers);
    const k = row * map.columns.length + column;
    return this.#levels[k] === MASKED ? "masked" : formatFixed(this.#numbers[k] ?? 0, map.decimals);
  }

  /**
   * @param {Api.Heatmap} map
   * @param {Cells} texts
   */
  #table(map, texts) {
    const { rows, columns, description } = map;
    const [colors, inks] = [currentColors(map.colors), currentColors(map.inks)];
    const [rowAxis, columnAxis] = this.#axes;
    const cells = rows.map((_, i) =>
      columns.map((_, j) => {
        const level = this.#levels[i * columns.length + j] ?? MASKED;
        const cell = h(
          "td",
          { class: level === MASKED ? "masked" : null, tabindex: "-1", data: { row: i, column: j } },
          texts[i]?.[j] || h("span", { class: "unseen" }, "masked"),
        );
        if (level !== MASKED) Object.assign(cell.style, { backgroundColor: colors[level], color: inks[level] });
        return cell;
      }),
    );
    const header = (/** @type {string} */ name, /** @type {"row" | "col"} */ scope) => {
      const title = name.length > 12 ? name.slice(0, 300) : null;
      return h("th", { scope, dir: "auto", class: scope === "row" ? rowAxis : columnAxis, title }, h("span", {}, name));
    };
    const head = h(
      "tr",
      {},
      h("td", {}),
      columns.map((name) => header(name, "col")),
    );
    const body = rows.map((name, i) => h("tr", {}, header(name, "row"), cells[i]));
    this.#cells = cells;
    return h(
      "div",
      { class: "scroll", ...this.#listeners() },
      h(
        "table",
        { role: "grid", "aria-readonly": "true", "aria-label": `${description}, ${rows.length} by ${columns.length}` },
        h("thead", {}, head),
        h("tbody", {}, body),
      ),
    );
  }

  /**
   * Return a drawing with one pixel per cell, which the browser enlarges.
   * @param {Api.Heatmap} map
   */
  #drawing(map) {
    const { rows, columns, description } = map;
    const [rowAxis, columnAxis] = this.#axes;
    const canvas = h("canvas", { "aria-hidden": "true" });
    paint(canvas, this.#levels, [rows.length, columns.length], currentColors(map.colors));
    const mark = (/** @type {string} */ kind) =>
      svg("rect", { class: kind, width: "0", height: "0", "vector-effect": "non-scaling-stroke" });
    this.#marks = {
      row: mark("row-mark"),
      column: mark("column-mark"),
      current: mark("current"),
      pinned: mark("pinned"),
    };
    const viewBox = `0 0 ${columns.length} ${rows.length}`;
    const box = h(
      "div",
      {
        class: "drawing",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "heat map",
        "aria-label": `${description}, ${rows.length} by ${columns.length}: arrow keys move, Enter pins`,
        ...this.#listeners(),
      },
      canvas,
      svg("svg", { viewBox, preserveAspectRatio: "none", "aria-hidden": "true" }, Object.values(this.#marks)),
    );
    box.style.aspectRatio = `${columns.length} / ${rows.length}`;
    if (Math.max(rows.length, columns.length) > MAX_LABELS) return h("div", { class: "framed" }, box);
    const labels = (/** @type {string[]} */ names, /** @type {string} */ kind) => {
      const spans = names.map((name) => h("span", {}, name.slice(0, MAX_NAME)));
      return h("div", { class: `names ${kind}`, "aria-hidden": "true" }, spans);
    };
    return h(
      "div",
      { class: "framed labeled" },
      labels(columns, `across ${columnAxis}`),
      labels(rows, `down ${rowAxis}`),
      box,
    );
  }

  /** @returns {Attributes} */
  #listeners() {
    return {
      onpointermove: (event) => this.#point(this.#placeOf(event)),
      onpointerleave: () => this.#point(null),
      onclick: (event) => this.#pin(this.#placeOf(event)),
      onkeydown: (event) => this.#onKey(event),
      onfocusin: () => this.#point(this.#cursor),
      onfocusout: () => this.#point(null),
    };
  }

  /**
   * Return the cell at the pointer.
   * @param {PointerEvent & { target: Element, currentTarget: Element }} event
   * @returns {Place | null}
   */
  #placeOf(event) {
    if (!this.#map) return null;
    if (this.#cells) {
      const cell = /** @type {HTMLElement | null} */ (event.target.closest("td[data-row]"));
      return cell && [Number(cell.dataset.row), Number(cell.dataset.column)];
    }
    const box = event.currentTarget.getBoundingClientRect();
    const [rows, columns] = [this.#map.rows.length, this.#map.columns.length];
    const row = Math.floor((rows * (event.clientY - box.top)) / box.height);
    const column = Math.floor((columns * (event.clientX - box.left)) / box.width);
    return row >= 0 && column >= 0 && row < rows && column < columns ? [row, column] : null;
  }

  /** @param {Place | null} place */
  #point(place) {
    if (String(place) === String(this.#pointed)) return;
    this.#pointed = place;
    this.mark();
    this.#model.set("focus", place && { row: place[0], column: place[1] });
  }

  /**
   * Pin a cell, or unpin it if it is pinned.
   * @param {Place | null} place
   */
  #pin(place) {
    if (!place) return;
    const [row, column] = (this.#cursor = place);
    const pinned = this.#model.get("pinned");
    const isPinned = pinned?.row === row && pinned.column === column;
    this.#model.set("pinned", isPinned ? null : { row, column });
    this.#model.save_changes();
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (!this.#map) return;
    const [row, column] = this.#cursor;
    const [lastRow, lastColumn] = [this.#map.rows.length - 1, this.#map.columns.length - 1];
    const move = ARROW_KEYS[event.key];
    const by = event.shiftKey ? 10 : 1;
    if (move && !event.altKey)
      this.#cursor = [clamp(row + by * move[0], 0, lastRow), clamp(column + by * move[1], 0, lastColumn)];
    else if (event.key === "Home") this.#cursor = [event.ctrlKey ? 0 : row, 0];
    else if (event.key === "End") this.#cursor = [event.ctrlKey ? lastRow : row, lastColumn];
    else if (event.key === "Enter" || event.key === " ") this.#pin(this.#cursor);
    else if (event.key === "Escape") this.#model.set("pinned", null);
    else return;
    event.preventDefault();
    this.#focus();
    this.#point([...this.#cursor]);
  }

  #focus() {
    const [row, column] = this.#cursor;
    if (this.#cells) this.#cells[row]?.[column]?.focus();
    else /** @type {HTMLElement | null} */ (this.#el.querySelector(".drawing"))?.focus();
  }

  /** Mark the pointed and the pinned cell, and write the number of one of them. */
  mark() {
    const map = this.#map;
    if (!map) return;
    const { row = Infinity, column = Infinity } = this.#model.get("pinned") ?? {};
    /** @type {Place | null} */
    const pinned = row < map.rows.length && column < map.columns.length ? [row, column] : null;
    const current = this.#pointed ?? pinned;
    if (this.#cells) this.#markCells(this.#cells, current, pinned);
    else this.#markDrawing(map, current, pinned);
    this.#readout.replaceChildren(...present(this.#describe(map, current, pinned)));
  }

  /**
   * @param {Api.Heatmap} map
   * @param {Place | null} current
   * @param {Place | null} pinned
   */
  #describe(map, current, pinned) {
    if (!current) return [h("span", { class: "place" }, "Hover to read; click or Enter to pin.")];
    const [rowAxis, columnAxis] = this.#axes;
    const name = (/** @type {string} */ axis, /** @type {string} */ text, /** @type {number} */ index) => [
      h("b", { class: axis, dir: "auto" }, text.slice(0, 60)),
      h("span", { class: "place" }, ` ${index + 1}`),
    ];
    const reads = map.reads?.[current[0]]; // none of self-attention
    return [
      reads !== undefined && ["reads ", h("b", { dir: "auto" }, reads.slice(0, 60)), " → writes "],
      ...name(rowAxis, map.rows[current[0]] ?? "", current[0]),
      reads === undefined ? " → " : ": ",
      ...name(columnAxis, map.columns[current[1]] ?? "", current[1]),
      " ",
      h("b", { class: "number" }, this.#text(map, current)),
      " ",
      ...(String(pinned) === String(current) ? [h("span", { class: "place" }, "pinned")] : []),
    ];
  }

  /**
   * @param {HTMLTableCellElement[][]} cells
   * @param {Place | null} current
   * @param {Place | null} pinned
   */
  #markCells(cells, current, pinned) {
    const tabStop = this.#pointed ?? pinned ?? this.#cursor;
    cells.forEach((line, i) =>
      line.forEach((cell, j) => {
        const is = (/** @type {Place | null} */ place) => place?.[0] === i && place[1] === j;
        cell.classList.toggle("same-line", current !== null && (i === current[0]) !== (j === current[1]));
        cell.classList.toggle("current", is(current));
        cell.classList.toggle("pinned", is(pinned));
        cell.tabIndex = is(tabStop) ? 0 : -1;
      }),
    );
  }

  /**
   * @param {Api.Heatmap} map
   * @param {Place | null} current
   * @param {Place | null} pinned
   */
  #markDrawing(map, current, pinned) {
    const marks = this.#marks;
    if (!marks) return;
    const set = (/** @type {SVGRectElement} */ rect, /** @type {number[] | null} */ box) =>
      ["x", "y", "width", "height"].forEach((name, k) => rect.setAttribute(name, String(box?.[k] ?? 0)));
    set(marks.row, current && [0, current[0], map.columns.length, 1]);
    set(marks.column, current && [current[1], 0, 1, map.rows.length]);
    set(marks.current, current && [current[1], current[0], 1, 1]);
    set(marks.pinned, pinned && [pinned[1], pinned[0], 1, 1]);
    this.#colorRowText(map, current ? current[0] : map.rows.length - 1);
  }

  /**
   * Return the columns of an attention map as a text, each token in its color in one row.
   * @param {Api.Heatmap} map
   */
  #textOfRow(map) {
    if (this.#axes[0] !== "query") return null;
    const name = h("b", { class: "query" });
    const tokens = map.columns.map((column) => h("span", {}, column.slice(0, MAX_NAME)));
    this.#rowText = { row: -1, name, tokens };
    return h(
      "div",
      { class: "row-text", dir: "auto", "aria-hidden": "true" },
      "Attention from ",
      name,
      " to: ",
      tokens,
    );
  }

  /**
   * @param {Api.Heatmap} map
   * @param {number} row
   */
  #colorRowText(map, row) {
    const shown = this.#rowText;
    if (!shown || shown.row === row) return;
    const [colors, inks] = [currentColors(map.colors), currentColors(map.inks)];
    shown.row = row;
    shown.name.textContent = `${map.rows[row]?.slice(0, MAX_NAME)} ${row + 1}`;
    shown.tokens.forEach((token, k) => {
      const level = this.#levels[row * shown.tokens.length + k] ?? MASKED;
      const isMasked = level === MASKED;
      Object.assign(token.style, {
        backgroundColor: isMasked ? "" : colors[level],
        color: isMasked ? "" : inks[level],
      });
      token.className = isMasked ? "soft" : "";
    });
  }

  /** @param {Api.Heatmap} map */
  #colorBar(map) {
    const colors = currentColors(map.colors);
    const canvas = h("canvas", { "aria-hidden": "true" });
    paint(canvas, Uint8Array.from(colors.keys()), [1, colors.length], colors);
    const ticks = map.ticks.map(([level, text]) => {
      const tick = h("span", {}, text);
      tick.style.left = `${(100 * (level + 0.5)) / colors.length}%`;
      return tick;
    });
    return h(
      "div",
      { class: "map-legend" },
      h("div", { class: "scale" }, canvas, h("div", { class: "ticks" }, ticks)),
      this.#levels.includes(MASKED) && h("span", {}, h("span", { class: "sample masked" }, " "), "masked"),
    );
  }

  /**
   * Return a table of the largest values of each row, filled when it is opened.
   * @param {Api.Heatmap} map
   */
  #largestValues({ rows, columns, largest_per_row: largestPerRow }) {
    const [rowAxis, columnAxis] = this.#axes;
    const label = (/** @type {string} */ name, /** @type {number} */ k) => `${k + 1} ${name.slice(0, MAX_NAME)}`;
    const value = (/** @type {[number, string]} */ [column, text]) =>
      h("td", {}, h("span", { class: columnAxis, dir: "auto" }, label(columns[column] ?? "", column)), ` ${text}`);
    const open = () => {
      if (!details.open || details.childElementCount > 1) return;
      const ranks = (largestPerRow?.[0] ?? []).map((_, k) => h("th", { scope: "col" }, k ? `${k + 1}.` : "largest"));
      const lines = rows.map((name, i) => {
        const header = h("th", { scope: "row", class: rowAxis, dir: "auto" }, label(name, i));
        return h("tr", {}, header, largestPerRow?.[i]?.map(value));
      });
      details.append(
        h(
          "div",
          { class: "scroll", tabindex: "0", role: "region", "aria-label": "Largest values of each row" },
          h(
            "table",
            { class: "listed" },
            h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "row"), ranks)),
            h("tbody", {}, lines),
          ),
        ),
      );
    };
    const details = h("details", { class: "data-table", ontoggle: open }, h("summary", {}, "Show as a table"));
    return details;
  }
}
