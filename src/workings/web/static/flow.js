// Matrices from left to right: what is given, then a stage for each step of depth, and lines from
// what a step reads.
//
// In:  givens ({matrix, cells}: to be changed), steps (matrices, as the server tells them).
// Out: focus {key, row, column}, edited {key, row, column, text, done}, pasted {key, text},
//      wanted {key, what} (what: paste, remove).

import { button, h, svg } from "./dom.js";
import matrix from "./matrix.js";
import { Model } from "./model.js";

const INPUTS = ["X", "context"];

export default {
  render({ model, el }) {
    const flow = new Flow(model, el);
    model.on("change:steps", () => flow.draw());
    const watch = new ResizeObserver(() => flow.connect());
    watch.observe(el);
    return () => watch.disconnect();
  },
};

class Flow {
  #model;
  #el;
  #shape = "";
  #panels = new Map();
  #lines = svg("svg", { class: "lines", "aria-hidden": "true" });

  constructor(model, el) {
    this.#model = model;
    this.#el = el;
    el.classList.add("flow");
  }

  draw() {
    const [givens, steps] = [this.#model.get("givens"), this.#model.get("steps")];
    const shape = JSON.stringify([givens.map(({ matrix: given }) => given.key), steps.map((step) => [step.key, step.sources])]);
    if (shape !== this.#shape) this.#build(givens, steps);
    else for (const { matrix: shown, cells } of [...givens, ...steps.map((step) => ({ matrix: step, cells: null }))]) {
      const { model } = this.#panels.get(shown.key);
      model.set("cells", cells);
      model.set("matrix", shown);
    }
    this.#shape = shape;
    this.connect();
  }

  #build(givens, steps) {
    const before = this.#panels;
    this.#panels = new Map();
    const depth = depths(givens, steps);
    const first = Math.min(...depth.values());
    const stages = [];
    for (const { matrix: shown, cells } of [...givens, ...steps.map((step) => ({ matrix: step, cells: null }))]) {
      const panel = before.get(shown.key) ?? this.#panel(shown, cells);
      panel.model.set("cells", cells);
      panel.model.set("matrix", shown);
      this.#panels.set(shown.key, panel);
      (stages[depth.get(shown.key) - first] ??= []).push(panel.el);
    }
    this.#el.replaceChildren(this.#lines, ...stages.filter(Boolean).map((panels) => h("ol", { class: "stage" }, panels)));
  }

  #panel(shown, cells) {
    const { key } = shown;
    const model = new Model({ matrix: shown, cells });
    const inside = h("div", {});
    matrix.render({ model, el: inside });
    model.on("change:focus", () => this.#model.set("focus", model.get("focus")));
    model.on("change:edited", () => this.#model.set("edited", { key, ...model.get("edited") }));
    model.on("change:pasted", () => this.#model.set("pasted", { key, text: model.get("pasted") }));
    const want = (what) => () => this.#model.set("wanted", { key, what });
    const tools = cells && h("div", { class: "tools" }, button("paste", want("paste"), { "aria-label": `Paste ${key}` }),
      key === "X" ? null : button("×", want("remove"), { "aria-label": `Leave ${key} out` }));
    return { model, el: h("li", { class: cells ? "panel-box given" : "panel-box" }, inside, tools) };
  }

  connect() {
    const frame = this.#el.getBoundingClientRect();
    const givens = this.#model.get("givens").map(({ matrix: given }) => given.key);
    const paths = [];
    for (const step of this.#model.get("steps")) {
      const weight = step.sources.find((key) => givens.includes(key) && !INPUTS.includes(key));
      for (const source of step.sources)
        paths.push(this.#path(frame, source, weight && INPUTS.includes(source) ? weight : step.key));
    }
    this.#lines.replaceChildren(...paths.filter(Boolean));
  }

  #path(frame, source, target) {
    const [one, other] = [this.#panels.get(source), this.#panels.get(target)];
    const [from, to] = [one, other].map((panel) => panel && box(frame, panel.el));
    if (!from || !to || to.left < from.right || to.top > from.low + 600) return null;
    const [x1, y1, x2, y2] = [from.right + 5, from.middle, to.side - 5, to.middle];
    const bend = x2 - x1 > 120 ? 30 : x2 - x1;  // a long line turns only where nothing else is
    const role = one.model.get("matrix").role || other.model.get("matrix").role;
    const d = `M${x1} ${y1}H${x2 - bend}C${x2 - bend / 2} ${y1} ${x2 - bend / 2} ${y2} ${x2} ${y2}`;
    return svg("path", { class: `line ${role}`, d });
  }
}

// Where the matrix itself is, and where the names of its rows begin.
function box(frame, el) {
  const body = el.querySelector("tbody")?.getBoundingClientRect();
  const cell = el.querySelector("tbody td")?.getBoundingClientRect();
  if (!body || !cell) return null;
  const top = body.top - frame.top;
  return {
    left: cell.left - frame.left, side: body.left - frame.left, right: body.right - frame.left,
    top, low: top + body.height, middle: top + body.height / 2,
  };
}

// How many steps a matrix is away from Q, K and V; what is given stands before what reads it.
function depths(givens, steps) {
  const found = new Map();
  for (const step of steps) {
    const before = step.sources.filter((key) => found.has(key)).map((key) => found.get(key) + 1);
    found.set(step.key, Math.max(0, ...before));
  }
  const readers = (key) => steps.filter((step) => step.sources.includes(key) || (key === "mask" && /(^|\.)masked(\.|$)/.test(step.key)));
  const given = givens.map(({ matrix: shown }) => shown.key);
  const others = given.filter((key) => !INPUTS.includes(key)).map((key) => [key, Math.min(...readers(key).map((step) => found.get(step.key)), 99) - 1]);
  const inputs = others.some(([, depth]) => depth === -1) ? -2 : -1;
  for (const [key, depth] of others) found.set(key, depth === 98 ? -1 : depth);
  for (const key of given.filter((name) => INPUTS.includes(name))) found.set(key, inputs);
  return found;
}
