// A picture with its numbers: a tree of SVG, built element by element, and a table behind it.
//
// In: chart {title, picture, table {head, rows}}.

import { h } from "./dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set(["svg", "title", "g", "rect", "path", "polyline", "polygon", "circle", "text"]);
const ATTRIBUTES = new Set([
  "class", "role", "width", "height", "viewBox", "font-family", "font-size", "font-weight", "stroke", "stroke-width",
  "stroke-linejoin", "stroke-dasharray", "fill", "fill-opacity", "shape-rendering", "transform", "text-anchor", "points",
  "d", "x", "y", "cx", "cy", "r",
]);

export default {
  render({ model, el }) {
    const drawing = h("div", { class: "drawn" });
    const rows = h("div", { class: "scroll", tabindex: "0" });
    const behind = h("details", { class: "behind", ontoggle: () => fill() }, h("summary", {}, "Numbers"), rows);
    let drawn = "";
    const fill = () => {
      const { title, table } = model.get("chart");
      rows.setAttribute("aria-label", `${title}: numbers`);
      rows.replaceChildren(...(behind.open ? [grid(table, title)] : []));
    };
    const draw = () => {
      const { title, picture } = model.get("chart");
      const written = JSON.stringify(picture);
      if (written !== drawn) drawing.replaceChildren(built(picture));
      drawn = written;
      behind.querySelector("summary").setAttribute("aria-label", `Numbers: ${title}`);
      fill();
    };
    el.classList.add("chart");
    el.replaceChildren(drawing, behind);
    model.on("change:chart", draw);
    draw();
  },
};

// A plain table; its first column has names.
export function grid({ head, rows }, caption) {
  return h("table", { class: "plain" }, caption ? h("caption", { class: "unseen" }, caption) : null,
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, name),
      cells.map((cell) => h("td", { dir: "auto" }, cell))))));
}

function built(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const [name, attributes, ...children] = tree;
  const element = document.createElementNS(NAMESPACE, ELEMENTS.has(name) ? name : "g");
  for (const [key, value] of Object.entries(attributes))
    if (ATTRIBUTES.has(key)) element.setAttribute(key, value);
  element.append(...children.map(built));
  return element;
}
