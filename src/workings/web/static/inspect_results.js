// @ts-check
// Results of a run for an input: its output, a continuation, attribution, neurons, positions, a cell's derivation.

import { dataTable, probabilityBars, tokenKeys, tokenStrip } from "./charts.js";
import { button, choice, dropdown, formulaBox, h, present, redraw, stepper, svg } from "./dom.js";
import heatmap from "./heatmap.js";
import { Model } from "./model.js";
import { API, fetchLines, messageOf, Query } from "./request.js";

const TILE_HINT =
  "Brightness is the attention weight for the word, relative to its largest. The number is that largest weight; " +
  "a frame marks its place.";

/**
 * Return a run's output: notes, a text, probabilities, a captioned picture.
 * @param {Api.Inspection} inspection
 */
export function outputView({ output, baseline, description, bars, num_omitted: numOmitted }) {
  const { notes, text, caption_attention: captionAttention } = output;
  const box = h("div", {});
  const caption = text === null ? description : "Probability of each token";
  probabilityBars.render({ model: new Model({ bars, description: caption, num_omitted: numOmitted }), el: box });
  return present([
    notes.map((note) => h("p", { class: "hint" }, note)),
    text !== null && generatedText(description, output, baseline),
    bars.length > 0 && box,
    captionAttention && captionedPicture(captionAttention, text ?? ""),
  ]);
}

/**
 * @param {string} heading
 * @param {Api.Output} output
 * @param {Api.Output | null} baseline
 */
function generatedText(heading, output, baseline) {
  const part = (/** @type {string} */ title, /** @type {Api.Output} */ { text, note }) =>
    h(
      "div",
      { class: "generated" },
      h("h3", {}, title),
      h("p", { class: "words", dir: "auto" }, text || "(empty)"),
      h("p", { class: "hint" }, note),
    );
  if (!baseline) return part(heading, output);
  return h("div", { class: "before-and-after" }, part("With ablated heads", output), part("Intact model", baseline));
}

/**
 * Return a picture and, for each word of its caption, where the model attended.
 * @param {Api.CaptionImage} image
 * @param {string} caption
 */
export function captionedPicture({ image, name, tiles }, caption) {
  const tile = (/** @type {Api.CaptionImage["tiles"][number]} */ { word, note, description, overlay, frame }) =>
    h(
      "li",
      {},
      h(
        "div",
        { class: "tile", role: "img", "aria-label": description },
        h("img", { src: image, alt: "" }),
        h("img", { class: "shadow", src: overlay, alt: "" }),
        frame && frameOutline(frame),
      ),
      h("b", { dir: "auto" }, word),
      h("span", {}, note),
    );
  const none = caption ? "This captioner has no attention." : "The caption is empty.";
  return h(
    "div",
    { class: "captioned" },
    h("figure", { class: "photo" }, h("img", { src: image, alt: name }), h("figcaption", {}, name)),
    h(
      "div",
      {},
      tiles.length > 0 && h("ol", { class: "tiles" }, tiles.map(tile)),
      h("p", { class: "hint" }, tiles.length ? TILE_HINT : none),
    ),
  );
}

/** @param {[number, number, number, number]} frame in shares of the picture */
function frameOutline([x, y, width, height]) {
  const box = { x, y, width, height, fill: "none", "vector-effect": "non-scaling-stroke" };
  return svg(
    "svg",
    { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { ...box, stroke: "#000", "stroke-width": "3" }),
    svg("rect", { ...box, stroke: "#fff", "stroke-width": "1.5" }),
  );
}

const TOO_LARGE = "More than 64 rows or columns: too large for Work.";

/** The continuation of a text by a language model, token by token. */
export class Completion {
  el = h("section", { class: "completion", "aria-label": "Continuation" });
  #input;
  #onUse;
  #options = { max_new_tokens: 40, temperature: 0, seed: 1 };
  /** @type {{ prompt: string, completion: Api.Completion } | null} */
  #result = null;
  /** @type {AbortController | null} */
  #request = null; // of the text that is being generated
  #onError;

  /**
   * @param {() => Api.InspectRequest} input returns the run's input
   * @param {(text: string) => void} onUse takes the prompt with its continuation as the new input
   * @param {(message: string) => void} onError
   */
  constructor(input, onUse, onError) {
    this.#input = input;
    this.#onUse = onUse;
    this.#onError = onError;
    this.#draw();
  }

  /** Stop generating and remove the result, because the input has changed. */
  clear() {
    this.#result = null;
    this.#stop();
  }

  #stop() {
    this.#request?.abort();
    this.#request = null;
    this.#draw();
  }

  /** Generate a text; each token is shown when it arrives. */
  async #start() {
    const request = new AbortController();
    const input = this.#input();
    const completion = /** @type {Api.Completion} */ ({ tokens: [], stop_reason: "", milliseconds: 0 });
    const add = (/** @type {Api.GeneratedToken & Api.Completion} */ line) => {
      if (this.#request !== request) return; // stopped
      if ("token" in line) completion.tokens.push(line);
      else Object.assign(completion, line);
      this.#draw();
    };
    this.#request = request;
    this.#result = { prompt: input.text ?? "", completion };
    this.#draw();
    try {
      await fetchLines(API.stream, { ...input, ...this.#options }, add, request.signal);
    } catch (error) {
      if (!request.signal.aborted) this.#onError(messageOf(error));
    }
    if (this.#request === request) this.#stop();
  }

  #draw() {
    const { max_new_tokens: maxNewTokens, temperature, seed } = this.#options;
    const set = (/** @type {{ max_new_tokens?: number, temperature?: number, seed?: number }} */ options) => {
      Object.assign(this.#options, options);
      this.#draw();
    };
    const start = button("Generate", () => this.#start(), { class: "main", data: { control: "run" } });
    const stop = button("Stop", () => this.#stop(), { data: { control: "run" } });
    redraw(
      this.el,
      h(
        "div",
        { class: "toggles" },
        stepper("Tokens", maxNewTokens, 10, 200, (value) => set({ max_new_tokens: value }), 10),
        choice(
          "Decoding",
          "temperature",
          [
            ["0", "greedy"],
            ["0.8", "sampling, T = 0.8"],
          ],
          String(temperature),
          (value) => set({ temperature: Number(value) }),
        ),
        temperature > 0 && stepper("Seed", seed, 0, 9999, (value) => set({ seed: value })),
        this.#request ? stop : start,
      ),
      this.#result && this.#text(this.#result),
    );
  }

  /** @param {{ prompt: string, completion: Api.Completion }} result */
  #text({ prompt, completion: { tokens, stop_reason: stopReason, milliseconds } }) {
    const alternatives = h("div", { class: "alternatives" });
    /** @type {Model<BarState>} */
    const model = new Model({ bars: [], description: "", num_omitted: 0 });
    probabilityBars.render({ model, el: alternatives });
    const show = (/** @type {Api.GeneratedToken} */ { token, probability_text: probabilityText, bars }) => {
      model.set("description", `“${token}”, ${probabilityText}, and its alternatives`);
      model.set("bars", bars);
    };
    const visible = tokens.filter(({ text }) => text);
    const spans = visible.map((token) =>
      h(
        "span",
        { class: "token", title: token.probability_text, onpointerenter: () => show(token) },
        token.text.replaceAll("\n", "⏎\n"), // a line break alone has nothing to point at
      ),
    );
    const onkeydown = tokenKeys(spans, (k) => {
      const token = visible[k];
      if (token) show(token);
    });
    const fullText = prompt + tokens.map(({ text }) => text).join("");
    const time = milliseconds ? ` in ${Math.round(milliseconds)} ms` : "…";
    const summary = `${tokens.length} tokens${time}${stopReason ? `; ${stopReason}` : ""}. `;
    const howTo = "Hover over a token, or use the arrow keys, to see its alternatives. ";
    return [
      h(
        "p",
        { class: "continuation", dir: "auto", tabindex: "0", onkeydown, "aria-describedby": "continuation-help" },
        h("span", { class: "soft" }, prompt),
        spans,
      ),
      h(
        "p",
        { class: "hint" },
        summary,
        h("span", { id: "continuation-help", class: "how-to" }, howTo),
        button("Inspect the full text", () => this.#onUse(fullText), { data: { control: "use" } }),
      ),
      alternatives,
    ];
  }
}

/**
 * A section that asks the server when it is opened.
 * @template Answer
 */
export class Extra {
  #path;
  #input;
  #query;

  /**
   * @param {string} title
   * @param {string} path
   * @param {() => Api.InspectRequest} input
   * @param {(message: string) => void} onError
   */
  constructor(title, path, input, onError) {
    this.#path = path;
    this.#input = input;
    this.content = h("div", {});
    this.el = h(
      "details",
      { class: "extra", hidden: true, ontoggle: () => this.ask() },
      h("summary", {}, title),
      this.content,
    );
    /** @type {Query<Answer>} */
    this.#query = new Query({ onAnswer: (answer) => this.draw(answer), onError });
  }

  /**
   * Show or hide the section for a new input.
   * @param {boolean} isAvailable
   */
  update(isAvailable) {
    this.el.hidden = !isAvailable;
    if (isAvailable) this.ask();
    else this.#query.cancel();
  }

  /** Ask, if the section is open and its question is new. */
  ask() {
    if (this.el.open && !this.el.hidden) this.#query.askIfNew(this.#path, this.request(this.#input()));
  }

  cancel() {
    this.#query.cancel();
  }

  /**
   * @param {Api.InspectRequest} input
   * @returns {object}
   */
  request(input) {
    return input;
  }

  /** @param {Api.Inspection} _inspection */
  show(_inspection) {}

  /** @param {Answer} _answer */
  draw(_answer) {}
}

/** @extends {Extra<Api.TokenStrip[]>} */
export class AttributionSection extends Extra {
  /**
   * @param {() => Api.InspectRequest} input
   * @param {(message: string) => void} onError
   */
  constructor(input, onError) {
    super("Attribution to input tokens", API.attribution, input, onError);
    this.el.open = true;
  }

  /**
   * @override
   * @param {Api.Inspection} inspection
   */
  show({ kind }) {
    this.update(kind === "classify");
  }

  /**
   * @override
   * @param {Api.TokenStrip[]} strips
   */
  draw(strips) {
    const boxes = strips.map((strip) => {
      const el = h("div", {});
      tokenStrip.render({ model: new Model({ strip }), el });
      return el;
    });
    this.content.replaceChildren(...boxes);
  }
}

/** @extends {Extra<Api.NeuronStrip>} */
export class NeuronSection extends Extra {
  /** @type {Model<{ strip: Api.TokenStrip | null }>} */
  #model = new Model({ strip: null });
  #group = 1;
  /** @type {number | null} */
  #neuron = null; // null: the one that varies most
  /** @type {string[]} */
  #groups = [];
  #controls = h("div", { class: "toggles" });

  /**
   * @param {() => Api.InspectRequest} input
   * @param {(message: string) => void} onError
   */
  constructor(input, onError) {
    super("Neuron activations", API.neurons, input, onError);
    const text = h("div", {});
    this.content.append(this.#controls, text);
    tokenStrip.render({ model: this.#model, el: text });
  }

  /**
   * @override
   * @param {Api.Inspection} inspection
   */
  show({ cell_groups: cellGroups, stacks }) {
    this.#groups = cellGroups;
    this.#neuron = null;
    if (this.el.hidden && !stacks.length) this.el.open = true; // there is nothing else to see
    this.update(cellGroups.length > 0);
  }

  /**
   * @override
   * @param {Api.InspectRequest} input
   */
  request(input) {
    return { ...input, group: this.#group, ...(this.#neuron === null ? {} : { cell: this.#neuron }) };
  }

  /** @param {number | null} neuron */
  #choose(neuron) {
    this.#neuron = neuron;
    this.ask();
  }

  /**
   * @override
   * @param {Api.NeuronStrip} answer
   */
  draw({ size, cell, strip, others }) {
    this.#model.set("strip", strip);
    const groups = this.#groups.map((name, k) => /** @type {[string, string]} */ ([String(k + 1), name]));
    const chooseGroup = (/** @type {string} */ group) => {
      this.#group = Number(group);
      this.#choose(null);
    };
    const neuronButton = (/** @type {number} */ number) =>
      button(String(number), () => this.#choose(number), {
        "aria-pressed": String(number === cell),
        data: { control: `neuron ${number}` },
      });
    redraw(
      this.#controls,
      dropdown("Group", groups, String(this.#group), chooseGroup),
      stepper("Neuron", cell, 1, size, (number) => this.#choose(number)),
      h(
        "div",
        { class: "choice most-variable", role: "group", "aria-label": "Neurons with the highest variance" },
        h("span", { class: "label" }, "Highest variance"),
        h("div", { class: "segments" }, others.map(neuronButton)),
      ),
    );
  }
}

/** @extends {Extra<Api.Heatmap[]>} */
export class PositionSection extends Extra {
  /**
   * @param {() => Api.InspectRequest} input
   * @param {(message: string) => void} onError
   */
  constructor(input, onError) {
    super("Positional encoding", API.positions, input, onError);
  }

  /**
   * @override
   * @param {Api.Inspection} inspection
   */
  show({ has_positions: hasPositions }) {
    this.update(hasPositions);
  }

  /**
   * @override
   * @param {Api.InspectRequest} input
   */
  request({ run }) {
    return { run };
  }

  /**
   * @override
   * @param {Api.Heatmap[]} maps
   */
  draw(maps) {
    const boxes = maps.map((map) => {
      const el = h("div", {});
      /** @type {Model<HeatmapState>} */
      const model = new Model({
        map,
        pinned: null,
        axes: ["position", map.name === "products" ? "position" : "dimension"],
      });
      heatmap.render({ model, el });
      return el;
    });
    this.content.replaceChildren(
      h("p", { class: "hint" }, maps[0]?.description),
      h("div", { class: "side-by-side" }, boxes),
    );
  }
}

/**
 * One cell of an attention head in numbers: its largest terms, the sum of the others, the model's own value.
 * @typedef {{ derivation: Api.Derivation | null, table: Api.Table | null }} DerivationState
 */
export const derivationView = {
  /**
   * @param {object} options
   * @param {Model<DerivationState>} options.model
   * @param {HTMLElement} options.el
   * @param {() => void} options.onClose
   * @param {(table: Api.Table) => void} options.onOpen opens the head as a problem
   */
  render({ model, el, onClose, onOpen }) {
    const draw = () => {
      const derivation = model.get("derivation");
      const table = model.get("table");
      const open = table && (() => onOpen(table));
      el.replaceChildren(...(derivation ? [derivationContent(derivation, onClose, open)] : []));
    };
    draw();
    model.on("change:derivation", draw);
  },
};

/**
 * @param {Api.Derivation} derivation
 * @param {() => void} onClose
 * @param {(() => void) | null} onOpen null if the head is too large for Work
 */
function derivationContent(derivation, onClose, onOpen) {
  const { title, name, description, product, formula, intermediates, working, notes, terms } = derivation;
  const step = (/** @type {string} */ heading, /** @type {Child} */ children) =>
    h("section", { tabindex: "0", "aria-label": heading }, h("h3", {}, heading), children);
  const table = (/** @type {Api.DataTable} */ data) => data.rows.length > 0 && dataTable(data);
  return h(
    "div",
    { class: "derivation" },
    h(
      "header",
      { class: "title" },
      h("h2", {}, name),
      h("p", { dir: "auto" }, description),
      h("p", { class: "soft", dir: "auto" }, title),
      onOpen ? button("Open in Work", onOpen, { class: "main" }) : h("p", { class: "hint" }, TOO_LARGE),
      button("Close", onClose),
    ),
    h(
      "div",
      { class: "derivation-steps" },
      step("Query · key, by dimension", [table(product.terms), formulaBox(product.working)]),
      intermediates.length > 0 && step("Scale and mask", intermediates.map(formulaBox)),
      step("Softmax", [formulaBox(formula), table(terms), formulaBox(working)]),
      step("The model’s own number", [
        table(derivation.model_values),
        notes.map((note) => h("p", { class: "hint" }, note)),
      ]),
    ),
  );
}
