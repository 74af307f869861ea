// @ts-check
// The screen Train: a run's curves while it trains, its samples, recipe and report.

import { chart, dataTable } from "./charts.js";
import { clamp, h, setText } from "./dom.js";
import { Model } from "./model.js";
import { API, Query } from "./request.js";
import { findRun, noRuns, runList } from "./run_inputs.js";
/** @import { Store } from "./store.js" */

const RUNNING_INTERVAL = 1000; // milliseconds between two requests while a run trains
const IDLE_INTERVAL = 5000; // and when it has finished, or after an error
const SPOKEN_INTERVAL = 30_000; // between two lines for screen readers
/** @type {Record<string, string>} */
const STATES = { waiting: "not started", training: "training", quiet: "no new output", finished: "finished" };

export default {
  /**
   * @param {{ store: Store, el: HTMLElement, runs: Api.Run[] }} options
   * @returns {Dispose}
   */
  render({ store, el, runs }) {
    if (runs.length) return new Train(store, el, runs).start();
    el.replaceChildren(h("h1", { class: "unseen" }, "Training"), noRuns());
    return () => {};
  },
};

class Train {
  #store;
  #el;
  #runs;
  #runList;
  #run = "";
  /** @type {Map<string, { model: Model<{ chart: Api.Chart }>, el: HTMLElement }>} */
  #charts = new Map();
  #version = -1; // of the curves that are shown
  #width = 0; // of a chart, in pixels
  #timer = 0;
  #spoken = { state: "", time: 0 };
  #resize = new ResizeObserver(() => this.#measure());
  #trainingQuery;
  #recipeQuery;

  #state = h("span", { class: "state" });
  #summary = h("p", { class: "training-summary" });
  #live = h("p", { class: "unseen", role: "status" });
  #progress = h("progress", { max: "1", "aria-label": "Progress of the training" });
  #facts = h("dl", { class: "facts" });
  #status = h("p", { class: "status", role: "alert" });
  #chartGrid = h("div", { class: "charts" });
  #metrics = scrollBox("Current and best metrics");
  #result = h("dl", { class: "facts small" });
  #samples = h("div", { class: "samples" });
  #recipe = h("div", { class: "recipe" });
  #environment = scrollBox("Environment");
  #report = h("div", { class: "report" });
  #resultSection = section("Result", this.#result);
  #sampleSection = section("Samples", this.#samples);
  #reportSection = section("Report", this.#report);

  /**
   * @param {Store} store
   * @param {HTMLElement} el
   * @param {Api.Run[]} runs
   */
  constructor(store, el, runs) {
    this.#store = store;
    this.#el = el;
    this.#runs = runs;
    this.#runList = runList(runs, (run) => store.changeView("train", { run }));
    const poll = (/** @type {number} */ interval) => {
      this.#timer = setTimeout(() => this.#ask(), interval);
    };
    /** @type {Query<Api.Training>} */
    this.#trainingQuery = new Query({
      onAnswer: (training) => {
        this.#showTraining(training);
        setText(this.#status, "");
        poll(training.state === "finished" ? IDLE_INTERVAL : RUNNING_INTERVAL);
      },
      onError: (message) => {
        setText(this.#status, message);
        poll(IDLE_INTERVAL);
      },
    });
    /** @type {Query<Api.Recipe>} */
    this.#recipeQuery = new Query({
      onAnswer: (recipe) => this.#showRecipe(recipe),
      onError: (message) => setText(this.#status, message),
    });
  }

  start() {
    const onVisible = () => this.#ask();
    const update = () => {
      const { run } = this.#store.view("train");
      const { name } = findRun(this.#runs, run);
      this.#runList.show(run);
      if (name !== this.#run) this.#open(name);
    };
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Training"),
      h("div", { class: "bar-top" }, this.#runList.el, this.#state, this.#summary),
      this.#live,
      this.#progress,
      this.#facts,
      this.#status,
      section("Curves", this.#chartGrid),
      h("div", { class: "halves" }, section("Metrics", this.#metrics), this.#resultSection, this.#sampleSection),
      section(
        "Recipe",
        h("details", { class: "data-table" }, h("summary", {}, "Settings and their defaults"), this.#recipe),
        h("details", { class: "data-table" }, h("summary", {}, "Environment"), this.#environment),
      ),
      this.#reportSection,
    );
    const endListening = this.#store.listen(update);
    document.addEventListener("visibilitychange", onVisible);
    this.#resize.observe(this.#chartGrid);
    update();
    return () => {
      endListening();
      document.removeEventListener("visibilitychange", onVisible);
      this.#resize.disconnect();
      clearTimeout(this.#timer);
      this.#trainingQuery.cancel();
      this.#recipeQuery.cancel();
    };
  }

  /**
   * Show another run.
   * @param {string} name
   */
  #open(name) {
    const parts = [this.#facts, this.#chartGrid, this.#metrics, this.#result, this.#samples];
    for (const part of [...parts, this.#recipe, this.#environment, this.#report]) part.replaceChildren();
    for (const part of [this.#resultSection, this.#sampleSection, this.#reportSection]) part.hidden = true;
    this.#run = name;
    this.#version = -1;
    this.#charts.clear();
    this.#progress.removeAttribute("value");
    this.#recipeQuery.ask(API.recipe(name));
    this.#ask();
  }

  /** Ask for charts of the width that they have: text in a scaled drawing is too small. */
  #measure() {
    const column = parseFloat(getComputedStyle(this.#chartGrid).gridTemplateColumns);
    const width = clamp(Math.floor(column / 10) * 10, 240, 640);
    if (!column || width === this.#width) return;
    this.#width = width;
    this.#version = -1;
    this.#ask();
  }

  #ask() {
    clearTimeout(this.#timer);
    if (document.hidden || !this.#width || !this.#run) return;
    this.#trainingQuery.ask(API.training(this.#run, this.#version, this.#width));
  }

  /** @param {Api.Training} training */
  #showTraining({ state, summary, progress, facts, revision, curves, has_report: hasReport }) {
    this.#state.className = `state is-${state}`;
    setText(this.#state, STATES[state] ?? state);
    setText(this.#summary, summary);
    this.#announce(state, summary);
    this.#progress.value = progress;
    showFacts(this.#facts, facts);
    this.#version = revision;
    if (curves) this.#showCurves(curves);
    this.#showReport(hasReport);
  }

  /**
   * Announce progress to screen readers, at most every 30 seconds unless the state changes.
   * @param {string} state
   * @param {string} summary
   */
  #announce(state, summary) {
    if (state === this.#spoken.state && Date.now() - this.#spoken.time < SPOKEN_INTERVAL) return;
    if (summary !== this.#live.textContent) this.#spoken = { state, time: Date.now() };
    setText(this.#live, summary);
  }

  /** @param {Api.Curves} curves */
  #showCurves({ charts, metrics, samples, result }) {
    const elements = charts.map((data) => this.#chart(data));
    const shown = this.#chartGrid.children;
    if (!elements.length) {
      const message = "The curves begin with the first line of the log.";
      this.#chartGrid.replaceChildren(h("p", { class: "empty" }, message));
    } else if (elements.length !== shown.length || elements.some((el, k) => el !== shown[k])) {
      this.#chartGrid.replaceChildren(...elements);
    }
    updateChildren(this.#metrics, [dataTable(metrics)]);
    showFacts(this.#result, result);
    this.#resultSection.hidden = !this.#result.childElementCount;
    const figures = samples.map(([epoch, text]) =>
      h(
        "figure",
        {},
        h("figcaption", {}, `after epoch ${epoch}`),
        h("pre", { tabindex: "0", dir: "auto", "aria-label": `Sample after epoch ${epoch}` }, text),
      ),
    );
    updateChildren(this.#samples, figures);
    this.#sampleSection.hidden = !samples.length;
  }

  /**
   * Return the chart of this title, with new data.
   * @param {Api.Chart} data
   */
  #chart(data) {
    const known = this.#charts.get(data.title);
    if (known) {
      known.model.set("chart", data);
      return known.el;
    }
    /** @type {Model<{ chart: Api.Chart }>} */
    const model = new Model({ chart: data });
    const el = h("figure", {});
    chart.render({ model, el });
    this.#charts.set(data.title, { model, el });
    return el;
  }

  /** @param {Api.Recipe} recipe */
  #showRecipe({ environment = [], ...sections }) {
    const row = (/** @type {Api.Recipe[string][number]} */ { key, value, default: defaultValue, help }) =>
      h(
        "tr",
        { class: defaultValue ? "changed" : null },
        h("th", { scope: "row" }, breakable(key)),
        h(
          "td",
          { dir: "auto" },
          value || "–",
          defaultValue && h("span", { class: "default" }, `default: ${defaultValue}`),
        ),
        h("td", { class: "help" }, help),
      );
    const header = ["key", "value", "meaning"].map((text) => h("th", { scope: "col" }, text));
    const tables = Object.entries(sections).map(([name, settings]) =>
      h(
        "table",
        { class: "plain settings-table" },
        h("caption", {}, name),
        h(
          "colgroup",
          {},
          ["key", "value", "help"].map((column) => h("col", { class: column })),
        ),
        h(
          "thead",
          { class: "unseen" },
          h(
            "tr",
            {},
            header.map((cell) => cell.cloneNode(true)),
          ),
        ),
        h("tbody", {}, settings.map(row)),
      ),
    );
    this.#recipe.replaceChildren(...tables);
    const rows = environment.map(({ key, value }) => [key, value]);
    this.#environment.replaceChildren(dataTable({ title: "Environment", header: ["item", "value"], rows }));
  }

  /**
   * Show a run's report in a frame that runs no script: the file may come from anywhere.
   * @param {boolean} exists
   */
  #showReport(exists) {
    this.#reportSection.hidden = !exists;
    if (!exists || this.#report.firstChild) return;
    const src = API.report(this.#run);
    const open = () => {
      if (details.open && !details.querySelector("iframe"))
        details.append(h("iframe", { src, sandbox: "", title: "Report of the run", loading: "lazy" }));
    };
    const details = h("details", { class: "data-table", ontoggle: open }, h("summary", {}, "Show the report here"));
    const link = h("a", { href: src, target: "_blank", rel: "noopener noreferrer" }, "Open in a new tab");
    this.#report.replaceChildren(h("p", {}, link), details);
  }
}

/**
 * @param {string} title
 * @param {...Child} children
 */
function section(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", {}, title), children);
}

/**
 * Return a key that may be broken after an underscore.
 * @param {string} key
 */
function breakable(key) {
  return key.split(/(?<=_)/).flatMap((part) => [part, h("wbr")]);
}

/** @param {string} label */
function scrollBox(label) {
  return h("div", { class: "scroll", tabindex: "0", "aria-label": label });
}

/**
 * @param {HTMLElement} list
 * @param {Record<string, string>} facts
 */
function showFacts(list, facts) {
  const item = (/** @type {[string, string]} */ [name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value));
  updateChildren(list, Object.entries(facts).map(item));
}

/**
 * Replace only those children that differ, so that nothing flickers or is read aloud twice.
 * @param {HTMLElement} container
 * @param {HTMLElement[]} children
 */
function updateChildren(container, children) {
  const shown = [...container.children];
  children.forEach((child, k) => {
    const old = shown[k];
    if (!old) container.append(child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  });
  for (const old of shown.slice(children.length)) old.remove();
}
