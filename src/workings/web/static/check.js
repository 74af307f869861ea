// @ts-check
// The screen Check: a worked solution beside the exact one; and problem sheets to answer.

import { DocumentPanel } from "./document.js";
import { button, dropdown, h, redraw, stepper } from "./dom.js";
import { Model } from "./model.js";
import { fetchKinds } from "./kind_menu.js";
import { t } from "./language.js";
import { downloadButtons, lectureList, openPasteDialog } from "./problem_controls.js";
import report, { HINTS_PER_NUMBER } from "./report.js";
import { API, download, fetchJson, messageOf, Query } from "./request.js";
/** @import { Store } from "./store.js" */

const pasteHint = () =>
  t(
    "A slide or a note with named matrices (X = …, Q = …, weights = …) in LaTeX, in Markdown or as printed by NumPy, " +
      'or a problem file. Settings go in comments: % workings: scale = "none"',
  );
const emptyText = () =>
  t(
    "Nothing to check yet. Open a lecture example, paste a slide or a problem file, create a problem sheet, " +
      "or add a step of this problem. Every number is checked as you type it.",
  );
const PROBLEM_FILE = /^\s*\[(given|claim)\]/m;

export default {
  /**
   * @param {{ store: Store, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ store, el }) {
    return new Check(store, el).start();
  },
};

class Check {
  #store;
  #el;
  /** @type {Model<ReportState>} */
  #model = new Model({ data: null, claims: [], hints: {} });
  #title = h("p", { class: "title-text" });
  #sheet = h("div", {});
  #document = h("div", {});
  /** @type {HTMLElement | null} */
  #documentButton = null;
  #status = h("p", { class: "status", role: "alert" });
  #empty = h("div", {});
  #goToFirst = true; // after something new was opened
  #reportQuery;
  #cellQuery;

  /**
   * @param {Store} store
   * @param {HTMLElement} el
   */
  constructor(store, el) {
    this.#store = store;
    this.#el = el;
    /** @type {Query<Api.Report>} */
    this.#reportQuery = new Query({
      el,
      onAnswer: (answer) => this.#show(answer),
      onError: (message) => this.#showError(message),
    });
    /** @type {Query<Api.Working>} */
    this.#cellQuery = new Query({
      onAnswer: (working) => this.#model.set("working", working),
      onError: () => this.#model.set("working", null),
    });
  }

  start() {
    const store = this.#store;
    const showError = (/** @type {string} */ message) => this.#showError(message);
    const content = h("div", {});
    const paste = () =>
      openPasteDialog({
        title: t("Paste a worked solution"),
        hint: pasteHint(),
        action: t("Check it"),
        acceptsFile: true,
        onSubmit: async (text) => this.#open(await fetchJson(API.readProblem, { text }), false),
      });
    const toggleSheet = () => {
      const isOpen = this.#sheet.childElementCount > 0;
      this.#sheet.replaceChildren(
        ...(isOpen ? [] : [problemSheet(store, (table) => this.#open(table, true), showError)]),
      );
      sheetButton.setAttribute("aria-expanded", String(!isOpen));
    };
    const toggleDocument = () => this.#showDocument(this.#document.childElementCount === 0);
    this.#documentButton = button(t("Document"), toggleDocument, { "aria-expanded": "false" });
    const sheetButton = button(t("Problem sheet"), toggleSheet, { "aria-expanded": "false" });
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, t("Check a worked solution")),
      h(
        "div",
        { class: "bar-top" },
        this.#title,
        lectureList((table) => this.#open(table, false), showError),
        button(t("Paste a solution…"), paste, { class: "main" }),
        this.#documentButton,
        sheetButton,
        downloadButtons(store, showError, true),
      ),
      this.#document,
      this.#sheet,
      this.#status,
      this.#empty,
      content,
    );
    const endReport = report.render({ model: this.#model, el: content });
    this.#listen();
    const update = () => {
      const source = store.takeDocument();
      if (source) void this.#readDocument(source);
      else this.#ask();
    };
    const endListening = store.listen(update);
    update();
    return () => {
      endListening();
      endReport();
      this.#reportQuery.cancel();
      this.#cellQuery.cancel();
    };
  }

  /**
   * Show or hide the panel that reads documents.
   * @param {boolean} isShown
   */
  #showDocument(isShown) {
    const panel = new DocumentPanel((table) => this.#open(table, false));
    this.#document.replaceChildren(...(isShown ? [panel.el] : []));
    this.#documentButton?.setAttribute("aria-expanded", String(isShown));
    return panel;
  }

  /**
   * Open the only example of a document; show the document if it has several, or none.
   * @param {DocumentSource} source
   */
  async #readDocument(source) {
    if ("text" in source && PROBLEM_FILE.test(source.text)) {
      const read = fetchJson(API.readProblem, source);
      return read.then((table) => this.#open(table, false)).catch((error) => this.#showError(messageOf(error)));
    }
    const document = await this.#showDocument(true).read(source);
    const table = document?.examples.length === 1 && document.examples[0]?.table;
    if (!table) return this.#ask();
    this.#showDocument(false);
    this.#open(table, false);
  }

  #listen() {
    const model = this.#model;
    const showError = (/** @type {unknown} */ error) => this.#showError(messageOf(error));
    model.on("change:requested_cell", () =>
      this.#cellQuery.ask(API.cell, { ...this.#store.request, ...model.get("requested_cell") }),
    );
    model.on("change:edit", () => {
      const edit = model.get("edit");
      if (edit) this.#edit(edit);
    });
    model.on("change:paste", () => {
      const { key = "", reprint = 0, text = "" } = model.get("paste") ?? {};
      this.#readClaim(key, reprint, text).catch(showError);
    });
    model.on("change:newStep", () => {
      const step = model.get("newStep");
      if (!step) return;
      this.#store.changeProblem(({ table }) => {
        table.claims.push({ key: step.key, reprint: 0, cells: step.texts });
      });
    });
    model.on("change:hintRequest", () => {
      this.#addHint(model.get("hintRequest") ?? "").catch(showError);
    });
  }

  /**
   * @param {Api.Table} table
   * @param {boolean} practice
   */
  #open(table, practice) {
    this.#goToFirst = true;
    this.#model.set("hints", {});
    this.#store.changeProblem((problem) => Object.assign(problem, { table, practice }));
  }

  #ask() {
    this.#reportQuery.ask(API.check, this.#store.request);
  }

  /** @param {string} message */
  #showError(message) {
    this.#status.textContent = message;
  }

  /** @param {Api.Report} answer */
  #show(answer) {
    const { practice, table } = this.#store.problem;
    const [first] = answer.findings;
    this.#status.textContent = "";
    this.#title.textContent = answer.title || t("Untitled problem");
    this.#title.title = answer.title.slice(0, 300);
    this.#empty.replaceChildren(...(answer.steps.length ? [] : [h("p", { class: "empty" }, emptyText())]));
    this.#model.set("practice", practice);
    this.#model.set("claims", table.claims);
    this.#model.set("data", answer);
    if (this.#goToFirst && first) this.#model.set("target", first);
    this.#goToFirst = false;
  }

  /**
   * @param {string} key
   * @param {number} reprint
   * @param {(claim: Api.Claim) => void} edit
   * @param {{ live?: boolean }} [options]
   */
  #changeClaim(key, reprint, edit, options) {
    this.#store.changeProblem(({ table }) => {
      const claim = table.claims.find((other) => other.key === key && other.reprint === reprint);
      if (claim) edit(claim);
    }, options);
  }

  /** @param {CellEdit & { reprint: number }} edit */
  #edit({ key, reprint, row, column, text, done }) {
    const edit = (/** @type {Api.Claim} */ { cells }) => {
      const line = cells[row];
      if (line) line[column] = text.trim() || "?";
    };
    this.#changeClaim(key, reprint, edit, { live: !done });
  }

  /**
   * @param {string} key
   * @param {number} reprint
   * @param {string} text
   */
  async #readClaim(key, reprint, text) {
    const cells = await fetchJson(API.readMatrix, { text });
    this.#changeClaim(key, reprint, (claim) => {
      claim.cells = cells;
    });
  }

  /**
   * Add a hint for a step; after the last one, begin again with its next number.
   * @param {string} key
   */
  async #addHint(key) {
    const hints = this.#model.get("hints") ?? {};
    const known = hints[key] ?? [];
    if (known.length >= HINTS_PER_NUMBER) return this.#model.set("hints", { ...hints, [key]: [] });
    /** @type {Api.Working} */
    const { working } = await fetchJson(API.hint, { ...this.#store.request, key, level: known.length + 1 });
    this.#model.set("hints", { ...hints, [key]: [...known, working] });
  }
}

const sheetRequest = { kind: "masked", level: 2, count: 3, seed: 1 };
/** @type {[string, string][]} */
let sheetKinds = [["masked", "Masked self-attention"]];
/** @type {Api.Exercise[]} */
let currentSheet = []; // kept while the user visits other screens
let currentExercise = 0;
/** @type {Api.Claim[][]} */
let answers = []; // to the exercises that were opened

/**
 * Return the form that creates a problem sheet, and the list of its problems.
 * @param {Store} store
 * @param {(table: Api.Table) => void} open gets a problem with every step left blank
 * @param {(message: string) => void} showError
 */
function problemSheet(store, open, showError) {
  const el = h("section", { class: "sheet", "aria-label": t("Problem sheet") });
  /** @type {Query<Api.Report, { table: Api.Table }>} */
  const exerciseQuery = new Query({
    onAnswer: ({ open_steps: openSteps }, { table }) =>
      open({ ...table, claims: openSteps.map(({ key, texts }) => ({ key, reprint: 0, cells: texts })) }),
    onError: showError,
  });
  /** @type {Query<Api.Exercise[]>} */
  const sheetQuery = new Query({
    onAnswer: (sheet) => {
      currentSheet = sheet;
      answers = [];
      show(0);
    },
    onError: showError,
  });
  const choose = (/** @type {number} */ k) => {
    keepAnswers(store);
    show(k);
  };
  const show = (/** @type {number} */ k) => {
    currentExercise = k;
    draw();
    const [table, claims] = [currentSheet[k]?.table, answers[k]];
    if (table && claims) open({ ...table, claims });
    else if (table) exerciseQuery.ask(API.check, { table });
  };
  const save = () => {
    keepAnswers(store);
    const tables = currentSheet.map(({ table }, k) => ({ ...table, claims: answers[k] ?? [] }));
    download({ tables }, API.answers).catch((error) => showError(messageOf(error)));
  };
  const set = (/** @type {keyof typeof sheetRequest} */ name) => (/** @type {string | number} */ value) => {
    Object.assign(sheetRequest, { [name]: value });
    draw();
  };
  const draw = () => {
    const { kind, level, count, seed } = sheetRequest;
    redraw(
      el,
      h("h2", {}, t("Problem sheet")),
      h(
        "div",
        { class: "toggles" },
        dropdown(t("Kind"), sheetKinds, kind, set("kind")),
        stepper(t("Level"), level, 1, 3, set("level")),
        stepper(t("Problems"), count, 1, 6, set("count")),
        stepper(t("Seed"), seed, 0, 9999, set("seed")),
        button(t("Create sheet"), () => sheetQuery.ask(API.sheet, sheetRequest), {
          class: "main",
          data: { control: "create" },
        }),
      ),
      currentSheet.length > 0 && exercises(),
    );
  };
  const exercises = () => {
    const item = (/** @type {string} */ heading, /** @type {number} */ k) =>
      button(`${k + 1}${heading ? `: ${heading}` : ""}`, () => choose(k), {
        "aria-pressed": String(k === currentExercise),
        data: { control: `exercise ${k}` },
      });
    const list = currentSheet.map(({ heading }, k) => item(heading, k));
    return [
      h("div", { class: "exercises", role: "group", "aria-label": t("Problems") }, list),
      h("p", {}, currentSheet[currentExercise]?.instructions),
      button(t("Save answers"), save, { title: t("answers.toml, to hand in"), data: { control: "save" } }),
    ];
  };
  draw();
  fetchKinds().then(
    (kinds) => {
      sheetKinds = kinds.map(({ name, title }) => [name, title]);
      draw();
    },
    (error) => showError(messageOf(error)),
  );
  return el;
}

/**
 * Keep the answers to the current exercise, unless another problem was opened since.
 * @param {Store} store
 */
function keepAnswers(store) {
  const { practice, table } = store.problem;
  const exercise = currentSheet[currentExercise];
  const isOpen = practice && JSON.stringify(table.given) === JSON.stringify(exercise?.table.given);
  if (isOpen) answers[currentExercise] = table.claims;
}
