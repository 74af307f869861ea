// @ts-check
// Saves a screen as one HTML file, as it is now: without scripts, controls and network.

import { h } from "./dom.js";
import { saveFile } from "./request.js";

const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
const DARK = "(prefers-color-scheme: dark)";
// Fields have become text; a dock is a part of the page, also in print.
const STYLE = `
.bench .field-value { display: block; font: inherit; overflow-wrap: anywhere; white-space: pre-wrap; }
.bench .brand span { display: block !important; max-height: 4.5em; overflow: auto; overflow-wrap: anywhere;
  margin: 0; font-size: var(--text-sm); }
.bench main, .bench main:has(.dock.tall:not([hidden])) { padding-bottom: 2rem; }
.bench .dock, .bench .dock.tall { position: static; max-height: none; margin-top: 1.2rem; }
.bench .compare .sides { align-items: flex-start; }
@media print {
  .bench .top, .bench .inspect-top, .bench .toggles, .bench .compare :is(.sides, .head-choice) {
    display: flex !important; }
  .bench .dock, .bench .compare .hint, .bench .data-table { display: block !important; }
}`;
const REMOVED = [
  "[hidden]",
  "input[type=file]",
  ".extra:not([open])",
  ".how-to",
  ".map .readout:not(:has(b))",
  ".most-variable",
  "section:has(a[href^='/'])",
].join(", ");

/**
 * Save a screen as a file.
 * @param {HTMLElement} screen
 * @param {string} title
 */
export function saveScreen(screen, title) {
  const page = document.implementation.createHTMLDocument(title);
  page.documentElement.lang = "en";
  page.head.prepend(
    h("meta", { charset: "utf-8" }),
    h("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }),
    h("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
    h("meta", { name: "color-scheme", content: "light dark" }),
  );
  page.body.className = document.body.className;
  const brand = h("p", { class: "brand" }, h("b", {}, title), " ", h("span", {}, location.hash));
  page.body.append(h("header", { class: "top" }, brand), copyScreen(screen));
  // The style is inserted as text: as an element it would violate this page's own policy.
  const text = page.documentElement.outerHTML.replace("</head>", () => `<style>\n${rules()}\n</style></head>`);
  const file = new Blob([`<!doctype html>\n${text}\n`], { type: "text/html" });
  saveFile(file, `${title.replace(/[^\w-]+/g, "-")}.html`);
}

/** Return this page's rules, in the current color scheme: maps have become images of it. */
function rules() {
  const always = "(min-width: 0px)";
  const never = "(max-width: 0px)";
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const all = rules.filter((rule) => !(rule instanceof CSSFontFaceRule)).map((rule) => rule.cssText); // no network
  return [...all, STYLE]
    .join("\n")
    .replaceAll(DARK, matchMedia(DARK).matches ? always : never)
    .replace(/\bcanvas\b/g, "img");
}

/**
 * Return a copy of a screen that only shows.
 * @param {HTMLElement} screen
 */
function copyScreen(screen) {
  /** @type {HTMLDetailsElement[]} */
  const closed = [...screen.querySelectorAll(/** @type {"details"} */ ("details.data-table:not([open], .report *)"))];
  for (const details of closed) {
    details.open = true; // some tables are filled when they are opened
    details.dispatchEvent(new Event("toggle"));
  }
  const copy = /** @type {HTMLElement} */ (screen.cloneNode(true));
  /**
   * Call a function with each element of the copy and its original.
   * @type {(selector: string, change: (copied: any, original: any) => void) => void}
   */
  const forEachPair = (selector, change) => {
    const originals = [...screen.querySelectorAll(selector)];
    [...copy.querySelectorAll(selector)].forEach((copied, k) => change(copied, originals[k]));
  };
  forEachPair("details", (copied, original) => {
    if (closed.includes(original)) copied.open = false;
  });
  forEachPair("canvas", (copied, original) => {
    copied.dataset.image = original.toDataURL();
  });
  forEachPair("input, textarea, select", (copied, original) => {
    copied.dataset.value = fieldValue(original);
  });
  for (const details of closed) details.open = false;
  removeControls(copy);
  return copy;
}

/**
 * Replace controls by their values, and remove those that have none.
 * @param {HTMLElement} copy
 */
function removeControls(copy) {
  const forEach = (/** @type {string} */ selector, /** @type {(element: any) => void} */ change) =>
    copy.querySelectorAll(selector).forEach(change);
  const removeAttributes = (/** @type {Element} */ element, /** @type {string[]} */ names) => {
    for (const name of names) element.removeAttribute(name);
  };
  forEach(REMOVED, (element) => element.remove());
  forEach(".flowing", (element) => element.classList.remove("flowing")); // no animation when the file is opened
  forEach("canvas", (canvas) => {
    const image = h("img", { src: canvas.dataset.image, alt: "" });
    image.style.imageRendering = "pixelated";
    canvas.replaceWith(image);
  });
  forEach("input[type=radio]", (radio) => (radio.dataset.value ? radio : radio.closest("label")).remove());
  forEach("input, textarea, select", (field) => {
    field.replaceWith(h("span", { class: "field-value", dir: "auto" }, field.dataset.value));
  });
  forEach("button", (button) => {
    if (button.querySelector("img"))
      button.disabled = true; // a thumbnail
    else if (button.closest(".line-tokens")) button.replaceWith(button.textContent);
    else button.remove();
  });
  forEach("[role=application]", (element) => {
    const label = element.getAttribute("aria-label").split(": ")[0];
    removeAttributes(element, ["role", "aria-label", "aria-roledescription", "tabindex"]);
    if (!element.matches(".drawing")) return; // a text needs no label
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
  });
  forEach("[role=grid], [role=alert], [role=status], td", (element) =>
    removeAttributes(element, ["role", "tabindex", "aria-readonly"]),
  );
  // Without its controls, what scrolls is reached by the keyboard itself.
  forEach(".derivation section", (element) => element.setAttribute("tabindex", "0"));
}

/** @param {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} field */
function fieldValue(field) {
  if (field instanceof HTMLSelectElement) return field.selectedOptions[0]?.textContent ?? "";
  if (field.type === "radio") return field instanceof HTMLInputElement && field.checked ? "yes" : "";
  return field.value;
}
