// All heads of a stack in small: a row a layer, a column a head.
//
// In:  stack (as the server tells it), palettes ({light, dark}), chosen ({layer, head}).
// Out: focus ({layer, head} or null: the one that is pointed at), chosen.

import { bytes, onTheme, paint, palette } from "./bytes.js";
import { h } from "./dom.js";

export default {
  render({ model, el }) {
    const draw = () => {
      const active = el.contains(document.activeElement) ? document.activeElement.dataset : null;
      el.replaceChildren(...content(model));
      if (active) el.querySelector(`[data-layer="${active.layer}"][data-head="${active.head}"]`)?.focus();
    };
    draw();
    model.on("change:stack", () => {
      model.set("focus", null);  // what was pointed at was a head of another stack
      draw();
    });
    model.on("change:chosen", () => mark(model, el));
    return onTheme(draw);
  },
};

function content(model) {
  const stack = model.get("stack");
  if (!stack) return [];
  const { colours } = palette(model.get("palettes"));
  const heads = stack.thumbs[0].length;
  const grid = h("div", { class: "heads", role: "group", "aria-label": `Heads of the ${stack.called}`, onpointerleave: () => model.set("focus", null) },
    h("div", { class: "head-row head-names", "aria-hidden": "true" }, h("span", {}, ""), Array.from({ length: heads }, (_, k) => h("span", {}, heads > 1 ? `head ${k + 1}` : ""))),
    stack.thumbs.map((layer, i) => h("div", { class: "head-row" }, h("span", { "aria-hidden": "true" }, stack.thumbs.length > 1 ? `layer ${i + 1}` : ""),
      layer.map((thumb, j) => small(model, stack, i, j, thumb, colours)))));
  grid.style.setProperty("--heads", heads);
  grid.addEventListener("keydown", (event) => walk(event, grid));
  return [grid];
}

function small(model, stack, i, j, thumb, colours) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  paint(canvas, bytes(thumb), stack.size, colours);
  const [layer, head] = [i + 1, j + 1];
  const off = stack.off[i][j];
  const chosen = model.get("chosen");
  const here = chosen?.layer === layer && chosen?.head === head;
  return h("button", {
    type: "button", class: off ? "thumb off" : "thumb", data: { layer, head }, "aria-pressed": String(here),
    "aria-label": `Layer ${layer}, head ${head}${off ? ", switched off" : ""}`, tabindex: here || (!chosen && !i && !j) ? "0" : "-1",
    onclick: () => { model.set("chosen", { layer, head }); model.save_changes(); },
    onpointerenter: () => model.set("focus", { layer, head }), onfocus: () => model.set("focus", { layer, head }), onblur: () => model.set("focus", null),
  }, canvas, off ? h("span", { class: "off-mark", "aria-hidden": "true" }, "off") : null);
}

function mark(model, el) {
  const chosen = model.get("chosen");
  for (const button of el.querySelectorAll("button.thumb")) {
    const here = Number(button.dataset.layer) === chosen?.layer && Number(button.dataset.head) === chosen?.head;
    button.setAttribute("aria-pressed", String(here));
    button.tabIndex = here ? 0 : -1;
  }
}

function walk(event, grid) {
  const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const at = event.target.closest("button.thumb")?.dataset;
  if (!move || !at) return;
  const to = grid.querySelector(`[data-layer="${Number(at.layer) + move[0]}"][data-head="${Number(at.head) + move[1]}"]`);
  event.preventDefault();
  to?.focus();
}
