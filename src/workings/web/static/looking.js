// Looking at a cell: what it has to do with lights up at once, and its working stands in the dock
// as soon as the host has told it.
//
// Out, on the host's model: asked {key, row, column}: a cell whose working is not known yet.
// In: working (as Python tells it).

import { light } from "./lights.js";

export class Looking {
  #model;
  #root;
  #dock;
  #hint;
  #known = new Map();
  #focus = null;
  #matrix = null;

  // `root`: where the matrices are; `dock`: its model; `hint`: what it says when nobody looks.
  constructor(model, root, dock, hint) {
    this.#model = model;
    this.#root = root;
    this.#dock = dock;
    this.#hint = hint;
    model.on("change:working", () => this.#told(model.get("working")));
    this.#told(model.get("working"));
  }

  // Numbers have changed: what was told of them holds no longer.
  forget() {
    this.#known.clear();
  }

  // `matrix`: the one that is looked at, where its cells have workings; else the dock says `said`.
  look(focus, matrix = null, said = this.#hint) {
    const whole = matrix && focus.row !== null && focus.column !== null;
    this.#focus = focus;
    this.#matrix = whole ? matrix : null;
    const known = whole && this.#known.get(name(focus));
    light(this.#root, focus, known?.reads);
    if (known) this.#show(known);
    else if (whole) {
      this.#model.set("asked", focus);
      this.#model.save_changes();
    } else {
      this.#dock.set("said", said);
      this.#dock.set("working", null);
    }
  }

  #told(working) {
    if (!working) return this.#dock.set("working", null);
    this.#known.set(name(working), working);
    if (!this.#matrix || name(this.#focus) !== name(working)) return;
    light(this.#root, this.#focus, working.reads);
    this.#show(working);
  }

  #show(working) {
    const { row_names: rows, column_names: columns, axes } = this.#matrix;
    const names = [rows[working.row], columns[working.column]];
    const named = (axis) => names[axes.indexOf(axis)] ?? null;
    this.#dock.set("place", { from: named("tokens"), to: named("context") });
    this.#dock.set("working", working);
  }
}

function name({ key, row, column }) {
  return `${key} ${row} ${column}`;
}
