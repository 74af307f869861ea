// A screen as it is now, as one HTML file: nothing in it runs, nothing is asked of anybody.

import { save } from "./api.js";
import { h } from "./dom.js";

const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
// What was a field is a text; a working that lay over the page is a part of it, also on paper.
const STYLE = `.bench .kept { display: block; font: inherit; overflow-wrap: anywhere; white-space: pre-wrap; }
.bench .brand span { display: block !important; max-height: 4.5em; overflow: auto; overflow-wrap: anywhere; margin: 0; font-size: .8rem; }
.bench main, .bench main:has(.dock.tall:not([hidden])) { padding-bottom: 2rem; }
.bench .dock, .bench .dock.tall { position: static; max-height: none; margin-top: 1.2rem; }
.bench .compare .sides { align-items: flex-start; }
@media print { .bench .top, .bench .look-top, .bench .toggles, .bench .compare :is(.sides, .which) { display: flex !important; }
  .bench .dock, .bench .compare .hint, .bench .behind { display: block !important; } }`;
const DARK = "(prefers-color-scheme: dark)";

export function saved(screen, title) {
  const page = document.implementation.createHTMLDocument(title);
  const meta = (given) => h("meta", given);
  page.documentElement.lang = "en";
  page.head.prepend(meta({ charset: "utf-8" }), meta({ "http-equiv": "Content-Security-Policy", content: POLICY }),
    meta({ name: "viewport", content: "width=device-width, initial-scale=1" }), meta({ name: "color-scheme", content: "light dark" }));
  page.body.className = document.body.className;
  page.body.append(h("header", { class: "top" }, h("p", { class: "brand" }, h("b", {}, title), " ", h("span", {}, location.hash))), copied(screen));
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
  // What a clone does not have, while both still have the same elements.
  each("details", (one, now) => { if (closed.includes(now)) one.open = false; });
  each("canvas", (one, now) => { one.dataset.drawn = now.toDataURL(); });
  each("input, textarea, select", (one, now) => { one.dataset.chosen = chosen(now); });
  for (const one of closed) one.open = false;
  stilled(copy);
  return copy;
}

// Leave what a screen says, and nothing that would do something.
function stilled(copy) {
  const each = (selector, change) => copy.querySelectorAll(selector).forEach(change);
  each("[hidden], input[type=file], .more-of-it:not([open]), .how, .map .readout:not(:has(b)), [aria-label='Cells that vary most'], section:has(a[href^='/'])", (one) => one.remove());
  each("canvas", (one) => {
    const image = h("img", { src: one.dataset.drawn, alt: "" });
    image.style.imageRendering = "pixelated";
    one.replaceWith(image);
  });
  each("input[type=radio]", (one) => (one.dataset.chosen ? one : one.closest("label")).remove());
  each("input, textarea, select", (one) => one.replaceWith(h("span", { class: "kept", dir: "auto" }, one.dataset.chosen)));
  each("button", (one) => {
    if (one.querySelector("img")) one.disabled = true;  // a head in small
    else one.remove();
  });
  each("[role=application]", (one) => {  // what could be walked
    const says = one.getAttribute("aria-label").split(": ")[0];
    for (const name of ["role", "aria-label", "aria-roledescription", "tabindex"]) one.removeAttribute(name);
    if (!one.matches(".drawing")) return;  // a text, which is read as one
    one.setAttribute("role", "img");
    one.setAttribute("aria-label", says);
  });
  each("[role=grid], [role=alert], [role=status], td", (one) => {
    for (const name of ["role", "tabindex", "aria-readonly"]) one.removeAttribute(name);
  });
}

function chosen(field) {
  if (field.type === "radio") return field.checked ? "yes" : "";
  return field.tagName === "SELECT" ? field.selectedOptions[0]?.textContent ?? "" : field.value;
}
