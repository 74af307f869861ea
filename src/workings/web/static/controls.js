// What can be set about a problem: toggles, sizes, lectures, files.

import { download, get } from "./api.js";
import { button, choice, h, stepper } from "./dom.js";
import { resize, turnOver } from "./store.js";

const NORMALIZERS = [["softmax", "softmax"], ["sigmoid", "sigmoid"], ["sum", "sum"]];
const ACTIVATIONS = ["relu", "tanh", "sigmoid", "gelu"].map((name) => [name, name]);
const FORMS = [["toml", "problem file"], ["latex", "LaTeX"], ["html", "HTML"], ["svg", "SVG"]];

// The toggles that a kind of problem has; `worked` is the server's last answer.
export function toggles(store, worked) {
  const { table, decimals } = store.state;
  const set = (name) => (value) => store.change((state) => { state.table.settings[name] = value; });
  const has = (name) => worked.settings.includes(name);
  return [
    choice("A token is a", "vectors", [["rows", "row"], ["columns", "column"]], table.vectors,
      (value) => store.change((state) => turnOver(state, value))),
    has("scale") && scale(table.settings.scale ?? "sqrt(d_k)", set("scale")),
    has("mask") && mask(store, table.settings.mask ?? "none", worked, set("mask")),
    has("normalizer") && choice("Normaliser", "normalizer", NORMALIZERS, table.settings.normalizer ?? "softmax", set("normalizer")),
    has("activation") && choice("Activation", "activation", ACTIVATIONS, table.settings.activation ?? "relu", set("activation")),
    has("order") && choice("Norm", "order", [["post", "after"], ["pre", "before"]], table.settings.order ?? "post", set("order")),
    worked.heads.length > 1 && choice("Heads", "heads", worked.heads.slice(0, 6).map((n) => [String(n), String(n)]),
      String(table.settings.heads ?? 1), (value) => set("heads")(Number(value))),
    ...["count", "width", "base", "eps"].filter(has).map((name) => number(name, table.settings[name] ?? 0, set(name))),
    stepper("Decimals", decimals, 0, 15, (value) => store.change((state) => { state.decimals = value; })),
  ].filter(Boolean);
}

// Buttons for the sizes of the matrices.
export function sizes(store, worked) {
  return worked.sizes.filter((size) => size.value > 0).map((size) =>
    stepper(`${size.label} (${size.lines.map(([name]) => name).join(", ")})`, size.value, 1, 64,
      (value) => store.change((state) => resize(state, size, value - size.value))));
}

function scale(chosen, set) {
  const own = typeof chosen === "number";
  const field = choice("Scores ÷", "scale", [["sqrt(d_k)", "√d_k"], ["none", "none"], ["number", "number"]],
    own ? "number" : chosen, (value) => set(value === "number" ? 2 : value));
  if (own) field.lastChild.append(numeric("what the scores are divided by", chosen, set));
  return field;
}

function mask(store, chosen, worked, set) {
  const own = Array.isArray(chosen);
  const start = () => worked.mask ?? blankMask(worked);
  return choice("Mask", "mask", [["none", "none"], ["causal", "causal"], ["own", "own"]], own ? "own" : chosen,
    (value) => set(value === "own" ? start() : value));
}

// Whoever looks at whom, in whatever kind of problem: a block's are attention.scores.
export function scoresOf(worked) {
  return worked.steps.find((step) => /(^|\.)scores(\.|$)/.test(step.key));
}

function blankMask(worked) {
  return scoresOf(worked).texts.map((row) => row.map(() => "1"));
}

function number(name, value, set) {
  return h("label", { class: "choice" }, h("span", { class: "legend-like" }, name), numeric(name, value, set));
}

function numeric(label, value, set) {
  return h("input", {
    class: "number-field", type: "number", step: "any", value: String(value), "aria-label": label, name: label,
    onchange: (event) => event.target.value !== "" && set(Number(event.target.value)),
  });
}

// A list of the lecture notes' examples; choosing one opens it.
export function lectures(open, refuse) {
  const select = h("select", { "aria-label": "Open a lecture's example", class: "lectures", onchange: async () => {
    const name = select.value;
    select.value = "";
    if (!name) return;
    try {
      open(await get(`/api/lecture/${encodeURIComponent(name)}`));
    } catch (error) {
      refuse(error.message);
    }
  } }, h("option", { value: "" }, "Open a lecture’s example…"));
  get("/api/lectures").then((found) => {
    for (const { name, title } of found) select.append(h("option", { value: name }, title || name));
  }, (error) => refuse(error.message));
  return select;
}

// Buttons that keep what is there as a file.
export function downloads(store, refuse, report) {
  const keep = (form) => download({ ...store.asked, form, report }).catch((error) => refuse(error.message));
  return h("div", { class: "downloads", role: "group", "aria-label": "Download as" },
    h("span", { class: "legend-like" }, "Download"), FORMS.map(([form, words]) => button(words, () => keep(form), { data: { form } })));
}

// Draw a part anew, and leave the keyboard where it was.
export function redraw(container, ...children) {
  const active = container.contains(document.activeElement) ? document.activeElement : null;
  const [name, value, step] = [active?.name, active?.value, active?.dataset.step];
  container.replaceChildren(...children);
  if (!active) return;
  const same = [...container.querySelectorAll("input, button")].find((element) =>
    step ? element.dataset.step === step : name && element.name === name && (element.type !== "radio" || element.value === value));
  same?.focus();
}
