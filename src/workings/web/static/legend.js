// What colours, hatching and signs stand for.

import { h } from "./dom.js";

const STEPS = [8, 7, 6, 5, 4, 3, 2, 1];

// From full blue over nothing to full orange; or, where nothing is below zero, from nothing on.
export function scaleBar(signed = true) {
  const names = [...(signed ? STEPS : []).map((k) => `n${k}`), "z", ...[...STEPS].reverse().map((k) => `p${k}`)];
  return h("span", { class: "bar", "aria-hidden": "true" }, names.map((name) => h("i", { class: name })));
}

export function legend(...signs) {
  return h("aside", { class: "legends", "aria-label": "What the colours mean" },
    h("p", { class: "legend" },
      h("span", {}, h("b", { class: "query" }, "query"), " ", h("b", { class: "key" }, "key"), " ", h("b", { class: "value" }, "value")),
      h("span", {}, "−largest", scaleBar(), "+largest of its matrix"),
      h("span", {}, h("span", { class: "sample masked" }, h("span", {}, "−∞")), "masked"),
      signs.map(([kind, sign, words]) => h("span", {}, h("span", { class: `sample ${kind}` }, sign), words))));
}
