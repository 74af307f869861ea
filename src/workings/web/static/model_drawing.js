// @ts-check
// The model drawn: tokens, embedding, layers, output. A layer opens to its stages, a stage to its numbers.

import { currentColors, decodeBytes, onColorScheme, paint } from "./colors.js";
import { h, present, redraw } from "./dom.js";
import heatmap from "./heatmap.js";
import { Extra } from "./inspect_results.js";
import { Model } from "./model.js";
import { API, Query } from "./request.js";

const MAX_TOKENS = 5; // listed in the box of the input
const MAX_OUTCOMES = 4;
const FLOW_DELAY = 70; // milliseconds from one box to the next
const ATTENTION_PARTS = new Map([
  ["cross-attention", "cross"],
  ["attention", ""],
]);

/** @typedef {{ name: string, stages: Api.Stage[] }} Group */

/** @extends {Extra<Api.ModelDrawing>} */
export class ModelSection extends Extra {
  /** @type {Api.ModelDrawing | null} */
  #drawing = null;
  /** @type {Api.Inspection | null} */
  #inspection = null;
  #path = ""; // of the open stage
  #input;
  #onChoose;
  #onHeads;
  /** @type {Model<HeatmapState>} */
  #map = new Model({ map: null, pinned: null, axes: ["token", "feature"] });
  #mapBox = h("div", { class: "stage-map" });
  #boxes = h("div", { class: "model-boxes", role: "group", "aria-label": "The model, from input to output" });
  #stageQuery;
  #disposers;

  /**
   * @param {object} options
   * @param {() => Api.InspectRequest} options.input
   * @param {(message: string) => void} options.onError
   * @param {(path: string) => void} options.onChoose opens a stage, or none
   * @param {(part: string, layer: number) => void} options.onHeads shows the heads of a layer
   */
  constructor({ input, onError, onChoose, onHeads }) {
    super("The model", API.inspectModel, input, onError);
    this.#input = input;
    this.#onChoose = onChoose;
    this.#onHeads = onHeads;
    this.el.open = true;
    this.el.classList.add("model-section");
    this.content.append(this.#boxes, this.#mapBox);
    /** @type {Query<Api.Heatmap>} */
    this.#stageQuery = new Query({ onAnswer: (map) => this.#map.set("map", map), onError });
    this.#disposers = [heatmap.render({ model: this.#map, el: this.#mapBox }), onColorScheme(() => this.#drawBoxes())];
  }

  /**
   * @override
   * @param {Api.Inspection} inspection
   */
  show(inspection) {
    this.#inspection = inspection;
    this.update(true);
  }

  /**
   * Open a stage.
   * @param {string} path empty: close the open one
   */
  open(path) {
    if (path === this.#path) return;
    this.#path = path;
    this.#drawBoxes();
    this.#showStage();
  }

  /** @override */
  cancel() {
    super.cancel();
    this.#stageQuery.cancel();
    for (const dispose of this.#disposers) dispose();
  }

  /**
   * @override
   * @param {Api.ModelDrawing} drawing
   */
  draw(drawing) {
    this.#drawing = drawing;
    this.el.hidden = drawing.stages.length === 0;
    this.#drawBoxes(true);
    this.#showStage();
  }

  get #stage() {
    return this.#drawing?.stages.find(({ path }) => path === this.#path) ?? null;
  }

  #showStage() {
    const stage = this.#stage;
    this.#mapBox.hidden = !stage;
    if (!stage) return this.#map.set("map", null);
    this.#map.set("axes", stage.is_recurrent ? ["feature", "token"] : ["token", "feature"]);
    this.#stageQuery.askIfNew(API.inspectStage, { ...this.#input(), stage: stage.path });
  }

  /** @param {boolean} [isNew] whether the numbers are new, and flow through the model */
  #drawBoxes(isNew = false) {
    if (!this.#drawing || !this.#inspection) return;
    const boxes = present([
      this.#inputBox(),
      groupStages(this.#drawing.stages).map((group) => this.#groupBox(group)),
      this.#outputBox(),
    ]);
    redraw(this.#boxes, boxes);
    if (!isNew) return;
    for (const [k, box] of [...this.#boxes.children].entries()) {
      box.classList.add("flowing");
      box.addEventListener("animationend", () => box.classList.remove("flowing"), { once: true });
      /** @type {HTMLElement} */ (box).style.animationDelay = `${k * FLOW_DELAY}ms`;
    }
  }

  #inputBox() {
    const tokens = this.#inspection?.tokens ?? [];
    const picture = this.#inspection?.output.caption_attention?.image;
    const rest = tokens.length - MAX_TOKENS;
    return h(
      "div",
      { class: "model-box ends" },
      h("h2", {}, tokens.length ? "tokens" : "picture"),
      picture && h("img", { src: picture, alt: "" }),
      h(
        "ol",
        { class: "model-tokens" },
        tokens.slice(0, MAX_TOKENS).map((token) => h("li", { dir: "auto" }, token)),
        rest > 0 && h("li", { class: "soft" }, `and ${rest} more`),
      ),
    );
  }

  #outputBox() {
    const { bars = [], output } = this.#inspection ?? {};
    const outcomes = bars.slice(0, MAX_OUTCOMES).map(({ name, text }) => h("li", {}, `${name} `, h("b", {}, text)));
    return h(
      "div",
      { class: "model-box ends" },
      h("h2", {}, bars.length ? "probabilities" : "output"),
      bars.length ? h("ol", { class: "model-tokens" }, outcomes) : h("p", { dir: "auto" }, output?.text || "(empty)"),
    );
  }

  /** @param {Group} group */
  #groupBox({ name, stages }) {
    const last = /** @type {Api.Stage} */ (stages.at(-1));
    const isOpen = stages.some(({ path }) => path === this.#path);
    const toggle = () => this.#onChoose(isOpen ? "" : last.path);
    const header = h(
      "button",
      {
        type: "button",
        class: "model-layer",
        "aria-expanded": String(isOpen),
        onclick: toggle,
        data: { control: name },
      },
      h("span", {}, name),
      !isOpen && this.#thumbnail(last),
    );
    const inner = h(
      "ol",
      { class: "model-stages" },
      stages.map((stage) => h("li", {}, this.#stageButton(stage))),
    );
    return h("div", { class: isOpen ? "model-box open" : "model-box" }, header, isOpen && inner);
  }

  /** @param {Api.Stage} stage */
  #stageButton(stage) {
    const { path, name, group, num_tokens: numTokens, width } = stage;
    const part = ATTENTION_PARTS.get(name);
    const layer = Number(/\d+$/.exec(group)?.[0] ?? 1);
    const showHeads = () => this.#onHeads(part || (group.startsWith("encoder") ? "encoder" : "decoder"), layer);
    const choose = () => this.#onChoose(path);
    return [
      h(
        "button",
        {
          type: "button",
          class: "model-stage",
          "aria-pressed": String(path === this.#path),
          title: `${numTokens} tokens, ${width} features`,
          onclick: choose,
          data: { control: path },
        },
        this.#thumbnail(stage),
        h("span", {}, name),
      ),
      part !== undefined &&
        h(
          "button",
          { type: "button", class: "plain", onclick: showHeads, data: { control: `${path} heads` } },
          "heads",
        ),
    ];
  }

  /** @param {Api.Stage} stage */
  #thumbnail({ thumb, size }) {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const { colors } = /** @type {Api.ModelDrawing} */ (this.#drawing);
    paint(canvas, decodeBytes(thumb), size, currentColors(colors));
    return canvas;
  }
}

/**
 * Return the stages by layer, in order.
 * @param {Api.Stage[]} stages
 */
function groupStages(stages) {
  /** @type {Group[]} */
  const groups = [];
  for (const stage of stages) {
    const last = groups.at(-1);
    if (last?.name === stage.group) last.stages.push(stage);
    else groups.push({ name: stage.group, stages: [stage] });
  }
  return groups;
}
