// How likely things are: a table with a bar in each line; with heads switched off, how likely they were before.
//
// In: bars (as the server tells them), says (a line), more (how many are left out).

import { h } from "./dom.js";

export default {
  render({ model, el }) {
    const draw = () => el.replaceChildren(...content(model));
    draw();
    model.on("change:bars", draw);
  },
};

function content(model) {
  const bars = model.get("bars") ?? [];
  if (!bars.length) return [];
  const compared = bars.some((bar) => bar.before !== null);
  const more = model.get("more");
  return [h("table", { class: "bars" }, h("caption", {}, model.get("says")),
    h("thead", { class: compared ? null : "unseen" }, h("tr", {}, ["", "likely", "now", ...(compared ? ["before", "points"] : [])].map((words, k) => h("th", { scope: "col", class: k === 1 ? "unseen" : null }, words)))),
    h("tbody", {}, bars.map((bar) => line(bar, compared)))),
  ...(more ? [h("p", { class: "hint" }, `and ${more.toLocaleString("en")} more`)] : [])];
}

function line(bar, compared) {
  const drawn = (kind, share) => {
    const part = h("i", { class: kind });
    part.style.width = `${100 * share}%`;
    return part;
  };
  const changed = bar.change.startsWith("−") ? "fell" : "rose";
  return h("tr", {}, h("th", { scope: "row", dir: "auto", title: bar.name.length > 16 ? bar.name.slice(0, 300) : null }, bar.name),
    h("td", { class: "track", "aria-hidden": "true" }, drawn("now", bar.share), compared ? drawn("was", bar.before) : null),
    h("td", { class: "now" }, bar.text), compared ? [h("td", { class: "soft" }, bar.before_text), h("td", { class: changed }, bar.change)] : null);
}
