// @ts-check
// The page: its screens, undo and redo, and the address that restores their state.

import { readAddress, writeAddress } from "./address.js";
import { button, h } from "./dom.js";
import { API, fetchJson, waitUntilIdle } from "./request.js";
import { saveScreen } from "./save_page.js";
import { PROBLEM_SCREENS, Store } from "./store.js";

/**
 * A screen is a module whose default export has `render`, which returns a function that ends it.
 * @typedef {{ render(options: { store: Store, el: HTMLElement, runs: Api.Run[] }): Dispose }} Screen
 * @typedef {{ title: string, load: () => Promise<{ default: Screen }>, needsRuns?: boolean }} ScreenInfo
 */

/** @type {Record<string, ScreenInfo>} */
const SCREENS = {
  work: { title: "Work", load: () => import("./work.js") },
  check: { title: "Check", load: () => import("./check.js") },
  inspect: { title: "Inspect", load: () => import("./inspect.js") },
  train: { title: "Train", load: () => import("./train.js"), needsRuns: true },
  compare: { title: "Compare", load: () => import("./compare.js"), needsRuns: true },
};
const ADDRESS_DELAY = 200; // milliseconds
const MESSAGE_TIME = 1500;

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const start = readAddress(location.hash);
const store = new Store(start.problem, start.view ? { [start.screen]: start.view } : {});
/** @type {Promise<Api.Run[]>} */
const runs = fetchJson(API.runs).catch(() => []);
let screen = Object.hasOwn(SCREENS, start.screen) ? start.screen : "work";
/** @type {Dispose | null} */
let dispose = null;
let address = ""; // that this page has set
let addressTimer = 0;

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
  saveButton.hidden = isProblem; // Work and Check download interactive files
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
  addressTimer = setTimeout(setAddress, ADDRESS_DELAY);
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
  const names = Object.keys(SCREENS).filter((name) => !screenInfo(name).needsRuns || available.length);
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
  flash(copyButton, copied ? "Copied" : "Copy it from the address bar");
}

async function save() {
  setAddress();
  await waitUntilIdle(); // the file has the answer to what was typed last
  try {
    saveScreen(main, document.title);
  } catch {
    flash(saveButton, "Saving failed");
  }
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

function onHashChange() {
  if (location.hash === address) return;
  const { screen: name, problem, view } = readAddress(location.hash);
  if (!Object.hasOwn(SCREENS, name)) return;
  const isCurrent = writeAddress(name, store.problem, store.view(name)) === location.hash;
  if (problem && !isCurrent) store.changeProblem((state) => Object.assign(state, { practice: false }, problem));
  if (view && !isCurrent) store.replaceView(name, view);
  if (name !== screen) goTo(name);
}

const undo = button("Undo", () => store.move(screen, -1), { title: "Ctrl+Z" });
const redo = button("Redo", () => store.move(screen, 1), { title: "Ctrl+Shift+Z" });
const copyButton = button("Copy link", copyLink);
const saveButton = button("Save as HTML", save, { title: "Save this screen as one HTML file" });
document.getElementById("tools")?.append(undo, redo, copyButton, saveButton);
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", onHashChange);
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the address holds the state, and no anchor
  main.focus();
});

store.listen(updateHistory);
updateHistory();
listScreens([]);
void runs.then((available) => available.length && listScreens(available));
await showScreen();
