// A component in a file of its own, which holds all that it may ask for.

import { Model } from "./model.js";
import widget from "./widget.js";

const { state, workings } = JSON.parse(document.getElementById("told").textContent);
const model = new Model(state);
model.on("change:asked", () => {
  const { key, row, column } = model.get("asked");
  model.set("working", workings[key]?.[row]?.[column] ?? null);
});
widget.render({ model, el: document.getElementById("shown") });
