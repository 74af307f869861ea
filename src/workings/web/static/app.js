// @ts-check
// The page: its screens, undo and redo, and the address that restores their state.

import { readAddress, writeAddress } from "./address.js";
import { button, h } from "./dom.js";
import { currentLanguage, t } from "./language.js";
import { chooseLanguage, languageNames, loadLanguage } from "./language_choice.js";
import { API, fetchJson, waitUntilIdle } from "./request.js";
import { saveScreen } from "./save_page.js";
import { PROBLEM_SCREENS, Store } from "./store.js";
import { themeSwitch } from "./theme.js";
import { HAS_SERVER } from "./transport.js";

/**
 * A screen is a module whose default export has `render`, which returns a function that ends it.
 * @typedef {{ render(options: { store: Store, el: HTMLElement, runs: Api.Run[] }): Dispose }} Screen
 * @typedef {{ title: string, load: () => Promise<{ default: Screen }>, needsRuns?: boolean }} ScreenInfo
 */

await loadLanguage(); // every text below is in it

/** @type {Record<string, ScreenInfo>} */
const SCREENS = {
  home: { title: t("Home"), load: () => import("./home.js") },
  work: { title: t("Work"), load: () => import("./work.js") },
  check: { title: t("Check"), load: () => import("./check.js") },
  practice: { title: t("Practice"), load: () => import("./practice.js") },
  inspect: { title: t("Inspect"), load: () => import("./inspect.js") },
  train: { title: t("Train"), load: () => import("./train.js"), needsRuns: true },
  compare: { title: t("Compare"), load: () => import("./compare.js"), needsRuns: true },
};
if (!HAS_SERVER) {
  for (const name of ["train", "compare"]) delete SCREENS[name];
  screenInfo("inspect").needsRuns = true;
}
const ADDRESS_DELAY = 200; // milliseconds
const MESSAGE_TIME = 1500;

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const start = await resolveAddress(location.hash);
const store = new Store(start.problem, start.view ? { [start.screen]: start.view } : {});
/** @type {Promise<Api.Run[]>} */
const runs = fetchJson(API.runs).catch(() => []);
let screen = Object.hasOwn(SCREENS, start.screen) ? start.screen : start.problem ? "work" : "home";
/** @type {Dispose | null} */
let dispose = null;
let address = ""; // that this page has set
let addressTimer = 0;

/**
 * Read an address; one that names a lecture, such as #check/L2-self, stands for its problem.
 * @param {string} hash
 */
async function resolveAddress(hash) {
  const read = readAddress(hash);
  const [screen = "", lecture] = read.screen.replace(/^\//, "").split("/");
  if (!lecture || !PROBLEM_SCREENS.includes(screen)) return read;
  const table = await fetchJson(API.lecture(lecture)).catch(() => null);
  return { screen, problem: table && { table, decimals: 3 }, view: null };
}

/** @param {string} name */
function screenInfo(name) {
  return /** @type {ScreenInfo} */ (SCREENS[name]);
}

async function showScreen() {
  const name = screen;
  const isProblem = PROBLEM_SCREENS.includes(name);
  const module = await screenInfo(name).load();
  const available = isProblem ? [] : await runs;
  if (name !== screen) return; // another screen was chosen meanwhile
  dispose?.();
  main.className = name;
  document.title = `${screenInfo(name).title} · workings`;
  const isHome = name === "home";
  for (const tool of [undo, redo, copyButton]) tool.hidden = isHome;
  saveButton.hidden = isHome || isProblem || name === "practice"; // Work and Check download interactive files
  dispose = module.default.render({ store, el: main, runs: available });
  markCurrent();
  updateHistory();
}

function markCurrent() {
  const links = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#screens a"));
  for (const link of links) {
    if (link.dataset.screen === screen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** @param {"replaceState" | "pushState"} [method] */
function setAddress(method = "replaceState") {
  address = writeAddress(screen, store.problem, store.view(screen));
  history[method](null, "", address);
}

function updateHistory() {
  const { canUndo, canRedo } = store.history(screen);
  undo.setAttribute("aria-disabled", String(!canUndo));
  redo.setAttribute("aria-disabled", String(!canRedo));
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => {
    // Back, Forward and links have another address, which is read soon: it is not written over.
    if (!address || location.hash === address) setAddress();
  }, ADDRESS_DELAY);
}

/**
 * @param {string} name
 * @param {"replaceState" | "pushState"} [method]
 */
function goTo(name, method) {
  screen = name;
  setAddress(method);
  void showScreen();
}

/** @param {Api.Run[]} available */
function listScreens(available) {
  const names = Object.keys(SCREENS).filter(
    (name) => name !== "home" && (!screenInfo(name).needsRuns || available.length), // the name of the page leads home
  );
  const item = (/** @type {string} */ name) => {
    const open = (/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser opens a new tab
      event.preventDefault();
      if (name === screen) return;
      setAddress();
      goTo(name, "pushState"); // the browser's Back leads to the screen before
    };
    return h("li", {}, h("a", { href: `#${name}`, data: { screen: name }, onclick: open }, screenInfo(name).title));
  };
  document.getElementById("screens")?.replaceChildren(...names.map(item));
  markCurrent();
}

/**
 * Show a message on a button for a moment.
 * @param {HTMLElement} tool
 * @param {string} message
 */
function flash(tool, message) {
  tool.dataset.label ??= tool.textContent ?? "";
  tool.textContent = message;
  setTimeout(() => {
    tool.textContent = tool.dataset.label ?? "";
  }, MESSAGE_TIME);
}

async function copyLink() {
  setAddress();
  const copied = await navigator.clipboard // not there without TLS
    ?.writeText(location.href)
    .then(() => true)
    .catch(() => false);
  flash(copyButton, copied ? t("Copied") : t("Copy it from the address bar"));
}

async function save() {
  setAddress();
  await waitUntilIdle(); // the file has the answer to what was typed last
  try {
    saveScreen(main, document.title);
  } catch {
    flash(saveButton, t("Saving failed"));
  }
}

/** Return the list of languages; a choice reloads the page in that language, with its state. */
function languageList() {
  const options = Object.entries(languageNames()).map(([code, name]) =>
    h("option", { value: code, lang: code, selected: code === currentLanguage() }, name),
  );
  const change = () => {
    setAddress();
    chooseLanguage(list.value);
  };
  const list = h("select", { class: "language", "aria-label": t("Language"), onchange: change }, options);
  return list;
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const isText = /** @type {Element} */ (event.target).closest("input[type=text], textarea, input.title");
  if (!(event.ctrlKey || event.metaKey) || isText) return;
  const key = event.key.toLowerCase();
  const by = key === "z" && !event.shiftKey ? -1 : key === "y" || key === "z" ? 1 : 0;
  if (!by) return;
  event.preventDefault();
  store.move(screen, by);
}

async function onHashChange() {
  if (location.hash === address) return;
  clearTimeout(addressTimer);
  address = location.hash;
  const { screen: named, problem, view } = await resolveAddress(location.hash);
  const name = named || "home"; // Back to an address that was not written yet
  if (!Object.hasOwn(SCREENS, name)) return;
  const isCurrent = writeAddress(name, store.problem, store.view(name)) === location.hash;
  if (problem && !isCurrent) store.changeProblem((state) => Object.assign(state, problem));
  if (view && !isCurrent) store.replaceView(name, view);
  if (name !== screen) goTo(name);
}

/**
 * Check a document that was pasted or dropped outside of a field.
 * @param {ClipboardEvent | DragEvent} event
 * @param {DataTransfer | null} data
 */
function receiveDocument(event, data) {
  const isField = /** @type {Element} */ (event.target).closest?.("input, textarea, select, dialog");
  const file = data?.files[0];
  const text = data?.getData("text/plain") ?? "";
  if (event.defaultPrevented || isField || !(file || text.trim())) return;
  event.preventDefault();
  store.giveDocument(file ? { file } : { text });
  if (screen !== "check") location.hash = "#check";
}

const undo = button("↶", () => store.move(screen, -1), { "aria-label": t("Undo"), title: `${t("Undo")} (Ctrl+Z)` });
const redo = button("↷", () => store.move(screen, 1), {
  "aria-label": t("Redo"),
  title: `${t("Redo")} (Ctrl+Shift+Z)`,
});
const copyButton = button(t("Copy link"), copyLink);
const saveButton = button(t("Save as HTML"), save, { title: t("Save this screen as one HTML file") });
document.getElementById("tools")?.append(undo, redo, copyButton, saveButton, languageList(), themeSwitch());
document.addEventListener("keydown", onKey);
document.addEventListener("paste", (event) => receiveDocument(event, event.clipboardData));
document.addEventListener("drop", (event) => receiveDocument(event, event.dataTransfer));
document.addEventListener("dragover", (event) => event.preventDefault()); // a dropped file is not opened by the browser
window.addEventListener("hashchange", onHashChange);
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the address holds the state, and no anchor
  main.focus();
});

const [tagline, skipLink] = [document.querySelector(".brand span"), document.querySelector(".skip")];
if (tagline) tagline.textContent = t("sequence models that show their work");
if (skipLink) skipLink.textContent = t("Skip to the content");

store.listen(updateHistory);
updateHistory();
listScreens([]);
void runs.then((available) => available.length && listScreens(available));
await showScreen();
