// A screen as it is now, as one HTML file: nothing in it runs, nothing is asked of anybody.

import { save } from "./api.js";
import { h } from "./dom.js";

const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
const STYLE = ".bench main { padding-bottom: 2rem; } .bench .kept { font: inherit; margin: 0; overflow-wrap: anywhere; }";
const DARK = "(prefers-color-scheme: dark)";

export function keep(screen, title) {
  const page = document.implementation.createHTMLDocument(title);
  const meta = (given) => h("meta", given);
  page.documentElement.lang = "en";
  page.head.prepend(meta({ charset: "utf-8" }), meta({ "http-equiv": "Content-Security-Policy", content: POLICY }),
    meta({ name: "viewport", content: "width=device-width, initial-scale=1" }), meta({ name: "color-scheme", content: "light dark" }));
  page.body.className = document.body.className;
  const from = location.hash.slice(0, 400);
  page.body.append(h("header", { class: "top" }, h("p", { class: "brand" }, h("b", {}, title), " ", h("span", { dir: "auto" }, from))), copied(screen));
  // Rules as a text: as an element they would be held against this page's policy, which has none inside of it.
  const text = page.documentElement.outerHTML.replace("</head>", () => `<style>\n${rules()}\n</style></head>`);
  save(new Blob([`<!doctype html>\n${text}\n`], { type: "text/html" }), `${title.replace(/[^\w-]+/g, "-")}.html`);
}

// All rules of this page. Maps are drawn in the colours of now, so the rest stays in them, too.
function rules() {
  const now = matchMedia(DARK).matches ? "(min-width: 0px)" : "(max-width: 0px)";
  const text = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).map((rule) => rule.cssText).join("\n");
  return `${text}\n${STYLE}`.replaceAll(DARK, now).replace(/\bcanvas\b/g, "img");  // which is what they have become
}

function copied(screen) {
  const closed = [...screen.querySelectorAll("details.behind:not([open], .report *)")];
  for (const one of closed) {  // some have their numbers only while they are open
    one.open = true;
    one.dispatchEvent(new Event("toggle"));
  }
  const copy = screen.cloneNode(true);
  const each = (selector, change) => {
    const now = [...screen.querySelectorAll(selector)];
    [...copy.querySelectorAll(selector)].forEach((one, k) => change(one, now[k]));
  };
  each("details", (one, now) => { one.open = !closed.includes(now); });
  for (const one of closed) one.open = false;
  // First whatever holds something that a copy does not have, while both have the same elements.
  each("canvas", (one, now) => { one.setAttribute("data-drawn", now.toDataURL()); });
  each("input, textarea, select", (one, now) => { one.setAttribute("data-chosen", chosen(now)); });
  for (const one of copy.querySelectorAll("canvas")) {
    const image = h("img", { src: one.dataset.drawn, alt: "", class: one.className });
    image.style.imageRendering = "pixelated";
    one.replaceWith(image);
  }
  for (const one of copy.querySelectorAll("[hidden], input[type=file], .more-of-it:not([open]), .readout:not(:has(b)), section:has(a[href^='/'])")) one.remove();
  for (const one of copy.querySelectorAll("input[type=radio]"))
    if (one.dataset.chosen) one.remove();
    else one.closest("label").remove();
  for (const one of copy.querySelectorAll("input, textarea, select")) one.replaceWith(h("p", { class: "kept", dir: "auto" }, one.dataset.chosen));
  for (const one of copy.querySelectorAll("button"))
    if (one.querySelector("img")) one.disabled = true;  // a head in small
    else one.remove();
  copy.classList.remove("waiting", "stale");
  for (const one of copy.querySelectorAll("[role=application]")) {  // a map that could be walked
    one.setAttribute("role", "img");
    one.setAttribute("aria-label", one.getAttribute("aria-label").split(": ")[0]);
    for (const name of ["tabindex", "aria-roledescription"]) one.removeAttribute(name);
  }
  for (const one of copy.querySelectorAll("[role=grid], [role=alert], [role=status], td"))
    for (const name of ["role", "tabindex", "aria-readonly"]) one.removeAttribute(name);
  return copy;
}

function chosen(field) {
  if (field.type === "radio") return field.checked ? "yes" : "";
  return field.tagName === "SELECT" ? field.selectedOptions[0]?.textContent ?? "" : field.value;
}
