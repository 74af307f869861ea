// @ts-check
// The screen Inspect: a run's output for an input, and its attention weights.

import { button, choice, clamp, h, redraw } from "./dom.js";
import heatmap from "./heatmap.js";
import { headGrid } from "./heatmap_groups.js";
import {
  AttributionSection,
  Completion,
  derivationView,
  NeuronSection,
  outputView,
  PositionSection,
} from "./inspect_results.js";
import { Model } from "./model.js";
import { ModelSection } from "./model_drawing.js";
import { API, download, messageOf, Query } from "./request.js";
import { findRun, firstText, noRuns, PART_NAMES, pictureInput, runList, textChoice, textInput } from "./run_inputs.js";
import tokenLines, { MAX_LINE_TOKENS } from "./token_lines.js";
import { HAS_SERVER } from "./transport.js";
/** @import { DerivationState } from "./inspect_results.js" */
/** @import { Store } from "./store.js" */

const DECODER_ROWS = "Each row has the token that the decoder reads; it predicts the token of the next row.";
/** @type {Record<string, string>} */
const PART_HINTS = {
  alignment: "Cross-attention averaged over all heads, one row per generated token. The other tabs show each head.",
  cross: "Each row has the token that the decoder writes, as in the alignment.",
  decoder: DECODER_ROWS,
};
const PICTURE_COLUMNS = " Each column is a cell of the image grid: row, column.";
/** @type {[string, string][]} */
const MAP_FORMS = [
  ["matrix", "matrix"],
  ["lines", "lines"],
];

/** @type {[string, string][]} */
const TOP_K = [
  ["0", "all"],
  ["3", "3"],
  ["10", "10"],
  ["40", "40"],
];

/** @type {ViewState} */
const NO_CELL = { row: "", column: "" };

export default {
  /**
   * @param {{ store: Store, el: HTMLElement, runs: Api.Run[] }} options
   * @returns {Dispose}
   */
  render({ store, el, runs }) {
    if (runs.length) return new Inspect(store, el, runs).start();
    el.replaceChildren(h("h1", { class: "unseen" }, "Inspect a run"), noRuns());
    return () => {};
  },
};

class Inspect {
  #store;
  #el;
  #runs;
  #run;
  #runList;
  /** @type {{ el: HTMLElement, show: () => void } | null} */
  #input = null;
  /** @type {string | null} */
  #picture = null; // the user's
  /** @type {Api.Inspection | null} */
  #inspection = null;
  /** @type {Map<string, Api.Heatmap>} */
  #heatmaps = new Map(); // of the current input, by part, layer and head
  /** @type {Completion | null} */
  #completion = null;
  /** @type {(AttributionSection | NeuronSection | PositionSection)[]} */
  #sections = [];
  /** @type {ModelSection | null} */
  #model = null;
  /** @type {string[] | null} */
  #firstOpen = null; // the sections that were open before the first was opened or folded
  #derivedCell = ""; // the request of the derivation that is shown
  /** @type {Model<HeadGridState>} */
  #heads = new Model({ stack: null, colors: null, chosen: null });
  /** @type {Model<HeatmapState>} */
  #map = new Model({ map: null, pinned: null, axes: ["query", "key"] });
  /** @type {Model<HeatmapState>} */
  #lines = new Model({ map: null, pinned: null, axes: ["query", "key"] }); // no map while the matrix is shown
  /** @type {Model<DerivationState>} */
  #derivation = new Model({ derivation: null, table: null });
  #inspectQuery;
  #mapQuery;
  #cellQuery;
  #inputBox = h("div", { class: "inspect-input" });
  #modelBox = h("div", {});
  #status = h("p", { class: "status", role: "alert" });
  #tabs = h("div", { class: "inspect-tabs" });
  #headBox = h("div", { class: "inspect-heads" });
  #mapBox = h("div", { class: "inspect-map" });
  #lineBox = h("div", { class: "inspect-map", hidden: true });
  #tools = h("div", { class: "inspect-tools" });
  #output = h("div", { class: "inspect-output" });
  #sliderLabel = h("span", { class: "label" });
  /** @type {HTMLInputElement} */
  #slider = h("input", {
    type: "range",
    min: "0.1",
    max: "3",
    step: "0.1",
    oninput: () => this.#change({ temperature: this.#slider.value }, { live: true }),
    onchange: () => this.#change({ temperature: this.#slider.value }),
  });
  #topK = h("div", {});
  #sampling = h(
    "div",
    { class: "toggles" },
    h("label", { class: "choice" }, this.#sliderLabel, this.#slider),
    this.#topK,
  );
  #extras = h("div", { class: "inspect-extras" });
  #dock = h("div", {
    class: "inspect-dock dock tall",
    role: "region",
    "aria-label": "Working of a cell",
    hidden: true,
  });
  #attention = h(
    "section",
    { class: "attention", "aria-label": "Attention" },
    h("h2", { class: "unseen" }, "Attention weights"),
    this.#tabs,
    h(
      "div",
      { class: "heads-and-map" },
      this.#headBox,
      h("div", { class: "one-head" }, this.#mapBox, this.#lineBox, this.#tools),
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
    this.#run = findRun(runs, this.#view.run);
    this.#runList = runList(runs, (run) =>
      this.#change({ run, text: undefined, part: "", layer: "", head: "", off: "", open: undefined, ...NO_CELL }),
    );
    const onError = (/** @type {string} */ message) => this.#showError(message);
    /** @type {Query<Api.Inspection, Api.OutcomeRequest>} */
    this.#inspectQuery = new Query({ el, onAnswer: (answer, body) => this.#showInspection(answer, body), onError });
    /** @type {Query<Api.Heatmap, Api.HeadRequest>} */
    this.#mapQuery = new Query({ onAnswer: (answer, body) => this.#addHeatmap(answer, body), onError });
    /** @type {Query<[Api.Derivation, Api.Table | null], object>} */
    this.#cellQuery = new Query({ onAnswer: (answer, body) => this.#showDerivation(answer, body), onError });
  }

  get #view() {
    return this.#store.view("inspect");
  }

  /**
   * @param {ViewState} changes
   * @param {{ live?: boolean }} [options]
   */
  #change(changes, options) {
    this.#store.changeView("inspect", changes, options);
  }

  start() {
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Inspect a run"),
      h("div", { class: "inspect-top" }, this.#runList.el, this.#inputBox),
      this.#status,
      this.#modelBox,
      h(
        "div",
        { class: "inspect-body" },
        this.#attention,
        h(
          "section",
          { class: "output", "aria-label": "Output" },
          h("h2", { class: "unseen" }, "Output"),
          this.#output,
          this.#sampling,
        ),
        this.#extras,
      ),
      this.#dock,
    );
    const disposers = [
      headGrid.render({ model: this.#heads, el: this.#headBox }),
      heatmap.render({ model: this.#map, el: this.#mapBox }),
      tokenLines.render({ model: this.#lines, el: this.#lineBox }),
      this.#store.listen(() => this.#update()),
      () => this.#cancel(),
    ];
    derivationView.render({
      model: this.#derivation,
      el: this.#dock,
      onOpen: (table) => this.#openInWork(table),
      onClose: () => this.#map.set("pinned", null),
    });
    this.#derivation.on("change:derivation", () => {
      const wasHidden = this.#dock.hidden;
      this.#dock.hidden = !this.#derivation.get("derivation");
      if (wasHidden && !this.#dock.hidden) this.#mapBox.scrollIntoView({ block: "nearest" });
    });
    this.#heads.on("change:chosen", () => this.#chooseHead());
    this.#heads.on("change:focus", () => this.#showMap());
    this.#heads.on("change:toggled", () => this.#toggleHead());
    this.#map.on("change:pinned", () => this.#pin());
    this.#lines.on("change:pinned", () => this.#map.set("pinned", this.#lines.get("pinned")));
    this.#map.on("change:map", () => this.#showLines());
    this.#openRun(this.#run);
    this.#update();
    return () => disposers.forEach((dispose) => dispose());
  }

  #cancel() {
    for (const query of [this.#inspectQuery, this.#mapQuery, this.#cellQuery]) query.cancel();
    for (const section of this.#sections) section.cancel();
    this.#model?.cancel();
    this.#completion?.clear();
  }

  /**
   * Return the run's input as the server takes it.
   * @returns {Api.InspectRequest}
   */
  #request() {
    const { text, scene, off } = this.#view;
    const request = { run: this.#run.name, ablated_heads: readHeads(off) };
    if (this.#run.kind !== "caption") return { ...request, text: text ?? firstText(this.#run) };
    return this.#picture ? { ...request, picture: this.#picture } : { ...request, scene: Number(scene || 1) };
  }

  /** How the probabilities of the next token are shown. */
  get #outcomeOptions() {
    const { temperature, top_k: topK } = this.#view;
    const isLanguage = this.#run.kind === "language" && HAS_SERVER;
    return isLanguage ? { temperature: Number(temperature || 1), top_k: Number(topK || 0) } : {};
  }

  /** Draw the temperature and the number of tokens of the bars. */
  #drawSampling() {
    const { temperature, top_k: topK = 0 } = this.#outcomeOptions;
    this.#sampling.hidden = temperature === undefined;
    if (temperature === undefined) return;
    this.#sliderLabel.textContent = `Temperature ${temperature}`;
    if (document.activeElement !== this.#slider) this.#slider.value = String(temperature);
    redraw(
      this.#topK,
      choice("Top k", "top k", TOP_K, String(topK), (value) => this.#change({ top_k: value })),
    );
  }

  /** Show the view's state; ask the server where the input is new. */
  #update() {
    const run = findRun(this.#runs, this.#view.run);
    this.#runList.show(this.#view.run);
    if (run !== this.#run) this.#openRun(run);
    if (this.#derivation.get("derivation") && JSON.stringify(this.#cellRequest) !== this.#derivedCell)
      this.#derivation.set("derivation", null);
    this.#input?.show();
    this.#showFolds();
    this.#model?.open(this.#view.stage ?? "");
    this.#drawSampling();
    if (!this.#inspectQuery.askIfNew(API.inspect, { ...this.#request(), ...this.#outcomeOptions })) this.#show();
    this.#askDerivation();
  }

  /**
   * Show another run's controls, and nothing else until it has answered.
   * @param {Api.Run} run
   */
  #openRun(run) {
    const onError = (/** @type {string} */ message) => this.#showError(message);
    const request = () => this.#request();
    this.#cancel();
    this.#run = run;
    this.#inspection = null;
    this.#input = run.kind === "caption" ? this.#newPictureInput() : this.#newTextInput();
    this.#inputBox.replaceChildren(this.#input.el);
    this.#completion =
      run.kind === "language" && HAS_SERVER
        ? new Completion(request, (text) => this.#change({ text, ...NO_CELL }), onError)
        : null;
    this.#sections = [
      new AttributionSection(request, onError),
      new NeuronSection(request, onError),
      new PositionSection(request, onError),
    ];
    this.#extras.replaceChildren(...this.#sections.map(({ el }) => el));
    this.#model = new ModelSection({
      input: request,
      onError,
      onChoose: (stage) => this.#change({ stage }),
      onHeads: (part, layer) => this.#change({ part, layer: String(layer), ...NO_CELL }),
    });
    this.#modelBox.replaceChildren(this.#model.el);
    this.#firstOpen = null;
    for (const { name, el } of this.#folds)
      el.querySelector("summary")?.addEventListener("click", (event) => {
        event.preventDefault();
        this.#toggleFold(name);
      });
    for (const part of [this.#output, this.#tabs, this.#tools]) part.replaceChildren();
    this.#attention.hidden = true;
    this.#output.append(h("p", { class: "hint", role: "status" }, "Loading the model…"));
    this.#heads.set("stack", null);
    this.#map.set("map", null);
  }

  /** The sections that can be folded, by the name that the address has. */
  get #folds() {
    const [attribution, neurons, positions] = this.#sections;
    return Object.entries({ model: this.#model, attribution, neurons, positions }).flatMap(([name, section]) =>
      section ? [{ name, el: section.el }] : [],
    );
  }

  /**
   * Open or fold a section, as the address has it.
   * @param {string} name
   */
  #toggleFold(name) {
    const open = this.#folds.filter(({ el }) => el.open && !el.hidden).map(({ name: other }) => other);
    if (this.#view.open === undefined) this.#firstOpen = open;
    const changed = open.includes(name) ? open.filter((other) => other !== name) : [...open, name];
    this.#change({ open: changed.join(" ") });
  }

  #showFolds() {
    const open = this.#view.open?.split(" ") ?? this.#firstOpen;
    if (open) for (const { name, el } of this.#folds) el.open = open.includes(name);
  }

  #newTextInput() {
    const { kind, texts } = this.#run;
    const { el, show } = texts
      ? textChoice(kind, texts, (text) => this.#change({ text, ...NO_CELL }))
      : textInput(kind, (text, live) => this.#change({ text, ...NO_CELL }, { live }));
    return { el, show: () => show(this.#request().text ?? "") };
  }

  #newPictureInput() {
    const { el, show } = pictureInput({
      onScene: (scene) => {
        this.#picture = null;
        this.#change({ scene: String(scene) });
      },
      onPicture: (picture) => {
        this.#picture = picture; // not in the view: an address cannot hold a picture
        this.#update();
      },
      onError: (message) => this.#showError(message),
    });
    return { el, show: () => show(Number(this.#view.scene || 1), Boolean(this.#picture)) };
  }

  /** @param {string} message */
  #showError(message) {
    this.#status.textContent = message;
  }

  /**
   * @param {Api.Inspection} inspection
   * @param {Api.InspectRequest} request
   */
  #showInspection(inspection, request) {
    if (request.run !== this.#run.name) return;
    this.#inspection = inspection;
    this.#heatmaps.clear();
    this.#mapQuery.cancel();
    this.#status.textContent = "";
    this.#output.replaceChildren(...outputView(inspection));
    if (this.#completion) {
      this.#completion.clear();
      this.#output.append(this.#completion.el);
    }
    for (const section of this.#sections) section.show(inspection);
    this.#model?.show(inspection);
    this.#show();
    this.#askDerivation();
  }

  /** The chosen stack, layer and head; the first where the address has one that does not exist. */
  get #chosen() {
    const { part, layer, head } = this.#view;
    const stacks = this.#inspection?.stacks ?? [];
    const stack = stacks.find((other) => other.part === part) ?? stacks[0];
    if (!stack) return null;
    const { thumbs } = stack;
    return {
      stack,
      layer: clamp(Number(layer) || 1, 1, thumbs.length),
      head: clamp(Number(head) || 1, 1, thumbs[0]?.length ?? 1),
    };
  }

  #show() {
    const chosen = this.#chosen;
    this.#attention.hidden = !chosen;
    this.#el.classList.toggle("no-attention", !chosen);
    this.#el.classList.toggle("with-picture", Boolean(this.#inspection?.output.caption_attention));
    if (!chosen || !this.#inspection) return;
    const { stack, layer, head } = chosen;
    const { stacks, colors } = this.#inspection;
    const { row, column } = this.#view;
    this.#showTabs(stacks, stack.part);
    this.#heads.set("colors", colors);
    const shown = this.#heads.get("chosen");
    if (this.#heads.get("stack") !== stack) {
      this.#heads.set("chosen", { layer, head });
      this.#heads.set("stack", stack);
    } else if (shown?.layer !== layer || shown.head !== head) this.#heads.set("chosen", { layer, head });
    this.#headBox.hidden = stack.thumbs.length * (stack.thumbs[0]?.length ?? 0) < 2;
    const pinned = row ? { row: Number(row), column: Number(column) } : null;
    if (JSON.stringify(pinned) !== JSON.stringify(this.#map.get("pinned"))) this.#map.set("pinned", pinned);
    this.#showMap();
    this.#showTools(chosen);
  }

  /**
   * @param {Api.AttentionStack[]} stacks
   * @param {string} chosen
   */
  #showTabs(stacks, chosen) {
    const options = stacks.map(({ part }) => /** @type {[string, string]} */ ([part, PART_NAMES[part] ?? part]));
    const choose = (/** @type {string} */ part) => this.#change({ part, layer: "1", head: "1", ...NO_CELL });
    redraw(this.#tabs, stacks.length > 1 && choice("Attention", "part", options, chosen, choose));
  }

  #chooseHead() {
    const head = this.#heads.get("chosen");
    const current = this.#chosen;
    if (head && current && (head.layer !== current.layer || head.head !== current.head))
      this.#change({ layer: String(head.layer), head: String(head.head) });
  }

  /** Show the map of the head under the pointer, or else of the chosen one. */
  #showMap() {
    const chosen = this.#chosen;
    if (!chosen) return;
    const { part } = chosen.stack;
    const { layer, head } = this.#heads.get("focus") ?? chosen;
    const known = this.#heatmaps.get(`${part} ${layer} ${head}`);
    if (!known) this.#mapQuery.askIfNew(API.inspectMap, { ...this.#request(), part, layer, head });
    else if (known !== this.#map.get("map")) this.#map.set("map", known);
  }

  /**
   * @param {Api.Heatmap} map
   * @param {Api.HeadRequest} request
   */
  #addHeatmap(map, { part, layer, head, ...input }) {
    if (JSON.stringify(input) !== JSON.stringify(this.#request())) return; // the input has changed meanwhile
    this.#heatmaps.set(`${part} ${layer} ${head}`, map);
    this.#showMap();
  }

  /** Show the map as lines or as a matrix; return whether as lines, or null if it is too large for them. */
  #showLines() {
    const map = this.#map.get("map");
    const fits = map && Math.max(map.rows.length, map.columns.length) <= MAX_LINE_TOKENS;
    const isLines = Boolean(fits) && this.#view.form === "lines";
    this.#mapBox.hidden = isLines;
    this.#lineBox.hidden = !isLines;
    if (this.#lines.get("map") !== (isLines ? map : null)) this.#lines.set("map", isLines ? map : null);
    return map && !fits ? null : isLines;
  }

  /** @param {{ stack: Api.AttentionStack, layer: number, head: number }} chosen */
  #showTools({ stack, layer, head }) {
    const { part } = stack;
    const isOff = stack.ablated[layer - 1]?.[head - 1];
    const off = readHeads(this.#view.off);
    const toggle = () => this.#toggleHead({ layer, head });
    const save = () =>
      download({ ...this.#request(), part, layer, head }, API.inspectExport).catch((error) =>
        this.#showError(messageOf(error)),
      );
    const hint = PART_HINTS[part];
    const hasPicture = this.#inspection?.output.caption_attention && part === "cross";
    const isLines = this.#showLines();
    redraw(
      this.#tools,
      isLines !== null &&
        choice("Drawn as", "form", MAP_FORMS, isLines ? "lines" : "matrix", (form) => this.#change({ form })),
      stack.has_workings && [
        button(isOff ? "Restore this head" : "Ablate this head", toggle, {
          "aria-pressed": String(isOff),
          title: "Ablation sets the output of a head to zero",
          data: { control: "toggle" },
        }),
        off.length > 0 &&
          button(`Restore all heads (${off.length} ablated)`, () => this.#change({ off: "" }), {
            data: { control: "all" },
          }),
      ],
      hint &&
        (this.#inspection?.stacks.length ?? 0) > 1 &&
        h("p", { class: "hint" }, hint + (hasPicture ? PICTURE_COLUMNS : "")),
      HAS_SERVER && button("Download the heads", save, { data: { control: "download" } }),
    );
  }

  /** Ablate a head of the shown stack, or restore it. */
  #toggleHead(place = this.#heads.get("toggled")) {
    const part = this.#chosen?.stack.part;
    if (!place || !part) return;
    const off = readHeads(this.#view.off);
    const others = off.filter((head) => head.part !== part || head.layer !== place.layer || head.head !== place.head);
    const changed = others.length < off.length ? others : [...off, { part, ...place }];
    this.#change({ off: writeHeads(changed) });
  }

  /** Keep the pinned cell in the view, with the head that is shown. */
  #pin() {
    const pinned = this.#map.get("pinned");
    const { row, column } = this.#view;
    if (pinned ? String(pinned.row) === row && String(pinned.column) === column : !row) return;
    const shown = this.#heads.get("focus") ?? this.#chosen;
    const cell = pinned ? { row: String(pinned.row), column: String(pinned.column) } : NO_CELL;
    this.#change({ ...cell, layer: String(shown?.layer), head: String(shown?.head) });
  }

  /** The pinned cell as the server takes it: with the input and the head. */
  get #cellRequest() {
    const { row, column } = this.#view;
    const chosen = this.#chosen;
    if (!row || !chosen) return null;
    const { stack, layer, head } = chosen;
    return { ...this.#request(), part: stack.part, layer, head, row: Number(row), column: Number(column) };
  }

  /** Show the working of the pinned cell, if its head has workings. */
  #askDerivation() {
    const request = this.#cellRequest;
    if (request && this.#chosen?.stack.has_workings) this.#cellQuery.askIfNew(API.inspectCell, request);
    else this.#cellQuery.cancel();
  }

  /**
   * @param {[Api.Derivation, Api.Table | null]} answer the head as a problem is null if it is too large
   * @param {object} request
   */
  #showDerivation([derivation, table], request) {
    const text = JSON.stringify(request);
    if (text !== JSON.stringify(this.#cellRequest)) return; // another cell, head or input is shown now
    this.#derivedCell = text;
    this.#derivation.set("table", table);
    this.#derivation.set("derivation", derivation);
  }

  /** @param {Api.Table} table */
  #openInWork(table) {
    const { row = "", column = "" } = this.#view;
    this.#store.changeProblem((problem) => Object.assign(problem, { table, decimals: 4 }));
    this.#store.initialCell = { key: "weights", row, column };
    location.hash = "#work";
  }
}

/**
 * Read the ablated heads, as the address has them: decoder.1.2 cross.2.1
 * @param {string | undefined} text
 * @returns {Api.AblatedHead[]}
 */
function readHeads(text) {
  const parts = (text ?? "").split(" ").map((head) => head.split("."));
  return parts
    .filter((head) => head.length === 3)
    .map(([part = "", layer, head]) => ({ part, layer: Number(layer), head: Number(head) }));
}

/** @param {Api.AblatedHead[]} heads */
function writeHeads(heads) {
  return heads.map(({ part, layer, head }) => `${part}.${layer}.${head}`).join(" ");
}
