// @ts-check
// A component in a file that holds its state and the working of every cell.

import { Model } from "./model.js";
import widget from "./widget.js";

const data = document.getElementById("told")?.textContent ?? "{}";
/** @type {{ state: WidgetState, workings: Record<string, Api.Working[][]> }} */
const { state, workings } = JSON.parse(data);
/** @type {Model<WidgetState>} */
const model = new Model(state);
model.on("change:asked", () => {
  const { key = "", row, column } = model.get("asked") ?? {};
  model.set("working", workings[key]?.[row ?? -1]?.[column ?? -1] ?? null);
});
const el = document.getElementById("shown");
if (el) widget.render({ model, el });
