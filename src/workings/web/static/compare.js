// @ts-check
// The screen Compare: two runs, two inputs, or an input and a permutation of its tokens.

import { chart, dataTable, pairedBars } from "./charts.js";
import { choice, clamp, h, present, redraw, stepper } from "./dom.js";
import { heatmapComparison } from "./heatmap_groups.js";
import { captionedPicture } from "./inspect_results.js";
import { Model } from "./model.js";
import { API, Query } from "./request.js";
import { findRun, firstText, noRuns, PART_NAMES, runList, SCENES, secondText, textField } from "./run_inputs.js";
/** @import { Store } from "./store.js" */

/** @typedef {"runs" | "inputs" | "permuted"} Mode */

/** @type {[Mode, string][]} */
const MODES = [
  ["runs", "Two runs"],
  ["inputs", "Two inputs"],
  ["permuted", "Permutation"],
];
/** @type {[string, string][]} */
const ORDERS = [
  ["reversed", "reversed"],
  ["swapped", "swapped"],
  ["shuffled", "shuffled"],
];
/** @type {[string, string][]} */
const POSITIONS = [
  ["on", "on"],
  ["off", "removed"],
];
/** @type {Record<Mode, string>} */
const EXPLANATIONS = {
  runs: "Two runs on the same input.",
  inputs: "One run on two inputs.",
  permuted:
    "One run on an input X and on its tokens in another order, P X. Without positional encoding, self-attention is " +
    "permutation-equivariant: f(P X) = P f(X).",
};
const FIRST_HEAD = { part: "", layer: "1", head: "1" }; // also after a change of the run, which may have fewer heads
const DEFAULTS = {
  ...FIRST_HEAD,
  scene: "1",
  other_scene: "2",
  order: "reversed",
  seed: "1",
  positions: "on",
};

/** @typedef {typeof DEFAULTS & { mode: Mode, a: string, b: string, text: string, other: string }} CompareView */

export default {
  /**
   * @param {{ store: Store, el: HTMLElement, runs: Api.Run[] }} options
   * @returns {Dispose}
   */
  render({ store, el, runs }) {
    if (runs.length) return new Compare(store, el, runs).start();
    el.replaceChildren(h("h1", { class: "unseen" }, "Compare"), noRuns());
    return () => {};
  },
};

class Compare {
  #store;
  #el;
  #runs;
  #runA;
  #runB;
  #text;
  #otherText;
  #answerQuery;
  #curvesQuery;
  /** @type {Model<PairState>} */
  #pairs = new Model({ pairs: [], num_omitted: 0, columns: ["A", "B"] });
  /** @type {Model<HeatmapComparisonState>} */
  #heatmaps = new Model({ maps: [], axes: ["query", "key"] });
  /** @type {Model<HeatmapComparisonState>} */
  #residuals = new Model({ maps: [], axes: ["layer", "token"] });

  #modes = h("div", { class: "modes" });
  #scenes = h("div", { class: "toggles" });
  #order = h("div", { class: "order" });
  #hint = h("p", { class: "hint" });
  #status = h("p", { class: "status", role: "alert" });
  #tokens = h("div", { class: "permutation" });
  #verdict = h("p", { class: "verdict", role: "status" });
  #outputs = h("div", { class: "outputs" });
  #pairBox = h("div", { class: "pairs-box" });
  #layers = h("div", {});
  #residualBox = h("div", {});
  #headChoice = h("div", { class: "head-choice" });
  #heatmapBox = h("div", {});
  #charts = h("div", { class: "charts" });
  #best = h("div", {});
  #settings = h("div", { class: "settings-diff" });
  #layerSection = h(
    "section",
    { class: "layers", "aria-label": "Equivariance" },
    h("h2", {}, "Layer by layer"),
    h("div", {}, scrollRegion("Layer by layer", this.#layers), this.#residualBox),
  );
  #attentionSection = h(
    "section",
    { class: "compared-attention", "aria-label": "Attention", hidden: true },
    h("h2", {}, "Attention"),
    this.#headChoice,
    this.#heatmapBox,
  );
  #trainingSection = h(
    "section",
    { "aria-label": "Training" },
    h("h2", {}, "Training"),
    this.#charts,
    h(
      "div",
      { class: "halves narrow" },
      tableSection("Best metrics", this.#best),
      tableSection("Settings that differ", this.#settings),
    ),
  );

  /**
   * @param {Store} store
   * @param {HTMLElement} el
   * @param {Api.Run[]} runs
   */
  constructor(store, el, runs) {
    this.#store = store;
    this.#el = el;
    this.#runs = runs;
    this.#runA = runList(runs, (a) => this.#change({ a, ...FIRST_HEAD }), "Run A");
    this.#runB = runList(runs, (b) => this.#change({ b, ...FIRST_HEAD }), "Run B");
    this.#text = textField("Input", (text, live) => this.#change({ text }, { live }));
    this.#otherText = textField("Input B", (other, live) => this.#change({ other }, { live }));
    /** @type {Query<Api.Comparison | Api.PermutationTest>} */
    this.#answerQuery = new Query({
      el,
      onAnswer: (answer) => this.#showAnswer(answer),
      onError: (message) => this.#showError(message),
    });
    /** @type {Query<Api.DataTable[]>} */
    this.#curvesQuery = new Query({
      onAnswer: (tables) => this.#showCurves(tables),
      onError: (message) => {
        this.#status.textContent = message;
      },
    });
  }

  /** @returns {CompareView} */
  get #view() {
    const own = /** @type {Partial<CompareView>} */ (this.#store.view("compare"));
    const run = findRun(this.#runs, own.a);
    const view = { ...DEFAULTS, text: firstText(run), other: secondText(run), ...own };
    const usual = this.#runs.length > 1 ? "runs" : "inputs";
    return {
      ...view,
      mode: MODES.find(([name]) => name === view.mode)?.[0] ?? usual,
      a: findRun(this.#runs, view.a).name,
      b: findRun(this.#runs, view.b ?? this.#runs[1]?.name).name,
    };
  }

  /**
   * @param {ViewState} changes
   * @param {{ live?: boolean }} [options]
   */
  #change(changes, options) {
    this.#store.changeView("compare", changes, options);
  }

  start() {
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Compare"),
      h(
        "div",
        { class: "bar-top sides" },
        this.#modes,
        this.#runA.el,
        this.#runB.el,
        this.#scenes,
        this.#order,
        h("div", { class: "inputs" }, this.#text.el, this.#otherText.el),
      ),
      this.#hint,
      this.#status,
      h(
        "section",
        { class: "answers", "aria-label": "Outputs" },
        this.#tokens,
        this.#verdict,
        this.#outputs,
        this.#pairBox,
      ),
      this.#layerSection,
      this.#attentionSection,
      this.#trainingSection,
    );
    pairedBars.render({ model: this.#pairs, el: this.#pairBox });
    const disposers = [
      heatmapComparison.render({ model: this.#heatmaps, el: this.#heatmapBox }),
      heatmapComparison.render({ model: this.#residuals, el: this.#residualBox }),
      this.#store.listen(() => this.#update()),
      () => this.#answerQuery.cancel(),
      () => this.#curvesQuery.cancel(),
    ];
    this.#update();
    return () => disposers.forEach((dispose) => dispose());
  }

  /** Show the view's controls, and ask what is new. */
  #update() {
    const view = this.#view;
    const { mode, a, b } = view;
    const { a: nameA, b: nameB } = this.#store.view("compare");
    const runNames = mode === "runs" ? [a, b] : [a];
    const kinds = runNames.map((name) => findRun(this.#runs, name).kind);
    const isPermuted = mode === "permuted";
    redrawIfNew(this.#modes, [mode], () =>
      choice("Compare", "mode", MODES, mode, (chosen) => this.#change({ mode: chosen, ...FIRST_HEAD })),
    );
    this.#runA.show(nameA ?? a);
    this.#runB.show(nameB ?? b);
    this.#runA.heading.textContent = mode === "runs" ? "Run A" : "Run";
    this.#runB.el.hidden = mode !== "runs";
    this.#text.el.hidden = kinds.every((kind) => kind === "caption");
    this.#text.heading.textContent = mode === "inputs" ? "Input A" : "Input";
    this.#text.show(view.text);
    this.#otherText.el.hidden = mode !== "inputs" || this.#text.el.hidden;
    this.#otherText.show(view.other);
    this.#scenes.hidden = isPermuted || !kinds.includes("caption");
    this.#showScenes(view);
    this.#hint.textContent = EXPLANATIONS[mode];
    this.#order.hidden = this.#layerSection.hidden = this.#tokens.hidden = !isPermuted;
    if (isPermuted) this.#showOrder(view, false);
    this.#askAnswer(view);
    this.#trainingSection.hidden = mode !== "runs" || a === b;
    if (!this.#trainingSection.hidden) this.#askCurves(a, b);
  }

  /** @param {CompareView} view */
  #askAnswer(view) {
    const { mode, a, b, text, other, scene, other_scene: otherScene, order, seed } = view;
    const head = { layer: Number(view.layer), head: Number(view.head) };
    if (mode === "permuted") {
      const permutation = { order, seed: Number(seed), use_positions: view.positions !== "off" };
      this.#answerQuery.askIfNew(API.permute, { run: a, text, ...permutation, ...head });
      return;
    }
    const side = (/** @type {string} */ run, /** @type {string} */ words, /** @type {string} */ picture) =>
      findRun(this.#runs, run).kind === "caption" ? { run, scene: Number(picture) || 1 } : { run, text: words };
    const second = mode === "runs" ? side(b, text, scene) : side(a, other, otherScene);
    const part = view.part || null;
    this.#answerQuery.askIfNew(API.compare, { first: side(a, text, scene), second, part, ...head });
  }

  /**
   * @param {string} a
   * @param {string} b
   */
  #askCurves(a, b) {
    const width = clamp(Math.floor((this.#el.clientWidth - 40) / 10) * 10, 240, 560);
    this.#curvesQuery.askIfNew(API.compareCurves(a, b, width));
  }

  /** @param {Api.Comparison | Api.PermutationTest} answer */
  #showAnswer(answer) {
    const { mode } = this.#view;
    this.#status.textContent = "";
    if ("residual" in answer) {
      this.#pairs.set("columns", ["X", "P X"]);
      this.#showPermutation(answer);
    } else {
      this.#pairs.set("columns", mode === "runs" ? ["A", "B"] : ["input A", "input B"]);
      this.#showComparison(answer);
    }
    this.#pairs.set("num_omitted", "num_omitted" in answer ? answer.num_omitted : 0);
    this.#pairs.set("pairs", answer.pairs);
    this.#heatmaps.set("summary", answer.maps_summary);
    this.#heatmaps.set("maps", answer.maps);
    this.#attentionSection.hidden = !answer.maps.length;
    this.#showHeadChoice(answer.heads);
  }

  /** @param {Api.Comparison} comparison */
  #showComparison({ summary, sides, notes }) {
    const outputs = sides.map(
      (output, k) => (output.text !== null || output.notes.length > 0) && outputFigure("AB"[k] ?? "", output),
    );
    this.#verdict.replaceChildren(summary);
    this.#outputs.replaceChildren(...present([outputs, notes.map(hintLine)]));
  }

  /** @param {Api.PermutationTest} test */
  #showPermutation({
    residual,
    summary,
    has_removable_positions: hasRemovablePositions,
    tokens,
    permuted_tokens: permutedTokens,
    layers,
    deviation,
  }) {
    this.#verdict.replaceChildren(
      h("span", { class: "label" }, "max |f(P X) − P f(X)|"),
      h("b", { class: "residual" }, residual),
      h("span", {}, summary),
    );
    this.#outputs.replaceChildren();
    this.#showOrder(this.#view, hasRemovablePositions);
    this.#tokens.replaceChildren(tokenList("X", tokens), tokenList("P X", permutedTokens));
    this.#layers.replaceChildren(dataTable(layers));
    this.#residuals.set("maps", [deviation]);
  }

  /** @param {CompareView} view */
  #showScenes({ mode, scene, other_scene: other }) {
    const scenes = (/** @type {string} */ label, /** @type {string} */ name, /** @type {string} */ number) =>
      stepper(label, Number(number), 1, SCENES, (chosen) => this.#change({ [name]: String(chosen) }));
    redrawIfNew(this.#scenes, [mode, scene, other], () =>
      mode === "inputs"
        ? [scenes("Scene A", "scene", scene), scenes("Scene B", "other_scene", other)]
        : scenes("Scene", "scene", scene),
    );
  }

  /**
   * @param {CompareView} view
   * @param {boolean} isRemovable whether positions can be removed from this model
   */
  #showOrder({ order, seed, positions }, isRemovable) {
    redrawIfNew(this.#order, [order, seed, positions, isRemovable], () => [
      choice("Order", "order", ORDERS, order, (chosen) => this.#change({ order: chosen })),
      order === "shuffled" && stepper("Seed", Number(seed), 0, 999, (chosen) => this.#change({ seed: String(chosen) })),
      (isRemovable || positions === "off") &&
        choice("Positions", "positions", POSITIONS, positions, (chosen) => this.#change({ positions: chosen })),
    ]);
  }

  /**
   * Show the choice of a head among those that both have.
   * @param {Api.HeadCounts} counts
   */
  #showHeadChoice(counts) {
    const { part, layer, head } = this.#view;
    const parts = Object.keys(counts).map((name) => /** @type {[string, string]} */ ([name, PART_NAMES[name] ?? name]));
    const shown = parts.find(([name]) => name === part)?.[0] ?? parts[0]?.[0] ?? "";
    const [layers = 0, heads = 0] = counts[shown] ?? [];
    redrawIfNew(this.#headChoice, [counts, part, layer, head], () => [
      parts.length > 1 &&
        choice("Part", "part", parts, shown, (chosen) => this.#change({ ...FIRST_HEAD, part: chosen })),
      layers > 1 && stepper("Layer", Number(layer), 1, layers, (chosen) => this.#change({ layer: String(chosen) })),
      heads > 1 && stepper("Head", Number(head), 1, heads, (chosen) => this.#change({ head: String(chosen) })),
    ]);
  }

  /** @param {Api.DataTable[]} tables charts, then the best metrics, then the settings */
  #showCurves(tables) {
    const figures = tables.flatMap(({ picture, ...table }) => {
      if (!picture) return [];
      const el = h("figure", {});
      chart.render({ model: new Model({ chart: { ...table, picture } }), el });
      return el;
    });
    const [best, settings] = tables.slice(-2);
    const table = (/** @type {Api.DataTable | undefined} */ data, /** @type {string} */ none) =>
      data?.rows.length ? dataTable(data) : hintLine(none);
    this.#charts.replaceChildren(...figures);
    this.#best.replaceChildren(table(best, "Neither run has finished an epoch."));
    this.#settings.replaceChildren(table(settings, "The settings are the same."));
  }

  /** @param {string} message */
  #showError(message) {
    for (const part of [this.#verdict, this.#outputs, this.#tokens, this.#layers]) part.replaceChildren();
    this.#status.textContent = message;
    this.#pairs.set("pairs", []);
    this.#heatmaps.set("maps", []);
    this.#residuals.set("maps", []);
    this.#attentionSection.hidden = this.#layerSection.hidden = true;
  }
}

/** @param {string} text */
function hintLine(text) {
  return h("p", { class: "hint" }, text);
}

/**
 * @param {string} name
 * @param {Api.Output} output
 */
function outputFigure(name, { text, note, caption_attention: captionAttention, notes }) {
  return h(
    "figure",
    {},
    h("figcaption", {}, name),
    text !== null && h("blockquote", { dir: "auto" }, text || "(empty)"),
    captionAttention && captionedPicture(captionAttention, text ?? ""),
    note && hintLine(note),
    notes.map(hintLine),
  );
}

/**
 * @param {string} name
 * @param {string[]} tokens
 */
function tokenList(name, tokens) {
  const items = tokens.map((token) => h("li", { dir: "auto" }, token.slice(0, 60)));
  return h("div", { class: "token-list" }, h("b", {}, name), h("ol", { "aria-label": name, tabindex: "0" }, items));
}

/**
 * @param {string} label
 * @param {HTMLElement} content
 */
function scrollRegion(label, content) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, content);
}

/**
 * @param {string} title
 * @param {HTMLElement} content
 */
function tableSection(title, content) {
  return h("section", {}, h("h3", {}, title), scrollRegion(title, content));
}

/**
 * Draw controls again only if the state that they show is new.
 * @param {HTMLElement} container
 * @param {unknown[]} state
 * @param {() => Child | Child[]} build
 */
function redrawIfNew(container, state, build) {
  const key = JSON.stringify(state);
  if (container.dataset.key === key) return;
  container.dataset.key = key;
  redraw(container, ...present([build()]));
}
