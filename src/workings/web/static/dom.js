// @ts-check
// Elements and controls. Text is inserted as text nodes only, so that no input is parsed as markup.

import { t } from "./language.js";
const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

const MATHML_ELEMENTS = new Set("math mrow mi mn mo msub msup msubsup mfrac msqrt mtext".split(" "));
const MATHML_ATTRIBUTES = new Set("class mathvariant stretchy lspace rspace form".split(" "));
const SVG_ELEMENTS = new Set("svg title g rect path polyline polygon circle text".split(" "));
const SVG_ATTRIBUTES = new Set(
  (
    "class role width height viewBox font-family font-size font-weight stroke stroke-width stroke-linejoin " +
    "stroke-dasharray fill fill-opacity shape-rendering transform text-anchor points d x y cx cy r"
  ).split(" "),
);

/**
 * Create an HTML element. Attributes that are null, undefined or false are left out; `data` sets the dataset, `on…`
 * adds a listener.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * Create an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * @template {HTMLElement | SVGElement} T
 * @param {T} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 * @returns {T}
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {any} */ (value));
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "selected") Object.assign(element, { [name]: value });
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/**
 * Return the nodes of a nested list, without those that are null, undefined or false.
 * @param {readonly Child[]} children
 * @returns {(Node | string)[]}
 */
export function present(children) {
  return /** @type {any[]} */ (children)
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false);
}

/**
 * Return a formula as MathML.
 * @param {Api.Formula} formula
 */
export function math(formula) {
  const element = /** @type {Element} */ (build(formula.tree, MATHML, MATHML_ELEMENTS, MATHML_ATTRIBUTES, "mrow"));
  element.setAttribute("displaystyle", "true");
  element.setAttribute("alttext", formula.text);
  return element;
}

/**
 * Return a formula in a box that a screen reader reads as text. It wraps before = and +, and scrolls where that is not
 * enough: browsers do not break lines within MathML.
 * @param {Api.Formula} formula
 */
export function formulaBox(formula) {
  const [name, attributes, ...children] = formula.tree;
  const parts = splitFormula(children).map((nodes) => {
    const element = math({ tree: [name, attributes, ...nodes], text: "" });
    element.setAttribute("aria-hidden", "true"); // the box has the text
    return element;
  });
  return h("div", { class: "formula", tabindex: "0", role: "math", "aria-label": formula.text }, parts);
}

/**
 * Return the parts of a formula: all but the first begin with = or +.
 * @param {(Api.Tree | string)[]} nodes
 */
function splitFormula(nodes) {
  /** @type {(Api.Tree | string)[][]} */
  const parts = [[]];
  const add = (/** @type {Api.Tree | string} */ node) => {
    const [name, attributes, ...children] = typeof node === "string" ? ["", {}, node] : node;
    if (isBreak(node)) parts.push([[name, { ...attributes, form: "infix" }, ...children]]);
    else if (name === "mrow" && children.some(isBreak)) children.forEach(add);
    else parts.at(-1)?.push(node);
  };
  nodes.forEach(add);
  return parts;
}

/** @param {Api.Tree | string} node */
function isBreak(node) {
  return typeof node !== "string" && node[0] === "mo" && (node[2] === "=" || node[2] === "+");
}

/**
 * Return a drawing that the server sent as a tree of SVG.
 * @param {Api.Tree} tree
 */
export function drawing(tree) {
  return build(tree, SVG, SVG_ELEMENTS, SVG_ATTRIBUTES, "g");
}

/**
 * Build a tree element by element; only listed elements and attributes are created.
 * @param {Api.Tree | string} tree
 * @param {string} namespace
 * @param {Set<string>} elements
 * @param {Set<string>} attributes
 * @param {string} fallback
 * @returns {Node}
 */
function build(tree, namespace, elements, attributes, fallback) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const [name, given, ...children] = tree;
  const element = document.createElementNS(namespace, elements.has(name) ? name : fallback);
  for (const [key, value] of Object.entries(given)) if (attributes.has(key)) element.setAttribute(key, value);
  element.append(...children.map((child) => build(child, namespace, elements, attributes, fallback)));
  return element;
}

/**
 * @param {string} label
 * @param {() => unknown} onClick
 * @param {Attributes} [attributes]
 */
export function button(label, onClick, attributes = {}) {
  return h("button", { type: "button", onclick: onClick, ...attributes }, label);
}

/**
 * Return a group of radio buttons side by side.
 * @template {string} Value
 * @param {string} label
 * @param {string} name
 * @param {readonly (readonly [Value, string])[]} options values and their labels
 * @param {string} chosen
 * @param {(value: Value) => void} onChange
 */
export function choice(label, name, options, chosen, onChange) {
  const option = (/** @type {readonly [Value, string]} */ [value, text]) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onChange(value) }),
      h("span", {}, text),
    );
  return h(
    "fieldset",
    { class: "choice" },
    h("legend", {}, label),
    h("div", { class: "segments" }, options.map(option)),
  );
}

/**
 * Return an integer with a button on either side. The value may be out of bounds, if an address had it.
 * @param {string} label
 * @param {number} value
 * @param {number} minimum
 * @param {number} maximum
 * @param {(value: number) => void} onChange
 * @param {number} [step]
 */
export function stepper(label, value, minimum, maximum, onChange, step = 1) {
  const change = (/** @type {number} */ sign, /** @type {string} */ verb, /** @type {string} */ text) => {
    const next = clamp(value + sign * step, minimum, maximum);
    return button(text, () => next !== value && onChange(next), {
      "aria-label": `${verb} ${label}`,
      "aria-disabled": next === value ? "true" : null,
      data: { control: `${label}${sign}` },
    });
  };
  return h(
    "div",
    { class: "choice stepper", role: "group", "aria-label": label },
    h("span", { class: "label" }, label),
    h(
      "div",
      { class: "segments" },
      change(-1, t("Decrease"), "−"),
      h("output", {}, String(value)),
      change(1, t("Increase"), "+"),
    ),
  );
}

/**
 * Return a select with a label above it.
 * @param {string} label
 * @param {readonly (readonly [string, string])[]} options values and their labels
 * @param {string} chosen
 * @param {(value: string) => void} onChange
 */
export function dropdown(label, options, chosen, onChange) {
  const select = h(
    "select",
    { data: { control: label }, onchange: (event) => onChange(event.target.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return h("label", { class: "choice" }, h("span", { class: "label" }, label), select);
}

/**
 * Replace the content of a container, and keep the keyboard's focus on the same control: the one with the same
 * `data-control`, or of the same name and value. Where it is gone, the first control has the focus.
 * @param {Element} container
 * @param {...Child} children
 */
export function redraw(container, ...children) {
  const active = focusedIn(container);
  container.replaceChildren(...present(children));
  if (!active) return;
  const controls = /** @type {HTMLElement[]} */ ([...container.querySelectorAll("input, button, select")]);
  (controls.find((control) => isSameControl(control, active)) ?? controls[0])?.focus();
}

/**
 * @param {any} control
 * @param {any} other
 */
function isSameControl(control, other) {
  if (other.dataset.control) return control.dataset.control === other.dataset.control;
  return other.name && control.name === other.name && (control.type !== "radio" || control.value === other.value);
}

/**
 * Return the element inside a container that has the keyboard's focus.
 * @param {Node} container
 */
export function focusedIn(container) {
  const active = document.activeElement;
  return active instanceof HTMLElement && container.contains(active) ? active : null;
}

/**
 * Set an element's text only if it differs, so that a screen reader does not read it again.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {number} value
 * @param {number} minimum
 * @param {number} maximum
 */
export function clamp(value, minimum, maximum) {
  return Math.min(Math.max(value, minimum), maximum);
}
