// @ts-check
// The looks into trained models that a static site holds: what the server answered for its sentences.

const ADVICE = "workings serve answers this with the model itself; this page has only what it was built with";

/**
 * A text's answers by path, without those of single cells; a head's cells are in a file of their own.
 * @typedef {{ inspect: object, maps: Record<string, object>, scale: object, others: Record<string, object> }} Look
 * @typedef {{ shared: object, cells: object[][], table: object | null }} HeadCells
 */

/**
 * Return the precomputed answer to a request about a run; null if the request is about none.
 * @param {URL} site
 * @param {string} path
 * @param {any} [body]
 */
export async function findLook(site, path, body) {
  if (!/^\/api\/(inspect|compare|permute|training|recipe|report)/.test(path)) return null;
  const answer = body && (await readLook(site, path.slice("/api/".length), body).catch(() => undefined));
  if (answer === undefined || answer === null) return Response.json({ error: ADVICE }, { status: 422 });
  return Response.json(answer);
}

/**
 * @param {URL} site
 * @param {string} name
 * @param {any} body
 */
async function readLook(site, name, { run, text, part, layer, head, row, column, stage, ablated_heads: ablated = [] }) {
  if (name === "inspect/positions")
    return (await readFile(site, `runs/${encodeURIComponent(run)}/positions.json`)).json();
  const runs = await (await readFile(site, "api/runs.json")).json();
  const { kind, texts } = runs.find((/** @type {any} */ other) => other.name === run) ?? {};
  const number = texts?.indexOf(text) ?? -1;
  if (number < 0) return null;
  const folder = `runs/${encodeURIComponent(run)}/${number + 1}`;
  const off = ablated.map((/** @type {any} */ one) => `-${one.part}-${one.layer}-${one.head}`).join("");
  if (name === "inspect/working") {
    if (!isUnchanged(kind, part, layer, ablated)) return null;
    /** @type {HeadCells} */
    const { shared, cells, table } = await (await readFile(site, `${folder}/${part}-${layer}-${head}.json`)).json();
    return [{ ...shared, ...cells[row]?.[column] }, table];
  }
  if (name === "inspect/stage") {
    if (off) return null;
    const { shared, maps } = await (await readFile(site, `${folder}/stages.json`)).json();
    return maps[stage] && { ...shared, ...maps[stage] };
  }
  /** @type {Look} */
  const look = await (await readFile(site, `${folder}/look${off}.json`)).json();
  if (name === "inspect") return look.inspect;
  if (name !== "inspect/map") return look.others[name];
  const map = look.maps[`${part}-${layer}-${head}`];
  return map && { ...map, ...look.scale };
}

/**
 * Whether the weights of a head are those of the intact model: an ablation changes later layers, and what is generated.
 * @param {string} kind
 * @param {string} part
 * @param {number} layer
 * @param {Api.AblatedHead[]} ablated
 */
function isUnchanged(kind, part, layer, ablated) {
  const isGiven = kind !== "translate" || part === "encoder";
  return ablated.every((one) => isGiven && one.part === part && one.layer >= layer);
}

/**
 * @param {URL} site
 * @param {string} name
 */
function readFile(site, name) {
  return fetch(new URL(name, site)); // the browser keeps it
}
