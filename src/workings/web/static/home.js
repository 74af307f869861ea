// @ts-check
// The screen Home: one number of attention being explained, and three ways to begin.

import { button, h } from "./dom.js";
import { t } from "./language.js";
import { Model } from "./model.js";
import { lectureList } from "./problem_controls.js";
import { API, fetchJson, messageOf } from "./request.js";
import solution from "./solution.js";
import { FIRST_PROBLEM } from "./store.js";
/** @import { Store } from "./store.js" */

/** The cells that are explained one after the other: how much "cat" attends to "sat". */
const TOUR = ["scores", "scaled", "weights"].map((key) => ({ key, row: 1, column: 2 }));
const TOUR_STEPS = ["Q", "K", "scores", "scaled", "weights"];
const TOUR_STEP = 3500; // milliseconds
const DECIMALS = 2; // so that all steps fit side by side
const WRONG_LECTURE = "L2-self";

export default {
  /**
   * @param {{ store: Store, el: HTMLElement, runs: Api.Run[] }} options
   * @returns {Dispose}
   */
  render({ store, el, runs }) {
    const status = h("p", { class: "status", role: "alert" });
    const showError = (/** @type {unknown} */ error) => {
      status.textContent = messageOf(error);
    };
    const open = (/** @type {string} */ screen, /** @type {Api.Table} */ table) => {
      store.changeProblem((problem) => Object.assign(problem, { table }));
      location.hash = `#${screen}`;
    };
    const tour = new Tour(showError);
    el.replaceChildren(
      h(
        "div",
        { class: "hero" },
        h(
          "div",
          {},
          h("h1", {}, t("See every number of attention — and find the wrong one")),
          h(
            "p",
            { class: "lead" },
            t("Work an example down to one cell, check a solution, or look inside a model that you trained."),
            " ",
            t("Point at any number to see it written out."),
          ),
        ),
        tour.el,
      ),
      h("div", { class: "cards" }, workCard(open, showError), checkCard(store, open, showError), inspectCard(runs)),
      status,
    );
    return tour.start();
  },
};

/** A small problem whose cells are explained one after the other, until the user points at one. */
class Tour {
  #index = -1;
  #timer = 0;
  #isPlaying = false;
  #showError;
  /** @type {Model<SolutionState>} */
  #model = new Model({ data: null });
  #content = h("div", { class: "tour-steps" }, h("p", { class: "hint" }, t("Solving an example…")));
  #toggle = button(t("Pause"), () => (this.#isPlaying ? this.#stop() : this.#play()), {
    class: "tour-toggle",
    hidden: true,
  });
  el = h("section", { class: "tour", "aria-label": t("One number explained") }, this.#content, this.#toggle);

  /** @param {(error: unknown) => void} showError */
  constructor(showError) {
    this.#showError = showError;
  }

  start() {
    const request = { table: FIRST_PROBLEM.table, decimals: DECIMALS };
    /** @type {Dispose} */
    let dispose = () => {};
    fetchJson(API.solve, request).then((/** @type {Api.Solution} */ answer) => {
      if (!this.el.isConnected) return; // another screen is open
      dispose = solution.render({ model: this.#model, el: this.#content });
      const steps = answer.steps.filter(({ key }) => TOUR_STEPS.includes(key));
      this.#model.set("data", { ...answer, given: [], steps });
      this.#toggle.hidden = false;
      this.#play();
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) this.#stop();
    }, this.#showError);
    this.#model.on("change:requested_cell", () => {
      fetchJson(API.cell, { ...request, ...this.#model.get("requested_cell") }).then(
        (working) => this.#model.set("working", working),
        this.#showError,
      );
    });
    for (const event of ["pointerover", "focusin"])
      this.#content.addEventListener(event, (/** @type {Event} */ { target }) => {
        if (/** @type {Element} */ (target).closest("td[data-row]")) this.#stop();
      });
    return () => {
      clearTimeout(this.#timer);
      dispose();
    };
  }

  #play() {
    this.#isPlaying = true;
    this.#toggle.textContent = t("Pause");
    this.#index = (this.#index + 1) % TOUR.length;
    this.#model.set("spotlight", TOUR[this.#index] ?? null);
    this.#timer = setTimeout(() => this.#play(), TOUR_STEP);
  }

  #stop() {
    this.#isPlaying = false;
    this.#toggle.textContent = t("Play");
    clearTimeout(this.#timer);
  }
}

/** @typedef {(screen: string, table: Api.Table) => void} OpenTable */

/**
 * @param {OpenTable} open
 * @param {(error: unknown) => void} showError
 */
function workCard(open, showError) {
  return card(
    t("Work an example"),
    t("Attention, an LSTM, a gradient, a beam search: enter numbers, and see every step with its formula."),
    h(
      "div",
      { class: "actions" },
      h("a", { class: "button main", href: "#work" }, t("Self-attention of three tokens")),
      lectureList((table) => open("work", table), showError),
    ),
  );
}

/**
 * @param {Store} store
 * @param {OpenTable} open
 * @param {(error: unknown) => void} showError
 */
function checkCard(store, open, showError) {
  const text = h("textarea", {
    rows: "3",
    spellcheck: "false",
    "aria-label": t("A worked solution"),
    placeholder: "X = [[1, 0], [0, 2]]\nweights = …",
  });
  const check = () => {
    if (!text.value.trim()) return text.focus();
    store.giveDocument({ text: text.value });
    location.hash = "#check";
  };
  const openLecture = () => fetchJson(API.lecture(WRONG_LECTURE)).then((table) => open("check", table), showError);
  return card(
    t("Check my solution"),
    t("Paste a slide, homework or a printed array anywhere on this page (Ctrl+V), or drop a file."),
    text,
    h(
      "div",
      { class: "actions" },
      button(t("Check it"), check, { class: "main" }),
      button(t("This published slide has a wrong number. Can you find it?"), openLecture, { class: "plain" }),
    ),
  );
}

/** @param {Api.Run[]} runs */
function inspectCard(runs) {
  const link = (/** @type {Api.Run} */ { name, title }) =>
    h("li", {}, h("a", { href: `#inspect?run=${encodeURIComponent(name)}` }, title || name));
  const commands = "workings train emoji-french\nworkings serve runs/emoji-french";
  return card(
    t("Look inside a model"),
    t(
      "Where each head attends, what changes without it, and any attention weight " +
        "derived from the model's own numbers.",
    ),
    runs.length > 0
      ? h("ul", { class: "runs" }, runs.map(link))
      : [h("p", { class: "hint" }, t("No run is open. Train one, in about a minute:")), h("pre", {}, commands)],
  );
}

/**
 * @param {string} title
 * @param {string} text
 * @param {...Child} children
 */
function card(title, text, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), h("p", {}, text), children);
}
