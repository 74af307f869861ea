// @ts-check
// Which language the page is in: the one that was chosen last, otherwise the first of the browser's that there is.

import { setLanguage, SOURCE_LANGUAGE } from "./language.js";

const STORAGE_KEY = "language";

/** Return the names of all languages by their codes. */
export function languageNames() {
  const meta = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="languages"]'));
  return /** @type {Record<string, string>} */ (JSON.parse(meta?.content || "{}"));
}

/** Load the texts of the language. */
export async function loadLanguage() {
  const names = languageNames();
  const wanted = [readChoice(), ...navigator.languages.map((tag) => tag.split("-")[0] ?? "")];
  const code = wanted.find((other) => Object.hasOwn(names, other)) ?? SOURCE_LANGUAGE;
  document.documentElement.lang = code;
  if (code === SOURCE_LANGUAGE) return;
  const response = await fetch(new URL(`language-${code}.json`, import.meta.url)).catch(() => null);
  if (response?.ok) setLanguage(code, await response.json());
}

/**
 * Remember a language and show the page in it.
 * @param {string} code
 */
export function chooseLanguage(code) {
  try {
    localStorage.setItem(STORAGE_KEY, code);
  } catch {
    // a browser without storage shows its own language again next time
  }
  location.reload();
}

function readChoice() {
  try {
    return localStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return "";
  }
}
