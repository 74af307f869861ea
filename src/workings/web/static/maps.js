// Maps with the same rows and columns: one of them large, and where there are several all of them in small.
//
// In: told ({maps, across, light, dark}, as Python tells it). Pointing at a small one shows it, a click keeps it.

import { bytes, onTheme, paint, palette } from "./bytes.js";
import { h } from "./dom.js";
import map from "./map.js";
import { Model } from "./model.js";

export default {
  render({ model, el }) {
    const { maps, across, light, dark } = model.get("told");
    const large = new Model({ map: null, pinned: null, axes: ["query", "key"] });
    const [small, one] = [h("div", { class: "map-row", role: "group", "aria-label": "Maps", onpointerleave: () => show(chosen) }), h("div", { class: "one-head" })];
    let [chosen, seen] = [0, null];
    const show = (k) => {
      if (seen !== k) large.set("map", { ...maps[k], light, dark });
      seen = k;
    };
    const buttons = () => [...small.querySelectorAll("button")];
    const choose = (k) => {
      chosen = k;
      buttons().forEach((button, other) => {
        button.setAttribute("aria-pressed", String(other === k));
        button.tabIndex = other === k ? 0 : -1;
      });
      show(k);
    };
    const draw = () => {
      const { colours } = palette({ light, dark });
      small.replaceChildren(...(maps.length > 1 ? maps.map((told, k) => thumb(told, colours, () => choose(k), () => show(k))) : []));
      choose(chosen);
    };
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
    small.style.setProperty("--across", across);
    small.addEventListener("keydown", (event) => {
      if (!moves[event.key]) return;
      event.preventDefault();
      buttons()[buttons().indexOf(event.target) + moves[event.key]]?.focus();
    });
    el.replaceChildren(h("div", { class: "looking" }, small, one));
    const ends = [map.render({ model: large, el: one }), onTheme(draw)];
    draw();
    return () => ends.forEach((end) => end());
  },
};

function thumb(told, colours, click, look) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  paint(canvas, bytes(told.levels), [told.rows.length, told.columns.length], colours);
  const button = h("button", { type: "button", class: "thumb", "aria-label": told.name, onclick: click, onpointerenter: look, onfocus: look }, canvas);
  return h("div", {}, button, h("span", { "aria-hidden": "true" }, told.name));
}
