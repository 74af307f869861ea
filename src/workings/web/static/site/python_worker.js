// @ts-check
// The worker of a static site: it loads Pyodide, numpy and this package, and answers requests in Python.

/**
 * Files by name, each with its address (relative to the site, or absolute) and its hash.
 * @typedef {{ url: string, integrity: string }} SiteFile
 * @typedef {{ runtime: Record<string, SiteFile>, numpy: SiteFile, wheel: SiteFile, lock: object }} Settings
 */

const scope = /** @type {any} */ (self);
const load = scope.fetch.bind(scope);

/** @type {((path: string, body: string | undefined, language: string) => any) | null} */
let answerInPython = null;

scope.onmessage = async (/** @type {MessageEvent} */ { data }) => {
  if (!data.start) {
    scope.postMessage({ answer: answer(data) });
    return;
  }
  try {
    answerInPython = await startPython(data.start, data.site);
    scope.postMessage({ isReady: true });
  } catch (error) {
    scope.postMessage({ failure: error instanceof Error ? error.message : String(error) });
  }
};

/**
 * Load Python; return the function that answers requests.
 * @param {Settings} settings
 * @param {string} site
 */
async function startPython({ runtime, numpy, wheel, lock }, site) {
  const linkTo = (/** @type {SiteFile} */ file) => new URL(file.url, site).href;
  const files = [...Object.values(runtime), numpy, wheel];
  const hashes = new Map(files.map((file) => [linkTo(file), file.integrity]));
  // Whatever Pyodide loads is one of these files, with this content, or it is an error.
  scope.fetch = (/** @type {any} */ resource, /** @type {RequestInit} */ options) => {
    const link = String(resource.url ?? resource);
    const integrity = hashes.get(link);
    if (!integrity) throw new Error(`${link} is not among the files of this site`);
    return load(link, { ...options, integrity });
  };
  const importFile = async (/** @type {string} */ name) => {
    const text = await (await scope.fetch(linkTo(/** @type {SiteFile} */ (runtime[name])))).text();
    return import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  };
  const [{ loadPyodide }] = await Promise.all([importFile("pyodide.mjs"), importFile("pyodide.asm.js")]);
  const folderOf = (/** @type {SiteFile} */ file) => new URL(".", linkTo(file)).href;
  const pyodide = await loadPyodide({
    indexURL: folderOf(/** @type {SiteFile} */ (runtime["pyodide.asm.wasm"])),
    lockFileContents: JSON.stringify(lock),
    packageBaseUrl: folderOf(numpy),
  });
  await pyodide.loadPackage("numpy", { messageCallback() {} });
  const archive = await (await scope.fetch(linkTo(wheel))).arrayBuffer();
  pyodide.unpackArchive(archive, "wheel");
  return pyodide.pyimport("workings.web.problem_answers").answer;
}

/**
 * Return the answer to a request as a response has it.
 * @param {{ path: string, body?: string, language: string }} request
 */
function answer({ path, body, language }) {
  try {
    const result = answerInPython?.(path, body, language);
    return {
      status: result.status,
      headers: result.headers.toJs({ dict_converter: Object.fromEntries }),
      body: result.body,
    };
  } catch (error) {
    const lines = String(error).trim().split("\n");
    return { status: 500, headers: {}, body: JSON.stringify({ error: lines.at(-1) }) };
  }
}
