// The screen Look: a run reads an input, and shows what it makes of it and where it looks.

import { download, get, latest } from "./api.js";
import derivation from "./derivation.js";
import { button, choice, h } from "./dom.js";
import heads from "./heads.js";
import { firstText, pictureInput, textInput } from "./look_input.js";
import { Completion, outcome } from "./look_out.js";
import { Cells, Explained, Positions } from "./look_more.js";
import map from "./map.js";
import { Model } from "./model.js";
import { chooser, howto, named } from "./runs.js";

const PARTS = { alignment: "alignment", cross: "cross-attention", decoder: "decoder", encoder: "encoder" };

const ROWS = "A row is named by the token that the decoder reads there; the one that it writes stands in the next.";
const HINTS = { alignment: "The mean of all heads, a row for each token that was written. Other tabs have each head by itself.", cross: ROWS, decoder: ROWS };
const PLACES = " A column is a place of the picture: row, column.";

export default {
  render({ store, el, runs }) {
    if (runs.length) return new Look(store, el, runs).start();
    el.replaceChildren(h("h1", { class: "unseen" }, "Look into a run"), howto());
    return () => {};
  },
};

class Look {
  #store;
  #el;
  #runs;
  #parts = {};
  #question = "";  // the last that was asked
  #run = null;
  #input = null;
  #picture = null;
  #looked = null;
  #maps = new Map();
  #heads = new Model({ stack: null, palettes: null, chosen: null });
  #map = new Model({ map: null, pinned: null, axes: ["query", "key"] });
  #cell = new Model({ derivation: null });
  #ask = latest((looked, asked) => this.#answered(looked, asked), (line) => this.#unanswered(line));
  #askMap = latest((told, asked) => this.#mapped(told, asked), (line) => this.#refuse(line));
  #askCell = latest((told, asked) => this.#written(told, asked), (line) => this.#refuse(line));
  #worked = "";  // the cell whose working is there

  constructor(store, el, runs) {
    this.#store = store;
    this.#el = el;
    this.#runs = runs;
  }

  get #view() {
    return this.#store.view("look");
  }

  #change(changes, how) {
    this.#store.view("look", changes, how);
  }

  start() {
    const parts = this.#parts;
    parts.choose = chooser(this.#runs, this.#view.run, (run) => this.#change({ run, text: undefined, part: "", layer: "", head: "", row: "", column: "", off: "" }));
    for (const name of ["input", "out", "heads", "map", "tabs", "tools", "dock", "more"]) parts[name] = h("div", { class: `look-${name}` });
    parts.status = h("p", { class: "status", role: "alert" });
    parts.attention = h("section", { class: "attention", "aria-label": "Attention" }, h("h2", {}, "Where it looks"), parts.tabs,
      h("div", { class: "looking" }, parts.heads, h("div", { class: "one-head" }, parts.map, parts.tools)));
    this.#el.replaceChildren(h("h1", { class: "unseen" }, "Look into a run"),
      h("div", { class: "look-top" }, parts.choose.el, parts.input), parts.status,
      h("div", { class: "look-body" }, parts.attention, h("section", { class: "outcome", "aria-label": "What comes out" }, h("h2", {}, "What comes out"), parts.out), parts.more),
      parts.dock);
    parts.dock.classList.add("dock", "tall");
    parts.dock.setAttribute("aria-label", "The working of a cell");
    parts.dock.setAttribute("role", "region");
    const ends = [heads.render({ model: this.#heads, el: parts.heads }), map.render({ model: this.#map, el: parts.map })];
    derivation.render({ model: this.#cell, el: parts.dock });
    this.#heads.on("change:chosen", () => this.#choose());
    this.#heads.on("change:focus", () => this.#showMap());
    this.#map.on("change:pinned", () => this.#pin());
    this.#cell.on("change:opened", () => this.#open(this.#cell.get("opened")));
    this.#cell.on("change:derivation", () => { parts.dock.hidden = !this.#cell.get("derivation"); });
    this.#cell.on("change:closed", () => parts.tools.querySelector('[data-step="work"]')?.focus());
    parts.dock.hidden = true;
    ends.push(this.#store.listen(() => this.#changed()), () => this.#parts.completion?.forget());
    this.#changed();
    return () => ends.forEach((end) => end());
  }

  // What the run is given.
  #given() {
    const { text, scene, off } = this.#view;
    const given = { run: this.#run.name, off: offs(off) };
    if (this.#run.kind !== "caption") return { ...given, text: text ?? firstText(this.#run.kind) };
    return this.#picture ? { ...given, picture: this.#picture } : { ...given, scene: Number(scene || 1) };
  }

  #changed() {
    const run = named(this.#runs, this.#view.run);
    this.#parts.choose.show(this.#view.run);
    if (run !== this.#run) this.#begin(run);
    if (this.#cell.get("derivation") && JSON.stringify(this.#asked) !== this.#worked) this.#cell.set("derivation", null);
    const given = this.#given();
    if (run.kind === "caption") this.#input.show(Number(this.#view.scene || 1), Boolean(this.#picture));
    else this.#input.show(given.text);
    const question = JSON.stringify(given);
    if (question !== this.#question) {
      this.#question = question;
      this.#el.classList.add("waiting");
      this.#ask("/api/look", given);
    } else this.#show();
  }

  // Another run: other controls, and nothing on the page any more.
  #begin(run) {
    this.#run = run;
    this.#looked = null;
    this.#parts.completion?.forget();
    const refuse = (line) => this.#refuse(line);
    this.#input = run.kind === "caption"
      ? pictureInput(Number(this.#view.scene || 1), (scene) => { this.#picture = null; this.#change({ scene: String(scene) }); }, (picture) => { this.#picture = picture; this.#changed(); }, refuse)
      : textInput(run.kind, this.#view.text ?? firstText(run.kind), (text, live) => this.#change({ text, row: "", column: "" }, { live }));
    this.#parts.input.replaceChildren(this.#input.el);
    this.#parts.completion = run.kind === "language" ? new Completion(() => this.#given(), (text) => this.#change({ text, row: "", column: "" }), refuse) : null;
    const asked = () => this.#given();
    this.#parts.extras = [Explained, Cells, Positions].map((Kind) => new Kind(asked, refuse));
    this.#parts.more.replaceChildren(...this.#parts.extras.map(({ el }) => el));
    for (const name of ["out", "tabs", "tools"]) this.#parts[name].replaceChildren();
    this.#heads.set("stack", null);
    this.#map.set("map", null);
  }

  #refuse(line) {
    this.#parts.status.textContent = line;
  }

  // What is on the page answers an older question; this one may be asked again.
  #unanswered(line) {
    this.#refuse(line);
    this.#question = "";
    this.#el.classList.remove("waiting");
    this.#el.classList.add("stale");
  }

  #answered(looked, asked) {
    if (asked.run !== this.#run.name) return;
    this.#looked = looked;
    this.#maps.clear();
    this.#parts.status.textContent = "";
    this.#el.classList.remove("waiting", "stale");
    this.#parts.out.replaceChildren(...outcome(looked));
    if (this.#parts.completion) {
      this.#parts.completion.forget();
      this.#parts.out.append(this.#parts.completion.el);
    }
    for (const extra of this.#parts.extras) extra.show(looked);
    this.#show();
  }

  // The stack, the layer and the head that are chosen; the first where they are not there.
  get #chosen() {
    const { part, layer, head } = this.#view;
    const stack = this.#looked?.stacks.find((one) => one.part === part) ?? this.#looked?.stacks[0];
    if (!stack) return null;
    const within = (words, most) => Math.min(Math.max(Number(words) || 1, 1), most);
    return { stack, layer: within(layer, stack.thumbs.length), head: within(head, stack.thumbs[0].length) };
  }

  #show() {
    const chosen = this.#chosen;
    this.#parts.attention.hidden = !chosen;
    this.#el.classList.toggle("plain", !chosen);
    this.#el.classList.toggle("with-picture", Boolean(this.#looked?.pictured));
    if (!chosen) return;
    const { stack, layer, head } = chosen;
    const { stacks, light, dark } = this.#looked;
    this.#parts.tabs.replaceChildren(...(stacks.length > 1 ? [choice("Attention", "part", stacks.map((one) => [one.part, PARTS[one.part]]), stack.part,
      (part) => { this.#change({ part, layer: "1", head: "1", row: "", column: "" }); this.#parts.tabs.querySelector("input:checked")?.focus(); })] : []));
    this.#heads.set("palettes", { light, dark });
    if (this.#heads.get("stack") !== stack) {
      this.#heads.set("chosen", { layer, head });
      this.#heads.set("stack", stack);
    } else if (this.#heads.get("chosen")?.layer !== layer || this.#heads.get("chosen")?.head !== head) this.#heads.set("chosen", { layer, head });
    this.#parts.heads.hidden = stack.thumbs.length * stack.thumbs[0].length < 2;
    const { row, column } = this.#view;
    const pinned = row ? { row: Number(row), column: Number(column) } : null;
    if (JSON.stringify(pinned) !== JSON.stringify(this.#map.get("pinned"))) this.#map.set("pinned", pinned);
    this.#showMap();
    this.#showTools();
  }

  #choose() {
    const { layer, head } = this.#heads.get("chosen");
    const now = this.#chosen;
    if (now && (layer !== now.layer || head !== now.head)) this.#change({ layer: String(layer), head: String(head) });
  }

  // The map of the head that is pointed at, or else of the chosen one.
  #showMap() {
    const chosen = this.#chosen;
    if (!chosen) return;
    const { layer, head } = this.#heads.get("focus") ?? chosen;
    const name = `${chosen.stack.part} ${layer} ${head}`;
    const known = this.#maps.get(name);
    if (known && known !== this.#map.get("map")) this.#map.set("map", known);
    if (!known) this.#askMap("/api/look/map", { ...this.#given(), part: chosen.stack.part, layer, head });
  }

  #mapped(told, asked) {
    const { part, layer, head, ...given } = asked;
    if (JSON.stringify(given) !== this.#question) return;
    this.#maps.set(`${part} ${layer} ${head}`, told);
    this.#showMap();
  }

  #showTools() {
    const { stack, layer, head } = this.#chosen;
    const off = stack.off[layer - 1][head - 1];
    const list = offs(this.#view.off);
    const others = list.filter((one) => one.part !== stack.part || one.layer !== layer || one.head !== head);
    const active = this.#parts.tools.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    const pinned = this.#view.row;
    const keep = () => download({ ...this.#given(), part: stack.part, layer, head }, "/api/look/export").catch((error) => this.#refuse(error.message));
    this.#parts.tools.replaceChildren(...(stack.worked ? [
      button(off ? "Switch this head on" : "Switch this head off", () => this.#change({ off: words(off ? others : [...list, { part: stack.part, layer, head }]) }), { "aria-pressed": String(off), data: { step: "off" } }),
      list.length ? button(`All heads on (${list.length} off)`, () => this.#change({ off: "" }), { data: { step: "on" } }) : null,
      button("Show the working", () => this.#work(), { "aria-disabled": pinned ? null : "true", title: pinned ? null : "Pin a cell first", data: { step: "work" } }),
    ].filter(Boolean) : []),
      ...(HINTS[stack.part] && this.#looked.stacks.length > 1 ? [h("p", { class: "hint" }, HINTS[stack.part] + (this.#looked.pictured && stack.part === "cross" ? PLACES : ""))] : []),
      button("Download the heads", keep, { data: { step: "keep" } }));
    if (active) (this.#parts.tools.querySelector(`[data-step="${active}"]`) ?? this.#parts.tools.querySelector("button"))?.focus();
  }

  #pin() {
    const pinned = this.#map.get("pinned");
    const { row, column } = this.#view;
    if (pinned ? String(pinned.row) === row && String(pinned.column) === column : !row) return;
    const seen = this.#heads.get("focus") ?? this.#chosen;  // what is pinned is what is seen
    this.#change({ row: pinned ? String(pinned.row) : "", column: pinned ? String(pinned.column) : "", layer: String(seen.layer), head: String(seen.head) });
  }

  // What is asked about the cell that is pinned: of which input, and which head.
  get #asked() {
    const { row, column } = this.#view;
    if (!row || !this.#chosen) return null;
    const { stack, layer, head } = this.#chosen;
    return { ...this.#given(), part: stack.part, layer, head, row: Number(row), column: Number(column) };
  }

  #work() {
    if (this.#asked) this.#askCell("/api/look/working", this.#asked);
  }

  // A working is of one cell: beside another head or another input it would be wrong.
  #written(told, asked) {
    if (JSON.stringify(asked) !== JSON.stringify(this.#asked)) return;
    this.#worked = JSON.stringify(asked);
    this.#cell.set("derivation", told);
  }

  #open(table) {
    this.#store.change((state) => { Object.assign(state, { table, decimals: 4, practice: false }); });
    const { row, column } = this.#view;
    this.#store.wanted = { key: "weights", row, column };  // where Work is to begin
    location.hash = "#work";
  }
}

// Heads that are off, as the address has them: decoder.1.2 cross.2.1
function offs(text) {
  return (text ?? "").split(" ").map((one) => one.split(".")).filter((one) => one.length === 3)
    .map(([part, layer, head]) => ({ part, layer: Number(layer), head: Number(head) }));
}

function words(list) {
  return list.map(({ part, layer, head }) => `${part}.${layer}.${head}`).join(" ");
}
