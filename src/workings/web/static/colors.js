// @ts-check
// Colors: those of heat maps, drawing by levels, color scales and legends.

import { h } from "./dom.js";
import { t } from "./language.js";

/** The level of a cell that the mask hides. */
export const MASKED = 255;

const STEPS = [8, 7, 6, 5, 4, 3, 2, 1];
const dark = matchMedia("(prefers-color-scheme: dark)");

/**
 * Decode base64.
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function decodeBytes(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = characters.charCodeAt(k);
  return bytes;
}

/**
 * Decode base64 of signed 16-bit integers, little-endian as on every machine that runs a browser.
 * @param {string} text
 */
export function decodeShorts(text) {
  return new Int16Array(decodeBytes(text).buffer);
}

/**
 * Write an integer that counts units of the last decimal: 1234 with four decimals is 0.1234.
 * @param {number} number
 * @param {number} decimals
 */
export function formatFixed(number, decimals) {
  const digits = String(Math.abs(number)).padStart(decimals + 1, "0");
  const integer = digits.slice(0, digits.length - decimals);
  return `${number < 0 ? "−" : ""}${integer}${decimals ? `.${digits.slice(-decimals)}` : ""}`;
}

/**
 * Return the colors of the current color scheme.
 * @param {Api.Colors} colors
 */
export function currentColors(colors) {
  const theme = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light"); // chosen, or the system's
  return theme === "dark" ? colors.dark : colors.light;
}

/**
 * Call a function when the color scheme changes.
 * @param {() => void} listener
 * @returns {Dispose}
 */
export function onColorScheme(listener) {
  dark.addEventListener("change", listener);
  document.addEventListener("themechange", listener);
  return () => {
    dark.removeEventListener("change", listener);
    document.removeEventListener("themechange", listener);
  };
}

/**
 * Draw levels, one pixel per cell; masked cells stay transparent.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint8Array} levels
 * @param {[number, number]} size rows and columns
 * @param {string[]} colors `#rrggbb` by level
 */
export function paint(canvas, levels, [rows, columns], colors) {
  const rgba = Uint32Array.from(colors, (color) => {
    const channels = [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16));
    return new Uint32Array(Uint8ClampedArray.of(...channels, 255).buffer)[0] ?? 0;
  });
  Object.assign(canvas, { width: columns, height: rows });
  const image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  levels.forEach((level, k) => {
    pixels[k] = level === MASKED ? 0 : (rgba[level] ?? 0);
  });
  canvas.getContext("2d")?.putImageData(image, 0, 0);
}

/**
 * Return a color scale from blue (negative) over white to orange; without a sign, from white on.
 * @param {boolean} [signed]
 */
export function colorScale(signed = true) {
  const negative = signed ? STEPS.map((k) => `n${k}`) : [];
  const names = [...negative, "z", ...STEPS.toReversed().map((k) => `p${k}`)];
  return h(
    "span",
    { class: "bar", "aria-hidden": "true" },
    names.map((name) => h("i", { class: name })),
  );
}

/**
 * Return the legend of a worked problem.
 * @param {...[string, string, string]} signs class, sign and meaning of each further mark
 */
export function legend(...signs) {
  const role = (/** @type {string} */ name, /** @type {string} */ label) => h("b", { class: name }, label);
  return h(
    "aside",
    { class: "legends", "aria-label": t("Legend") },
    h(
      "p",
      { class: "legend" },
      h("span", {}, role("query", t("query")), " ", role("key", t("key")), " ", role("value", t("value"))),
      h("span", {}, "−max", colorScale(), t("+max of each matrix")),
      h("span", {}, h("span", { class: "sample masked" }, h("span", {}, "−∞")), t("masked")),
      signs.map(([kind, sign, text]) => h("span", {}, h("span", { class: `sample ${kind}` }, sign), text)),
    ),
  );
}
