// @ts-check
// Several heat maps: a gallery of thumbnails, the heads of an attention stack, two maps and their difference.

import { currentColors, decodeBytes, onColorScheme, paint } from "./colors.js";
import { focusedIn, h, present } from "./dom.js";
import heatmap from "./heatmap.js";
import { ARROW_KEYS } from "./matrix.js";
import { Model } from "./model.js";

/** Maps with the same rows and columns as thumbnails; hovering over one shows it large, a click keeps it. */
export default {
  /**
   * @param {{ model: Model<GalleryState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    const { maps, maps_per_row: mapsPerRow, colors, inks } = model.get("data");
    /** @type {Model<HeatmapState>} */
    const large = new Model({ map: null, pinned: null, axes: ["query", "key"] });
    let chosen = 0;
    let shown = -1;
    const show = (/** @type {number} */ k) => {
      const map = maps[k];
      if (shown !== k && map) large.set("map", { ...map, colors, inks });
      shown = k;
    };
    const thumbnails = h("div", {
      class: "map-row",
      role: "group",
      "aria-label": "Maps",
      onpointerleave: () => show(chosen),
      onkeydown: (event) => {
        const move = ARROW_KEYS[event.key];
        if (!move) return;
        event.preventDefault();
        buttons()[buttons().indexOf(event.target) + move[0] * mapsPerRow + move[1]]?.focus();
      },
    });
    const buttons = () => [...thumbnails.querySelectorAll("button")];
    const choose = (/** @type {number} */ k) => {
      chosen = k;
      buttons().forEach((button, other) => {
        button.setAttribute("aria-pressed", String(other === k));
        button.tabIndex = other === k ? 0 : -1;
      });
      show(k);
    };
    const draw = () => {
      const current = currentColors(colors);
      const items = maps.map(({ name, levels, rows, columns }, k) => {
        const point = () => show(k);
        const attributes = { "aria-label": name, onclick: () => choose(k), onpointerenter: point, onfocus: point };
        const button = thumbnail(levels, [rows.length, columns.length], current, attributes);
        return h("div", {}, button, h("span", { "aria-hidden": "true" }, name));
      });
      thumbnails.replaceChildren(...(maps.length > 1 ? items : []));
      choose(chosen);
    };
    const largeBox = h("div", { class: "one-head" });
    thumbnails.style.setProperty("--maps-per-row", String(mapsPerRow));
    el.replaceChildren(h("div", { class: "heads-and-map" }, thumbnails, largeBox));
    const disposers = [heatmap.render({ model: large, el: largeBox }), onColorScheme(draw)];
    draw();
    return () => disposers.forEach((dispose) => dispose());
  },
};

/**
 * Return a button with a small drawing of a map.
 * @param {string} levels base64
 * @param {[number, number]} size
 * @param {string[]} colors
 * @param {Attributes} attributes
 * @param {...Child} children
 */
function thumbnail(levels, size, colors, attributes, ...children) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  paint(canvas, decodeBytes(levels), size, colors);
  return h("button", { type: "button", class: "thumb", ...attributes }, canvas, children);
}

/** All heads of an attention stack as thumbnails: one row per layer, one column per head. */
export const headGrid = {
  /**
   * @param {{ model: Model<HeadGridState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    const draw = () => {
      const { layer, head } = focusedIn(el)?.dataset ?? {};
      el.replaceChildren(...present(heads(model)));
      if (head) findHead(el, Number(layer), Number(head))?.focus();
    };
    draw();
    model.on("change:stack", () => {
      model.set("focus", null); // the head under the pointer was another stack's
      draw();
    });
    model.on("change:chosen", () => markChosen(model, el));
    return onColorScheme(draw);
  },
};

/**
 * @param {Element} el
 * @param {number} layer
 * @param {number} head
 * @returns {HTMLElement | null}
 */
function findHead(el, layer, head) {
  return el.querySelector(`[data-layer="${layer}"][data-head="${head}"]`);
}

/** @param {Model<HeadGridState>} model */
function heads(model) {
  const [stack, colors] = [model.get("stack"), model.get("colors")];
  if (!stack || !colors) return [];
  const current = currentColors(colors);
  const { thumbs } = stack;
  const count = thumbs[0]?.length ?? 0;
  const names = Array.from({ length: count }, (_, k) => h("span", {}, count > 1 ? `head ${k + 1}` : ""));
  const layers = thumbs.map((layer, i) =>
    h(
      "div",
      { class: "head-row" },
      h("span", { "aria-hidden": "true" }, thumbs.length > 1 ? `layer ${i + 1}` : ""),
      layer.map((levels, j) => headThumbnail(model, stack, { layer: i + 1, head: j + 1 }, levels, current)),
    ),
  );
  const grid = h(
    "div",
    {
      class: "heads",
      role: "group",
      "aria-label": `Heads of the ${stack.label}`,
      onpointerleave: () => model.set("focus", null),
      onkeydown: (event) => {
        const move = ARROW_KEYS[event.key];
        const { layer, head } = event.target.closest("button.thumb")?.dataset ?? {};
        if (!move || !head) return;
        event.preventDefault();
        findHead(grid, Number(layer) + move[0], Number(head) + move[1])?.focus();
      },
    },
    h("div", { class: "head-row head-names", "aria-hidden": "true" }, h("span", {}), names),
    layers,
  );
  grid.style.setProperty("--heads", String(count));
  return [grid];
}

/**
 * @param {Model<HeadGridState>} model
 * @param {Api.AttentionStack} stack
 * @param {HeadChoice} place
 * @param {string} levels
 * @param {string[]} colors
 */
function headThumbnail(model, stack, { layer, head }, levels, colors) {
  const isOff = stack.ablated[layer - 1]?.[head - 1];
  const chosen = model.get("chosen");
  const isChosen = chosen?.layer === layer && chosen.head === head;
  const isTabStop = isChosen || (!chosen && layer === 1 && head === 1);
  const point = () => model.set("focus", { layer, head });
  const toggle = () => model.set("toggled", { layer, head });
  const attributes = {
    class: isOff ? "thumb off" : "thumb",
    data: { layer, head },
    "aria-pressed": String(isChosen),
    "aria-label": `Layer ${layer}, head ${head}${isOff ? ", ablated" : ""}`,
    tabindex: isTabStop ? "0" : "-1",
    onclick: () => {
      model.set("chosen", { layer, head });
      model.save_changes();
    },
    onpointerenter: point,
    onfocus: point,
    onblur: () => model.set("focus", null),
  };
  const mark = isOff && h("span", { class: "off-mark", "aria-hidden": "true" }, "off");
  const button = thumbnail(levels, stack.size, colors, attributes, mark);
  if (!stack.has_workings) return button;
  const label = `${isOff ? "Restore" : "Ablate"} layer ${layer}, head ${head}`;
  const toggleButton = h(
    "button",
    {
      type: "button",
      class: "switch",
      tabindex: isTabStop ? "0" : "-1",
      "aria-pressed": String(isOff),
      "aria-label": label,
      title: label,
      onclick: toggle,
    },
    h("span", {}, isOff ? "+" : "×"),
  );
  return h("div", { class: "thumb-box" }, button, toggleButton);
}

/**
 * @param {Model<HeadGridState>} model
 * @param {Element} el
 */
function markChosen(model, el) {
  const chosen = model.get("chosen");
  const buttons = /** @type {NodeListOf<HTMLElement>} */ (el.querySelectorAll("button.thumb"));
  for (const button of buttons) {
    const { layer, head } = button.dataset;
    const isChosen = Number(layer) === chosen?.layer && Number(head) === chosen.head;
    button.setAttribute("aria-pressed", String(isChosen));
    button.tabIndex = isChosen ? 0 : -1;
    const toggle = button.parentElement?.querySelector(".switch");
    if (toggle instanceof HTMLElement) toggle.tabIndex = button.tabIndex;
  }
}

/** Two maps and their difference side by side; a cell that is pinned in one is pinned in all. */
export const heatmapComparison = {
  /**
   * @param {{ model: Model<HeatmapComparisonState>, el: HTMLElement }} options
   * @returns {Dispose}
   */
  render({ model, el }) {
    const parts = [0, 1, 2].map(() => ({
      el: h("div", {}),
      /** @type {Model<HeatmapState>} */
      model: new Model({ map: null, pinned: null, axes: model.get("axes") }),
    }));
    const note = h("p", { class: "hint" });
    const disposers = parts.map((part) => heatmap.render(part));
    let isSyncing = false;
    for (const part of parts) {
      part.model.on("change:pinned", () => {
        if (isSyncing) return;
        isSyncing = true;
        for (const other of parts) if (other !== part) other.model.set("pinned", part.model.get("pinned"));
        isSyncing = false;
      });
    }
    const draw = () => {
      note.textContent = model.get("summary") ?? "";
      parts.forEach((part, k) => {
        const map = model.get("maps")[k] ?? null;
        part.el.hidden = !map;
        if (JSON.stringify(map) !== JSON.stringify(part.model.get("map"))) part.model.set("map", map);
      });
    };
    el.replaceChildren(
      note,
      h(
        "div",
        { class: "compared-maps" },
        parts.map((part) => part.el),
      ),
    );
    model.on("change:maps", draw);
    draw();
    return () => disposers.forEach((dispose) => dispose());
  },
};
