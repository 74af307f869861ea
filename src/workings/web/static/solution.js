// A problem, solved: its steps from left to right, and the working of the cell that is pointed at.
//
// In:  told (as Python tells it), cells ({key: texts} of givens that may be changed), working.
// Out: asked {key, row, column}, edited {key, row, column, text, done}, pasted {key, text}, wanted {key, what}.

import dock from "./dock.js";
import { h } from "./dom.js";
import flow from "./flow.js";
import { legend } from "./legend.js";
import { Looking } from "./looking.js";
import { Model } from "./model.js";

const HINT = "Point at a number, or reach it with Tab and the arrow keys, to see how it comes about.";
const CHANGE = " Enter changes a given one.";

export default {
  render({ model, el }) {
    const steps = new Model({ givens: [], steps: [] });
    const hint = model.get("cells") ? HINT + CHANGE : HINT;
    const cell = new Model({ working: null, said: hint });
    const looking = new Looking(model, el, cell, hint);
    const [flowing, docked] = [h("div", {}), h("div", {})];
    const draw = () => show(model, steps, looking);
    el.replaceChildren(h("section", { "aria-label": "Steps" }, flowing), legend(), docked);
    const end = flow.render({ model: steps, el: flowing });
    dock.render({ model: cell, el: docked });
    steps.on("change:focus", () => look(model, looking, steps.get("focus")));
    for (const name of ["edited", "pasted", "wanted"]) steps.on(`change:${name}`, () => model.set(name, steps.get(name)));
    model.on("change:told", draw);
    if (model.get("told")) draw();
    return end;
  },
};

function show(model, steps, looking) {
  const [told, cells] = [model.get("told"), model.get("cells")];
  steps.set("givens", told.given.map((given) => ({ matrix: given, cells: cells?.[given.key] ?? null })));
  steps.set("steps", told.steps);
  looking.forget();
  look(model, looking, steps.get("focus") ?? null);
}

function look(model, looking, focus) {
  const { given, steps } = model.get("told");
  const same = (matrix) => matrix.key === focus?.key;
  const text = given.find(same)?.texts[focus.row]?.[focus.column];
  if (text === undefined) looking.look(focus, steps.find(same));
  else looking.look(focus, null, `${focus.key}[${focus.row + 1},${focus.column + 1}] = ${text}, given.`);
}
