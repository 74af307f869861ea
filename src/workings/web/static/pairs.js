// How likely things are to two: a table with two bars in each line, and the difference.
//
// In: pairs (as the server tells them), more (how many are left out), columns (what the two are called), says.

import { h } from "./dom.js";

export default {
  render({ model, el }) {
    const draw = () => el.replaceChildren(...content(model));
    model.on("change:pairs", draw);
    draw();
  },
};

function content(model) {
  const pairs = model.get("pairs") ?? [];
  if (!pairs.length) return [];
  const more = model.get("more");
  return [
    h("table", { class: "pairs" }, h("caption", { class: "unseen" }, model.get("says")),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "unseen" }, "name")), h("td", {}),
        model.get("columns").map((name, k) => h("th", { scope: "col", class: k ? "two" : "one" }, name)), h("th", { scope: "col" }, "points"))),
      h("tbody", {}, pairs.map(line))),
    more ? h("p", { class: "hint" }, `and ${more.toLocaleString("en")} more`) : null,
  ].filter(Boolean);
}

function line({ name, first, second, first_text: one, second_text: other, change }) {
  const bar = (kind, share) => {
    const drawn = h("i", { class: kind });
    drawn.style.width = `${100 * (share ?? 0)}%`;
    return drawn;
  };
  return h("tr", {}, h("th", { scope: "row", dir: "auto", title: name.length > 16 ? name.slice(0, 300) : null }, name),
    h("td", { class: "two-bars", "aria-hidden": "true" }, bar("one", first), bar("two", second)),
    h("td", {}, one), h("td", {}, other), h("td", { class: "change" }, change));
}
