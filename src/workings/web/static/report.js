// A worked solution, judged: each claimed step beside the exact one, what is wrong and what follows.
//
// In:  told (as Python tells it), claims ([{key, again, cells}] that may be changed), practice (true: give
//      nothing away), hints ({key: formulas}), wanted {key, again, row, column} (a cell to go to), working.
// Out: asked {key, row, column}, edited {key, again, row, column, text, done}, pasted {key, again, text},
//      begun (a step that is to be claimed), helped (key of a step: another hint, or after three the next number's).

import { arrows } from "./arrows.js";
import dock from "./dock.js";
import { button, h, svg } from "./dom.js";
import finding from "./finding.js";
import { legend } from "./legend.js";
import { Looking } from "./looking.js";
import { math } from "./math.js";
import matrix from "./matrix.js";
import { Model } from "./model.js";

const SIGNS = { right: "✓", rounded: "≈", follows: "↳", wrong: "✗", blank: "?" };
const LEGEND = [["wrong", "✗", "wrong"], ["follows", "↳", "follows from a wrong number"], ["", "≈", "off by rounding"], ["blank", "?", "left blank"]];
const HINT = "Point at a number, or walk with the arrow keys, to see what it should be.";
const CHANGE = " Enter changes a claimed one.";
const PRACTICE = "Enter writes a number. A hint can be had beside each step.";
const MOST_HINTS = 3;

export default {
  render({ model, el }) {
    return new Report(model, el).start();
  },
};

class Report {
  #model;
  #el;
  #steps = new Map();
  #found = new Model({ findings: [], claimed: {} });
  #looking;
  #cell = new Model({ working: null, said: "" });
  #given = new Map();
  #givens = h("div", {});
  #verdict = h("div", { class: "verdict", role: "status" });
  #list = h("ol", {});
  #lines = svg("svg", { class: "lines", "aria-hidden": "true" });
  #judged = h("div", { class: "judged" }, this.#lines, this.#list);
  #open = h("div", { class: "more" });

  constructor(model, el) {
    this.#model = model;
    this.#el = el;
  }

  get #hint() {
    if (this.#model.get("practice")) return PRACTICE;
    return this.#model.get("claims") ? HINT + CHANGE : HINT;
  }

  start() {
    const model = this.#model;
    const [found, docked] = [h("div", {}), h("div", {})];
    this.#looking = new Looking(model, this.#el, this.#cell, this.#hint);
    const given = h("section", { class: "given-all", "aria-label": "Given" }, h("h2", {}, "Given"), this.#givens);
    this.#el.replaceChildren(this.#verdict, given, h("div", { class: "beside" }, h("div", {}, this.#judged, this.#open), found), legend(...LEGEND), docked);
    finding.render({ model: this.#found, el: found });
    dock.render({ model: this.#cell, el: docked });
    this.#found.on("change:wanted", () => this.#goto(this.#found.get("wanted")));
    model.on("change:wanted", () => this.#goto(model.get("wanted")));
    model.on("change:hints", () => this.#helped());
    model.on("change:told", () => this.#draw());
    if (model.get("told")) this.#draw();
    const watch = new ResizeObserver(() => this.#arrows());
    watch.observe(this.#list);
    return () => watch.disconnect();
  }

  #draw() {
    const report = this.#model.get("told");
    this.#verdict.replaceChildren(...verdict(report));
    this.#found.set("claimed", Object.fromEntries(report.steps.map((step) => [`${step.claimed.key} ${step.again}`, step.claimed.texts])));
    this.#found.set("practice", this.#model.get("practice"));
    this.#found.set("findings", report.findings);
    this.#looking.forget();
    this.#drawGiven(report.given);
    if (!this.#cell.get("working")) this.#cell.set("said", this.#hint);
    const shown = report.steps.map((step) => this.#step(report, step));
    const keys = new Set(shown.map((item) => item.name));
    for (const name of this.#steps.keys()) if (!keys.has(name)) this.#steps.delete(name);
    if (shown.some(({ el }, k) => this.#list.children[k] !== el) || this.#list.children.length !== shown.length)
      this.#list.replaceChildren(...shown.map(({ el }) => el));
    this.#open.replaceChildren(...(this.#model.get("claims") ? this.#openSteps(report.open) : []));
    this.#arrows();
  }

  // What the claims start from; the matrices that are there already are filled anew.
  #drawGiven(given) {
    const same = given.length === this.#given.size && given.every(({ key }) => this.#given.has(key));
    if (!same) {
      this.#given = new Map(given.map((one) => [one.key, new Model({ matrix: one, cells: null })]));
      this.#givens.replaceChildren(...[...this.#given.values()].map((model) => {
        const box = h("div", {});
        matrix.render({ model, el: box });
        model.on("change:focus", () => this.#lookAtGiven(model));
        return box;
      }));
    }
    for (const one of given) this.#given.get(one.key).set("matrix", one);
  }

  #lookAtGiven(model) {
    const focus = model.get("focus");
    const text = model.get("matrix").texts[focus?.row]?.[focus?.column];
    this.#looking.look(focus, null, text ? `${focus.key}[${focus.row + 1},${focus.column + 1}] = ${text}, given.` : this.#hint);
  }

  #openSteps(open) {
    if (!open.length) return [];
    return [h("span", {}, "Not claimed; write down:"), ...open.map((step) => button(`+ ${step.name}`, () => this.#model.set("begun", step)))];
  }

  #step(report, step) {
    const { key } = step.claimed;
    const name = `${key} ${step.again} ${step.claimed.texts.length} ${step.claimed.formula.text}`;  // what its heading says, too
    const known = this.#steps.get(name) ?? this.#newStep(name, step);
    const practice = Boolean(this.#model.get("practice"));
    const same = (one) => one.key === key && one.again === step.again;
    const first = report.findings.find(same);
    known.claimed.set("notes", practice ? null : step.notes);
    known.claimed.set("first", first && first === report.findings[0] ? [first.row, first.column] : null);
    known.claimed.set("cells", this.#model.get("claims")?.find(same)?.cells ?? null);
    known.claimed.set("matrix", step.claimed);
    known.exact.set("matrix", { ...step.exact, key: `${key} exact` });
    known.chip.className = `chip is-${step.verdict}`;
    known.chip.textContent = `${SIGNS[step.verdict]} ${step.verdict}`;
    known.exactBox.hidden = practice;
    known.hints.hidden = !practice;
    return known;
  }

  #newStep(name, step) {
    const { key } = step.claimed;
    const { again } = step;
    const claimed = new Model({ matrix: step.claimed, cells: null, signs: true, again, label: `${step.claimed.name}, as claimed` });
    const exact = new Model({ matrix: { ...step.exact, key: `${key} exact` }, cells: null, label: `${step.exact.name}, exact` });
    const [left, right, chip, hints] = [h("div", { class: "claimed" }), h("div", {}), h("span", { class: "chip" }), h("div", { class: "hints" })];
    matrix.render({ model: claimed, el: left });
    matrix.render({ model: exact, el: right });
    claimed.on("change:focus", () => this.#look(claimed.get("focus")));
    exact.on("change:focus", () => this.#look(exact.get("focus") && { ...exact.get("focus"), key }));
    claimed.on("change:edited", () => this.#model.set("edited", { key, again, ...claimed.get("edited") }));
    claimed.on("change:pasted", () => this.#model.set("pasted", { key, again, text: claimed.get("pasted") }));
    this.#drawHints(hints, key);
    const exactBox = h("div", {}, h("h3", {}, "exact"), right);
    const el = h("li", {}, h("h2", {}, math(step.claimed.formula), again ? h("span", { class: "chip" }, "printed again") : null, chip),
      h("div", { class: "pair" }, h("div", {}, h("h3", {}, "claimed"), left), exactBox, hints));
    const made = { name, key, el, claimed, exact, chip, exactBox, hints };
    this.#steps.set(name, made);
    return made;
  }

  #helped() {
    for (const { key, hints } of this.#steps.values()) {
      const inside = hints.contains(document.activeElement);
      this.#drawHints(hints, key);
      if (inside) hints.querySelector("button")?.focus();
    }
  }

  // Help a step at a time: the formula, then a cell's working, then its number.
  #drawHints(box, key) {
    const told = this.#model.get("hints")?.[key] ?? [];
    const words = told.length ? "Another hint" : "A hint";
    const more = (text, label) => button(text, () => this.#model.set("helped", key), { "aria-label": label });
    box.replaceChildren(h("h3", {}, "hints"), ...told.map((help) => h("div", {}, math(help))), told.length < MOST_HINTS
      ? more(words, `${words} for ${key}`) : more("For the next number", `Hints for the next number of ${key}`));
  }

  #look(focus) {
    const step = focus && this.#model.get("told").steps.find((one) => one.claimed.key === focus.key);
    this.#looking.look(focus, this.#model.get("practice") ? null : step?.claimed, this.#hint);
  }

  #goto({ key, again, row, column }) {
    const figure = [...this.#list.querySelectorAll(".claimed figure.matrix")].find((one) => one.dataset.key === key && Number(one.dataset.again) === again);
    figure?.querySelector(`td[data-row="${row}"][data-column="${column}"]`)?.focus();
  }

  #arrows() {
    if (this.#model.get("told")) arrows(this.#judged, this.#lines, this.#model.get("told").links);
  }
}

function verdict({ steps, counts, verdict: said }) {
  if (!steps.length) return [];
  const wrong = said === "wrong";
  const words = wrong ? "✗ Wrong" : counts.blank && !counts.wrong ? "✓ Right so far" : "✓ Right";
  const counted = Object.entries(counts).filter(([, n]) => n).map(([name, n]) => `${n} ${name}`).join(", ");
  return [h("b", { class: wrong ? "is-wrong" : "is-right" }, words), h("span", { class: "counts" }, counted)];
}
