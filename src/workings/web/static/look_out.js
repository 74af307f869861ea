// What comes out of a run: bars, a text that was written, a picture with a tile a word.

import { get } from "./api.js";
import bars from "./bars.js";
import { button, choice, h, stepper, svg } from "./dom.js";
import { Model } from "./model.js";

export function outcome(looked) {
  const box = h("div", {});
  bars.render({ model: new Model(looked), el: box });
  return [
    ...looked.notes.map((note) => h("p", { class: "hint" }, note)),
    ...(looked.written ? [wrote(looked)] : []),
    ...(looked.bars.length ? [box] : []),
    ...(looked.pictured ? [pictured(looked.pictured, looked.written.text)] : []),
  ];
}

function wrote({ says, written }) {
  const line = (heading, text, note) => h("div", { class: "wrote" }, h("h3", {}, heading), h("p", { class: "words", dir: "auto" }, text || "(nothing)"), h("p", { class: "hint" }, note));
  if (written.before === null) return line(says, written.text, written.note);
  return h("div", { class: written.before === written.text ? "both same" : "both" },
    line("With these heads off", written.text, written.note), line("With all heads", written.before, written.before_note));
}

export function pictured({ photo, name, tiles }, written) {
  const image = () => h("img", { src: photo, alt: "" });
  return h("div", { class: "pictured" },
    h("figure", { class: "whole" }, h("img", { src: photo, alt: name }), h("figcaption", {}, name)),
    tiles.length ? h("ol", { class: "tiles" }, tiles.map(({ word, note, says, shadow, frame }) => h("li", {},
      h("div", { class: "tile", role: "img", "aria-label": says }, image(), h("img", { class: "shadow", src: shadow, alt: "" }), frame ? framed(frame) : null),
      h("b", { dir: "auto" }, word), h("span", {}, note))))
      : h("p", { class: "hint" }, written ? "This captioner does not look while it writes." : "No word was written that it could have looked for."));
}

function framed([x, y, width, height]) {
  const box = { x, y, width, height, fill: "none", "vector-effect": "non-scaling-stroke" };
  return svg("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { ...box, stroke: "#000", "stroke-width": "3" }), svg("rect", { ...box, stroke: "#fff", "stroke-width": "1.5" }));
}

// Go on with a text. `asked()` says what the run is given; `use` takes the whole text over.
export class Completion {
  el = h("section", { class: "completion", "aria-label": "How the text goes on" });
  #asked;
  #use;
  #refuse;
  #how = { tokens: 40, temperature: 0, seed: 1 };
  #stop = null;
  #told = null;
  #prompt = "";

  constructor(asked, use, refuse) {
    this.#asked = asked;
    this.#use = use;
    this.#refuse = refuse;
    this.#draw();
  }

  // What was written belongs to an input that is no longer there.
  forget() {
    this.#stop?.abort();
    this.#told = null;
    this.#draw();
  }

  async #go() {
    this.#stop = new AbortController();
    this.#draw();
    const asked = this.#asked();
    try {
      this.#told = await get("/api/look/complete", { ...asked, ...this.#how }, this.#stop.signal);
      this.#prompt = asked.text;
    } catch (error) {
      if (error.name !== "AbortError") this.#refuse(error.message);
    }
    this.#stop = null;
    this.#draw();
  }

  #draw() {
    const step = this.el.contains(document.activeElement) ? document.activeElement.dataset.step ?? document.activeElement.value : null;
    const set = (name) => (value) => { this.#how[name] = value; this.#draw(); };
    const drawn = this.#how.temperature > 0;
    this.el.replaceChildren(h("div", { class: "toggles" },
      stepper("Tokens", this.#how.tokens, 10, 200, (value) => set("tokens")(Math.max(10, Math.min(200, this.#how.tokens + 10 * (value - this.#how.tokens))))),
      choice("Each is", "temperature", [["0", "the likeliest"], ["0.8", "drawn"]], String(this.#how.temperature), (value) => set("temperature")(Number(value))),
      drawn ? stepper("Seed", this.#how.seed, 0, 9999, set("seed")) : null,
      this.#stop ? button("Stop", () => this.#stop.abort(), { data: { step: "go" } }) : button("Go on", () => this.#go(), { class: "main", data: { step: "go" } })),
    ...(this.#told ? this.#text() : []));
    if (step) [...this.el.querySelectorAll("button, input")].find((one) => one.dataset.step === step || (one.type === "radio" && one.value === step))?.focus();
  }

  #text() {
    const { tokens, ended, milliseconds } = this.#told;
    const chances = h("div", { class: "chances" });
    const model = new Model({ bars: [], says: "", more: 0 });
    bars.render({ model, el: chances });
    const show = (token) => { model.set("says", `“${token.token}”, ${token.chance}; what else was likely there`); model.set("bars", token.bars); };
    const written = tokens.filter(({ text }) => text);
    const spans = written.map((token) => h("span", { class: "token", title: token.chance, onpointerenter: () => show(token) }, token.text));
    let at = -1;
    const walk = (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by || !spans.length) return;
      event.preventDefault();
      spans[at]?.classList.remove("here");
      at = Math.min(Math.max(at + by, 0), spans.length - 1);
      spans[at].classList.add("here");
      show(written[at]);
    };
    return [
      h("p", { class: "went-on", dir: "auto", tabindex: "0", onkeydown: walk, "aria-describedby": "went-on-how" }, h("span", { class: "soft" }, this.#prompt), spans),
      h("p", { class: "hint" }, `${tokens.length} tokens in ${Math.round(milliseconds)} ms${ended ? `; ${ended}` : ""}. `, h("span", { id: "went-on-how", class: "how" }, "Point at one, or walk with the arrow keys, to see what else was likely. "),
        button("Look into all of it", () => this.#use(this.#prompt + tokens.map(({ text }) => text).join("")))),
      chances,
    ];
  }
}
