// @ts-check
// The menu of the kinds of problem: each with its computation on one line; choosing one opens a new problem.

import { button, h } from "./dom.js";
import { t } from "./language.js";
import { API, fetchJson, messageOf } from "./request.js";

const ARROW = " → ";
const BACKWARD = "; back: "; // between a computation and its gradients

let numProblems = 0; // each is drawn from another seed

/** @type {Promise<Api.Kind[]> | null} */
let kinds = null;

/** Return the kinds of problem; they are requested once. */
export function fetchKinds() {
  kinds ??= fetchJson(API.kinds).catch((/** @type {unknown} */ error) => {
    kinds = null;
    throw error;
  });
  return /** @type {Promise<Api.Kind[]>} */ (kinds);
}

/**
 * Return the button that opens the menu.
 * @param {(table: Api.Table) => void} open gets the new problem
 * @param {(message: string) => void} showError
 */
export function kindMenu(open, showError) {
  const choose = async (/** @type {string} */ kind) => {
    try {
      numProblems += 1;
      const [exercise] = await fetchJson(API.sheet, { kind, count: 1, seed: numProblems });
      if (exercise) open(exercise.table);
    } catch (error) {
      showError(messageOf(error));
    }
  };
  const show = async () => {
    try {
      openMenu(await fetchKinds(), choose);
    } catch (error) {
      showError(messageOf(error));
    }
  };
  return button(t("New problem…"), show, { class: "main", "aria-haspopup": "dialog" });
}

/**
 * Open the menu as a dialog.
 * @param {Api.Kind[]} list
 * @param {(kind: string) => void} choose
 */
function openMenu(list, choose) {
  /** @type {Map<string, Api.Kind[]>} */
  const families = new Map();
  for (const kind of list) families.set(kind.family, [...(families.get(kind.family) ?? []), kind]);
  const item = (/** @type {Api.Kind} */ { name, title, picture }) =>
    h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          data: { kind: name },
          onclick: () => {
            dialog.close();
            choose(name);
          },
        },
        h("span", { class: "title" }, title),
        linePicture(picture),
      ),
    );
  const group = (/** @type {[string, Api.Kind[]]} */ [family, members]) =>
    h("section", {}, h("h3", {}, family), h("ul", {}, members.map(item)));
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    { class: "kinds", "aria-label": t("Kinds of problem"), onclose: () => dialog.remove() },
    h(
      "header",
      {},
      h("h2", {}, t("A new problem")),
      button("×", () => dialog.close(), { "aria-label": t("Close") }),
    ),
    h("div", { class: "families" }, [...families].map(group)),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/**
 * Return a computation as boxes with arrows between them.
 * @param {string} picture
 */
function linePicture(picture) {
  const [forward = "", backward] = picture.split(BACKWARD);
  return h(
    "span",
    { class: "picture" },
    boxes(forward, "box", "→"),
    backward !== undefined && [h("span", {}, "⤶"), ...boxes(backward, "box gradient", "←")],
  );
}

/**
 * @param {string} picture
 * @param {string} kind
 * @param {string} arrow
 */
function boxes(picture, kind, arrow) {
  return picture.split(ARROW).flatMap((text, k) => [k > 0 && h("span", {}, arrow), h("span", { class: kind }, text)]);
}
