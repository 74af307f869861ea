// Arrows along the left edge, from a number that is off to what follows from it.

import { svg } from "./dom.js";

export function arrows(box, overlay, links) {
  const frame = box.getBoundingClientRect();
  const lanes = links.length;
  const drawn = links.map((link, k) => {
    const [from, to] = [place(box, link.source, link.cell), place(box, link.target, link.first)];
    return from && to ? arrow(frame, from, to, link, k / Math.max(lanes, 1)) : null;
  });
  overlay.replaceChildren(...drawn.filter(Boolean));
}

function place(box, key, [row]) {
  const figure = [...box.querySelectorAll(".claimed figure.matrix")].find((one) => one.dataset.key === key);
  return figure?.querySelectorAll("tbody tr")[row]?.getBoundingClientRect();
}

function arrow(frame, from, to, link, lane) {
  const [x1, y1] = [from.left - frame.left - 4, from.top - frame.top + from.height / 2];
  const [x2, y2] = [to.left - frame.left - 6, to.top - frame.top + to.height / 2];
  const out = Math.max(2, Math.min(x1, x2) - 18 - 26 * lane);
  const d = `M${x1} ${y1}C${out} ${y1} ${out} ${y1} ${out} ${y1 + 14}V${y2 - 14}C${out} ${y2} ${out} ${y2} ${x2 - 6} ${y2}`;
  return svg("g", { data: { from: link.source, to: link.target } },
    svg("title", {}, `${link.count} in ${link.target} follow from ${link.source}`),
    svg("path", { class: "arrow", d }), svg("circle", { class: "arrow-head", cx: x1, cy: y1, r: 3 }),
    svg("path", { class: "arrow-head", d: `M${x2 + 1} ${y2}l-8 -4.5v9z` }));
}
