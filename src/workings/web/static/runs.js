// Which run a screen shows; and how to get one.

import { h } from "./dom.js";

const KINDS = { classify: "classifier", language: "language model", translate: "translator", caption: "captioner" };

// A list of the runs; `show` chooses one by name; where it is not there, the first, and says so.
export function chooser(runs, chosen, change, label = "Run") {
  const note = h("span", { class: "hint missing", role: "status" });
  const select = h("select", { onchange: () => change(select.value) },
    runs.map(({ name, title, kind }) => h("option", { value: name }, title === name ? `${name} (${KINDS[kind]})` : `${name}: ${title}`)));
  const show = (name) => {
    select.value = named(runs, name).name;
    note.textContent = !name || runs.some((run) => run.name === name) ? "" : `There is no run “${name.slice(0, 60)}” here: this is another.`;
  };
  show(chosen);
  return { el: h("label", { class: "choice" }, h("span", { class: "legend-like" }, label), select, note), show };
}

export function named(runs, name) {
  return runs.find((run) => run.name === name) ?? runs[0];
}

export function howto() {
  return h("div", { class: "empty" },
    h("p", {}, "There is no run to look into yet. One is trained in a minute or two, offline:"),
    h("pre", {}, "workings train recipes/emoji.toml --out runs/emoji\nworkings serve runs/emoji"),
    h("p", {}, "Then this page shows what the model makes of a text, and where it looks. Several runs can be named; training needs ",
      h("code", {}, "pip install \"workings[all]\""), "."));
}
