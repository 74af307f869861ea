// A state as the end of an address that a person can read: #work?X=1,0;0,2&set.mask=causal
//
// Work and Check share a problem, the state's `table`. Any other screen has words by name, `views[screen]`:
// #look?run=emoji&text=red%20heart

const NUMBER = /^-?\d+(\.\d+)?$/;

export const PROBLEMS = ["work", "check", ""];

// Half of a character, which a text may have at its end, has no place in an address.
const encoded = (text) => encodeURIComponent(String(text).replace(/\p{Surrogate}/gu, "\ufffd"));

export function write(screen, state) {
  if (!PROBLEMS.includes(screen)) return `#${screen}?${words(state.views?.[screen] ?? {})}`;
  const { table, decimals } = state;
  const parts = [];
  const add = (name, value) => parts.push(`${encoded(name)}=${value}`);
  if (table.title) add("title", encoded(table.title));
  if (table.kind !== "attention") add("kind", encoded(table.kind));
  if (table.vectors !== "rows") add("vectors", table.vectors);
  if (decimals !== 3) add("decimals", decimals);
  if (state.practice) add("practice", 1);
  for (const name of ["tokens", "context_tokens"])
    if (table[name]) add(name, table[name].map(encoded).join(","));
  for (const [name, value] of Object.entries(table.settings))
    add(`set.${name}`, Array.isArray(value) ? matrix(value) : encoded(value));
  for (const [name, cells] of Object.entries(table.given)) add(`given.${name}`, matrix(cells));
  for (const { key, again, cells } of table.claims) add(`claim.${key}${again ? `~${again}` : ""}`, matrix(cells));
  return `#${screen}?${parts.join("&")}`;
}

// Null where there is nothing to restore.
export function read(hash) {
  const [screen, query] = hash.replace(/^#/, "").split(/\?(.*)/s);
  if (!query) return { screen, state: null };
  if (!PROBLEMS.includes(screen)) return { screen, state: null, view: Object.fromEntries(new URLSearchParams(query)) };
  const table = { title: "", kind: "attention", vectors: "rows", tokens: null, context_tokens: null, settings: {}, given: {}, claims: [] };
  const state = { table, decimals: 3 };
  try {
    for (const part of query.split("&")) {
      const at = part.indexOf("=");
      const name = decodeURIComponent(part.slice(0, at));
      restore(state, name, part.slice(at + 1));
    }
  } catch {
    return { screen, state: null };  // not an address of ours
  }
  return { screen, state };
}

function words(view) {
  return Object.entries(view).map(([name, value]) => `${encoded(name)}=${encoded(value)}`).join("&");
}

function restore(state, name, value) {
  const { table } = state;
  const plain = () => decodeURIComponent(value);
  const [, group, key] = /^(set|given|claim)\.(.*)$/s.exec(name) ?? [];
  if (group === "set") {
    const words = plain();
    table.settings[key] = key === "mask" && words !== "none" && words !== "causal" ? cells(value) : NUMBER.test(words) ? Number(words) : words;
  } else if (group === "given") table.given[key] = cells(value);
  else if (group === "claim") {
    const [step, again] = key.split("~");
    table.claims.push({ key: step, again: Number(again ?? 0), cells: cells(value) });
  } else if (name === "decimals") state.decimals = Number(value);
  else if (name === "practice") state.practice = true;
  else if (name === "tokens" || name === "context_tokens") table[name] = value.split(",").map(decodeURIComponent);
  else if (name in table) table[name] = plain();
}

function matrix(rows) {
  return rows.map((row) => row.map((cell) => encoded(cell)).join(",")).join(";");
}

function cells(value) {
  return value.split(";").map((row) => row.split(",").map(decodeURIComponent));
}
