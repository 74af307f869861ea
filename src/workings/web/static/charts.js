// @ts-check
// Charts and tables: curves with their numbers, probabilities as bars, tokens colored by a number.

import { colorScale } from "./colors.js";
import { clamp, drawing, h, present } from "./dom.js";
/** @import { Model } from "./model.js" */

/** A drawing of the server's, and its numbers as a table. */
export const chart = {
  /** @param {{ model: Model<{ chart: Api.Chart }>, el: HTMLElement }} options */
  render({ model, el }) {
    const picture = h("div", { class: "picture" });
    const rows = h("div", { class: "scroll", tabindex: "0" });
    const summary = h("summary", {}, "Numbers");
    const details = h("details", { class: "data-table", ontoggle: () => fill() }, summary, rows);
    let drawn = "";
    const fill = () => {
      const table = model.get("chart");
      rows.setAttribute("aria-label", `${table.title}: numbers`);
      rows.replaceChildren(...(details.open ? [dataTable(table)] : []));
    };
    const draw = () => {
      const { title, picture: tree } = model.get("chart");
      const text = JSON.stringify(tree);
      if (text !== drawn) picture.replaceChildren(drawing(tree));
      drawn = text;
      summary.setAttribute("aria-label", `Numbers: ${title}`);
      fill();
    };
    el.classList.add("chart");
    el.replaceChildren(picture, details);
    model.on("change:chart", draw);
    draw();
  },
};

/**
 * Return a plain table; its first column has names, and screen readers read its title.
 * @param {Api.DataTable} table
 */
export function dataTable({ title, header, rows }) {
  const headings = header.map((name) => h("th", { scope: "col" }, name));
  const body = rows.map(([name, ...cells]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", dir: "auto" }, name),
      cells.map((cell) => h("td", { dir: "auto" }, cell)),
    ),
  );
  return h(
    "table",
    { class: "plain" },
    h("caption", { class: "unseen" }, title),
    h("thead", {}, h("tr", {}, headings)),
    h("tbody", {}, body),
  );
}

/**
 * Return a bar whose length is a share of its box.
 * @param {string} kind
 * @param {number | null} share
 * @param {number} [largest] the share that fills the box
 */
function bar(kind, share, largest = 1) {
  const element = h("i", { class: kind });
  element.style.width = `${(100 * (share ?? 0)) / largest}%`;
  return element;
}

/**
 * @param {string} name
 */
function rowName(name) {
  return h("th", { scope: "row", dir: "auto", title: name.length > 16 ? name.slice(0, 300) : null }, name);
}

/** @param {number} count */
function andMore(count) {
  return count > 0 && h("p", { class: "hint" }, `and ${count.toLocaleString("en")} more`);
}

/** Probabilities as bars; with ablated heads, beside those of the intact model. */
export const probabilityBars = {
  /** @param {{ model: Model<BarState>, el: HTMLElement }} options */
  render({ model, el }) {
    const draw = () => {
      const bars = model.get("bars");
      const table = bars.length > 0 && barTable(bars, model.get("description"));
      el.replaceChildren(...present([table, bars.length > 0 && andMore(model.get("num_omitted"))]));
    };
    draw();
    model.on("change:bars", draw);
  },
};

/**
 * @param {Api.Outcome[]} bars
 * @param {string} caption
 */
function barTable(bars, caption) {
  const hasBaseline = bars.some(({ other }) => other !== null);
  const largest = largestOf(bars);
  const header = (/** @type {string} */ text, unseen = false) =>
    h("th", { scope: "col", class: unseen ? "unseen" : null }, text);
  const row = (/** @type {Api.Outcome} */ { name, probability, text, other, other_text: otherText, change }) =>
    h(
      "tr",
      {},
      rowName(name),
      h(
        "td",
        { class: "track", "aria-hidden": "true" },
        bar("now", probability, largest),
        hasBaseline && bar("before", other, largest),
      ),
      h("td", { class: "now" }, text),
      hasBaseline && [
        h("td", { class: "soft" }, otherText),
        h("td", { class: change.startsWith("−") ? "fell" : "rose" }, change),
      ],
    );
  return h(
    "table",
    { class: "bars" },
    h("caption", {}, caption),
    h(
      "thead",
      { class: hasBaseline ? null : "unseen" },
      h(
        "tr",
        {},
        h("td", {}),
        header("bar", true),
        header(hasBaseline ? "ablated" : "probability"),
        hasBaseline && [header("intact"), header("points")],
      ),
    ),
    h("tbody", {}, bars.map(row)),
  );
}

/**
 * Return the probability whose bar has the full width.
 * @param {Api.Outcome[]} outcomes
 */
function largestOf(outcomes) {
  return Math.max(...outcomes.flatMap(({ probability, other }) => [probability ?? 0, other ?? 0]), 1e-9);
}

/** Probabilities of two models or inputs as pairs of bars, with the difference. */
export const pairedBars = {
  /** @param {{ model: Model<PairState>, el: HTMLElement }} options */
  render({ model, el }) {
    const draw = () => {
      const pairs = model.get("pairs");
      const table = pairs.length > 0 && pairTable(pairs, model.get("columns"));
      el.replaceChildren(...present([table, pairs.length > 0 && andMore(model.get("num_omitted"))]));
    };
    model.on("change:pairs", draw);
    draw();
  },
};

/**
 * @param {Api.Outcome[]} pairs
 * @param {[string, string]} columns
 */
function pairTable(pairs, [first, second]) {
  const largest = largestOf(pairs);
  const row = (/** @type {Api.Outcome} */ { name, probability, text, other, other_text: otherText, change }) =>
    h(
      "tr",
      {},
      rowName(name),
      h(
        "td",
        { class: "two-bars", "aria-hidden": "true" },
        bar("one", probability, largest),
        bar("two", other, largest),
      ),
      h("td", {}, text),
      h("td", {}, otherText),
      h("td", { class: "change" }, change),
    );
  return h(
    "table",
    { class: "pairs" },
    h("caption", { class: "unseen" }, `Probabilities: ${first} and ${second}`),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, h("span", { class: "unseen" }, "name")),
        h("td", {}),
        h("th", { scope: "col", class: "one" }, first),
        h("th", { scope: "col", class: "two" }, second),
        h("th", { scope: "col" }, "points"),
      ),
    ),
    h("tbody", {}, pairs.map(row)),
  );
}

/** A text whose tokens are colored by a number each: blue is negative, orange positive. */
export const tokenStrip = {
  /** @param {{ model: Model<{ strip: Api.TokenStrip | null }>, el: HTMLElement }} options */
  render({ model, el }) {
    const draw = () => {
      const strip = model.get("strip");
      el.replaceChildren(...(strip ? [stripFigure(strip)] : []));
    };
    draw();
    model.on("change:strip", draw);
  },
};

/** @param {Api.TokenStrip} strip */
function stripFigure({ name, description, tokens, texts, colors, largest, signed }) {
  const readout = h("p", { class: "readout", role: "status" });
  const show = (/** @type {number | null} */ k) => {
    const scale = h("span", { class: "place" }, signed ? `−${largest}` : "0", colorScale(signed), largest);
    const token = k !== null && [
      h("b", { dir: "auto" }, tokens[k]?.slice(0, 60)),
      h("span", { class: "place" }, ` ${k + 1} `),
      h("b", { class: "number" }, texts[k]),
    ];
    readout.replaceChildren(...present([token || scale]));
  };
  const spans = tokens.map((token, k) =>
    h("span", { class: `token ${colors[k]}`, data: { k } }, token, token.endsWith("⏎") && h("br")),
  );
  const text = h(
    "div",
    {
      class: "strip",
      dir: "auto",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "text",
      "aria-label": `${name}, ${tokens.length} tokens: arrow keys move from token to token`,
      onkeydown: tokenKeys(spans, show),
      onpointerover: (event) => {
        const token = event.target.closest(".token");
        if (token) show(Number(token.dataset.k));
      },
      onpointerleave: () => show(null),
    },
    spans,
  );
  show(null);
  const caption = h("figcaption", {}, h("b", {}, name), `: ${description}`);
  return h("figure", { class: "token-strip", data: { name } }, caption, text, readout);
}

/**
 * Return a key handler that moves from token to token.
 * @param {Element[]} tokens
 * @param {(index: number) => void} show
 */
export function tokenKeys(tokens, show) {
  /** @type {Record<string, number>} */
  const moves = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  let current = -1;
  return (/** @type {KeyboardEvent} */ event) => {
    const by = moves[event.key];
    if (!by || !tokens.length) return;
    event.preventDefault();
    tokens[current]?.classList.remove("current");
    current = clamp(current + by, 0, tokens.length - 1);
    tokens[current]?.classList.add("current");
    show(current);
  };
}
