// Two maps and their difference; what is pinned in one is pinned in all.
//
// In: beside {first, second, difference, says} (null: nothing to show), axes.

import { h } from "./dom.js";
import map from "./map.js";
import { Model } from "./model.js";

export default {
  render({ model, el }) {
    const maps = ["first", "second", "difference"].map(() => new Model({ map: null, pinned: null, axes: model.get("axes") }));
    const places = maps.map(() => h("div", {}));
    const says = h("p", { class: "hint" });
    const ends = maps.map((one, k) => map.render({ model: one, el: places[k] }));
    let busy = false;
    for (const one of maps) one.on("change:pinned", () => {
      if (busy) return;
      busy = true;
      for (const other of maps) if (other !== one) other.set("pinned", one.get("pinned"));
      busy = false;
    });
    const draw = () => {
      const beside = model.get("beside");
      says.textContent = beside?.says ?? "";
      ["first", "second", "difference"].forEach((name, k) => {
        const told = beside?.[name] ?? null;
        places[k].hidden = !told;
        if (JSON.stringify(told) !== JSON.stringify(maps[k].get("map"))) maps[k].set("map", told);
      });
    };
    el.classList.add("beside-maps");
    el.replaceChildren(says, h("div", { class: "three" }, places));
    model.on("change:beside", draw);
    draw();
    return () => ends.forEach((end) => end?.());
  },
};
