// @ts-check
// The page's state as a readable end of its address: #work?given.X=1,0;0,2&set.mask=causal
//
// Work and Check have a problem; another screen has words by name: #inspect?run=emoji&text=red%20heart

import { PROBLEM_SCREENS } from "./store.js";

const NUMBER = /^-?\d+(\.\d+)?$/;

/**
 * Encode a value. Half of a surrogate pair, which a truncated text may end with, has no encoding.
 * @param {unknown} value
 */
function encode(value) {
  return encodeURIComponent(String(value).replace(/\p{Surrogate}/gu, "\ufffd"));
}

/**
 * Write a screen's state as the hash of an address.
 * @param {string} screen
 * @param {ProblemState} problem
 * @param {ViewState} view
 */
export function writeAddress(screen, problem, view) {
  if (PROBLEM_SCREENS.includes(screen)) return `#${screen}?${writeProblem(problem)}`;
  const pairs = Object.entries(view).map(([name, value]) => `${encode(name)}=${encode(value)}`);
  return `#${screen}?${pairs.join("&")}`;
}

/** @param {ProblemState} problem */
function writeProblem({ table, decimals }) {
  /** @type {string[]} */
  const parts = [];
  const add = (/** @type {string} */ name, /** @type {string | number} */ value) =>
    parts.push(`${encode(name)}=${value}`);
  if (table.title) add("title", encode(table.title));
  if (table.kind !== "attention") add("kind", encode(table.kind));
  if (table.vectors !== "rows") add("vectors", table.vectors);
  if (table.rounded.length) add("rounded", table.rounded.map(encode).join(","));
  if (decimals !== 3) add("decimals", decimals);
  if (table.tokens) add("tokens", table.tokens.map(encode).join(","));
  if (table.context_tokens) add("context_tokens", table.context_tokens.map(encode).join(","));
  for (const [name, value] of Object.entries(table.settings))
    add(`set.${name}`, Array.isArray(value) ? writeCells(value) : encode(value));
  for (const [name, value] of Object.entries(table.options)) add(`opt.${name}`, encode(value));
  for (const [name, cells] of Object.entries(table.given)) add(`given.${name}`, writeCells(cells));
  for (const { key, reprint, cells } of table.claims)
    add(`claim.${key}${reprint ? `~${reprint}` : ""}`, writeCells(cells));
  return parts.join("&");
}

/**
 * Read the hash of an address; `problem` and `view` are null where it has none.
 * @param {string} hash
 * @returns {{ screen: string, problem: ProblemState | null, view: ViewState | null }}
 */
export function readAddress(hash) {
  const [screen = "", query] = hash.replace(/^#/, "").split(/\?(.*)/s);
  if (!query) return { screen, problem: null, view: null };
  if (!PROBLEM_SCREENS.includes(screen))
    return { screen, problem: null, view: Object.fromEntries(new URLSearchParams(query)) };
  try {
    return { screen, problem: readProblem(query), view: null };
  } catch {
    return { screen, problem: null, view: null }; // malformed percent-encoding
  }
}

/**
 * @param {string} query
 * @returns {ProblemState}
 */
function readProblem(query) {
  /** @type {ProblemState} */
  const problem = {
    table: {
      title: "",
      kind: "attention",
      vectors: "rows",
      rounded: [],
      tokens: null,
      context_tokens: null,
      settings: {},
      options: {},
      given: {},
      claims: [],
    },
    decimals: 3,
  };
  for (const part of query.split("&")) {
    const equals = part.indexOf("=");
    readPart(problem, decodeURIComponent(part.slice(0, equals)), part.slice(equals + 1));
  }
  return problem;
}

/**
 * @param {ProblemState} problem
 * @param {string} name
 * @param {string} value encoded
 */
function readPart(problem, name, value) {
  const { table } = problem;
  const [, group, key = ""] = /^(set|opt|given|claim)\.(.*)$/s.exec(name) ?? [];
  if (group === "set") table.settings[key] = readSetting(key, value);
  else if (group === "opt") table.options[key] = decodeURIComponent(value);
  else if (group === "given") table.given[key] = readCells(value);
  else if (group === "claim") {
    const [step = "", reprint = "0"] = key.split("~");
    table.claims.push({ key: step, reprint: Number(reprint), cells: readCells(value) });
  } else if (name === "decimals") problem.decimals = Number(value);
  else if (name === "tokens" || name === "context_tokens" || name === "rounded")
    table[name] = value.split(",").map(decodeURIComponent);
  else if (name === "title" || name === "kind" || name === "vectors") table[name] = decodeURIComponent(value);
}

/**
 * @param {string} name
 * @param {string} value encoded
 */
function readSetting(name, value) {
  const text = decodeURIComponent(value);
  if (name === "mask" && text !== "none" && text !== "causal") return readCells(value);
  return NUMBER.test(text) ? Number(text) : text;
}

/** @param {Cells} rows */
function writeCells(rows) {
  return rows.map((row) => row.map(encode).join(",")).join(";");
}

/** @param {string} value */
function readCells(value) {
  return value.split(";").map((row) => row.split(",").map(decodeURIComponent));
}
