// A map of numbers, rows by columns: a table where it is small, a drawing with a table behind it where it is large.
//
// In:  map (as the server tells it), pinned ({row, column} or null), axes (what rows and columns are: two words).
// Out: focus ({row, column} or null), pinned.

import { bytes, onTheme, paint, palette, shorts, written } from "./bytes.js";
import { h, svg } from "./dom.js";

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const LABELLED = 48;  // rows or columns that have room for their names
const HIDDEN = 255;

export default {
  render({ model, el }) {
    const shown = new Shown(model, el);
    shown.draw();
    model.on("change:map", () => shown.draw());
    model.on("change:pinned", () => shown.mark());
    return onTheme(() => shown.draw());
  },
};

class Shown {
  #model;
  #el;
  #map = null;
  #levels = null;
  #numbers = null;
  #at = [0, 0];
  #over = null;  // the cell that is pointed at
  #cells = null;
  #marks = null;
  #words = null;  // of a large map, the columns as a text
  #whose = null;
  #lit = -1;  // the row that the text shows
  #read = h("p", { class: "readout", role: "status" });

  constructor(model, el) {
    this.#model = model;
    this.#el = el;
  }

  draw() {
    const began = performance.now();
    const map = this.#model.get("map");
    if (!map) return this.#el.replaceChildren();
    const focused = this.#el.contains(document.activeElement);
    this.#map = map;
    this.#levels = bytes(map.levels);
    this.#numbers = null;
    this.#over = null;
    const pinned = this.#model.get("pinned");
    this.#at = [pinned?.row ?? 0, pinned?.column ?? 0].map((k, axis) => Math.min(k, [map.rows, map.columns][axis].length - 1));
    this.#cells = this.#marks = this.#words = null;
    this.#lit = -1;
    const inside = map.texts ? this.#table() : this.#picture();
    const figure = h("figure", { class: !map.texts ? "map" : Math.max(map.rows.length, map.columns.length) > 10 ? "map small" : "map small smallest", data: { name: map.name } },
      h("figcaption", {}, h("b", {}, map.name), h("span", { class: "size" }, ` ${map.rows.length}×${map.columns.length}`)),
      inside, this.#read, this.#bar(), map.texts ? null : [this.#line(), this.#behind()]);
    this.#el.replaceChildren(figure);
    this.mark();
    if (focused) this.#focus();
    performance.measure("map", { start: began });
  }

  get #axes() {
    return this.#model.get("axes") ?? ["row", "column"];
  }

  #text(row, column) {
    this.#numbers ??= shorts(this.#map.numbers);  // not before somebody reads one
    const k = row * this.#map.columns.length + column;
    return this.#levels[k] === HIDDEN ? "masked" : written(this.#numbers[k], this.#map.decimals);
  }

  // A table: every number is read where it stands.
  #table() {
    const { rows, columns, texts } = this.#map;
    const { colours, inks } = palette(this.#map);
    const [down, across] = this.#axes;
    this.#cells = rows.map((_, i) => columns.map((_, j) => {
      const level = this.#levels[i * columns.length + j];
      const cell = h("td", {
        class: level === HIDDEN ? "masked" : null, tabindex: "-1", data: { row: i, column: j },
      }, texts[i][j] || h("span", { class: "unseen" }, "masked"));
      if (level !== HIDDEN) Object.assign(cell.style, { backgroundColor: colours[level], color: inks[level] });
      return cell;
    }));
    const head = (name, scope) => h("th", { scope, dir: "auto", class: scope === "row" ? down : across, title: name.length > 12 ? name.slice(0, 300) : null }, h("span", {}, name));
    return h("div", { class: "scroll", ...this.#listening() }, h("table", { role: "grid", "aria-readonly": "true", "aria-label": `${this.#map.says}, ${rows.length} by ${columns.length}` },
      h("thead", {}, h("tr", {}, h("td", {}), columns.map((name) => head(name, "col")))),
      h("tbody", {}, rows.map((name, i) => h("tr", {}, head(name, "row"), this.#cells[i])))));
  }

  // A drawing, a pixel a cell, which the browser enlarges.
  #picture() {
    const { rows, columns } = this.#map;
    const canvas = h("canvas", { "aria-hidden": "true" });
    paint(canvas, this.#levels, [rows.length, columns.length], palette(this.#map).colours);
    const bar = (kind) => svg("rect", { class: kind, width: "0", height: "0", "vector-effect": "non-scaling-stroke" });
    this.#marks = { row: bar("of-row"), column: bar("of-column"), here: bar("here"), pin: bar("pin") };
    const [down, across] = this.#axes;
    const labelled = Math.max(rows.length, columns.length) <= LABELLED;
    const names = (list, kind) => labelled && h("div", { class: `names ${kind}`, "aria-hidden": "true" }, list.map((name) => h("span", {}, name.slice(0, 40))));
    const box = h("div", {
      class: "drawing", tabindex: "0", role: "application", "aria-roledescription": "map",
      "aria-label": `${this.#map.says}, ${rows.length} by ${columns.length}: arrow keys move, Enter pins`, ...this.#listening(),
    }, canvas, svg("svg", { viewBox: `0 0 ${columns.length} ${rows.length}`, preserveAspectRatio: "none", "aria-hidden": "true" }, Object.values(this.#marks)));
    box.style.aspectRatio = `${columns.length} / ${rows.length}`;
    return h("div", { class: labelled ? "framed labelled" : "framed" }, names(columns, `across ${across}`) || null, names(rows, `down ${down}`) || null, box);
  }

  #listening() {
    return {
      onpointermove: (event) => this.#point(this.#place(event)), onpointerleave: () => this.#point(null),
      onclick: (event) => this.#pin(this.#place(event)), onkeydown: (event) => this.#pressed(event),
      onfocusin: () => this.#point(this.#at), onfocusout: () => this.#point(null),
    };
  }

  #place(event) {
    if (this.#cells) {
      const cell = event.target.closest?.("td[data-row]");
      return cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : null;
    }
    const box = event.currentTarget.getBoundingClientRect();
    const [rows, columns] = [this.#map.rows.length, this.#map.columns.length];
    const row = Math.floor(rows * (event.clientY - box.top) / box.height);
    const column = Math.floor(columns * (event.clientX - box.left) / box.width);
    return row >= 0 && column >= 0 && row < rows && column < columns ? [row, column] : null;
  }

  #point(place) {
    if (String(place) === String(this.#over)) return;
    this.#over = place;
    this.mark();
    this.#model.set("focus", place && { row: place[0], column: place[1] });
  }

  #pin(place) {
    if (!place) return;
    this.#at = place;
    const pinned = this.#model.get("pinned");
    const same = pinned?.row === place[0] && pinned?.column === place[1];
    this.#model.set("pinned", same ? null : { row: place[0], column: place[1] });
    this.#model.save_changes();
  }

  #pressed(event) {
    const move = MOVES[event.key];
    const last = [this.#map.rows.length - 1, this.#map.columns.length - 1];
    const by = event.shiftKey ? 10 : 1;
    if (move && !event.altKey) this.#at = this.#at.map((k, axis) => Math.min(Math.max(k + by * move[axis], 0), last[axis]));
    else if (event.key === "Home") this.#at = [event.ctrlKey ? 0 : this.#at[0], 0];
    else if (event.key === "End") this.#at = [event.ctrlKey ? last[0] : this.#at[0], last[1]];
    else if (event.key === "Enter" || event.key === " ") this.#pin(this.#at);
    else if (event.key === "Escape") this.#model.set("pinned", null);
    else return;
    event.preventDefault();
    this.#focus();
    this.#point([...this.#at]);
  }

  #focus() {
    if (this.#cells) this.#cells[this.#at[0]][this.#at[1]].focus();
    else this.#el.querySelector(".drawing")?.focus();
  }

  // Show where the pointer and the pin are, and read the number there.
  mark() {
    if (!this.#map) return;
    const pinned = this.#model.get("pinned");
    const pin = pinned && pinned.row < this.#map.rows.length && pinned.column < this.#map.columns.length ? [pinned.row, pinned.column] : null;
    const here = this.#over ?? pin;
    if (this.#cells) this.#markCells(here, pin);
    else this.#markDrawing(here, pin);
    const [down, across] = this.#axes;
    this.#read.replaceChildren(...(here ? [
      h("b", { class: down, dir: "auto" }, this.#map.rows[here[0]].slice(0, 60)), h("span", { class: "place" }, ` ${here[0] + 1}`), " → ",
      h("b", { class: across, dir: "auto" }, this.#map.columns[here[1]].slice(0, 60)), h("span", { class: "place" }, ` ${here[1] + 1}`),
      " ", h("b", { class: "number" }, this.#text(...here)), " ", pin && String(pin) === String(here) ? h("span", { class: "place" }, "pinned") : null,
    ].filter(Boolean) : [h("span", { class: "place" }, "Point at a cell; click or Enter pins it.")]));
  }

  #markCells(here, pin) {
    const at = pin ?? this.#at;
    this.#cells.forEach((line, i) => line.forEach((cell, j) => {
      cell.classList.toggle("along", Boolean(here) && (i === here[0]) !== (j === here[1]));
      cell.classList.toggle("here", Boolean(here) && i === here[0] && j === here[1]);
      cell.classList.toggle("pin", Boolean(pin) && i === pin[0] && j === pin[1]);
      cell.tabIndex = i === (this.#over ?? at)[0] && j === (this.#over ?? at)[1] ? 0 : -1;
    }));
  }

  #markDrawing(here, pin) {
    const [rows, columns] = [this.#map.rows.length, this.#map.columns.length];
    const set = (rect, box) => ["x", "y", "width", "height"].forEach((name, k) => rect.setAttribute(name, box ? box[k] : 0));
    set(this.#marks.row, here && [0, here[0], columns, 1]);
    set(this.#marks.column, here && [here[1], 0, 1, rows]);
    set(this.#marks.here, here && [here[1], here[0], 1, 1]);
    set(this.#marks.pin, pin && [pin[1], pin[0], 1, 1]);
    this.#light(here ? here[0] : rows - 1);
  }

  // The columns as a text, each in the colour that it has in one row.
  #line() {
    if (this.#axes[0] !== "query") return null;
    this.#words = this.#map.columns.map((name) => h("span", {}, name.slice(0, 40)));
    this.#whose = h("b", { class: "query" });
    return h("div", { class: "line-of", dir: "auto", "aria-hidden": "true" }, this.#whose, " looks at: ", this.#words);
  }

  #light(row) {
    if (!this.#words || row === this.#lit) return;
    this.#lit = row;
    this.#whose.textContent = `${this.#map.rows[row].slice(0, 40)} ${row + 1}`;
    const { colours, inks } = palette(this.#map);
    const begin = row * this.#words.length;
    this.#words.forEach((word, k) => {
      const level = this.#levels[begin + k];
      const hidden = level === HIDDEN;
      Object.assign(word.style, { backgroundColor: hidden ? "" : colours[level], color: hidden ? "" : inks[level] });
      word.className = hidden ? "later" : "";
    });
  }

  // The colours and what they stand for.
  #bar() {
    const { colours } = palette(this.#map);
    const canvas = h("canvas", { "aria-hidden": "true" });
    paint(canvas, Uint8Array.from(colours.keys()), [1, colours.length], colours);
    const tick = ([level, text]) => {
      const mark = h("span", {}, text);
      mark.style.left = `${100 * (level + 0.5) / colours.length}%`;
      return mark;
    };
    const hides = this.#levels.includes(HIDDEN);
    return h("div", { class: "map-legend" }, h("div", { class: "scale" }, canvas, h("div", { class: "ticks" }, this.#map.ticks.map(tick))),
      hides ? h("span", {}, h("span", { class: "sample masked" }, " "), "masked") : null);
  }

  // What a drawing shows, in words: the largest of each row.
  #behind() {
    const details = h("details", { class: "behind", ontoggle: () => {
      if (!details.open || details.childElementCount > 1) return;
      const [down, across] = this.#axes;
      const { rows, columns, most } = this.#map;
      const count = most[0].length;
      details.append(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The largest of each row" }, h("table", { class: "listed" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "row"), Array.from({ length: count }, (_, k) => h("th", { scope: "col" }, k ? `${k + 1}.` : "largest")))),
        h("tbody", {}, rows.map((name, i) => h("tr", {}, h("th", { scope: "row", class: down, dir: "auto" }, `${i + 1} ${name.slice(0, 40)}`),
          most[i].map(([column, text]) => h("td", {}, h("span", { class: across, dir: "auto" }, `${column + 1} ${columns[column].slice(0, 40)}`), ` ${text}`))))))));
    } }, h("summary", {}, "The same as a table"));
    return details;
  }
}
