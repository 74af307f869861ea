// @ts-check
// The state of the screens, each with its undo history, and edits of a problem.

/** @type {ProblemState} */
export const FIRST_PROBLEM = {
  table: {
    title: "",
    kind: "attention",
    vectors: "rows",
    rounded: [],
    tokens: ["the", "cat", "sat"],
    context_tokens: null,
    settings: { heads: 1, scale: "sqrt(d_k)", mask: "none", normalizer: "softmax" },
    options: {},
    given: {
      X: [
        ["1", "0", "2"],
        ["0", "2", "1"],
        ["1", "1", "0"],
      ],
      W_Q: [
        ["1", "0"],
        ["0", "1"],
        ["1", "1"],
      ],
      W_K: [
        ["0", "1"],
        ["1", "0"],
        ["1", "-1"],
      ],
      W_V: [
        ["2", "0"],
        ["1", "1"],
        ["0", "3"],
      ],
    },
    claims: [],
  },
  decimals: 3,
};
const MAX_STATES = 200;

/** Screens that edit the problem; they share its history. */
export const PROBLEM_SCREENS = ["work", "check", ""];

/**
 * Undo history of a JSON value.
 * @template State
 */
export class History {
  /** @type {string[]} */
  #states;
  #index = 0;
  /** @type {number | null} */
  #liveBase = null; // the state before the edit that is being typed

  /** @param {State} state */
  constructor(state) {
    this.#states = [JSON.stringify(state)];
  }

  /** @returns {State} a copy */
  get current() {
    return JSON.parse(this.#states[this.#index] ?? "");
  }

  get canUndo() {
    return this.#index > 0;
  }

  get canRedo() {
    return this.#index < this.#states.length - 1;
  }

  /**
   * Apply an edit to a copy of the state. `live` edits and the next edit that is not live become one entry.
   * @param {(state: State) => void} edit
   * @param {{ live?: boolean }} [options]
   */
  change(edit, { live = false } = {}) {
    const state = this.current;
    edit(state);
    const text = JSON.stringify(state);
    const base = this.#liveBase ?? this.#index;
    const isNew = text !== this.#states[base];
    this.#states.length = base + 1;
    if (isNew) this.#states.push(text);
    if (this.#states.length > MAX_STATES) this.#states.shift();
    this.#index = this.#states.length - 1;
    this.#liveBase = live ? this.#index - (isNew ? 1 : 0) : null;
  }

  /**
   * Undo (-1) or redo (1).
   * @param {-1 | 1} by
   */
  move(by) {
    if (by < 0 ? !this.canUndo : !this.canRedo) return;
    this.#index += by;
    this.#liveBase = null;
  }
}

/** The problem of Work and Check, and the view of each other screen. */
export class Store {
  /** @type {{ key: string, row: string, column: string } | null} */
  initialCell = null; // the cell that Work moves the focus to when it opens
  /** @type {DocumentSource | null} */
  #document = null; // that Check has not read yet
  /** @type {History<ProblemState>} */
  #problem;
  /** @type {Map<string, History<ViewState>>} */
  #views = new Map();
  /** @type {(() => void)[]} */
  #listeners = [];

  /**
   * @param {ProblemState | null} problem
   * @param {Record<string, ViewState>} [views]
   */
  constructor(problem, views = {}) {
    this.#problem = new History(problem ?? FIRST_PROBLEM);
    for (const [screen, view] of Object.entries(views)) this.#views.set(screen, new History(view));
  }

  get problem() {
    return this.#problem.current;
  }

  /**
   * Hand a document over to Check.
   * @param {DocumentSource} source
   */
  giveDocument(source) {
    this.#document = source;
    this.#notify();
  }

  /** Return the document that was handed over, once. */
  takeDocument() {
    const source = this.#document;
    this.#document = null;
    return source;
  }

  /** The problem as the server takes it. */
  get request() {
    const { table, decimals } = this.problem;
    return { table, decimals };
  }

  /** The same without claims, which may not fit a problem that is being changed. */
  get requestWithoutClaims() {
    const { table, decimals } = this.problem;
    return { table: { ...table, claims: [] }, decimals };
  }

  /**
   * @param {(problem: ProblemState) => void} edit
   * @param {{ live?: boolean }} [options]
   */
  changeProblem(edit, options) {
    this.#problem.change(edit, options);
    this.#notify();
  }

  /** @param {string} screen */
  view(screen) {
    return this.#viewHistory(screen).current;
  }

  /**
   * Change what a screen shows.
   * @param {string} screen
   * @param {ViewState} changes
   * @param {{ live?: boolean }} [options]
   */
  changeView(screen, changes, options) {
    this.#viewHistory(screen).change((view) => Object.assign(view, changes), options);
    this.#notify();
  }

  /**
   * Replace what a screen shows.
   * @param {string} screen
   * @param {ViewState} view
   */
  replaceView(screen, view) {
    this.#viewHistory(screen).change((old) => {
      for (const name of Object.keys(old)) delete old[name];
      Object.assign(old, view);
    });
    this.#notify();
  }

  /**
   * Return a screen's history.
   * @param {string} screen
   * @returns {{ canUndo: boolean, canRedo: boolean }}
   */
  history(screen) {
    return PROBLEM_SCREENS.includes(screen) ? this.#problem : this.#viewHistory(screen);
  }

  /**
   * Undo (-1) or redo (1) the last change of a screen.
   * @param {string} screen
   * @param {-1 | 1} by
   */
  move(screen, by) {
    (PROBLEM_SCREENS.includes(screen) ? this.#problem : this.#viewHistory(screen)).move(by);
    this.#notify();
  }

  /**
   * @param {() => void} listener
   * @returns {Dispose}
   */
  listen(listener) {
    this.#listeners.push(listener);
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== listener);
    };
  }

  /** @param {string} screen */
  #viewHistory(screen) {
    const known = this.#views.get(screen);
    if (known) return known;
    /** @type {History<ViewState>} */
    const created = new History({});
    this.#views.set(screen, created);
    return created;
  }

  #notify() {
    for (const listener of this.#listeners) listener();
  }
}

/** @param {Cells} cells */
function transpose(cells) {
  return (cells[0] ?? []).map((_, j) => cells.map((row) => row[j] ?? ""));
}

/**
 * Write every matrix with tokens as rows or as columns.
 * @param {ProblemState} problem
 * @param {string} vectors
 */
export function setVectors({ table }, vectors) {
  const before = table.vectors || "rows"; // the usual one, where a document declares none
  table.vectors = vectors;
  if (before === vectors) return;
  for (const [name, cells] of Object.entries(table.given)) table.given[name] = transpose(cells);
  for (const claim of table.claims) claim.cells = transpose(claim.cells);
  if (Array.isArray(table.settings.mask)) table.settings.mask = transpose(table.settings.mask);
}

/**
 * Make a size one larger or smaller in every matrix that has it.
 * @param {ProblemState} problem
 * @param {Api.Size} size
 * @param {number} by
 */
export function resize({ table }, size, by) {
  for (const [name, axis] of size.lines) {
    const holder = /** @type {Record<string, Cells>} */ (name === "mask" ? table.settings : table.given);
    const filler = name === "mask" ? "1" : "0";
    const cells = axis ? transpose(holder[name] ?? []) : (holder[name] ?? []);
    const resized = by > 0 ? [...cells, (cells[0] ?? []).map(() => filler)] : cells.slice(0, -1);
    holder[name] = axis ? transpose(resized) : resized;
  }
  for (const name of size.names) {
    const tokens = table[name];
    if (tokens) table[name] = by > 0 ? [...tokens, String(size.value + 1)] : tokens.slice(0, -1);
  }
  table.claims = []; // claims of another size do not fit
}

/**
 * Replace a given matrix; the matrices that share a size with it follow.
 * @param {ProblemState} problem
 * @param {string} key
 * @param {Cells} cells
 * @param {Api.Size[]} sizes
 */
export function replaceMatrix(problem, key, cells, sizes) {
  [cells.length, cells[0]?.length ?? 0].forEach((length, axis) => {
    const size = sizes.find(({ lines }) => lines.some(([name, other]) => name === key && other === axis));
    const change = size ? length - size.value : 0;
    for (let k = 0; size && k < Math.abs(change); k += 1)
      resize(problem, { ...size, value: size.value + k * Math.sign(change) }, Math.sign(change));
  });
  const { table } = problem;
  const holder = /** @type {Record<string, Cells>} */ (key === "mask" ? table.settings : table.given);
  holder[key] = cells;
}
