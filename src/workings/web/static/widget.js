// @ts-check
// A component outside of the page, in a notebook or in a standalone file: its title, a note, and itself.

import { h } from "./dom.js";
import gallery from "./heatmap_groups.js";
import { currentLanguage, setLanguage } from "./language.js";
import report from "./report.js";
import solution from "./solution.js";
/** @import { Model } from "./model.js" */

const COMPONENTS = { maps: gallery, report, solution };

export default {
  /**
   * @param {{ model: Model<any>, el: HTMLElement }} options with a `WidgetState`
   * @returns {Dispose}
   */
  render({ model, el }) {
    setLanguage(currentLanguage(), model.get("texts") ?? {});
    const [title, note] = [model.get("title"), model.get("note")];
    const name = /** @type {keyof typeof COMPONENTS} */ (model.get("component"));
    const inside = h("div", {});
    el.replaceChildren(
      h(
        "div",
        { class: "workings bench standalone" },
        title && h("p", { class: "title-text", dir: "auto" }, title),
        note && h("p", { class: "summary", dir: "auto" }, note),
        inside,
      ),
    );
    return COMPONENTS[name].render({ model, el: inside });
  },
};
