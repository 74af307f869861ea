// The page: its screens, undo and redo, and the address that restores everything.

import { button, h } from "./dom.js";
import { read, write } from "./link.js";
import { Store } from "./store.js";

// A screen is a module with `title` and `render({ store, el })`, which returns how to end it.
const SCREENS = { work: () => import("./work.js"), check: () => import("./check.js") };
const TITLES = { work: "Work", check: "Check" };

const main = document.getElementById("main");
const start = read(location.hash);
const store = new Store(start.state);
let screen = start.screen in SCREENS ? start.screen : "work";
let end = null;
let written = "";

async function show() {
  const module = await SCREENS[screen]();
  end?.();
  main.className = screen;
  document.title = `${TITLES[screen]} · workings`;
  end = module.default.render({ store, el: main });
  for (const link of document.querySelectorAll("#screens a")) {
    if (link.dataset.screen === screen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function remember() {
  written = write(screen, store.state);
  history.replaceState(null, "", written);
}

let soon = 0;
function changed() {
  undo.setAttribute("aria-disabled", String(!store.undoable));
  redo.setAttribute("aria-disabled", String(!store.redoable));
  clearTimeout(soon);
  soon = setTimeout(remember, 200);
}

function go(name) {
  screen = name;
  remember();
  show();
}

document.getElementById("screens").append(...Object.keys(SCREENS).map((name) => h("li", {}, h("a", {
  href: `#${name}`, data: { screen: name }, onclick: (event) => { event.preventDefault(); go(name); },
}, TITLES[name]))));

const undo = button("Undo", () => store.move(-1), { title: "Ctrl+Z" });
const redo = button("Redo", () => store.move(1), { title: "Ctrl+Shift+Z" });
const copy = button("Copy link", async () => {
  remember();
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  copy.textContent = "Copied";
  setTimeout(() => (copy.textContent = "Copy link"), 1500);
});
document.getElementById("tools").append(undo, redo, copy);

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
  if (next.state) store.change((state) => Object.assign(state, { practice: false }, next.state));
  if (next.screen in SCREENS && next.screen !== screen) go(next.screen);
});

// The address is the state's: the link that skips to the work leaves it alone.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

store.listen(changed);
changed();
await show();
