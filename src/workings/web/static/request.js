// @ts-check
// Requests to the server: paths, errors, one question at a time, stale answers dropped, downloads.

import { transport } from "./transport.js";

/** Paths of the server, in one place. */
export const API = {
  runs: "/api/runs",
  solve: "/api/work",
  check: "/api/check",
  cell: "/api/cell",
  hint: "/api/hint",
  sheet: "/api/make",
  readMatrix: "/api/read",
  readProblem: "/api/open",
  document: "/api/document",
  exportProblem: "/api/export",
  answers: "/api/answers",
  kinds: "/api/kinds",
  lectures: "/api/lectures",
  lecture: (/** @type {string} */ name) => `/api/lecture/${encodeURIComponent(name)}`,
  inspect: "/api/inspect",
  inspectMap: "/api/inspect/map",
  inspectModel: "/api/inspect/model",
  inspectStage: "/api/inspect/stage",
  inspectCell: "/api/inspect/working",
  inspectExport: "/api/inspect/export",
  stream: "/api/inspect/stream",
  attribution: "/api/inspect/explain",
  neurons: "/api/inspect/cells",
  positions: "/api/inspect/positions",
  compare: "/api/compare",
  permute: "/api/permute",
  compareCurves: (/** @type {string} */ first, /** @type {string} */ second, /** @type {number} */ width) =>
    `/api/compare/curves?first=${encodeURIComponent(first)}&second=${encodeURIComponent(second)}&width=${width}`,
  recipe: (/** @type {string} */ run) => `/api/recipe/${encodeURIComponent(run)}`,
  report: (/** @type {string} */ run) => `/api/report/${encodeURIComponent(run)}`,
  training: (/** @type {string} */ run, /** @type {number} */ revision, /** @type {number} */ width) =>
    `/api/training/${encodeURIComponent(run)}?revision=${revision}&width=${width}`,
};

const IDLE_POLL = 50; // milliseconds
const IDLE_LIMIT = 15_000;

let pendingRequests = 0;

/**
 * Send a request and return the response. An error of the server is thrown with the message that it sent.
 * @param {string} path
 * @param {object} [body] posted as JSON; without it, the request is a GET
 * @param {AbortSignal} [signal]
 */
async function send(path, body, signal) {
  const response = await transport(path, body, signal);
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Error(answer.error ?? `the server answered with status ${response.status}`);
  }
  return response;
}

/**
 * Return the server's answer to one question.
 * @param {string} path
 * @param {object} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function fetchJson(path, body, signal) {
  pendingRequests += 1;
  try {
    return await (await send(path, body, signal)).json();
  } finally {
    pendingRequests -= 1;
  }
}

/**
 * Send a request whose answer is lines of JSON; `onLine` gets each as soon as it arrives.
 * @param {string} path
 * @param {object} body
 * @param {(line: any) => void} onLine
 * @param {AbortSignal} signal
 */
export async function fetchLines(path, body, onLine, signal) {
  pendingRequests += 1;
  try {
    const response = await send(path, body, signal);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      const lines = (rest + part.value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) onLine(JSON.parse(line));
    }
  } finally {
    pendingRequests -= 1;
  }
}

/** Wait until every request is answered, or for 15 seconds at most. */
export async function waitUntilIdle() {
  for (let waited = 0; waited < IDLE_LIMIT; waited += IDLE_POLL) {
    await new Promise((resolve) => setTimeout(resolve, IDLE_POLL)); // an answer may lead to another request
    if (!pendingRequests) return;
  }
}

/**
 * Return an error's message.
 * @param {unknown} error
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * One kind of question to the server. One request is under way at a time; of the questions asked meanwhile, only the
 * newest is sent, and answers to older ones are dropped. `el` has the class `waiting` until the answer is there, and
 * `stale` while it shows the answer to an older question because the newest failed.
 * @template Answer
 * @template {object | undefined} [Body=any]
 */
export class Query {
  #onAnswer;
  #onError;
  #el;
  /** @type {{ path: string, body: Body } | null} */
  #next = null;
  /** @type {AbortController | null} */
  #request = null;
  #newest = ""; // the newest question that did not fail

  /**
   * @param {object} options
   * @param {(answer: Answer, body: Body) => void} options.onAnswer
   * @param {(message: string, body: Body) => void} options.onError
   * @param {Element} [options.el]
   */
  constructor({ onAnswer, onError, el }) {
    this.#onAnswer = onAnswer;
    this.#onError = onError;
    this.#el = el;
  }

  get isPending() {
    return this.#request !== null;
  }

  /**
   * Ask a question.
   * @param {string} path
   * @param {Body} [body]
   */
  ask(path, body) {
    this.#newest = JSON.stringify([path, body]);
    this.#next = { path, body: /** @type {Body} */ (body) };
    this.#el?.classList.add("waiting");
    if (!this.#request) void this.#run();
  }

  /**
   * Ask a question unless it is the one asked last. Return whether it was sent.
   * @param {string} path
   * @param {Body} [body]
   */
  askIfNew(path, body) {
    const isNew = JSON.stringify([path, body]) !== this.#newest;
    if (isNew) this.ask(path, body);
    return isNew;
  }

  /** Abort the request and forget the question. */
  cancel() {
    this.#request?.abort();
    this.#request = null;
    this.#next = null;
    this.#newest = "";
    this.#el?.classList.remove("waiting");
  }

  async #run() {
    while (this.#next) {
      const { path, body } = this.#next;
      const request = new AbortController();
      this.#next = null;
      this.#request = request;
      /** @type {unknown} */
      let failure = null;
      const answer = await fetchJson(path, body, request.signal).catch((error) => {
        failure = error;
      });
      if (this.#request !== request) return; // cancelled
      this.#request = null;
      if (this.#next) continue; // a newer question makes this answer stale
      this.#el?.classList.remove("waiting");
      this.#el?.classList.toggle("stale", failure !== null);
      if (failure === null) this.#onAnswer(answer, body);
      else {
        this.#newest = "";
        this.#onError(messageOf(failure), body);
      }
    }
  }
}

/**
 * Download the file that the server makes of a request.
 * @param {object} body
 * @param {string} path
 */
export async function download(body, path) {
  const response = await send(path, body);
  const disposition = response.headers.get("content-disposition") ?? "";
  saveFile(await response.blob(), /filename="([^"]+)"/.exec(disposition)?.[1] ?? "workings");
}

/**
 * Save data as a file of the user's.
 * @param {Blob} blob
 * @param {string} name
 */
export function saveFile(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
