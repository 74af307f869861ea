// @ts-check
// A document beside its reading: every matrix with its name and verdicts; a name can be corrected.

import { button, h, redraw } from "./dom.js";
import { t } from "./language.js";
import { API, fetchJson, messageOf } from "./request.js";

const MAX_FILE = 650_000;
const hintText = () =>
  t(
    "Paste a lecture note, a post or a deck, or drop a file: LaTeX, Markdown, HTML, a notebook, CSV, Word, " +
      "PowerPoint, Excel, PDF.",
  );

/** Reads a document, and shows it beside its reading. */
export class DocumentPanel {
  el = h("section", { class: "document", "aria-label": t("Document") });
  #open;
  #area = h("textarea", { rows: "5", spellcheck: "false", "aria-label": t("Document"), placeholder: hintText() });
  #status = h("p", { class: "status", role: "alert" });
  #result = h("div", {});
  /** @type {{ content: string, is_base64: boolean, file: string, names: Record<string, string> }} */
  #request = { content: "", is_base64: false, file: "", names: {} };

  /** @param {(table: Api.Table) => void} open opens an example in the checker */
  constructor(open) {
    this.#open = open;
    const fileInput = h("input", {
      type: "file",
      accept: ".md,.tex,.txt,.html,.htm,.ipynb,.csv,.tsv,.docx,.pptx,.xlsx,.pdf",
      onchange: (/** @type {{ target: HTMLInputElement }} */ event) => this.#readFile(event.target.files?.[0]),
    });
    this.el.append(
      h("h2", {}, t("Document")),
      this.#area,
      h(
        "div",
        { class: "doc-actions" },
        button(t("Read it"), () => this.#readText(), { class: "main" }),
        h("label", { class: "file" }, t("or a file: "), fileInput),
      ),
      this.#status,
      this.#result,
    );
    this.el.addEventListener("dragover", (event) => event.preventDefault());
    this.el.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      void this.#readFile(event.dataTransfer.files[0]);
    });
  }

  /**
   * Read a document and show it; return what was read, or null if that failed.
   * @param {DocumentSource} source
   */
  read(source) {
    if ("file" in source) return this.#readFile(source.file);
    this.#area.value = source.text;
    return this.#readText();
  }

  #readText() {
    this.#request = { content: this.#area.value, is_base64: false, file: "", names: {} };
    return this.#ask();
  }

  /** @param {File | undefined} file */
  async #readFile(file) {
    if (!file) return null;
    if (file.size > MAX_FILE) {
      this.#status.textContent = "the file is larger than 650 kB: use `workings check --from FILE`";
      return null;
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const content = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    this.#request = { content, is_base64: true, file: file.name, names: {} };
    return this.#ask();
  }

  async #ask() {
    this.#status.textContent = t("Reading …");
    try {
      /** @type {Api.Document} */
      const document = await fetchJson(API.document, this.#request);
      this.#show(document);
      this.#status.textContent = "";
      return document;
    } catch (error) {
      this.#status.textContent = messageOf(error);
      return null;
    }
  }

  /** @param {Api.Document} document */
  #show(document) {
    const lines = document.lines.map(({ place, level, parts }) =>
      h(
        "div",
        { class: `doc-line${level ? " heading" : ""}` },
        h("span", { class: "doc-place" }, place),
        h(
          "div",
          { class: "doc-text" },
          parts.map((part) => (typeof part === "string" ? part : this.#matrix(part, document.examples))),
        ),
      ),
    );
    const examples = document.examples.map((example) => this.#example(example, document));
    redraw(
      this.#result,
      h("p", { class: "count" }, document.summary),
      h(
        "div",
        { class: "doc-sides" },
        h("div", { class: "doc-lines", tabindex: "0", role: "region", "aria-label": t("Lines") }, lines),
        h("div", { class: "reading" }, examples.length ? examples : h("p", {}, t("No worked example found."))),
      ),
    );
  }

  /**
   * @param {Api.DocumentMatrix} matrix
   * @param {Api.DocumentExample[]} examples
   */
  #matrix({ index, name, why, rows, verdicts, is_factor }, examples) {
    const cell = (/** @type {string} */ text, /** @type {string} */ verdict) =>
      h("td", { class: verdict ? `is-${verdict.replace(" ", " is-")}` : false, title: verdict || false }, text);
    const line = (/** @type {string[]} */ row, /** @type {number} */ i) =>
      h(
        "tr",
        {},
        row.map((text, j) => cell(text, verdicts[i]?.[j] ?? "")),
      );
    const label = button(name || "name?", () => label.replaceWith(this.#nameList(index, name, examples)), {
      class: "doc-name",
      title: t("correct the name"),
    });
    return h(
      "span",
      { class: `doc-matrix${name ? "" : " unread"}`, id: `document-matrix-${index}`, title: why || false },
      rows.length ? h("table", {}, rows.map(line)) : h("em", {}, why || t("not read")),
      is_factor ? h("span", { class: "doc-factor" }, name) : label,
    );
  }

  /**
   * Return the list of names that a matrix may have; a choice reads the document again.
   * @param {number} index
   * @param {string} name
   * @param {Api.DocumentExample[]} examples
   */
  #nameList(index, name, examples) {
    const own = examples.find(({ matrices }) => matrices.includes(index)) ?? examples[0];
    const option = (/** @type {string} */ value, label = value) =>
      h("option", { value, selected: value === name }, label);
    const change = (/** @type {{ target: HTMLSelectElement }} */ event) => {
      this.#request.names[index] = event.target.value;
      return this.#ask();
    };
    const known = own?.names ?? [];
    return h(
      "select",
      { "aria-label": t("Name"), onchange: change },
      !known.includes(name) && option(name, name || t("no name")),
      known.map((value) => option(value)),
      option("", t("leave it out")),
    );
  }

  /**
   * @param {Api.DocumentExample} example
   * @param {Api.Document} document
   */
  #example({ place, kind, verdict, summary, matrices, table, readings }, { lines }) {
    const parts = lines.flatMap((line) => line.parts.map((part) => ({ part, place: line.place })));
    const item = (/** @type {number} */ index) => {
      const entry = parts.find(({ part }) => typeof part !== "string" && part.index === index);
      if (!entry || typeof entry.part === "string") return null;
      const { name, evidence } = entry.part;
      const isWrong = entry.part.verdicts.flat().some((mark) => mark.startsWith("wrong"));
      return h(
        "li",
        {},
        button(`${entry.place}: ${name}`, () => show(index), { class: isWrong ? "is-wrong" : false }),
        ` by ${evidence}`,
      );
    };
    return h(
      "article",
      { class: `is-${verdict.replace(" ", "-")}` },
      h("h3", {}, `${place}: ${kind.replace("_", " ")}, ${verdict}`),
      summary.map((line) => h("p", {}, line)),
      readings.length > 0 && h("div", { class: "doc-readings" }, readings.map(showReading)),
      table && button(t("Open in the checker"), () => this.#open(table)),
      h("details", {}, h("summary", {}, t("What was read from where")), h("ul", {}, matrices.map(item))),
    );
  }
}

/**
 * Return one of two readings that differ, to stand beside the other.
 * @param {Api.DocumentReading} reading
 */
function showReading({ read_as, verdict, summary }) {
  const title = h("h4", {}, t("If read as {reading}: {verdict}", { reading: read_as, verdict }));
  return h(
    "section",
    { class: `is-${verdict}` },
    title,
    summary.map((line) => h("p", {}, line)),
  );
}

/**
 * Scroll to a matrix and mark it.
 * @param {number} index
 */
function show(index) {
  const matrix = document.getElementById(`document-matrix-${index}`);
  document.querySelectorAll(".document .doc-matrix.shown").forEach((other) => other.classList.remove("shown"));
  matrix?.classList.add("shown");
  matrix?.scrollIntoView({ block: "center", inline: "nearest" });
}
