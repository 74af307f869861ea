// @ts-check
// Controls of a problem: settings, sizes, lecture examples, downloads, and the dialog for pasted text.

import { button, choice, h, stepper } from "./dom.js";
import { t } from "./language.js";
import { API, download, fetchJson, messageOf } from "./request.js";
import { resize, setVectors } from "./store.js";
/** @import { Store } from "./store.js" */

/** @typedef {(value: string | number | Cells) => void} SetSetting */

/** @type {[string, string][]} */
const NORMALIZERS = ["softmax", "sigmoid", "sum"].map((name) => [name, name]);
/** @type {[string, string][]} */
const ACTIVATIONS = ["relu", "tanh", "sigmoid", "gelu", "silu"].map((name) => [name, name]);
/** @type {[string, string][]} */
const NORM_ORDERS = [
  ["post", "post-norm"],
  ["pre", "pre-norm"],
];
/** @type {() => [string, string][]} */
const fileFormats = () => [
  ["toml", t("problem file")],
  ["latex", "LaTeX"],
  ["html", "HTML"],
  ["svg", "SVG"],
];
const MAX_FILE = 400_000; // bytes
const MAX_SIDE = 64;

/**
 * Return the controls for the settings that this kind of problem has: those in the line, and the others.
 * @param {Store} store
 * @param {Api.Solution} solution
 * @returns {{ main: Child[], more: Child[] }}
 */
export function settingControls(store, solution) {
  const { table, decimals } = store.problem;
  const { settings } = table;
  const has = (/** @type {string} */ name) => solution.settings.includes(name);
  const set = (/** @type {string} */ name) => (/** @type {string | number | Cells} */ value) =>
    store.changeProblem((problem) => {
      problem.table.settings[name] = value;
    });
  const options = (
    /** @type {string} */ label,
    /** @type {string} */ name,
    /** @type {[string, string][]} */ values,
    /** @type {string} */ usual,
  ) => has(name) && choice(label, name, values, String(settings[name] ?? usual), set(name));
  const heads = solution.heads.slice(0, 6).map((count) => /** @type {[string, string]} */ ([`${count}`, `${count}`]));
  const vectors = choice(
    t("A token is a"),
    "vectors",
    [
      ["rows", t("row")],
      ["columns", t("column")],
    ],
    table.vectors || "rows",
    (value) => store.changeProblem((problem) => setVectors(problem, value)),
  );
  const main = [
    vectors,
    has("scale") && scaleControl(settings.scale ?? "sqrt(d_k)", set("scale")),
    has("mask") && maskControl(settings.mask ?? "none", solution, set("mask")),
    heads.length > 1 &&
      choice(t("Heads"), "heads", heads, String(settings.heads ?? 1), (value) => set("heads")(Number(value))),
    stepper(t("Decimals"), decimals, 0, 15, (value) =>
      store.changeProblem((problem) => {
        problem.decimals = value;
      }),
    ),
  ];
  const more = [
    options(t("Normalizer"), "normalizer", NORMALIZERS, "softmax"),
    options(t("Activation"), "activation", ACTIVATIONS, "relu"),
    options(t("Layer norm"), "order", NORM_ORDERS, "post"),
    ["count", "width", "base", "eps"]
      .filter(has)
      .map((name) =>
        h(
          "label",
          { class: "choice" },
          h("span", { class: "label" }, name),
          numberInput(name, settings[name] ?? 0, set(name)),
        ),
      ),
    solution.options.map((option) => optionControl(store, option)),
  ];
  return { main, more };
}

/**
 * Return the control of a setting that only this kind of problem has; without a value it has its default.
 * @param {Store} store
 * @param {Api.Option} option
 */
function optionControl(store, option) {
  const { name } = option;
  const { options } = store.problem.table;
  const value = options[name] === undefined ? "" : JSON.parse(options[name]);
  const change = (/** @type {string} */ text) =>
    store.changeProblem(({ table }) => {
      if (text.trim()) table.options[name] = isJson(text) ? text : JSON.stringify(text.trim());
      else delete table.options[name];
    });
  const control = optionField(option, value, change);
  return h("label", { class: "choice" }, h("span", { class: "label" }, name.replaceAll("_", " ")), control);
}

/**
 * Return a list for words, a box for yes or no, a field for a number, or a field for a text or JSON.
 * @param {Api.Option} option
 * @param {unknown} value
 * @param {(text: string) => void} change
 */
function optionField(option, value, change) {
  const { name, form, choices } = option;
  const common = { class: "option-field", name, "aria-label": name };
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const missing = option.default || t("default");
  if (form === "choice") {
    const items = [
      ["", option.default ? `${t("default")}: ${option.default}` : t("default")],
      ...choices.map((word) => [word, word]),
    ].map(([word, label]) => h("option", { value: word, selected: word === text }, label));
    const onchange = (/** @type {any} */ event) => change(event.target.value && JSON.stringify(event.target.value));
    return h("select", { ...common, onchange }, items);
  }
  if (form === "flag") {
    const onchange = (/** @type {any} */ event) => change(event.target.checked ? "true" : "");
    return h("input", { ...common, type: "checkbox", checked: value === true, onchange });
  }
  const type = form === "number" && (value === "" || typeof value === "number") ? "number" : "text";
  const onchange = (/** @type {any} */ event) => change(event.target.value);
  return h("input", { ...common, type, step: "any", value: text, placeholder: missing, onchange });
}

/** @param {string} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Return steppers for the sizes of the matrices.
 * @param {Store} store
 * @param {Api.Solution} solution
 */
export function sizeControls(store, solution) {
  return solution.sizes
    .filter((size) => size.value > 0)
    .map((size) => {
      const label = `${size.label} (${size.lines.map(([name]) => name).join(", ")})`;
      return stepper(label, size.value, 1, MAX_SIDE, (value) =>
        store.changeProblem((problem) => resize(problem, size, value - size.value)),
      );
    });
}

/**
 * @param {string | number | Cells} chosen
 * @param {SetSetting} set
 */
function scaleControl(chosen, set) {
  const isNumber = typeof chosen === "number";
  const control = choice(
    t("Scores ÷"),
    "scale",
    [
      ["sqrt(d_k)", "√d_k"],
      ["none", t("none")],
      ["number", t("number")],
    ],
    isNumber ? "number" : String(chosen),
    (value) => set(value === "number" ? 2 : value),
  );
  if (isNumber) control.lastElementChild?.append(numberInput(t("divisor of the scores"), chosen, set));
  return control;
}

/**
 * @param {string | number | Cells} chosen
 * @param {Api.Solution} solution
 * @param {SetSetting} set
 */
function maskControl(chosen, solution, set) {
  const isCustom = Array.isArray(chosen);
  const allVisible = () => (findScores(solution)?.texts ?? []).map((row) => row.map(() => "1"));
  return choice(
    t("Mask"),
    "mask",
    [
      ["none", t("none")],
      ["causal", t("causal")],
      ["own", t("custom")],
    ],
    isCustom ? "own" : String(chosen),
    (value) => set(value === "own" ? (solution.mask ?? allVisible()) : value),
  );
}

/**
 * Return the attention scores of a problem; in a Transformer block they are `attention.scores`.
 * @param {Api.Solution} solution
 */
export function findScores(solution) {
  return solution.steps.find((step) => /(^|\.)scores(\.|$)/.test(step.key));
}

/**
 * @param {string} label
 * @param {string | number | Cells} value
 * @param {SetSetting} set
 */
function numberInput(label, value, set) {
  return h("input", {
    class: "number-field",
    type: "number",
    step: "any",
    value: String(value),
    "aria-label": label,
    name: label,
    onchange: (event) => event.target.value !== "" && set(Number(event.target.value)),
  });
}

/**
 * Return a list of the lectures' examples; choosing one opens it.
 * @param {(table: Api.Table) => void} open
 * @param {(message: string) => void} showError
 */
export function lectureList(open, showError) {
  const load = async () => {
    const name = select.value;
    select.value = "";
    try {
      if (name) open(await fetchJson(API.lecture(name)));
    } catch (error) {
      showError(messageOf(error));
    }
  };
  const select = h(
    "select",
    { "aria-label": t("Open a lecture example"), class: "lectures", onchange: load },
    h("option", { value: "" }, t("Open a lecture example…")),
  );
  fetchJson(API.lectures).then(
    (/** @type {Record<string, string>} */ titles) =>
      select.append(...Object.entries(titles).map(([name, title]) => h("option", { value: name }, title || name))),
    (error) => showError(messageOf(error)),
  );
  return select;
}

/**
 * Return buttons that download the problem.
 * @param {Store} store
 * @param {(message: string) => void} showError
 * @param {boolean} report whether the file has the report of the check
 */
export function downloadButtons(store, showError, report) {
  const save = (/** @type {string} */ form) =>
    download({ ...store.request, file_format: form, report }, API.exportProblem).catch((error) =>
      showError(messageOf(error)),
    );
  const choose = (/** @type {string} */ form) => {
    menu.open = false;
    void save(form);
  };
  const menu = h(
    "details",
    { class: "menu downloads" },
    h("summary", {}, t("Download")),
    h(
      "div",
      { role: "group", "aria-label": t("Download as") },
      fileFormats().map(([form, label]) => button(label, () => choose(form), { data: { form } })),
    ),
  );
  return menu;
}

/**
 * Open a dialog for pasted text. `onSubmit` may throw an error, whose message is shown; else the dialog closes.
 * @param {object} options
 * @param {string} options.title
 * @param {string} options.hint
 * @param {string} [options.action]
 * @param {boolean} [options.acceptsFile]
 * @param {(text: string) => Promise<void>} options.onSubmit
 */
export function openPasteDialog({ title, hint, action = t("Insert"), acceptsFile = false, onSubmit }) {
  const area = h("textarea", { rows: "10", spellcheck: "false", "aria-label": title });
  const status = h("p", { class: "status", role: "alert" });
  const readFile = async (/** @type {{ target: HTMLInputElement }} */ event) => {
    const file = event.target.files?.[0];
    if (!file) return;
    if (file.size < MAX_FILE) area.value = await file.text();
    else status.textContent = t("the file is larger than 400 kB");
  };
  const submit = async () => {
    try {
      await onSubmit(area.value);
      dialog.close();
    } catch (error) {
      status.textContent = messageOf(error);
    }
  };
  const fileInput = h("input", { type: "file", accept: ".toml,.tex,.md,.txt,.csv", onchange: readFile });
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    { class: "paste", "aria-label": title, onclose: () => dialog.remove() },
    h("h2", {}, title),
    h("p", { class: "hint" }, hint),
    area,
    acceptsFile && h("label", { class: "file" }, t("or a file: "), fileInput),
    status,
    h(
      "div",
      { class: "actions" },
      button(action, submit, { class: "main" }),
      button(t("Cancel"), () => dialog.close()),
    ),
  );
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit();
  });
  document.body.append(dialog);
  dialog.showModal();
  area.focus();
}
