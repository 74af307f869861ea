// The screen Train: a run's curves while it trains, and everything that it is made by.

import { get } from "./api.js";
import { h } from "./dom.js";
import { Model } from "./model.js";
import picture, { grid } from "./picture.js";
import { chooser, howto, named } from "./runs.js";

const SOON = 1000;  // milliseconds between two looks at a training that goes on
const LATER = 5000;  // and at one that has ended, or at a server that does not answer
const SPOKEN = 30_000;  // and between two lines that are read aloud
const WORDS = { waiting: "not begun", training: "training", quiet: "silent", finished: "finished" };

export default {
  render({ store, el, runs }) {
    if (!runs.length) {
      el.replaceChildren(h("h1", { class: "unseen" }, "Watch a training"), howto());
      return () => {};
    }
    return new Train(store, el, runs).start();
  },
};

class Train {
  #store;
  #el;
  #runs;
  #run = null;
  #parts = {};
  #charts = new Map();
  #seen = -1;
  #width = 0;
  #waiting = 0;
  #asking = null;
  #spoken = {};
  #sizes = new ResizeObserver(() => this.#measure());

  constructor(store, el, runs) {
    this.#store = store;
    this.#el = el;
    this.#runs = runs;
  }

  start() {
    const { view } = this.#lay();
    const stop = this.#store.listen(view);
    const shown = () => !document.hidden && this.#look();
    document.addEventListener("visibilitychange", shown);
    this.#sizes.observe(this.#parts.charts);
    view();
    return () => {
      stop();
      document.removeEventListener("visibilitychange", shown);
      this.#sizes.disconnect();
      clearTimeout(this.#waiting);
      this.#asking?.abort();
    };
  }

  #lay() {
    const parts = this.#parts;
    const choose = chooser(this.#runs, this.#store.view("train").run, (run) => this.#store.view("train", { run }));
    parts.state = h("span", { class: "state" });
    parts.says = h("p", { class: "says" });
    parts.spoken = h("p", { class: "unseen", role: "status" });
    parts.progress = h("progress", { max: "1", "aria-label": "How much of the training is done" });
    parts.facts = h("dl", { class: "facts" });
    parts.status = h("p", { class: "status", role: "alert" });
    parts.charts = h("div", { class: "charts" });
    parts.measures = h("div", { class: "scroll", tabindex: "0", "aria-label": "Measures now and at their best" });
    parts.result = h("dl", { class: "facts small" });
    parts.samples = h("div", { class: "samples" });
    parts.recipe = h("div", { class: "recipe" });
    parts.made = h("div", { class: "scroll", tabindex: "0", "aria-label": "Made with" });
    parts.report = h("div", { class: "report" });
    parts.reading = h("section", { "aria-label": "Report" }, h("h2", {}, "Report"), parts.report);
    parts.sampling = h("section", { "aria-label": "Samples" }, h("h2", {}, "Samples"), parts.samples);
    parts.tested = h("section", { "aria-label": "Result" }, h("h2", {}, "Result"), parts.result);
    this.#el.replaceChildren(
      h("h1", { class: "unseen" }, "Watch a training"),
      h("div", { class: "bar-top" }, choose.el, parts.state, parts.says), parts.spoken,
      parts.progress, parts.facts, parts.status,
      h("section", { "aria-label": "Curves" }, h("h2", {}, "Curves"), parts.charts),
      h("div", { class: "halves" },
        h("section", { "aria-label": "Measures" }, h("h2", {}, "Now and at best"), parts.measures), parts.tested, parts.sampling),
      h("section", { "aria-label": "Recipe" }, h("h2", {}, "Recipe"), parts.recipe,
        h("details", { class: "behind" }, h("summary", {}, "Made with"), parts.made)),
      parts.reading);
    const view = () => {
      const wanted = this.#store.view("train").run;
      const { name } = named(this.#runs, wanted);
      choose.show(wanted);
      if (name !== this.#run) this.#open(name);
    };
    return { view };
  }

  // Show another run, from nothing.
  #open(name) {
    const parts = this.#parts;
    this.#run = name;
    this.#seen = -1;
    this.#charts.clear();
    for (const part of ["facts", "charts", "measures", "result", "samples", "recipe", "made", "report"]) parts[part].replaceChildren();
    for (const part of ["tested", "sampling", "reading"]) parts[part].hidden = true;
    parts.progress.removeAttribute("value");
    const path = encodeURIComponent(name);
    get(`/api/recipe/${path}`).then((recipe) => this.#run === name && this.#made(recipe), (error) => this.#refuse(error.message));
    this.#look();
  }

  // A chart is drawn for the width that it has: what is scaled down cannot be read.
  #measure() {
    const column = parseFloat(getComputedStyle(this.#parts.charts).gridTemplateColumns);
    const width = Math.max(240, Math.min(Math.floor(column / 10) * 10, 640));
    if (!column || width === this.#width) return;
    this.#width = width;
    this.#seen = -1;
    this.#look();
  }

  async #look() {
    clearTimeout(this.#waiting);
    this.#asking?.abort();
    if (document.hidden || !this.#width || !this.#run) return;
    const asking = (this.#asking = new AbortController());
    let next = LATER;
    try {
      const path = `/api/training/${encodeURIComponent(this.#run)}?seen=${this.#seen}&width=${this.#width}`;
      const told = await get(path, undefined, asking.signal);
      if (asking.signal.aborted) return;
      this.#tell(told);
      this.#refuse("");
      if (told.state !== "finished") next = SOON;
    } catch (error) {
      if (asking.signal.aborted) return;
      this.#refuse(error.message);
    }
    this.#waiting = setTimeout(() => this.#look(), next);
  }

  #tell(told) {
    const parts = this.#parts;
    parts.state.className = `state is-${told.state}`;
    say(parts.state, WORDS[told.state] ?? told.state);
    say(parts.says, told.says);
    this.#speak(told);
    parts.progress.value = told.share;
    facts(parts.facts, told.facts);
    this.#seen = told.seen;
    if (told.curves) this.#draw(told.curves);
    this.#report(told.report);
  }

  // Epochs may take a second each: what is read aloud waits, unless something begins or ends.
  #speak({ state, says }) {
    if (state === this.#spoken.state && Date.now() - this.#spoken.at < SPOKEN) return;
    if (says !== this.#parts.spoken.textContent) this.#spoken = { state, at: Date.now() };
    say(this.#parts.spoken, says);
  }

  #draw({ charts, measures, samples, result }) {
    const parts = this.#parts;
    for (const chart of charts) {
      const known = this.#charts.get(chart.title);
      if (known) known.model.set("chart", chart);
      else this.#charts.set(chart.title, charted(chart));
    }
    const wanted = charts.map((chart) => this.#charts.get(chart.title).el);
    const there = [...parts.charts.children];
    if (wanted.some((el, k) => el !== there[k]) || wanted.length !== there.length) parts.charts.replaceChildren(...wanted);
    if (!charts.length) parts.charts.replaceChildren(h("p", { class: "empty" }, "The first point comes with the first line of the log."));
    redone(parts.measures, grid(measures, "Measures now and at their best"));
    facts(parts.result, result);
    parts.tested.hidden = !result.length;
    redone(parts.samples, ...samples.map(({ epoch, text }) => h("figure", {},
      h("figcaption", {}, `after epoch ${epoch}`), h("pre", { tabindex: "0", dir: "auto", "aria-label": `A sample after epoch ${epoch}` }, text))));
    parts.sampling.hidden = !samples.length;
  }

  #made({ sections, made_with: made }) {
    this.#parts.recipe.replaceChildren(...Object.entries(sections).map(([name, settings]) =>
      h("table", { class: "plain settings-table" }, h("caption", {}, name),
        h("colgroup", {}, ["key", "value", "help"].map((name) => h("col", { class: name }))),
        h("thead", { class: "unseen" }, h("tr", {}, ["key", "value", "what it is"].map((words) => h("th", { scope: "col" }, words)))),
        h("tbody", {}, settings.map(({ key, value, usual, help }) => h("tr", { class: usual ? "unusual" : null },
          h("th", { scope: "row" }, key),
          h("td", { dir: "auto" }, value || "–", usual ? h("span", { class: "usual" }, `usually ${usual}`) : null),
          h("td", { class: "help" }, help)))))));
    this.#parts.made.replaceChildren(grid({ head: ["what", "which"], rows: made.map(({ name, value }) => [name, value]) }, "Made with"));
  }

  // A report is somebody's file: it is shown in a frame in which nothing runs.
  #report(there) {
    const { reading, report } = this.#parts;
    reading.hidden = !there;
    if (!there || report.firstChild) return;
    const path = `/api/report/${encodeURIComponent(this.#run)}`;
    const frame = h("details", { class: "behind", ontoggle: () => {
      if (frame.open && !frame.querySelector("iframe"))
        frame.append(h("iframe", { src: path, sandbox: "", title: "The run’s report", loading: "lazy" }));
    } }, h("summary", {}, "Read it here"));
    report.replaceChildren(h("p", {}, h("a", { href: path, target: "_blank", rel: "noopener noreferrer" }, "Open in a tab")), frame);
  }

  #refuse(line) {
    say(this.#parts.status, line);
  }
}

function charted(chart) {
  const model = new Model({ chart });
  const el = h("figure", {});
  picture.render({ model, el });
  return { model, el };
}

function facts(list, told) {
  redone(list, ...told.map(({ name, value }) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value))));
}

// Replace only what is another: nothing flickers, and nothing is read aloud twice.
function redone(container, ...children) {
  const there = [...container.children];
  children.forEach((child, k) => {
    if (!there[k]) container.append(child);
    else if (!there[k].isEqualNode(child)) there[k].replaceWith(child);
  });
  for (const rest of there.slice(children.length)) rest.remove();
}

function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}
