// More to see of a run: which words decided, cells over the text, positions. Each asks when it is opened.

import { latest } from "./api.js";
import { button, h, stepper } from "./dom.js";
import map from "./map.js";
import { Model } from "./model.js";
import strip from "./strip.js";

class More {
  #path;
  #asked;
  #fresh = false;
  #ask;

  constructor(title, path, asked, refuse) {
    this.#path = path;
    this.#asked = asked;
    this.#ask = latest((told) => this.draw(told), (line) => { this.#fresh = false; refuse(line); });
    this.box = h("div", {});
    this.el = h("details", { class: "more-of-it", hidden: true, ontoggle: () => this.ask() }, h("summary", {}, title), this.box);
  }

  // A new input: what is shown was of another.
  renew(there) {
    this.el.hidden = !there;
    this.#fresh = false;
    if (there) this.ask();
  }

  ask(more) {
    if (!this.el.open || this.el.hidden || (this.#fresh && !more)) return;
    this.#fresh = true;
    this.#ask(this.#path, { ...this.question(this.#asked()), ...more });
  }

  question(asked) {
    return asked;
  }
}

export class Explained extends More {
  constructor(asked, refuse) {
    super("Which words decided", "/api/look/explain", asked, refuse);
    this.el.open = true;
  }

  show(looked) {
    this.renew(looked.kind === "classify");
  }

  draw({ label, against, strips }) {
    this.box.replaceChildren(h("p", { class: "hint" }, "Orange speaks for ", h("b", {}, label), ", blue for ", h("b", {}, against), "."),
      ...strips.map((told) => {
        const box = h("div", {});
        strip.render({ model: new Model({ strip: told }), el: box });
        return box;
      }));
  }
}

export class Cells extends More {
  #model = new Model({ strip: null });
  #group = 1;
  #groups = [];

  constructor(asked, refuse) {
    super("Cells over the text", "/api/look/cells", asked, refuse);
    this.tools = h("div", { class: "toggles" });
    this.text = h("div", {});
    this.box.append(this.tools, this.text);
    strip.render({ model: this.#model, el: this.text });
  }

  show(looked) {
    this.#groups = looked.cells;
    if (this.el.hidden && !looked.stacks.length) this.el.open = true;  // the only thing to look into
    this.renew(looked.cells.length > 0);
  }

  question(asked) {
    return { ...asked, group: this.#group };
  }

  draw({ size, cell, strip: told, others }) {
    this.#model.set("strip", told);
    const step = this.tools.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    const choose = (number) => this.ask({ cell: number });
    this.tools.replaceChildren(
      h("label", { class: "choice" }, h("span", { class: "legend-like" }, "Group"), h("select", { data: { step: "group" }, onchange: (event) => { this.#group = Number(event.target.value); this.ask({}); } },
        this.#groups.map((name, k) => h("option", { value: k + 1, selected: k + 1 === this.#group }, name)))),
      stepper("Cell", cell, 1, size, choose),
      h("div", { class: "choice", role: "group", "aria-label": "Cells that vary most" }, h("span", { class: "legend-like" }, "Vary most"),
        h("div", { class: "segments" }, others.map((number) => button(String(number), () => choose(number), { "aria-pressed": String(number === cell), data: { step: `other${number}` } })))));
    if (step) this.tools.querySelector(`[data-step="${step}"]`)?.focus();
  }
}

export class Positions extends More {
  constructor(asked, refuse) {
    super("Positions", "/api/look/positions", asked, refuse);
  }

  show(looked) {
    if (!looked.positions || this.el.hidden) this.renew(looked.positions);
  }

  question({ run }) {
    return { run };
  }

  draw({ says, maps }) {
    this.box.replaceChildren(h("p", { class: "hint" }, says), h("div", { class: "side-by-side" }, maps.map((told) => {
      const box = h("div", {});
      map.render({ model: new Model({ map: told, pinned: null, axes: ["place", told.name === "products" ? "place" : "column"] }), el: box });
      return box;
    })));
  }
}
