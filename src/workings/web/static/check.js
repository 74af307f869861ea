// @ts-check
// The screen Check: a worked solution beside the exact one.

import { DocumentPanel } from "./document.js";
import { button, h } from "./dom.js";
import { Model } from "./model.js";
import { t } from "./language.js";
import { downloadButtons, lectureList, openPasteDialog } from "./problem_controls.js";
import report from "./report.js";
import { API, fetchJson, messageOf, Query } from "./request.js";
import { setVectors } from "./store.js";
/** @import { Store } from "./store.js" */

const pasteHint = () =>
  t(
    "A slide or a note with named matrices (X = …, Q = …, weights = …) in LaTeX, in Markdown or as printed by NumPy, " +
      'or a problem file. Settings go in comments: % workings: scale = "none"',
  );
const emptyText = () =>
  t(
    "Nothing to check yet. Paste a slide, homework or a problem file (Ctrl+V), open a lecture example, " +
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
  #model = new Model({ data: null, claims: [] });
  #title = h("p", { class: "title-text" });
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
        onSubmit: async (text) => this.#open(await fetchJson(API.readProblem, { text })),
      });
    const toggleDocument = () => this.#showDocument(this.#document.childElementCount === 0);
    this.#documentButton = button(t("Document"), toggleDocument, { "aria-expanded": "false" });
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, t("Check a worked solution")),
      h(
        "div",
        { class: "bar-top" },
        this.#title,
        lectureList((table) => this.#open(table), showError),
        button(t("Paste a solution…"), paste, { class: "main" }),
        this.#documentButton,
        downloadButtons(store, showError, true),
      ),
      this.#document,
      this.#status,
      this.#empty,
      content,
    );
    this.#empty.replaceChildren(h("p", { class: "hint", role: "status" }, t("Checking…")));
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
    const panel = new DocumentPanel((table) => this.#open(table));
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
      return read.then((table) => this.#open(table)).catch((error) => this.#showError(messageOf(error)));
    }
    const document = await this.#showDocument(true).read(source);
    const table = document?.examples.length === 1 && document.examples[0]?.table;
    if (!table) return this.#ask();
    this.#showDocument(false);
    this.#open(table);
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
    model.on("change:convention", () => {
      const { name, value } = model.get("convention") ?? { name: "", value: "" };
      this.#readAs(name, value);
    });
  }

  /** @param {Api.Table} table */
  #open(table) {
    this.#goToFirst = true;
    this.#store.changeProblem((problem) => Object.assign(problem, { table }));
  }

  #ask() {
    this.#reportQuery.ask(API.check, this.#store.request);
  }

  /** @param {string} message */
  #showError(message) {
    this.#empty.replaceChildren();
    this.#status.textContent = message;
  }

  /** @param {Api.Report} answer */
  #show(answer) {
    const { table } = this.#store.problem;
    const [first] = answer.findings;
    this.#status.textContent = "";
    this.#title.textContent = answer.title || t("Untitled problem");
    this.#title.title = answer.title.slice(0, 300);
    this.#empty.replaceChildren(...(answer.steps.length ? [] : [h("p", { class: "empty" }, emptyText())]));
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
   * Read the solution by another convention.
   * @param {string} name
   * @param {string} value
   */
  #readAs(name, value) {
    this.#store.changeProblem((problem) => {
      if (name === "vectors") setVectors(problem, value);
      else problem.table.settings[name] = name === "heads" ? Number(value) : value;
    });
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
}
