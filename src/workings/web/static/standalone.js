// @ts-check
// A component in a file that holds its state and the working of every cell.

import { Model } from "./model.js";
import widget from "./widget.js";

const data = document.getElementById("data")?.textContent ?? "{}";
/** @type {{ state: WidgetState, workings: Record<string, Api.Working[][]> }} */
const { state, workings } = JSON.parse(data);
/** @type {Model<WidgetState>} */
const model = new Model(state);
model.on("change:requested_cell", () => {
  const { key = "", row, column } = model.get("requested_cell") ?? {};
  model.set("working", workings[key]?.[row ?? -1]?.[column ?? -1] ?? null);
});
const el = document.getElementById("component");
if (el) widget.render({ model, el });
