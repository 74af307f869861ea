// @ts-check
// The switch between light and dark: the rules for the system's dark scheme apply always, or never.

import { button } from "./dom.js";
import { t } from "./language.js";

const STORAGE_KEY = "theme";
const DARK = "(prefers-color-scheme: dark)";
const system = matchMedia(DARK);

/** @type {Map<CSSMediaRule, string>} */
const darkRules = new Map(); // each with its own condition

/** Return the button that switches; until it is pressed, the page follows the system. */
export function themeSwitch() {
  const label = t("Light or dark");
  const toggle = () => {
    const theme = isDark() ? "light" : "dark";
    remember(theme);
    apply(theme);
  };
  apply(readChoice());
  return button("◐", toggle, { class: "theme", "aria-label": label, title: label });
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : system.matches;
}

/** @param {string} theme light, dark, or nothing: the system's */
function apply(theme) {
  if (!theme) return;
  if (!darkRules.size) findDarkRules();
  document.documentElement.dataset.theme = theme;
  document.documentElement.style.colorScheme = theme;
  for (const [rule, condition] of darkRules)
    rule.media.mediaText = theme === "dark" ? condition.replace(DARK, "(min-width: 0)") : "not all";
  document.dispatchEvent(new Event("themechange"));
}

function findDarkRules() {
  for (const sheet of document.styleSheets)
    for (const rule of sheet.cssRules)
      if (rule instanceof CSSMediaRule && rule.media.mediaText.includes(DARK))
        darkRules.set(rule, rule.media.mediaText);
}

/** @param {string} theme */
function remember(theme) {
  try {
    localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // a browser without storage follows its system again next time
  }
}

function readChoice() {
  try {
    return localStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return "";
  }
}
