// A problem sheet: made here, and answered here, with hints.

import { get } from "./api.js";
import { button, choice, h, stepper } from "./dom.js";

const KINDS = [["self", "self"], ["masked", "masked"], ["cross", "cross"], ["multi-head", "multi-head"], ["layer_norm", "layer norm"],
  ["feed_forward", "feed-forward"], ["rnn", "RNN"], ["lstm", "LSTM"], ["positions", "positions"]];

const asked = { kind: "masked", tokens: 3, width: 3, count: 3, seed: 1 };
let made = null;  // the sheet that is being worked through
let chosen = 0;

// `open` gets a problem's table, with every step left blank.
export function sheet(open, refuse) {
  const el = h("section", { class: "sheet", "aria-label": "Problem sheet" });
  const set = (name) => (value) => { asked[name] = value; draw(); };
  const make = async () => {
    try {
      made = await get("/api/make", asked);
      take(0);
    } catch (error) {
      refuse(error.message);
    }
  };
  const take = async (k) => {
    chosen = k;
    draw();
    const { table } = made.exercises[k];
    try {
      const report = await get("/api/check", { table });
      const claims = report.open.map(({ key, texts }) => ({ key, again: 0, cells: texts }));
      open({ ...table, claims });
    } catch (error) {
      refuse(error.message);
    }
  };
  const draw = () => {
    const active = el.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    el.replaceChildren(h("h2", {}, made ? made.title : "A problem sheet to answer here"),
      h("div", { class: "toggles" },
        h("label", { class: "choice" }, h("span", { class: "legend-like" }, "Kind"),
          h("select", { onchange: (event) => set("kind")(event.target.value) },
            KINDS.map(([value, words]) => h("option", { value, selected: value === asked.kind }, words)))),
        stepper("Tokens", asked.tokens, 1, 6, set("tokens")), stepper("Width", asked.width, 1, 8, set("width")),
        stepper("Problems", asked.count, 1, 6, set("count")), stepper("Seed", asked.seed, 0, 9999, set("seed")),
        button("Make the sheet", make, { class: "main" })),
      ...(made ? problems() : []));
    if (active) el.querySelector(`[data-step="${active}"]`)?.focus();
  };
  const problems = () => [
    h("div", { class: "exercises", role: "group", "aria-label": "Problems" }, made.exercises.map(({ heading }, k) =>
      button(`${k + 1}${heading ? `: ${heading}` : ""}`, () => take(k), { "aria-pressed": String(k === chosen) }))),
    h("p", {}, [...made.exercises[chosen].tell, ...made.rules].join(" ")),
  ];
  draw();
  return el;
}
