// A component by itself, outside of the page: in a notebook, or in a file of its own.
//
// In: shown (the component's name), title, note; the rest is the component's.

import { h } from "./dom.js";
import maps from "./maps.js";
import report from "./report.js";
import solution from "./solution.js";

const COMPONENTS = { maps, report, solution };

export default {
  render({ model, el }) {
    const [title, note] = [model.get("title"), model.get("note")];
    const inside = h("div", {});
    el.replaceChildren(h("div", { class: "workings bench alone" },
      title ? h("p", { class: "title-shown", dir: "auto" }, title) : null, note ? h("p", { class: "summary", dir: "auto" }, note) : null, inside));
    return COMPONENTS[model.get("shown")].render({ model, el: inside });
  },
};
