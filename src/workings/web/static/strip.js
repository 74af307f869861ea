// A text, its tokens coloured by a number each: blue below zero, orange above.
//
// In:  strip (as the server tells it). Out: focus (the number of a token, from 0, or null).

import { h } from "./dom.js";
import { scaleBar } from "./legend.js";

export default {
  render({ model, el }) {
    const draw = () => el.replaceChildren(...content(model));
    draw();
    model.on("change:strip", draw);
  },
};

function content(model) {
  const strip = model.get("strip");
  if (!strip) return [];
  const read = h("p", { class: "readout", role: "status" });
  const show = (k) => {
    model.set("focus", k);
    read.replaceChildren(...(k === null ? [h("span", { class: "place" }, strip.signed ? `−${strip.largest}` : "0", scaleBar(strip.signed), strip.largest)]
      : [h("b", { dir: "auto" }, strip.tokens[k].slice(0, 60)), h("span", { class: "place" }, ` ${k + 1} `), h("b", { class: "number" }, strip.texts[k])]));
  };
  const tokens = strip.tokens.map((token, k) => h("span", { class: `token ${strip.colours[k]}`, data: { k } }, token, token.endsWith("⏎") ? h("br") : null));
  let at = 0;
  const walk = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!by) return;
    event.preventDefault();
    tokens[at].classList.remove("here");
    at = Math.min(Math.max(at + by, 0), tokens.length - 1);
    tokens[at].classList.add("here");
    show(at);
  };
  const over = (event) => { const token = event.target.closest(".token"); if (token) show(Number(token.dataset.k)); };
  const text = h("div", { class: "strip", dir: "auto", tabindex: "0", role: "application", "aria-roledescription": "text",
    "aria-label": `${strip.name}, ${tokens.length} tokens: arrow keys read their numbers`, onkeydown: walk, onpointerover: over, onpointerleave: () => show(null) }, tokens);
  show(null);
  return [h("figure", { class: "stripped", data: { name: strip.name } }, h("figcaption", {}, h("b", {}, strip.name), `: ${strip.says}`), text, read)];
}
