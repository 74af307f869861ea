// The page: its screens, undo and redo, and the address that restores everything.

import { get, quiet } from "./api.js";
import { button, h } from "./dom.js";
import { saved } from "./keep.js";
import { PROBLEMS, read, write } from "./link.js";
import { Store } from "./store.js";

// A screen is a module with `render({ store, el, runs })`, which returns how to end it. One that
// `needs` runs is listed only where there are some.
const SCREENS = {
  work: { title: "Work", load: () => import("./work.js") },
  check: { title: "Check", load: () => import("./check.js") },
  look: { title: "Look", load: () => import("./look.js") },
  train: { title: "Train", load: () => import("./train.js"), needs: true },
  compare: { title: "Compare", load: () => import("./compare.js"), needs: true },
};

const main = document.getElementById("main");
const start = read(location.hash);
const store = new Store(start.state, start.view && { [start.screen]: start.view });
let screen = Object.hasOwn(SCREENS, start.screen) ? start.screen : "work";
const runs = get("/api/runs").catch(() => []);
let end = null;
let written = "";

async function show() {
  const wanted = screen;
  const module = await SCREENS[wanted].load();
  const found = PROBLEMS.includes(wanted) ? [] : await runs;
  if (wanted !== screen) return;
  end?.();
  main.className = screen;
  document.title = `${SCREENS[screen].title} · workings`;
  keep.hidden = PROBLEMS.includes(screen);
  end = module.default.render({ store, el: main, runs: found });
  marked();
}

function marked() {
  for (const link of document.querySelectorAll("#screens a")) {
    if (link.dataset.screen === screen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function remember(how = "replaceState") {
  written = write(screen, store.state);
  history[how](null, "", written);
}

let soon = 0;
function changed() {
  undo.setAttribute("aria-disabled", String(!store.undoable));
  redo.setAttribute("aria-disabled", String(!store.redoable));
  clearTimeout(soon);
  soon = setTimeout(remember, 200);
}

function go(name, how) {
  screen = name;
  remember(how);
  show();
}

// Another screen is a place of its own: the browser's Back leads from it to the one before.
function leave(name) {
  if (name === screen) return;
  remember();
  go(name, "pushState");
}

function list(found) {
  const shown = Object.entries(SCREENS).filter(([, { needs }]) => !needs || found.length);
  document.getElementById("screens").replaceChildren(...shown.map(([name, { title }]) => h("li", {}, h("a", {
    href: `#${name}`, data: { screen: name }, onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;  // in a tab of its own
      event.preventDefault();
      leave(name);
    },
  }, title))));
  marked();
}

// Have a button say something for a moment.
function said(tool, words) {
  tool.dataset.usual ??= tool.textContent;
  tool.textContent = words;
  setTimeout(() => (tool.textContent = tool.dataset.usual), 1500);
}

const undo = button("Undo", () => store.move(-1), { title: "Ctrl+Z" });
const redo = button("Redo", () => store.move(1), { title: "Ctrl+Shift+Z" });
const copy = button("Copy link", async () => {
  remember();
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);  // none without TLS
  said(copy, copied ? "Copied" : "It is in the address bar");
});
// Work and Check write files of their own, in which numbers can be pointed at.
const keep = button("Save as HTML", async () => {
  remember();
  await quiet();  // what was typed last is to be there, too
  try {
    saved(main, document.title);
  } catch {
    said(keep, "It cannot be saved here");
  }
}, { title: "What this screen shows, as one file" });
document.getElementById("tools").append(undo, redo, copy, keep);

document.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.target.closest("input[type=text], textarea, input.title")) return;
  const back = event.key.toLowerCase() === "z" && !event.shiftKey;
  const forth = event.key.toLowerCase() === "y" || (event.key.toLowerCase() === "z" && event.shiftKey);
  if (!back && !forth) return;
  event.preventDefault();
  store.move(back ? -1 : 1);
});

window.addEventListener("hashchange", () => {
  if (location.hash === written) return;
  const next = read(location.hash);
  if (!Object.hasOwn(SCREENS, next.screen)) return;
  const there = write(next.screen, store.state) === location.hash;
  if (next.state && !there) store.change((state) => Object.assign(state, { practice: false }, next.state));
  if (next.view && !there) store.change((state) => { state.views[next.screen] = next.view; });
  if (next.screen !== screen) go(next.screen);
});

// The address is the state's: the link that skips to the work leaves it alone.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

store.listen(changed);
changed();
list([]);
runs.then((found) => found.length && list(found));
await show();
