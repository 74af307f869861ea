// @ts-check
// A solution with one planted mistake: the user points at the first wrong number.

import { formulaBox, h } from "./dom.js";
import { t } from "./language.js";
import matrixGrid from "./matrix.js";
import { Model } from "./model.js";

export class MistakeSearch {
  #el;
  #onGuess;
  #shown = "";
  /** @type {Api.Report | null} */
  #report = null;
  #answer = h("div", { class: "search-answer", role: "status" });
  #givens = h("div", { class: "search-matrices" });
  #steps = h("div", { class: "search-matrices", role: "group", "aria-label": t("The solution") });

  /**
   * @param {HTMLElement} el
   * @param {(cell: string) => void} onGuess gets the cell that was chosen, such as "scores 0 2"
   */
  constructor(el, onGuess) {
    this.#el = el;
    this.#onGuess = onGuess;
    const choose = (/** @type {Event & { target: Element }} */ event) => {
      const cell = /** @type {HTMLElement | null} */ (event.target.closest("td[data-row]"));
      const figure = /** @type {HTMLElement | null | undefined} */ (cell?.closest("figure"));
      const { row = "", column = "" } = cell?.dataset ?? {};
      if (figure) this.#onGuess(cellName({ key: figure.dataset.key ?? "", row, column }));
    };
    this.#steps.addEventListener("click", /** @type {any} */ (choose));
    this.#steps.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose(/** @type {any} */ (event));
    });
  }

  /**
   * Show a solution without its verdicts.
   * @param {Api.Report} report
   * @param {string} guess
   */
  show(report, guess) {
    this.#report = report;
    const claims = report.steps.map(({ claimed }) => claimed);
    const shown = JSON.stringify(claims.map(({ key, texts }) => [key, texts]));
    if (shown !== this.#shown) {
      this.#shown = shown;
      this.#givens.replaceChildren(...report.given.map(matrixBox));
      this.#steps.replaceChildren(...claims.map((matrix) => matrixBox({ ...matrix, marks: withoutMarks(matrix) })));
      const task = t("One number is the first wrong one; what follows it was computed from it. Click it.");
      this.#el.replaceChildren(this.#givens, h("p", { class: "search-task" }, task), this.#answer, this.#steps);
    }
    this.guess(guess);
  }

  /**
   * Answer a guess.
   * @param {string} guess
   */
  guess(guess) {
    const [finding] = this.#report?.findings ?? [];
    for (const cell of this.#steps.querySelectorAll("td.guessed")) cell.classList.remove("guessed", "is-found");
    this.#answer.replaceChildren();
    if (!guess || !finding) return;
    const [key, row, column] = guess.split(" ");
    const isFound = guess === cellName(finding);
    const cell = this.#steps.querySelector(
      `figure[data-key="${CSS.escape(key ?? "")}"] td[data-row="${Number(row)}"][data-column="${Number(column)}"]`,
    );
    cell?.classList.add("guessed");
    cell?.classList.toggle("is-found", isFound);
    this.#answer.replaceChildren(...(isFound ? explanation(finding) : [this.#rejection(key, row, column)]));
  }

  /**
   * @param {string | undefined} key
   * @param {string | undefined} row
   * @param {string | undefined} column
   */
  #rejection(key, row, column) {
    const step = this.#report?.steps.find(({ claimed }) => claimed.key === key)?.claimed;
    const mark = step?.marks[Number(row)]?.[Number(column)];
    const text = ["follows", "wrong"].includes(mark ?? "")
      ? t("This number is wrong only because an earlier one is. Look before it.")
      : t("This number is right. Look elsewhere.");
    return h("p", { class: "is-wrong" }, `✗ ${text}`);
  }
}

/**
 * Return the name of a cell in the address.
 * @param {{ key: string, row: string | number, column: string | number }} cell
 */
export function cellName({ key, row, column }) {
  return `${key} ${row} ${column}`;
}

/** @param {Api.Matrix} matrix */
function withoutMarks({ texts }) {
  return texts.map((row) => row.map((text) => (text === "−∞" ? "masked" : "")));
}

/** @param {Api.Matrix} matrix */
function matrixBox(matrix) {
  const el = h("div", {});
  matrixGrid.render({ model: new Model({ matrix, cells: null }), el });
  return el;
}

/** @param {Api.Finding} finding */
function explanation({ claimed, expected, working, causes }) {
  const cause = causes[0]?.name;
  return [
    h(
      "p",
      { class: "is-right" },
      `✓ ${t("Found: {claimed}, but it is {expected}", { claimed, expected })}`,
      cause && cause !== "unknown" && [" – ", h("b", {}, cause)],
    ),
    formulaBox(working),
  ];
}
