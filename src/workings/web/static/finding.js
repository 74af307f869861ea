// The first wrong number of each step, and the mistakes that lead to it, likeliest first.
//
// In: findings (as the server tells them), claimed ({key: texts}), practice (true: give nothing away).
// Out: wanted {key, again, row, column}: somebody wants to see that cell.

import { button, h } from "./dom.js";
import { math } from "./math.js";

export default {
  render({ model, el }) {
    el.classList.add("found");
    const draw = () => el.replaceChildren(...model.get("findings").map((first, k) => card(model, first, k)));
    model.on("change:findings", draw);
    draw();
  },
};

function card(model, first, k) {
  const { key, again, row, column } = first;
  const where = button(first.where + (again ? ", printed again" : ""), () => model.set("wanted", { key, again, row, column }), { class: "goto" });
  const pairs = [["claimed", first.claimed]];
  if (!model.get("practice")) {
    pairs.push(["expected", first.expected]);
    if (first.carried !== null) pairs.push(["carried", `${first.carried}, from the numbers before it`]);
  }
  return h("section", { class: "finding", "aria-label": k ? "Another wrong number" : "The first wrong number" },
    h("h2", {}, k ? "Wrong, too" : "The first wrong number"), h("p", {}, where),
    h("dl", {}, pairs.map(([name, words]) => [h("dt", {}, name), h("dd", {}, words)]),
      model.get("practice") ? null : [h("dt", {}, "working"), h("dd", {}, h("div", { class: "formula", tabindex: "0", role: "math", "aria-label": first.working.text }, math(first.working)))]),
    h("ol", { class: "causes", "aria-label": "What may have caused it" }, first.causes.map((cause) => item(model, first, cause))));
}

function item(model, first, cause) {
  const name = [h("code", {}, cause.name), ` (explains ${cause.reproduces})`];
  if (model.get("practice")) return h("li", {}, name);  // more would be the answer
  return h("li", {}, name, ": ", cause.says, cause.gives ? gives(model, first, cause) : null);
}

// What the mistake would have given, the cells that were claimed just so outlined.
function gives(model, first, cause) {
  const claimed = model.get("claimed")[`${first.key} ${first.again}`] ?? [];
  const last = cause.gives[0].length - 1;
  const cell = (text, i, j) => h("td", { class: `${j ? "" : "open"} ${j === last ? "close" : ""} ${close(text, claimed[i]?.[j]) ? "same" : ""}` },
    h("span", { class: `v ${cause.colours[i][j]}` }, text));
  return h("div", { class: "scroll" }, h("table", { class: "gives" }, h("caption", {}, "what it would have given; outlined: as claimed"),
    h("tbody", {}, cause.gives.map((row, i) => h("tr", {}, row.map((text, j) => cell(text, i, j)))))));
}

// The same number, as far as the shorter of the two goes.
function close(text, claimed) {
  if (claimed === undefined || claimed === "?") return false;
  const places = Math.min(...[text, claimed].map((number) => number.split(/[.,]/)[1]?.length ?? 0));
  const [one, other] = [text, claimed].map((number) => Number(number.replace("−", "-").replace(",", ".")));
  return text === claimed || Math.abs(one - other) <= 0.5001 * 10 ** -places;
}
