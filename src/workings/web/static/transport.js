// @ts-check
// Carries requests to the server. A static site has another module in its place: `site/transport.js`.

import { currentLanguage } from "./language.js";

/** Whether a server runs models and follows trainings. */
export const HAS_SERVER = true;

/**
 * Send a request; without a body, it is a GET.
 * @param {string} path
 * @param {object} [body] posted as JSON
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
export async function transport(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { "accept-language": currentLanguage() };
  /** @type {RequestInit} */
  const request = { signal: signal ?? null, headers };
  if (body) {
    request.method = "POST";
    headers["content-type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  try {
    return await fetch(path, request);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("the server does not answer: is `workings serve` still running?");
  }
}
