// @ts-check
// The language of the page: `t` translates a text. Each language is one file in src/workings/languages.

export const SOURCE_LANGUAGE = "en";

/** @type {Record<string, string>} */
let texts = {};
let current = SOURCE_LANGUAGE;

/**
 * Return a text in the language of the page; {key} in it is replaced by the value of that name.
 * Write the text as one string literal, so that the test for missing translations finds it.
 * @param {string} text
 * @param {Record<string, string | number>} [values]
 */
export function t(text, values = {}) {
  return (texts[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** Return the code of the language, such as "de". */
export function currentLanguage() {
  return current;
}

/**
 * @param {string} code
 * @param {Record<string, string>} translations
 */
export function setLanguage(code, translations) {
  current = code;
  texts = translations;
}
