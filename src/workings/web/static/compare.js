// The screen Compare: two runs, two inputs, or an input and its tokens in another order.

import { get, latest } from "./api.js";
import beside from "./beside.js";
import { redraw } from "./controls.js";
import { choice, h, stepper } from "./dom.js";
import { pictured } from "./look_out.js";
import { Model } from "./model.js";
import pairs from "./pairs.js";
import picture, { grid } from "./picture.js";
import { chooser, howto, named } from "./runs.js";

const MODES = [["runs", "Two runs"], ["inputs", "Two inputs"], ["permuted", "Permuted"]];
const ORDERS = [["reversed", "reversed"], ["swapped", "first two"], ["shuffled", "shuffled"]];
const HEAD = { part: "", layer: "1", head: "1" };  // to begin with, and where another model may have others
const FIRST = { ...HEAD, text: "the cat sat on the mat", other: "the mat sat on the cat", scene: "1", other_scene: "2", order: "reversed", seed: "1", positions: "on" };
const SAYS = {
  runs: "Two runs are given the same input.", inputs: "One run reads two inputs.",
  permuted: "One run reads an input’s tokens in another order, P X. Without positions, attention gives the same vectors in that order: f(P X) = P f(X).",
};

export default {
  render({ store, el, runs }) {
    if (!runs.length) {
      el.replaceChildren(h("h1", { class: "unseen" }, "Compare"), howto());
      return () => {};
    }
    return new Compare(store, el, runs).start();
  },
};

class Compare {
  #store;
  #el;
  #runs;
  #parts = {};
  #asked = "";
  #trained = "";
  #pairs = new Model({ pairs: [], more: 0, columns: ["A", "B"], says: "How likely each is to A and to B" });
  #beside = new Model({ beside: null, axes: ["query", "key"] });
  #apart = new Model({ beside: null, axes: ["layer", "token"] });
  #ask = latest((told) => this.#answered(told), (line) => this.#refuse(line));
  #askCurves = latest((told) => this.#curves(told), (line) => { this.#parts.status.textContent = line; });

  constructor(store, el, runs) {
    this.#store = store;
    this.#el = el;
    this.#runs = runs;
  }

  get #view() {
    const view = { ...FIRST, ...this.#store.view("compare") };
    const mode = MODES.some(([name]) => name === view.mode) ? view.mode : this.#runs.length > 1 ? "runs" : "inputs";
    return { ...view, mode, a: named(this.#runs, view.a).name, b: named(this.#runs, view.b ?? this.#runs[1]?.name).name };
  }

  #set(changes) {
    this.#store.view("compare", changes);
  }

  start() {
    this.#lay();
    const ends = [[pairs, this.#pairs, "pairs"], [beside, this.#beside, "maps"], [beside, this.#apart, "apart"]].map(([component, model, part]) =>
      component.render({ model, el: this.#parts[part] }));
    const show = () => this.#show();
    ends.push(this.#store.listen(show));
    show();
    return () => ends.forEach((end) => end?.());
  }

  #lay() {
    const parts = this.#parts;
    for (const name of ["modes", "order", "which", "pairs", "maps", "apart", "texts", "layers", "charts", "best", "settings", "orders"]) parts[name] = h("div", { class: name });
    parts.a = chooser(this.#runs, this.#view.a, (a) => this.#set({ a, ...HEAD }), "Run A");
    parts.b = chooser(this.#runs, this.#view.b, (b) => this.#set({ b, ...HEAD }), "Run B");
    parts.text = field("Input", (text) => this.#set({ text }));
    parts.other = field("Input B", (other) => this.#set({ other }));
    parts.scenes = h("div", { class: "toggles" });
    parts.hint = h("p", { class: "hint" });
    parts.status = h("p", { class: "status", role: "alert" });
    parts.verdict = h("p", { class: "verdict", role: "status" });
    parts.looking = h("section", { class: "attended", "aria-label": "Attention", hidden: true }, h("h2", {}, "Attention"), parts.which, parts.maps);
    parts.layered = h("section", { class: "layered", "aria-label": "Equivariance" }, h("h2", {}, "Layer by layer"),
      h("div", {}, scroll("Layer by layer", parts.layers), parts.apart));
    parts.training = h("section", { "aria-label": "Training" }, h("h2", {}, "Training"), parts.charts,
      h("div", { class: "halves apart" }, h("section", { "aria-label": "Best" }, scroll("The best of each run", parts.best)),
        h("section", { "aria-label": "Settings" }, scroll("Settings that differ", parts.settings))));
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Compare"),
      h("div", { class: "bar-top sides" }, parts.modes, parts.a.el, parts.b.el, parts.text.el, parts.other.el, parts.scenes, parts.order),
      parts.hint, parts.status,
      h("section", { class: "answers", "aria-label": "Answers" }, parts.orders, parts.verdict, parts.texts, parts.pairs),
      parts.layered, parts.looking, parts.training);
  }

  #show() {
    const parts = this.#parts;
    const view = this.#view;
    const { mode } = view;
    redrawn(parts.modes, mode, () => choice("Compare", "mode", MODES, mode, (chosen) => this.#set({ mode: chosen, ...HEAD })));
    const wanted = this.#store.view("compare");
    parts.a.show(wanted.a ?? view.a);
    parts.b.show(wanted.b ?? view.b);
    parts.a.el.firstChild.textContent = mode === "runs" ? "Run A" : "Run";
    parts.b.el.hidden = mode !== "runs";
    const kinds = (mode === "runs" ? [view.a, view.b] : [view.a]).map((name) => named(this.#runs, name).kind);
    parts.text.el.hidden = kinds.every((kind) => kind === "caption");
    parts.other.el.hidden = mode !== "inputs" || parts.text.el.hidden;
    parts.scenes.hidden = mode === "permuted" || !kinds.includes("caption");
    this.#scenes(view);
    parts.text.el.firstChild.textContent = mode === "inputs" ? "Input A" : "Input";
    parts.text.show(view.text);
    parts.other.show(view.other);
    parts.hint.textContent = SAYS[mode];
    parts.order.hidden = mode !== "permuted";
    parts.layered.hidden = parts.orders.hidden = mode !== "permuted";
    parts.training.hidden = mode !== "runs" || view.a === view.b;
    if (mode === "permuted") this.#orders(view, null);
    this.#question(view);
    const width = Math.max(240, Math.min(Math.floor((this.#el.clientWidth - 40) / 10) * 10, 560));
    const trained = `/api/compare/curves?first=${encodeURIComponent(view.a)}&second=${encodeURIComponent(view.b)}&width=${width}`;
    if (!parts.training.hidden && trained !== this.#trained) this.#askCurves(trained);
    this.#trained = parts.training.hidden ? "" : trained;
  }

  // Ask what is shown, unless it is there already.
  #question({ mode, a, b, text, other, scene, other_scene: otherScene, part, layer, head, order, seed, positions }) {
    const chosen = { layer: Number(layer), head: Number(head) };
    const side = (run, words, picture) => ({ run, ...(named(this.#runs, run).kind === "caption" ? { scene: Number(picture) || 1 } : { text: words }) });
    const [path, body] = mode === "permuted"
      ? ["/api/permute", { run: a, text, order, seed: Number(seed), positions: positions !== "off", ...chosen }]
      : ["/api/compare", { first: side(a, text, scene), second: mode === "runs" ? side(b, text, scene) : side(a, other, otherScene), part: part || null, ...chosen }];
    const asked = JSON.stringify([path, body]);
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#el.classList.add("waiting");
    this.#ask(path, body);
  }

  #answered(told) {
    const parts = this.#parts;
    const permuted = "residual" in told;
    const { mode } = this.#view;
    this.#el.classList.remove("waiting");
    parts.status.textContent = "";
    this.#pairs.set("columns", permuted ? ["X", "P X"] : mode === "runs" ? ["A", "B"] : ["input A", "input B"]);
    this.#pairs.set("more", told.more ?? 0);
    this.#pairs.set("pairs", told.pairs);
    parts.verdict.replaceChildren(...(permuted ? [h("span", { class: "legend-like" }, "max |f(P X) − P f(X)|"), h("b", { class: "residual" }, told.residual), h("span", {}, told.says)] : [told.says]));
    parts.texts.replaceChildren(...(permuted ? [] : told.sides.filter((side) => side.text !== null || side.notes.length).map(written)), ...(told.notes ?? []).map((note) => h("p", { class: "hint" }, note)));
    this.#beside.set("beside", told.beside);
    parts.looking.hidden = !told.beside;
    this.#heads(told.stacks);
    if (!permuted) return;
    this.#orders(this.#view, told);
    parts.orders.replaceChildren(tokens("X", told.tokens), tokens("P X", told.permuted));
    parts.layers.replaceChildren(grid(told.layers, "Layer by layer"));
    this.#apart.set("beside", { first: told.apart, second: null, difference: null, says: "" });
  }

  // What captioners look at.
  #scenes({ mode, scene, other_scene: other }) {
    const step = (label, name, number) => stepper(label, Number(number), 1, 200, (chosen) => this.#set({ [name]: String(chosen) }));
    redrawn(this.#parts.scenes, JSON.stringify([mode, scene, other]), () =>
      mode === "inputs" ? [step("Drawn scene A", "scene", scene), step("Drawn scene B", "other_scene", other)] : [step("Drawn scene", "scene", scene)]);
  }

  #orders(view, told) {
    redrawn(this.#parts.order, JSON.stringify([view.order, view.seed, view.positions, told?.removable]), () => [
      choice("Order", "order", ORDERS, view.order, (order) => this.#set({ order })),
      view.order === "shuffled" ? stepper("Seed", Number(view.seed), 0, 999, (seed) => this.#set({ seed: String(seed) })) : null,
      told?.removable || view.positions === "off"
        ? choice("Positions", "positions", [["on", "on"], ["off", "left out"]], view.positions, (positions) => this.#set({ positions })) : null,
    ]);
  }

  // Which head: of those that both have.
  #heads(stacks) {
    const view = this.#view;
    const stack = stacks.find(({ part }) => part === view.part) ?? stacks[0];
    if (!stack) return;
    const part = (name) => this.#set({ ...HEAD, part: name });
    redrawn(this.#parts.which, JSON.stringify([stacks, view.part, view.layer, view.head]), () => [
      stacks.length > 1 ? choice("Part", "part", stacks.map(({ part: name }) => [name, name]), stack.part, part) : null,
      stack.layers > 1 ? stepper("Layer", Number(view.layer), 1, stack.layers, (layer) => this.#set({ layer: String(layer) })) : null,
      stack.heads > 1 ? stepper("Head", Number(view.head), 1, stack.heads, (head) => this.#set({ head: String(head) })) : null,
    ]);
  }

  #curves({ charts, best, settings }) {
    const parts = this.#parts;
    parts.charts.replaceChildren(...charts.map((chart) => {
      const el = h("figure", {});
      picture.render({ model: new Model({ chart }), el });
      return el;
    }));
    parts.best.replaceChildren(best.rows.length ? grid(best, "The best of each run") : h("p", { class: "hint" }, "No epoch of theirs is over yet."));
    parts.settings.replaceChildren(settings.rows.length ? grid(settings, "Settings that differ") : h("p", { class: "hint" }, "Their settings are the same."));
  }

  #refuse(line) {
    const parts = this.#parts;
    this.#asked = "";  // it may be asked again
    this.#el.classList.remove("waiting");
    parts.status.textContent = line;
    parts.verdict.replaceChildren();
    parts.texts.replaceChildren();
    parts.orders.replaceChildren();
    this.#pairs.set("pairs", []);
    parts.layers.replaceChildren();
    this.#beside.set("beside", null);
    this.#apart.set("beside", null);
    parts.looking.hidden = parts.layered.hidden = true;
  }
}

function field(label, change) {
  const input = h("input", { type: "text", maxlength: "20000", autocomplete: "off", spellcheck: "false", onchange: () => change(input.value) });
  const show = (text) => { if (input.value !== text && document.activeElement !== input) input.value = text; };
  return { el: h("label", { class: "choice words" }, h("span", { class: "legend-like" }, label), input), show };
}

function written({ name, text, note, pictured: seen, notes }) {
  return h("figure", {}, h("figcaption", {}, name), text === null ? null : h("blockquote", { dir: "auto" }, text || "(nothing)"), seen ? pictured(seen, text) : null,
    note ? h("p", { class: "hint" }, note) : null, notes.map((line) => h("p", { class: "hint" }, line)));
}

function tokens(name, list) {
  return h("div", { class: "tokens" }, h("b", {}, name), h("ol", { "aria-label": name, tabindex: "0" }, list.map((token) => h("li", { dir: "auto" }, token.slice(0, 60)))));
}

function scroll(label, inside) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, inside);
}

// Draw controls anew only where they are others.
function redrawn(container, key, make) {
  if (container.dataset.key === key) return;
  container.dataset.key = key;
  redraw(container, ...[make()].flat().filter(Boolean));
}
