// The working of the cell that is pointed at, along the lower edge of the window.
//
// In: working (as the server tells it), place {name, from, to}, said (a line, where there is none).

import { h } from "./dom.js";
import { math } from "./math.js";

export default {
  render({ model, el }) {
    el.classList.add("dock");
    el.setAttribute("role", "status");
    el.setAttribute("aria-label", "The working of a cell");
    const draw = () => el.replaceChildren(...content(model));
    for (const name of ["working", "said"]) model.on(`change:${name}`, draw);
    draw();
  },
};

function content(model) {
  const working = model.get("working");
  if (!working) return [h("p", { class: "hint" }, model.get("said") ?? "")];
  const place = model.get("place");
  const who = place?.from || place?.to ? h("span", { class: "who" },
    h("b", { class: "query" }, place.from ?? ""), place.to ? " looks at " : "", h("b", { class: "key" }, place.to ?? "")) : null;
  return [
    h("p", { class: "where" }, h("b", {}, working.name), who),
    h("div", { class: "formula", tabindex: "0", "aria-label": working.working.text, role: "math" }, math(working.working)),
    h("p", { class: "exact" }, "exactly ", h("span", {}, working.value)),
  ];
}
