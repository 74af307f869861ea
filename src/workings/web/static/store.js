// What is being worked on, with every earlier state of it.

const FIRST = {
  table: {
    title: "", kind: "attention", vectors: "rows", tokens: ["the", "cat", "sat"], context_tokens: null,
    settings: { heads: 1, scale: "sqrt(d_k)", mask: "none", normalizer: "softmax" },
    given: {
      X: [["1", "0", "2"], ["0", "2", "1"], ["1", "1", "0"]],
      W_Q: [["1", "0"], ["0", "1"], ["1", "1"]],
      W_K: [["0", "1"], ["1", "0"], ["1", "-1"]],
      W_V: [["2", "0"], ["1", "1"], ["0", "3"]],
    },
    claims: [],
  },
  decimals: 3,
};
const MOST = 200;

export class Store {
  wanted = null;  // a cell that the next screen is to begin at: no state of anybody's
  #past = [];
  #at = -1;
  #open = false;  // a number is being typed: its states are one
  #listeners = [];

  constructor(state, views = {}) {
    this.#push({ ...(state ?? FIRST), views });
  }

  get state() {
    return JSON.parse(this.#past[this.#at]);
  }

  // What the server is asked about.
  get asked() {
    const { table, decimals } = this.state;
    return { table, decimals };
  }

  // The same without its claims, which may be of other steps or sizes than what is being changed.
  get unclaimed() {
    const { table, decimals } = this.state;
    return { table: { ...table, claims: [] }, decimals };
  }

  // Change a copy of the state; `live` changes become one, up to and with the next that is not.
  change(edit, { live = false } = {}) {
    const state = this.state;
    edit(state);
    if (this.#open) this.#past.length = this.#at--;
    this.#push(state);
    this.#open = live;
    this.#tell();
  }

  // What a screen other than Work and Check shows: words by name.
  view(screen, changes, how) {
    const shown = this.state.views[screen] ?? {};
    if (changes) this.change((state) => { state.views[screen] = { ...shown, ...changes }; }, how);
    return { ...shown, ...changes };
  }

  get undoable() {
    return this.#at > 0;
  }

  get redoable() {
    return this.#at < this.#past.length - 1;
  }

  move(by) {
    const to = this.#at + by;
    if (to < 0 || to >= this.#past.length) return;
    this.#at = to;
    this.#open = false;
    this.#tell();
  }

  listen(listener) {
    this.#listeners.push(listener);
    return () => (this.#listeners = this.#listeners.filter((other) => other !== listener));
  }

  #push(state) {
    const written = JSON.stringify(state);
    this.#past.length = this.#at + 1;
    if (this.#past[this.#at] === written) return;
    this.#past.push(written);
    if (this.#past.length > MOST) this.#past.shift();
    this.#at = this.#past.length - 1;
  }

  #tell() {
    for (const listener of this.#listeners) listener();
  }
}

// Edits that several screens make.

export function turned(cells) {
  return cells[0].map((_, j) => cells.map((row) => row[j]));
}

export function turnOver(state, vectors) {
  const { table } = state;
  if (table.vectors === vectors) return;
  table.vectors = vectors;
  for (const name of Object.keys(table.given)) table.given[name] = turned(table.given[name]);
  for (const claim of table.claims) claim.cells = turned(claim.cells);
  if (Array.isArray(table.settings.mask)) table.settings.mask = turned(table.settings.mask);
}

// Make a size one larger or smaller: a line more or less in every matrix that has it.
export function resize(state, size, by) {
  const { table } = state;
  for (const [name, axis] of size.lines) {
    const filler = name === "mask" ? "1" : "0";
    const holder = name === "mask" ? table.settings : table.given;
    const cells = axis ? turned(holder[name]) : holder[name];
    const next = by > 0 ? [...cells, cells[0].map(() => filler)] : cells.slice(0, -1);
    holder[name] = axis ? turned(next) : next;
  }
  for (const name of size.names) {
    if (table[name]) table[name] = by > 0 ? [...table[name], String(size.value + 1)] : table[name].slice(0, -1);
  }
  table.claims = [];  // they were of another size
}
