// @ts-check
// A solved problem: given matrices and steps from left to right, and the working of the cell that has the focus.

import { legend } from "./colors.js";
import dock from "./dock.js";
import { CellInspector } from "./dock.js";
import { button, h, svg } from "./dom.js";
import { t } from "./language.js";
import matrixGrid from "./matrix.js";
import { Model } from "./model.js";

const hintText = () => t("Hover over a number, or move with Tab and the arrow keys, to see how it is computed.");
const editHint = () => ` ${t("Press Enter to change a given number.")}`;
const INPUTS = ["X", "context"];
const MIN_FIT = 0.68; // smaller numbers cannot be read; the steps scroll instead
const GOOD_FIT = 0.85; // steps stand above each other to have numbers of this size
const MAX_HEIGHT = 720; // pixels of steps above each other, where they scroll anyway
const STAGE_GAP = 18; // pixels between them
const BOTTOM_HEIGHT = 130; // pixels at the bottom of the window for the legend and the working of a cell
const MAX_LINE_HEIGHT = 600; // pixels; longer lines would cross other matrices
const MAX_BACKWARD_LENGTH = 300;

/**
 * A matrix, and the texts that may be edited.
 * @typedef {{ matrix: Api.Matrix, cells: Cells | null }} Panel
 */

export default {
  /**
   * @param {{ model: Model<SolutionState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    const hint = model.get("cells") ? hintText() + editHint() : hintText();
    /** @type {Model<DockState>} */
    const dockModel = new Model({ working: null, message: hint });
    const inspector = new CellInspector(model, el, dockModel, hint);
    const [steps, docked] = [h("div", {}), h("div", {})];
    el.replaceChildren(h("section", { "aria-label": t("Steps") }, steps), legend(), docked);
    dock.render({ model: dockModel, el: docked });
    const flow = new Flow(model, steps, (focus) => inspect(model, inspector, focus));
    const draw = () => {
      const solution = model.get("data");
      if (!solution) return;
      const cells = model.get("cells");
      flow.draw(
        solution.given.map((matrix) => ({ matrix, cells: cells?.[matrix.key] ?? null })),
        solution.steps,
      );
      inspector.clear();
      inspect(model, inspector, flow.focus);
    };
    model.on("change:data", draw);
    model.on("change:spotlight", () => inspect(model, inspector, model.get("spotlight") ?? null));
    draw();
    let width = 0;
    const resize = () => {
      if (steps.clientWidth !== width) flow.fit();
      width = steps.clientWidth;
      flow.connect();
    };
    const observer = new ResizeObserver(resize);
    observer.observe(steps);
    const onFont = () => {
      width = 0;
      resize();
    };
    document.fonts.addEventListener("loadingdone", onFont);
    return () => {
      observer.disconnect();
      document.fonts.removeEventListener("loadingdone", onFont);
    };
  },
};

/**
 * Return a matrix cell's text as a sentence, if the matrix is given.
 * @param {Api.Matrix[]} given
 * @param {CellFocus | null} focus
 */
export function describeGiven(given, focus) {
  if (!focus || focus.row === null || focus.column === null) return null;
  const text = given.find((matrix) => matrix.key === focus.key)?.texts[focus.row]?.[focus.column];
  return text === undefined
    ? null
    : t("{cell} = {value}, given.", { cell: `${focus.key}[${focus.row + 1},${focus.column + 1}]`, value: text });
}

/**
 * @param {Model<SolutionState>} model
 * @param {CellInspector} inspector
 * @param {CellFocus | null} focus
 */
function inspect(model, inspector, focus) {
  const { given, steps } = model.get("data") ?? { given: [], steps: [] };
  const description = describeGiven(given, focus);
  if (description) inspector.inspect(focus, null, description);
  else inspector.inspect(focus, steps.find((step) => step.key === focus?.key) ?? null);
}

/** @param {HTMLElement[]} panels */
function measureColumn(panels) {
  return {
    panels,
    width: Math.max(...panels.map((panel) => panel.offsetWidth)),
    height: panels.reduce((sum, panel) => sum + panel.offsetHeight + STAGE_GAP, -STAGE_GAP),
  };
}

/**
 * Split the matrices of a stage into columns of about the same height that are no higher than this.
 * @param {HTMLElement[]} panels
 * @param {number} maxHeight in pixels
 */
function splitStage(panels, maxHeight) {
  const numColumns = Math.min(Math.ceil(measureColumn(panels).height / maxHeight), panels.length);
  const size = Math.ceil(panels.length / numColumns);
  return Array.from({ length: numColumns }, (_, k) => panels.slice(k * size, (k + 1) * size)).filter(
    (part) => part.length,
  );
}

/** Matrices in columns by depth, and lines from each step's inputs. */
class Flow {
  /** @type {CellFocus | null} */
  focus = null;
  #model;
  #el;
  #onFocus;
  #shape = "";
  /** @type {HTMLElement[][]} */
  #stages = []; // the matrices of each depth
  /** @type {Panel[]} */
  #given = [];
  /** @type {Api.Matrix[]} */
  #steps = [];
  /** @type {Map<string, { model: Model<MatrixState>, el: HTMLElement }>} */
  #panels = new Map();
  #lines = svg("svg", { class: "lines", "aria-hidden": "true" });
  #forward = h("div", { class: "forward" });
  #backward = h("div", { class: "backward" });
  #content = h("div", { class: "flow-content" }, this.#lines, this.#forward, this.#backward);

  /**
   * @param {Model<SolutionState>} model
   * @param {HTMLElement} el
   * @param {(focus: CellFocus | null) => void} onFocus
   */
  constructor(model, el, onFocus) {
    this.#model = model;
    this.#el = el;
    this.#onFocus = onFocus;
    el.classList.add("flow");
    el.replaceChildren(this.#content);
  }

  /**
   * @param {Panel[]} given
   * @param {Api.Matrix[]} steps
   */
  draw(given, steps) {
    const shape = JSON.stringify([
      given.map(({ matrix }) => matrix.key),
      steps.map(({ key, sources }) => [key, sources]),
    ]);
    this.#given = given;
    this.#steps = steps;
    if (shape !== this.#shape) this.#build();
    else for (const panel of this.#all) this.#update(panel);
    this.#shape = shape;
    this.fit();
    this.connect();
  }

  /** Make the numbers as large as the window allows: all steps stand beside each other. */
  fit() {
    const setFit = (/** @type {number} */ fit) => this.#el.style.setProperty("--fit", fit.toFixed(3));
    setFit(1);
    const width = this.#el.clientWidth - 10; // its padding, and what rounding adds
    if (width <= 0 || getComputedStyle(this.#forward).flexDirection === "column") return; // a narrow window
    const top = this.#el.getBoundingClientRect().top + scrollY;
    const room = this.#el.closest(".standalone") ? 0 : innerHeight - BOTTOM_HEIGHT - top; // a notebook scrolls
    this.#fold(width, room > 0 ? room : MAX_HEIGHT);
    for (let trial = 0, fit = 1; trial < 5; trial += 1) {
      const byWidth = width / this.#content.scrollWidth;
      const byHeight = room > 0 ? Math.max(room / this.#content.scrollHeight, MIN_FIT / fit) : 1;
      const next = Math.max(MIN_FIT, fit * Math.min(1, byWidth, byHeight));
      if (next > fit - 0.002) return;
      fit = next;
      setFit(fit);
    }
  }

  /**
   * Split the stages that are too high for the window, and put stages that follow each other into one column, the
   * lowest first, until the numbers can be large enough.
   * @param {number} width in pixels
   * @param {number} height
   */
  #fold(width, height) {
    const gap = parseFloat(getComputedStyle(this.#forward).columnGap);
    const columns = this.#stages.flatMap((panels) => splitStage(panels, height / MIN_FIT)).map(measureColumn);
    const fit = () => {
      const total = columns.reduce((sum, column) => sum + column.width + gap, -gap);
      return Math.min(width / total, height / Math.max(...columns.map((column) => column.height)));
    };
    while (this.#backward.hidden && columns.length > 2 && fit() < GOOD_FIT) {
      const heights = columns.slice(1).map((column, k) => column.height + (columns[k]?.height ?? 0) + STAGE_GAP);
      const lowest = Math.min(...heights);
      const k = heights.indexOf(lowest);
      const [upper, lower] = columns.slice(k, k + 2);
      if (!upper || !lower || height / lowest < fit()) break;
      const panels = [...upper.panels, ...lower.panels];
      columns.splice(k, 2, { panels, width: Math.max(upper.width, lower.width), height: lowest });
    }
    this.#showStages(columns.map(({ panels }) => panels));
  }

  /** @param {HTMLElement[][]} stages */
  #showStages(stages) {
    const shown = [...this.#forward.children].map((column) => column.childElementCount);
    if (String(shown) === String(stages.map((panels) => panels.length))) return;
    const focused = document.activeElement;
    this.#forward.replaceChildren(...stages.map((panels) => h("ol", { class: "stage" }, panels)));
    if (focused instanceof HTMLElement && this.#forward.contains(focused)) focused.focus(); // it has moved
  }

  /** @returns {Panel[]} */
  get #all() {
    return [...this.#given, ...this.#steps.map((matrix) => ({ matrix, cells: null }))];
  }

  /** @param {Panel} panel */
  #update({ matrix, cells }) {
    const model = this.#panels.get(matrix.key)?.model;
    model?.set("cells", cells);
    model?.set("matrix", matrix);
  }

  #build() {
    const previous = this.#panels;
    const depth = depths(
      this.#given.map(({ matrix }) => matrix.key),
      this.#steps,
    );
    const first = Math.min(...depth.values());
    /** @type {[HTMLElement[][], HTMLElement[][]]} */
    const [forward, backward] = [[], []];
    this.#panels = new Map();
    for (const panel of this.#all) {
      const { key, is_backward: isBackward } = panel.matrix;
      const shown = previous.get(key) ?? this.#panel(panel);
      this.#panels.set(key, shown);
      this.#update(panel);
      const stages = isBackward ? backward : forward;
      (stages[(depth.get(key) ?? first) - first] ??= []).push(shown.el);
    }
    this.#stages = forward.filter(Boolean);
    this.#forward.replaceChildren();
    this.#showStages(this.#stages);
    // Gradients are below, and run back from right to left.
    this.#backward.replaceChildren(...backward.filter(Boolean).map((panels) => h("ol", { class: "stage" }, panels)));
    this.#backward.hidden = !backward.length;
  }

  /** @param {Panel} panel */
  #panel({ matrix, cells }) {
    const { key } = matrix;
    /** @type {Model<MatrixState>} */
    const model = new Model({ matrix, cells });
    const grid = h("div", {});
    matrixGrid.render({ model, el: grid });
    model.on("change:focus", () => {
      this.focus = model.get("focus") ?? null;
      this.#onFocus(this.focus);
    });
    model.on("change:edit", () => this.#model.set("edit", model.get("edit")));
    model.on("change:pastedText", () => this.#model.set("paste", { key, text: model.get("pastedText") ?? "" }));
    const command = (/** @type {"paste" | "remove"} */ action) => () => this.#model.set("command", { key, action });
    const tools =
      cells &&
      h(
        "div",
        { class: "tools" },
        button(t("paste"), command("paste"), { "aria-label": t("Paste {key}", { key }) }),
        key !== "X" && button("×", command("remove"), { "aria-label": t("Remove {key}", { key }) }),
      );
    const kinds = ["panel-box", cells && "given", matrix.is_backward && "gradient"];
    return { model, el: h("li", { class: kinds.filter(Boolean).join(" ") }, grid, tools) };
  }

  /** Draw the lines; a line from an input ends at the weight matrix that multiplies it. */
  connect() {
    const frame = this.#content.getBoundingClientRect();
    const given = this.#given.map(({ matrix }) => matrix.key);
    const paths = this.#steps.flatMap((step) => {
      const weight = step.sources.find((key) => given.includes(key) && !INPUTS.includes(key));
      return step.sources.map((source) => this.#path(frame, source, (INPUTS.includes(source) && weight) || step.key));
    });
    this.#lines.replaceChildren(...paths.filter((path) => path !== null));
  }

  /**
   * @param {DOMRect} frame
   * @param {string} source
   * @param {string} target
   */
  #path(frame, source, target) {
    const [start, end] = [this.#panels.get(source), this.#panels.get(target)];
    const from = start && boxOf(frame, start.el);
    const to = end && boxOf(frame, end.el);
    if (!from || !to) return null;
    const [first, last] = [start.model.get("matrix"), end.model.get("matrix")];
    if (last.is_backward) return backwardPath(from, to, first.is_backward);
    if (to.left < from.right && to.caption >= from.bottom) return downPath(from, to); // in one column
    if (to.left < from.right || to.top > from.bottom + MAX_LINE_HEIGHT) return null;
    const [x1, y1, x2, y2] = [from.right + 5, from.middle, to.headerLeft - 5, to.middle];
    const bend = x2 - x1 > 120 ? 30 : x2 - x1; // a long line bends only near its end
    const d = `M${x1} ${y1}H${x2 - bend}C${x2 - bend / 2} ${y1} ${x2 - bend / 2} ${y2} ${x2} ${y2}`;
    return svg("path", { class: `line ${first.role || last.role}`, d });
  }
}

/**
 * Return the line to a gradient: back from another gradient on its right, or down from a matrix above it.
 * @param {Box} from
 * @param {Box} to
 * @param {boolean} isGradient
 */
function backwardPath(from, to, isGradient) {
  if (isGradient && from.headerLeft >= to.right && from.headerLeft < to.right + MAX_BACKWARD_LENGTH) {
    const [x1, y1, x2, y2] = [from.headerLeft - 5, from.middle, to.right + 5, to.middle];
    const bend = Math.min(x1 - x2, 30);
    const d = `M${x1} ${y1}H${x2 + bend}C${x2 + bend / 2} ${y1} ${x2 + bend / 2} ${y2} ${x2} ${y2}`;
    return svg("path", { class: "line gradient", d });
  }
  if (isGradient || to.top < from.bottom || to.top > from.bottom + MAX_LINE_HEIGHT) return null;
  const [x1, y1, x2, y2] = [from.center, from.bottom + 4, to.center, to.top - 22];
  const d = `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
  return svg("path", { class: "line down", d });
}

/**
 * Return the line to the matrix below another one.
 * @param {Box} from
 * @param {Box} to
 */
function downPath(from, to) {
  const x = Math.min(from.center, to.center);
  return svg("path", { class: "line", d: `M${x} ${from.bottom + 3}V${to.caption - 2}` });
}

/** @typedef {NonNullable<ReturnType<typeof boxOf>>} Box */

/**
 * Return where a matrix's numbers are, and where the names of its rows begin.
 * @param {DOMRect} frame
 * @param {Element} el
 */
function boxOf(frame, el) {
  const body = el.querySelector("tbody")?.getBoundingClientRect();
  const cell = el.querySelector("tbody td")?.getBoundingClientRect();
  if (!body || !cell) return null;
  const top = body.top - frame.top;
  return {
    left: cell.left - frame.left,
    headerLeft: body.left - frame.left,
    right: body.right - frame.left,
    top,
    caption: el.getBoundingClientRect().top - frame.top,
    bottom: top + body.height,
    middle: top + body.height / 2,
    center: (cell.left + body.right) / 2 - frame.left,
  };
}

/**
 * Return each matrix's depth: 0 for steps that read given matrices only; a given matrix is one before its first reader.
 * @param {string[]} given
 * @param {Api.Matrix[]} steps
 */
function depths(given, steps) {
  /** @type {Map<string, number>} */
  const depth = new Map();
  for (const { key, sources } of steps) {
    const previous = sources.flatMap((source) => depth.get(source) ?? []);
    depth.set(key, Math.max(-1, ...previous) + 1);
  }
  const reads = (/** @type {Api.Matrix} */ step, /** @type {string} */ key) =>
    step.sources.includes(key) || (key === "mask" && /(^|\.)masked(\.|$)/.test(step.key));
  /** @type {[string, number][]} */
  const others = given
    .filter((key) => !INPUTS.includes(key))
    .map((key) => {
      const readers = steps.filter((step) => reads(step, key)).map((step) => depth.get(step.key) ?? 0);
      return [key, readers.length ? Math.min(...readers) - 1 : -1];
    });
  const hasFirstWeights = others.some(([key, value]) => value === -1 && steps.some((step) => reads(step, key)));
  for (const [key, value] of others) depth.set(key, value);
  for (const key of given) if (INPUTS.includes(key)) depth.set(key, hasFirstWeights ? -2 : -1);
  return depth;
}
