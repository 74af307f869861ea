// @ts-check
// An attention map as lines from each query to the keys that it attends to: the wider, the larger the weight.

import { decodeBytes, decodeShorts, formatFixed, MASKED } from "./colors.js";
import { h, svg } from "./dom.js";
/** @import { Model } from "./model.js" */

/** More tokens than this have no room beside each other's lines. */
export const MAX_LINE_TOKENS = 48;
const ROW_HEIGHT = 26; // pixels
const WIDTH = 220;
const MAX_STROKE = 7;
const MIN_WEIGHT = 0.02; // thinner lines are not drawn

export default {
  /**
   * @param {{ model: Model<HeatmapState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    const draw = () => {
      const map = model.get("map");
      el.replaceChildren(...(map ? [lineDrawing(map, model)] : []));
    };
    draw();
    const mark = () => markPinned(el, model.get("pinned"));
    model.on("change:map", draw);
    model.on("change:pinned", mark);
    return () => el.replaceChildren();
  },
};

/**
 * @param {Api.Heatmap} map
 * @param {Model<HeatmapState>} model
 */
function lineDrawing(map, model) {
  const { rows, columns, decimals, name, description } = map;
  const [levels, numbers] = [decodeBytes(map.levels), decodeShorts(map.numbers)];
  const readout = h("p", { class: "readout", role: "status" }, "Point at a token to see its lines alone.");
  const center = (/** @type {number} */ k) => (k + 0.5) * ROW_HEIGHT;
  const lines = rows.flatMap((_, i) =>
    columns.map((_, j) => {
      const k = i * columns.length + j;
      const weight = (numbers[k] ?? 0) / 10 ** decimals;
      if (levels[k] === MASKED || weight < MIN_WEIGHT) return null;
      const [y1, y2] = [center(i), center(j)];
      return svg("path", {
        class: "token-line",
        d: `M0 ${y1}C${WIDTH / 2} ${y1} ${WIDTH / 2} ${y2} ${WIDTH} ${y2}`,
        "stroke-width": Math.max(weight * MAX_STROKE, 0.5).toFixed(2),
        "stroke-opacity": Math.min(0.15 + weight, 1).toFixed(2),
        data: { row: i, column: j },
      });
    }),
  );
  const height = Math.max(rows.length, columns.length) * ROW_HEIGHT;
  const drawing = svg(
    "svg",
    { class: "token-lines", width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, "aria-hidden": "true" },
    lines,
  );
  const show = (/** @type {"row" | "column" | null} */ axis, /** @type {number} */ index) => {
    for (const line of drawing.querySelectorAll("path")) {
      const isHidden = axis !== null && line.dataset[axis] !== String(index);
      line.classList.toggle("faded", isHidden);
    }
    if (axis) readout.textContent = describe(map, numbers, axis, index);
  };
  const pin = (/** @type {number} */ row) => {
    const weights = columns.map((_, j) =>
      levels[row * columns.length + j] === MASKED ? -1 : numbers[row * columns.length + j],
    );
    const column = weights.indexOf(Math.max(...weights.map(Number)));
    model.set("pinned", { row, column });
  };
  const token = (/** @type {string} */ text, /** @type {number} */ k, /** @type {"row" | "column"} */ axis) => {
    const events = {
      onpointerenter: () => show(axis, k),
      onpointerleave: () => show(null, 0),
      onfocus: () => show(axis, k),
      onblur: () => show(null, 0),
    };
    const label = h("span", { dir: "auto" }, text);
    if (axis === "column") return h("li", events, label);
    const title = "Show the working of its largest weight";
    return h("li", {}, h("button", { type: "button", title, onclick: () => pin(k), ...events }, label));
  };
  const [queryAxis, keyAxis] = model.get("axes") ?? ["query", "key"];
  return h(
    "figure",
    { class: "map lines-map", data: { name } },
    h("figcaption", {}, h("b", {}, name), h("span", { class: "size" }, ` ${rows.length}×${columns.length}`)),
    h(
      "div",
      { class: "line-columns", role: "group", "aria-label": description },
      h(
        "ol",
        { class: `line-tokens ${queryAxis}` },
        rows.map((text, k) => token(text, k, "row")),
      ),
      drawing,
      h(
        "ol",
        { class: `line-tokens ${keyAxis}` },
        columns.map((text, k) => token(text, k, "column")),
      ),
    ),
    readout,
  );
}

/**
 * Return the largest weights of a token as a sentence.
 * @param {Api.Heatmap} map
 * @param {Int16Array} numbers
 * @param {"row" | "column"} axis
 * @param {number} index
 */
function describe({ rows, columns, decimals }, numbers, axis, index) {
  const others = axis === "row" ? columns : rows;
  const weights = others.map((text, k) => {
    const place = axis === "row" ? index * columns.length + k : k * columns.length + index;
    return { text, weight: numbers[place] ?? 0 };
  });
  const largest = weights.toSorted((a, b) => b.weight - a.weight).slice(0, 3);
  const parts = largest.map(({ text, weight }) => `${text} ${formatFixed(weight, decimals)}`);
  return `${(axis === "row" ? rows : columns)[index]} ${axis === "row" ? "→" : "←"} ${parts.join(", ")}`;
}

/**
 * @param {Element} el
 * @param {MapCell | null | undefined} pinned
 */
function markPinned(el, pinned) {
  for (const line of el.querySelectorAll("path")) {
    const { row, column } = line.dataset;
    line.classList.toggle("pinned", Number(row) === pinned?.row && Number(column) === pinned?.column);
  }
}
