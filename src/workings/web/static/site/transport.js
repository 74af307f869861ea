// @ts-check
// Answers requests without a server: from files of the site, or by Python in a worker of this tab.

// @ts-expect-error in the site, these files are in one folder
import { currentLanguage, SOURCE_LANGUAGE } from "./language.js";
import { findLook } from "./looks.js";

/** Whether a server runs models and follows trainings. */
export const HAS_SERVER = false;

const ANSWER_LIMIT = 20_000; // milliseconds; a phone takes several times as long as a laptop
const FILES = new URL("../", import.meta.url);
const WORKER = new URL("python_worker.js", import.meta.url);
const LOADING = "Loading Python into this tab: 14 MB, which the browser keeps for the next visit…";

/** @typedef {{ status: number, headers: Record<string, string>, body: string }} Answer */
/** @typedef {(error: Error) => void} Reject */
/** @typedef {{ path: string, body?: string, done: (answer: Answer) => void, failed: Reject }} Question */

/** Trusted types: the only script that is started from a link is the worker below. */
const scripts = /** @type {any} */ (globalThis).trustedTypes?.createPolicy("workings", {
  createScriptURL: (/** @type {string} */ link) => link,
});

/** Python in a worker. It answers one question at a time; one that takes too long ends it. */
class Python {
  /** @type {Worker | null} */
  #worker = null;
  #isReady = false;
  /** @type {Question[]} */
  #waiting = [];
  /** @type {Question | null} */
  #current = null;
  #timer = 0;
  #state = document.createElement("p");

  constructor() {
    this.#state.className = "python-state";
    this.#state.setAttribute("role", "status");
    document.body.append(this.#state);
  }

  async start() {
    // A worker from a blob has this page's security policy; from a file it would have none.
    const link = URL.createObjectURL(new Blob([`import ${JSON.stringify(WORKER.href)};`], { type: "text/javascript" }));
    const worker = new Worker(scripts?.createScriptURL(link) ?? link, { type: "module" });
    this.#worker = worker;
    this.#state.textContent = LOADING;
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => this.#fail(event.message || "its worker could not be started");
    const settings = await (await fetch(new URL("site.json", FILES))).json();
    worker.postMessage({ start: settings.python, site: FILES.href });
  }

  /**
   * @param {string} path
   * @param {object} [body]
   * @param {AbortSignal} [signal]
   * @returns {Promise<Answer>}
   */
  ask(path, body, signal) {
    return new Promise((done, failed) => {
      /** @type {Question} */
      const question = { path, ...(body && { body: JSON.stringify(body) }), done, failed };
      signal?.addEventListener("abort", () => {
        this.#waiting = this.#waiting.filter((other) => other !== question);
        failed(new DOMException("aborted", "AbortError"));
      });
      this.#waiting.push(question);
      if (!this.#worker) this.start().catch((error) => this.#fail(error.message));
      this.#next();
    });
  }

  #next() {
    if (!this.#isReady || this.#current) return;
    this.#current = this.#waiting.shift() ?? null;
    if (!this.#current) return;
    const { path, body } = this.#current;
    this.#worker?.postMessage({ path, body, language: currentLanguage() });
    this.#timer = setTimeout(() => this.#restart(), ANSWER_LIMIT);
  }

  /** @param {{ isReady?: boolean, failure?: string, answer?: Answer }} message */
  #receive({ isReady, failure, answer }) {
    if (failure !== undefined) {
      this.#fail(failure);
      return;
    }
    if (isReady) {
      this.#isReady = true;
      this.#state.textContent = "";
    }
    if (answer) {
      clearTimeout(this.#timer);
      this.#current?.done(answer);
      this.#current = null;
    }
    this.#next();
  }

  /** End the worker, which computes too long; the next question starts another. */
  #restart() {
    const late = this.#current;
    this.#end();
    const error = `the answer took longer than ${ANSWER_LIMIT / 1000} s: ask for less`;
    late?.done({ status: 408, headers: {}, body: JSON.stringify({ error }) });
    if (this.#waiting.length) void this.start();
  }

  /** @param {string} reason */
  #fail(reason) {
    const questions = [this.#current, ...this.#waiting];
    this.#waiting = [];
    this.#end();
    for (const question of questions)
      question?.failed(new Error(`Python could not be loaded (${reason}): reload the page to try again`));
  }

  #end() {
    clearTimeout(this.#timer);
    this.#worker?.terminate();
    this.#worker = null;
    this.#isReady = false;
    this.#current = null;
    this.#state.textContent = "";
  }
}

const python = new Python();
/** @type {Map<string, string>} */
const lectures = new Map(); // the names of the opened ones by their tables

/**
 * Answer a request; without a body, it is a GET.
 * @param {string} path
 * @param {object} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
export async function transport(path, body, signal) {
  const answer = (await findAnswer(path, body)) ?? (await findLook(FILES, path, body));
  if (answer) return answer;
  const { status, headers, body: text } = await python.ask(path, body, signal);
  return new Response(text, { status, headers });
}

/**
 * Return an answer that is a file of the site: what a GET returns, or the check of a lecture as published.
 * @param {string} path
 * @param {any} [body]
 */
async function findAnswer(path, body) {
  const name = body ? path === "/api/check" && body.decimals === 3 && lectures.get(JSON.stringify(body.table)) : path;
  const hasSentences = path === "/api/check" || path === "/api/kinds"; // the files have them in English
  if (!name || (hasSentences && currentLanguage() !== SOURCE_LANGUAGE)) return null;
  const response = await fetch(new URL(`${name.slice(1)}.json`, FILES)).catch(() => null);
  if (!response?.ok) return null;
  const lecture = path.split("/api/lecture/")[1];
  if (lecture)
    lectures.set(
      await response
        .clone()
        .json()
        .then((table) => JSON.stringify(table)),
      `/api/check/${lecture}`,
    );
  return response;
}

void python.start();
