// @ts-check
// A checked solution: each claimed step beside the exact one, what is wrong, its causes, and what follows from it.

import { legend } from "./colors.js";
import { conventionLine } from "./conventions.js";
import dock from "./dock.js";
import { CellInspector } from "./dock.js";
import { button, formulaBox, h, math, redraw, svg } from "./dom.js";
import { t } from "./language.js";
import matrixGrid from "./matrix.js";
import { Model } from "./model.js";
import { describeGiven } from "./solution.js";

const SIGNS = { right: "✓", rounded: "≈", follows: "↳", wrong: "✗", blank: "?" };
/** @type {() => [string, string, string][]} */
const signs = () => [
  ["wrong", "✗", t("wrong")],
  ["follows", "↳", t("follows from an earlier mistake")],
  ["", "≈", t("differs by rounding only")],
  ["blank", "?", t("left blank")],
];
const hintText = () => t("Hover over a number, or use the arrow keys, to see how it should be computed.");
const editHint = () => ` ${t("Press Enter to change a claimed number.")}`;
const practiceHint = () => t("Press Enter to write a number. Each step has hints.");
const verdictNames = () => ({
  right: t("right"),
  rounded: t("rounded"),
  follows: t("follows"),
  wrong: t("wrong"),
  blank: t("blank"),
});

/** Hints that a step has for one of its numbers. */
export const HINTS_PER_NUMBER = 3;

/**
 * @typedef {object} StepView
 * @property {string} id
 * @property {string} key
 * @property {HTMLElement} el
 * @property {Model<MatrixState>} claimed
 * @property {Model<MatrixState>} exact
 * @property {HTMLElement} chip
 * @property {HTMLElement} exactBox
 * @property {HTMLElement} hints
 * @property {HTMLElement} findingBox
 * @property {boolean} isFolded
 */

export default {
  /**
   * @param {{ model: Model<ReportState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    return new ReportView(model, el).start();
  },
};

class ReportView {
  #model;
  #el;
  /** @type {Map<string, StepView>} */
  #steps = new Map();
  /** @type {Map<string, Model<MatrixState>>} */
  #given = new Map();
  /** @type {Model<DockState>} */
  #dock = new Model({ working: null, message: "" });
  #inspector;
  #verdict = h("div", { class: "verdict", role: "status" });
  #conventions = h("div", { class: "read-as" });
  #givenList = h("div", {});
  #givenNames = h("summary", {});
  #givenBox = h("details", { class: "given-matrices", hidden: true }, this.#givenNames, this.#givenList);
  #source = ""; // the problem whose steps are shown
  #list = h("ol", {});
  #lines = svg("svg", { class: "lines", "aria-hidden": "true" });
  #checkedSteps = h("div", { class: "checked-steps" }, this.#lines, this.#list);
  #openSteps = h("div", { class: "more" });

  /**
   * @param {Model<ReportState>} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.#model = model;
    this.#el = el;
    this.#inspector = new CellInspector(model, el, this.#dock, this.#hint);
  }

  get #hint() {
    if (this.#model.get("practice")) return practiceHint();
    return this.#model.get("claims") ? hintText() + editHint() : hintText();
  }

  start() {
    const model = this.#model;
    const docked = h("div", {});
    this.#el.replaceChildren(
      this.#verdict,
      this.#conventions,
      this.#givenBox,
      this.#checkedSteps,
      this.#openSteps,
      legend(...signs()),
      docked,
    );
    dock.render({ model: this.#dock, el: docked });
    model.on("change:target", () => this.#goTo(model.get("target")));
    model.on("change:hints", () => this.#updateHints());
    model.on("change:data", () => this.#draw());
    this.#draw();
    const observer = new ResizeObserver(() => this.#drawArrows());
    observer.observe(this.#list);
    return () => observer.disconnect();
  }

  #draw() {
    const report = this.#model.get("data");
    if (!report) return;
    const source = JSON.stringify([report.title, report.given.map(({ key, texts }) => [key, texts])]);
    const isNew = source !== this.#source;
    this.#source = source;
    this.#drawVerdict(report);
    this.#inspector.clear();
    this.#drawGiven(report.given);
    if (isNew) this.#givenBox.open = !report.findings.length;
    if (!this.#dock.get("working")) this.#dock.set("message", this.#hint);
    const steps = report.steps.map((step) => this.#step(report, step, isNew));
    this.#steps = new Map(steps.map((step) => [step.id, step]));
    this.#arrange(steps);
    this.#openSteps.replaceChildren(...(this.#model.get("claims") ? this.#openStepButtons(report.open_steps) : []));
    this.#drawArrows();
  }

  /** @param {Api.Report} report */
  #drawVerdict(report) {
    const [first] = report.findings;
    const practice = this.#model.get("practice");
    const isEditable = Boolean(this.#model.get("claims"));
    const goTo = () => this.#goTo(first);
    const cause = first?.causes[0]?.name;
    const { claimed = "", expected = "" } = first ?? {};
    const facts = practice ? claimed : t("{claimed}, but it is {expected}", { claimed, expected });
    redraw(
      this.#verdict,
      verdict(report),
      first &&
        h(
          "span",
          { class: "first-finding" },
          button(first.location, goTo, { class: "goto", data: { control: "first finding" } }),
          `: ${facts}`,
          cause && cause !== "unknown" && [" – ", h("b", {}, cause)],
        ),
    );
    const change = (/** @type {ReportState["convention"]} */ convention) => this.#model.set("convention", convention);
    const line = report.steps.length > 0 && !practice && conventionLine(report, isEditable ? change : null);
    redraw(
      this.#conventions,
      report.steps.length > 0 && h("p", { class: "counts" }, report.summary),
      conditions(report),
      line,
    );
  }

  /**
   * Put the steps in order; right ones that follow each other are folded.
   * @param {StepView[]} steps
   */
  #arrange(steps) {
    const shape = steps.map(({ id, isFolded }) => `${id} ${isFolded}`).join("|");
    if (shape === this.#list.dataset.shape) return;
    this.#list.dataset.shape = shape;
    /** @type {StepView[][]} */
    const runs = [];
    for (const step of steps) {
      const last = runs.at(-1);
      if (last?.[0]?.isFolded && step.isFolded) last.push(step);
      else runs.push([step]);
    }
    this.#list.replaceChildren(...runs.map((run) => (run[0]?.isFolded ? this.#foldedSteps(run) : (run[0]?.el ?? ""))));
  }

  /** @param {StepView[]} steps */
  #foldedSteps(steps) {
    const matrices = steps.map(({ claimed }) => claimed.get("matrix"));
    const count = matrices.reduce((sum, { texts }) => sum + texts.flat().length, 0);
    const names = matrices.map(({ key }) => key).join(" ");
    const summary = h("summary", {}, h("b", {}, "✓ "), t("{names}, {count} numbers", { names, count }));
    return h(
      "li",
      { class: "folded" },
      h(
        "details",
        {},
        summary,
        h(
          "ol",
          {},
          steps.map(({ el }) => el),
        ),
      ),
    );
  }

  /**
   * Draw the given matrices; those that are shown already are only updated.
   * @param {Api.Matrix[]} given
   */
  #drawGiven(given) {
    const isSame = given.length === this.#given.size && given.every(({ key }) => this.#given.has(key));
    if (!isSame) {
      this.#given = new Map(given.map((matrix) => [matrix.key, new Model({ matrix, cells: null })]));
      const boxes = [...this.#given.values()].map((model) => {
        const el = h("div", {});
        matrixGrid.render({ model, el });
        model.on("change:focus", () => this.#inspectGiven(model.get("focus") ?? null));
        return el;
      });
      this.#givenList.replaceChildren(...boxes);
      this.#givenNames.textContent = `${t("Given")}: ${given.map(({ key }) => key).join(" ")}`;
      this.#givenBox.hidden = !given.length;
    }
    for (const matrix of given) this.#given.get(matrix.key)?.set("matrix", matrix);
  }

  /** @param {CellFocus | null} focus */
  #inspectGiven(focus) {
    const given = this.#model.get("data")?.given ?? [];
    this.#inspector.inspect(focus, null, describeGiven(given, focus) ?? this.#hint);
  }

  /** @param {CellFocus | null} focus */
  #inspectStep(focus) {
    const step = focus && this.#model.get("data")?.steps.find(({ claimed }) => claimed.key === focus.key);
    const matrix = this.#model.get("practice") || !step ? null : step.claimed;
    this.#inspector.inspect(focus, matrix, this.#hint);
  }

  /**
   * @param {Api.Matrix[]} open
   * @returns {HTMLElement[]}
   */
  #openStepButtons(open) {
    if (!open.length) return [];
    const add = open.map((step) => button(`+ ${step.name}`, () => this.#model.set("newStep", step)));
    return [h("span", {}, t("Add a step:")), ...add];
  }

  /**
   * @param {Api.Report} report
   * @param {Api.CheckedStep} step
   * @param {boolean} isNew whether the problem is new, and not only a number of it
   */
  #step({ findings, verdict: reportVerdict }, step, isNew) {
    const { claimed, exact, reprint, verdict: name } = step;
    const { key } = claimed;
    const id = `${key} ${reprint} ${claimed.texts.length} ${claimed.formula.text}`; // a new formula is a new heading
    const view = this.#steps.get(id) ?? this.#newStep(id, step);
    const practice = Boolean(this.#model.get("practice"));
    const isThisStep = (/** @type {{ key: string, reprint: number }} */ other) =>
      other.key === key && other.reprint === reprint;
    const first = findings[0];
    view.claimed.set("notes", practice ? null : step.notes);
    view.claimed.set("first", first && isThisStep(first) ? [first.row, first.column] : null);
    view.claimed.set("cells", this.#model.get("claims")?.find(isThisStep)?.cells ?? null);
    view.claimed.set("matrix", claimed);
    view.exact.set("matrix", { ...exact, key: `${key} exact` });
    view.chip.className = `chip is-${name}`;
    view.chip.textContent = `${SIGNS[name]} ${verdictNames()[name]}`;
    view.exactBox.hidden = practice;
    view.hints.hidden = !practice;
    const isRight = name === "right" && reportVerdict === "wrong" && !practice;
    view.isFolded = isRight && (isNew || view.isFolded); // a number that is being corrected stays in view
    const finding = findings.find(isThisStep);
    redraw(view.findingBox, finding && this.#findingCard(finding, finding === first, claimed.texts));
    return view;
  }

  /**
   * @param {Api.Finding} finding
   * @param {boolean} isFirst
   * @param {Cells} claimed
   */
  #findingCard(finding, isFirst, claimed) {
    const goTo = () => this.#goTo(finding);
    return findingCard(finding, isFirst, claimed, Boolean(this.#model.get("practice")), goTo);
  }

  /**
   * @param {string} id
   * @param {Api.CheckedStep} step
   * @returns {StepView}
   */
  #newStep(id, { claimed: claimedMatrix, exact: exactMatrix, reprint }) {
    const { key, formula } = claimedMatrix;
    /** @type {Model<MatrixState>} */
    const claimed = new Model({
      matrix: claimedMatrix,
      cells: null,
      showSigns: true,
      reprint,
      label: t("{name}, as claimed", { name: claimedMatrix.name }),
    });
    /** @type {Model<MatrixState>} */
    const exact = new Model({
      matrix: { ...exactMatrix, key: `${key} exact` },
      cells: null,
      label: t("{name}, exact", { name: exactMatrix.name }),
    });
    const [left, right] = [h("div", { class: "claimed" }), h("div", {})];
    const chip = h("span", { class: "chip" });
    const hints = h("div", { class: "hints" });
    matrixGrid.render({ model: claimed, el: left });
    matrixGrid.render({ model: exact, el: right });
    claimed.on("change:focus", () => this.#inspectStep(claimed.get("focus") ?? null));
    exact.on("change:focus", () => {
      const focus = exact.get("focus");
      this.#inspectStep(focus ? { ...focus, key } : null);
    });
    claimed.on("change:edit", () => {
      const edit = claimed.get("edit");
      if (edit) this.#model.set("edit", { ...edit, reprint });
    });
    claimed.on("change:pastedText", () => {
      this.#model.set("paste", { key, reprint, text: claimed.get("pastedText") ?? "" });
    });
    this.#drawHints(hints, key);
    const exactBox = h("div", {}, h("h3", {}, t("exact")), right);
    const findingBox = h("div", { class: "findings" });
    const el = h(
      "li",
      {},
      h("h2", {}, math(formula), reprint > 0 && h("span", { class: "chip" }, t("repeated")), chip),
      h(
        "div",
        { class: "step-row" },
        h("div", { class: "pair" }, h("div", {}, h("h3", {}, t("claimed")), left), exactBox, hints),
        findingBox,
      ),
    );
    return { id, key, el, claimed, exact, chip, exactBox, hints, findingBox, isFolded: false };
  }

  #updateHints() {
    for (const { key, hints } of this.#steps.values()) {
      const hadFocus = hints.contains(document.activeElement);
      this.#drawHints(hints, key);
      if (hadFocus) hints.querySelector("button")?.focus();
    }
  }

  /**
   * Draw a step's hints so far: the formula, then a cell's working, then its number.
   * @param {HTMLElement} box
   * @param {string} key
   */
  #drawHints(box, key) {
    const hints = this.#model.get("hints")?.[key] ?? [];
    const isLast = hints.length >= HINTS_PER_NUMBER;
    const text = isLast ? t("Hints for the next number") : hints.length ? t("Next hint") : t("Hint");
    const more = button(text, () => this.#model.set("hintRequest", key), { "aria-label": `${text}: ${key}` });
    box.replaceChildren(h("h3", {}, t("hints")), ...hints.map((hint) => h("div", {}, math(hint))), more);
  }

  /** @param {ClaimCell | undefined} cell */
  #goTo(cell) {
    const figures = /** @type {HTMLElement[]} */ ([...this.#list.querySelectorAll(".claimed figure.matrix")]);
    const figure = figures.find(
      ({ dataset }) => dataset.key === cell?.key && Number(dataset.reprint) === cell?.reprint,
    );
    const selector = `td[data-row="${cell?.row}"][data-column="${cell?.column}"]`;
    /** @type {HTMLElement | null | undefined} */ (figure?.querySelector(selector))?.focus();
  }

  #drawArrows() {
    const links = this.#model.get("data")?.links ?? [];
    const arrows = links.map((link, k) => arrow(this.#checkedSteps, link, k / links.length));
    this.#lines.replaceChildren(...arrows.filter((drawn) => drawn !== null));
  }
}

/** @param {Api.Report} report */
function verdict({ steps, counts, verdict: name }) {
  if (!steps.length) return [];
  const texts = {
    wrong: t("✗ Wrong"),
    blank: t("Nothing to check yet"),
    right: counts.blank ? t("✓ Right so far") : t("✓ Right"),
  };
  const classes = { wrong: "is-wrong", blank: "", right: "is-right" };
  return [h("b", { class: classes[name] }, texts[name])];
}

/**
 * Return the condition of the verdict, and what it does not cover.
 * @param {Api.Report} report
 */
function conditions({ assumption, notes }) {
  const texts = [...(assumption ? [t("if {assumption}", { assumption })] : []), ...notes];
  return texts.map((text) => h("p", { class: "condition" }, text));
}

/**
 * Return the first wrong number of a step and its possible causes, the most likely first.
 * @param {Api.Finding} finding
 * @param {boolean} isFirst
 * @param {Cells} claimed
 * @param {boolean} practice
 * @param {() => void} goTo
 */
function findingCard(finding, isFirst, claimed, practice, goTo) {
  const title = isFirst ? t("The first wrong number") : t("Another wrong number");
  /** @type {[string, Child][]} */
  const facts = [[t("claimed"), finding.claimed]];
  if (!practice) {
    if (finding.follow_through === null) facts.push([t("expected"), finding.expected]);
    else {
      const carried = t("{number} from the numbers before it", { number: finding.follow_through });
      facts.push([t("expected"), carried], [t("exact"), finding.expected]);
    }
    facts.push([t("working"), formulaBox(finding.working)]);
  }
  // A cause that is not known has no share; in practice its description would give the answer away.
  const unknown = practice ? t(": no known mistake explains this") : "";
  const causes = finding.causes.map((cause) =>
    h(
      "li",
      {},
      h("code", {}, cause.name),
      cause.explained_share ? t(" (explains {share} of the wrong numbers)", { share: cause.explained_share }) : unknown,
      !practice && [
        ": ",
        cause.description,
        cause.resulting_cells && causeMatrix(cause, cause.resulting_cells, claimed),
      ],
    ),
  );
  return h(
    "section",
    { class: "finding", "aria-label": `${title}: ${finding.location}` },
    h("h2", {}, title),
    h("p", {}, button(finding.location + (finding.reprint ? t(", repeated") : ""), goTo, { class: "goto" })),
    h(
      "dl",
      {},
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
    h("ol", { class: "causes", "aria-label": t("Possible causes") }, causes),
  );
}

/**
 * Return the step as a mistake would give it; cells that equal the claim are outlined.
 * @param {Api.Cause} cause
 * @param {Cells} rows
 * @param {Cells} claimed
 */
function causeMatrix(cause, rows, claimed) {
  const cell = (
    /** @type {string} */ text,
    /** @type {number} */ i,
    /** @type {number} */ j,
    /** @type {number} */ n,
  ) =>
    h(
      "td",
      { class: `${j ? "" : "open"} ${j === n - 1 ? "close" : ""} ${isClose(text, claimed[i]?.[j]) ? "same" : ""}` },
      h("span", { class: `v ${cause.colors?.[i]?.[j]}` }, text),
    );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "cause-matrix" },
      h("caption", {}, t("result of this mistake; outlined cells match the claim")),
      h(
        "tbody",
        {},
        rows.map((row, i) =>
          h(
            "tr",
            {},
            row.map((text, j) => cell(text, i, j, row.length)),
          ),
        ),
      ),
    ),
  );
}

/**
 * Return whether two numbers agree to the decimals of the shorter one.
 * @param {string} text
 * @param {string | undefined} claimed
 */
function isClose(text, claimed) {
  if (claimed === undefined || claimed === "?") return false;
  const decimals = Math.min(...[text, claimed].map((number) => number.split(/[.,]/)[1]?.length ?? 0));
  const value = (/** @type {string} */ number) => Number(number.replace("−", "-").replace(",", "."));
  return text === claimed || Math.abs(value(text) - value(claimed)) <= 0.5001 * 10 ** -decimals;
}

/**
 * Return an arrow along the left edge, from a wrong number to what follows from it.
 * @param {Element} box
 * @param {Api.ErrorLink} link
 * @param {number} lane from 0 to 1: how far to the left
 */
function arrow(box, { source, cell, target, first, count }, lane) {
  const frame = box.getBoundingClientRect();
  const [from, to] = [rowBox(box, source, cell[0]), rowBox(box, target, first[0])];
  if (!from?.height || !to?.height) return null; // a folded step
  const [x1, y1] = [from.left - frame.left - 4, from.top - frame.top + from.height / 2];
  const [x2, y2] = [to.left - frame.left - 6, to.top - frame.top + to.height / 2];
  const x = Math.max(2, Math.min(x1, x2) - 18 - 26 * lane);
  const d = `M${x1} ${y1}C${x} ${y1} ${x} ${y1} ${x} ${y1 + 14}V${y2 - 14}C${x} ${y2} ${x} ${y2} ${x2 - 6} ${y2}`;
  return svg(
    "g",
    { data: { from: source, to: target } },
    svg(
      "title",
      {},
      t("numbers of {target} that follow from the mistake in {source}: {count}", { target, source, count }),
    ),
    svg("path", { class: "arrow", d }),
    svg("circle", { class: "arrow-head", cx: x1, cy: y1, r: 3 }),
    svg("path", { class: "arrow-head", d: `M${x2 + 1} ${y2}l-8 -4.5v9z` }),
  );
}

/**
 * @param {Element} box
 * @param {string} key
 * @param {number} row
 */
function rowBox(box, key, row) {
  const figures = /** @type {HTMLElement[]} */ ([...box.querySelectorAll(".claimed figure.matrix")]);
  const figure = figures.find(({ dataset }) => dataset.key === key);
  return figure?.querySelectorAll("tbody tr")[row]?.getBoundingClientRect();
}
