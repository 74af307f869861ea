// @ts-check
// The conventions that a solution was checked under, in one line; each is a list to read it otherwise.

import { h } from "./dom.js";
import { t } from "./language.js";

/** @typedef {[string, string]} Option a value and its label */

/**
 * Return the line; without `onChange` its conventions cannot be changed.
 * @param {Api.Report} report
 * @param {((convention: { name: string, value: string }) => void) | null} onChange
 */
export function conventionLine({ read_as: readAs, heads }, onChange) {
  const parts = Object.entries(readAs).flatMap(([name, value]) => {
    const options = optionsOf(name, value, heads);
    return options ? [onChange ? list(name, value, options, onChange) : label(options, value)] : [];
  });
  return h("p", { class: "conventions" }, h("span", {}, `${t("Read as")} `), parts);
}

/**
 * @param {string} name
 * @param {string} value
 * @param {Option[]} options
 * @param {(convention: { name: string, value: string }) => void} onChange
 */
function list(name, value, options, onChange) {
  const change = (/** @type {{ target: HTMLSelectElement }} */ event) => onChange({ name, value: event.target.value });
  return h(
    "select",
    { "aria-label": t("Read as: {setting}", { setting: name }), data: { control: `as ${name}` }, onchange: change },
    options.map(([other, text]) => h("option", { value: other, selected: other === value }, text)),
  );
}

/**
 * @param {Option[]} options
 * @param {string} value
 */
function label(options, value) {
  return h("b", {}, options.find(([other]) => other === value)?.[1]);
}

/**
 * Return the values of a convention; null for one that is not worth a word.
 * @param {string} name
 * @param {string} value
 * @param {number[]} heads
 * @returns {Option[] | null}
 */
function optionsOf(name, value, heads) {
  /** @type {Record<string, Option[]>} */
  const known = {
    vectors: [
      ["rows", t("a token is a row")],
      ["columns", t("a token is a column")],
    ],
    scale: [
      ["sqrt(d_k)", t("scores ÷ √d_k")],
      ["none", t("scores not scaled")],
    ],
    mask: [
      ["none", t("no mask")],
      ["causal", t("causal mask")],
    ],
    normalizer: ["softmax", "sigmoid", "sum"].map((other) => [other, other]),
    heads: heads.map((count) => [`${count}`, count === 1 ? t("one head") : t("{count} heads", { count })]),
  };
  const options = known[name];
  if (!options || (name === "heads" && heads.length < 2)) return null;
  const own = name === "scale" ? t("scores ÷ {number}", { number: value }) : name === "mask" ? t("custom mask") : value;
  return options.some(([other]) => other === value) ? options : [...options, [value, own]];
}
