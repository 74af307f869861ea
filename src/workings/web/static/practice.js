// @ts-check
// The screen Practice: a sheet of problems to compute, or of solutions with a mistake to find. Its address has it all.

import { button, choice, dropdown, h, redraw, stepper } from "./dom.js";
import { fetchKinds } from "./kind_menu.js";
import { t } from "./language.js";
import { cellName, MistakeSearch } from "./mistake_search.js";
import { Model } from "./model.js";
import report, { HINTS_PER_NUMBER } from "./report.js";
import { API, download, fetchJson, messageOf, Query } from "./request.js";
/** @import { Store } from "./store.js" */

const DEFAULTS = { kind: "masked", level: "2", count: "3", seed: "1", mode: "solve", steps: "all", n: "1" };
const DECIMALS = 3;
const MAX_PROBLEMS = 6;
const OF_A_PROBLEM = /^(answers|hints|guess|tries)\./; // what the address has of each problem, by number
const MINUS_INFINITY = "−∞";

/** @typedef {{ right: number, total: number }} Score */

export default {
  /**
   * @param {{ store: Store, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ store, el }) {
    return new Practice(store, el).start();
  },
};

class Practice {
  #store;
  #el;
  /** @type {[string, string][]} */
  #kinds = [["masked", "masked"]];
  /** @type {Api.Exercise[]} */
  #sheet = [];
  #sheetKey = "";
  /** @type {Map<number, Api.Claim[]>} */
  #blank = new Map(); // the steps of a problem that has no answers yet
  /** @type {Map<number, Score>} */
  #scores = new Map();
  /** @type {Map<number, string>} */
  #firstWrong = new Map(); // the cell with the mistake of each problem that was checked
  #shown = 0; // the number of the problem that is shown
  /** @type {Model<ReportState>} */
  #model = new Model({ data: null, claims: [], hints: {}, practice: true });
  #search;
  #options = h("div", { class: "toggles" });
  #progress = h("div", { class: "practice-progress" });
  #status = h("p", { class: "status", role: "alert" });
  #instructions = h("p", { class: "instructions" });
  #content = h("div", { class: "practice-steps" });
  #searchBox = h("div", {});
  #sheetQuery;
  #reportQuery;

  /**
   * @param {Store} store
   * @param {HTMLElement} el
   */
  constructor(store, el) {
    this.#store = store;
    this.#el = el;
    const onError = (/** @type {string} */ message) => {
      this.#status.textContent = message;
    };
    /** @type {Query<Api.Exercise[]>} */
    this.#sheetQuery = new Query({ el, onAnswer: (sheet) => this.#openSheet(sheet), onError });
    /** @type {Query<Api.Report, { table: Api.Table }>} */
    this.#reportQuery = new Query({ onAnswer: (answer, { table }) => this.#showReport(answer, table), onError });
    this.#search = new MistakeSearch(this.#searchBox, (guess) => this.#guess(guess));
  }

  /** @returns {typeof DEFAULTS & ViewState} */
  get #view() {
    return { ...DEFAULTS, ...this.#store.view("practice") };
  }

  get #number() {
    return Math.min(Math.max(Number(this.#view.n) || 1, 1), Math.max(this.#sheet.length, 1));
  }

  get #isSearch() {
    return this.#view.mode === "find";
  }

  /**
   * @param {ViewState} changes
   * @param {{ live?: boolean }} [options]
   */
  #change(changes, options) {
    this.#store.changeView("practice", changes, options);
  }

  /**
   * Begin another sheet, without answers.
   * @param {ViewState} changes
   */
  #begin(changes) {
    const old = Object.keys(this.#store.view("practice")).filter((name) => OF_A_PROBLEM.test(name));
    this.#change({ ...Object.fromEntries(old.map((name) => [name, undefined])), n: "1", ...changes });
  }

  start() {
    this.#el.replaceChildren(
      h("h1", {}, t("Practice")),
      this.#options,
      this.#progress,
      this.#status,
      this.#instructions,
      this.#content,
      this.#searchBox,
    );
    const endReport = report.render({ model: this.#model, el: this.#content });
    this.#listen();
    const endListening = this.#store.listen(() => this.#update());
    this.#update();
    fetchKinds().then(
      (kinds) => {
        this.#kinds = kinds.map(({ name, title }) => [name, title]);
        this.#drawOptions();
      },
      (error) => {
        this.#status.textContent = messageOf(error);
      },
    );
    return () => {
      endListening();
      endReport();
      this.#sheetQuery.cancel();
      this.#reportQuery.cancel();
    };
  }

  #listen() {
    const model = this.#model;
    model.on("change:edit", () => {
      const { key, reprint, row, column, text, done } = model.get("edit") ?? {};
      if (key === undefined || row === undefined || column === undefined) return;
      const claims = structuredClone(this.#claims);
      const line = claims.find((claim) => claim.key === key && claim.reprint === reprint)?.cells[row];
      if (line) line[column] = text?.trim() || "?";
      this.#answer(claims, { live: !done });
    });
    model.on("change:paste", async () => {
      const { key, text = "" } = model.get("paste") ?? {};
      try {
        const cells = await fetchJson(API.readMatrix, { text });
        this.#answer(this.#claims.map((claim) => (claim.key === key ? { ...claim, cells } : claim)));
      } catch (error) {
        this.#status.textContent = messageOf(error);
      }
    });
    model.on("change:hintRequest", () => this.#addHint(model.get("hintRequest") ?? ""));
  }

  /** The answers to the problem that is shown. */
  get #claims() {
    const text = this.#view[`answers.${this.#number}`];
    return text ? readClaims(text) : (this.#blank.get(this.#number) ?? []);
  }

  /**
   * @param {Api.Claim[]} claims
   * @param {{ live?: boolean }} [options]
   */
  #answer(claims, options) {
    this.#change({ [`answers.${this.#number}`]: writeClaims(claims) }, options);
  }

  /** @param {number} number */
  #table(number) {
    return /** @type {Api.Table} */ (this.#sheet[number - 1]?.table);
  }

  #update() {
    const { kind, level, count, seed } = this.#view;
    const isSearch = this.#isSearch;
    const request = { kind, level: Number(level), count: Number(count), seed: Number(seed), mistakes: isSearch };
    const key = JSON.stringify(request);
    this.#content.hidden = isSearch || !this.#sheet.length;
    this.#searchBox.hidden = !isSearch;
    this.#content.classList.toggle("one-step", this.#view.steps === "one");
    this.#drawOptions();
    if (key === this.#sheetKey) return this.#showProblem();
    this.#sheetKey = key;
    this.#sheet = [];
    this.#content.hidden = true;
    this.#searchBox.replaceChildren();
    this.#instructions.textContent = t("Making the problems…");
    this.#sheetQuery.ask(API.sheet, request);
    this.#drawProgress();
  }

  /** @param {Api.Exercise[]} sheet */
  #openSheet(sheet) {
    this.#sheet = sheet;
    this.#status.textContent = "";
    this.#scores.clear();
    this.#blank.clear();
    this.#firstWrong.clear();
    this.#shown = 0;
    this.#content.hidden = this.#isSearch;
    this.#showProblem();
    sheet.forEach((_, k) => void this.#scoreAnswers(k + 1));
  }

  /**
   * Score the answers that the address has to a problem.
   * @param {number} number
   */
  async #scoreAnswers(number) {
    const key = this.#sheetKey;
    const answers = this.#view[`answers.${number}`];
    if (this.#isSearch ? !this.#view[`guess.${number}`] : !answers) return;
    const problem = this.#table(number);
    const table = answers ? { ...problem, claims: readClaims(answers) } : problem;
    const answer = await fetchJson(API.check, { table, decimals: DECIMALS }).catch(() => null);
    if (answer && key === this.#sheetKey) this.#score(answer, number);
  }

  /**
   * @param {Api.Report} report
   * @param {number} number
   */
  #score({ counts, steps, findings }, number) {
    const total = steps.reduce((sum, { claimed }) => sum + claimed.texts.flat().length, 0);
    const [first] = findings;
    this.#scores.set(number, { right: (counts.right ?? 0) + (counts.rounded ?? 0), total });
    if (this.#isSearch && first) this.#firstWrong.set(number, cellName(first));
    this.#drawProgress();
  }

  #showProblem() {
    const number = this.#number;
    const table = this.#table(number);
    if (!table) return;
    this.#instructions.textContent = this.#sheet[number - 1]?.instructions ?? "";
    if (number !== this.#shown) this.#model.set("hints", {});
    this.#shown = number;
    const claims = this.#isSearch ? table.claims : this.#claims;
    this.#model.set("claims", claims);
    this.#reportQuery.askIfNew(API.check, { table: { ...table, claims }, decimals: DECIMALS });
    this.#drawProgress();
    if (this.#isSearch) this.#search.guess(this.#view[`guess.${number}`] ?? "");
  }

  /**
   * @param {Api.Report} answer
   * @param {Api.Table} table
   */
  #showReport(answer, { title }) {
    const number = this.#number;
    if (title !== this.#table(number)?.title) return; // another problem is shown meanwhile
    if (this.#isSearch) {
      this.#search.show(answer, this.#view[`guess.${number}`] ?? "");
      return this.#score(answer, number);
    }
    if (!answer.steps.length) {
      const blank = answer.open_steps.map(({ key, texts }) => ({ key, reprint: 0, cells: texts }));
      this.#blank.set(number, blank);
      return this.#showProblem();
    }
    this.#model.set("data", answer);
    this.#score(answer, number);
  }

  /**
   * Add a hint for a step; after the last one, begin again with its next number.
   * @param {string} key
   */
  async #addHint(key) {
    const hints = this.#model.get("hints") ?? {};
    const known = hints[key] ?? [];
    if (known.length >= HINTS_PER_NUMBER) return this.#model.set("hints", { ...hints, [key]: [] });
    const number = this.#number;
    const table = { ...this.#table(number), claims: this.#claims };
    try {
      /** @type {Api.Working} */
      const { working } = await fetchJson(API.hint, { table, decimals: DECIMALS, key, level: known.length + 1 });
      this.#model.set("hints", { ...hints, [key]: [...known, working] });
      const name = `hints.${number}`;
      this.#change({ [name]: String(Number(this.#view[name] ?? 0) + 1) });
    } catch (error) {
      this.#status.textContent = messageOf(error);
    }
  }

  /** @param {string} guess a cell that may be the first wrong one */
  #guess(guess) {
    const tries = `tries.${this.#number}`;
    this.#change({ [`guess.${this.#number}`]: guess, [tries]: String(Number(this.#view[tries] ?? 0) + 1) });
  }

  #drawOptions() {
    const { kind, level, count, seed, mode, steps } = this.#view;
    const set = (/** @type {string} */ name) => (/** @type {string | number} */ value) =>
      this.#begin({ [name]: String(value) });
    redraw(
      this.#options,
      choice(
        t("Task"),
        "mode",
        [
          ["solve", t("compute")],
          ["find", t("find the mistake")],
        ],
        mode,
        set("mode"),
      ),
      dropdown(t("Kind"), this.#kinds, kind, set("kind")),
      stepper(t("Level"), Number(level), 1, 3, set("level")),
      stepper(t("Problems"), Number(count), 1, MAX_PROBLEMS, set("count")),
      stepper(t("Seed"), Number(seed), 0, 9999, set("seed")),
      mode === "solve" &&
        choice(
          t("Steps"),
          "steps",
          [
            ["all", t("all")],
            ["one", t("one at a time")],
          ],
          steps,
          (value) => this.#change({ steps: value }),
        ),
    );
  }

  /** Draw the list of problems, the progress of the one that is shown, and the score. */
  #drawProgress() {
    const number = this.#number;
    const item = (/** @type {Api.Exercise} */ { heading }, /** @type {number} */ k) => {
      const mark = this.#isSolved(k + 1) ? " ✓" : "";
      return button(`${k + 1}${mark}`, () => this.#change({ n: String(k + 1) }), {
        "aria-pressed": String(k + 1 === number),
        title: heading || null,
        data: { control: `problem ${k + 1}` },
      });
    };
    const isLast = number >= this.#sheet.length;
    const next = isLast
      ? button(t("New problems"), () => this.#begin({ seed: String(Number(this.#view.seed) + 1) }), {
          data: { control: "new" },
        })
      : button(t("Next problem"), () => this.#change({ n: String(number + 1) }), {
          class: this.#isSolved(number) ? "main" : null,
          data: { control: "next" },
        });
    redraw(
      this.#progress,
      this.#sheet.length > 0 && [
        h("div", { class: "exercises", role: "group", "aria-label": t("Problems") }, this.#sheet.map(item)),
        this.#isSearch ? null : this.#numberProgress(number),
        h("p", { class: "score", role: "status" }, this.#scoreText()),
        next,
        !this.#isSearch && [
          button(MINUS_INFINITY, () => writeMinusInfinity(), {
            title: t("Write −∞ into the selected cell"),
            "aria-label": t("Write −∞ into the selected cell"),
            onpointerdown: (/** @type {Event} */ event) => event.preventDefault(), // the cell keeps the focus
            data: { control: "infinity" },
          }),
          button(t("Save answers"), () => this.#save(), {
            title: t("answers.toml, to hand in"),
            data: { control: "save" },
          }),
        ],
      ],
    );
  }

  /** @param {number} number */
  #numberProgress(number) {
    const { right, total } = this.#scores.get(number) ?? { right: 0, total: 0 };
    if (!total) return null;
    const text = t("{right} of {total} numbers", { right, total });
    const bar = h("progress", { max: String(total), "aria-label": text });
    bar.value = right;
    return h("span", { class: "number-progress" }, bar, " ", text);
  }

  /** @param {number} number */
  #isSolved(number) {
    if (this.#isSearch)
      return this.#firstWrong.has(number) && this.#firstWrong.get(number) === this.#view[`guess.${number}`];
    const score = this.#scores.get(number);
    return score !== undefined && score.right === score.total;
  }

  #scoreText() {
    const total = this.#sheet.length;
    const numbers = this.#sheet.map((_, k) => k + 1);
    const solved = numbers.filter((number) => this.#isSolved(number)).length;
    const sum = (/** @type {string} */ name) =>
      numbers.reduce((count, number) => count + Number(this.#view[`${name}.${number}`] ?? 0), 0);
    return this.#isSearch
      ? t("Score: {solved} of {total} found, {tries} tries", { solved, total, tries: sum("tries") })
      : t("Score: {solved} of {total} solved, {hints} hints", { solved, total, hints: sum("hints") });
  }

  #save() {
    const tables = this.#sheet.map(({ table }, k) => {
      const answers = this.#view[`answers.${k + 1}`];
      return { ...table, claims: answers ? readClaims(answers) : (this.#blank.get(k + 1) ?? []) };
    });
    download({ tables }, API.answers).catch((error) => {
      this.#status.textContent = messageOf(error);
    });
  }
}

/** Write −∞ into the cell that has the focus. */
function writeMinusInfinity() {
  const cell = document.activeElement;
  if (cell?.matches("td[data-row]")) cell.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  const input = document.activeElement;
  if (!(input instanceof HTMLInputElement) || !input.matches("input.cell")) return;
  input.value = MINUS_INFINITY;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

/**
 * Write claims as a word of the address: Q:1,2;3,4 K:?,?
 * @param {Api.Claim[]} claims
 */
function writeClaims(claims) {
  const cells = (/** @type {Cells} */ rows) => rows.map((row) => row.map(encodeURIComponent).join(",")).join(";");
  return claims.map((claim) => `${encodeURIComponent(claim.key)}:${cells(claim.cells)}`).join(" ");
}

/**
 * @param {string} text
 * @returns {Api.Claim[]}
 */
function readClaims(text) {
  return text.split(" ").map((claim) => {
    const [key = "", rows = ""] = claim.split(":");
    const cells = rows.split(";").map((row) => row.split(",").map(decode));
    return { key: decode(key), reprint: 0, cells };
  });
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that was cut
  }
}
