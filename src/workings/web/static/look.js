// The screen Look: a run reads an input, and shows what it makes of it and where it looks.

import { h } from "./dom.js";
import { chooser, howto } from "./runs.js";

export default {
  render({ store, el, runs }) {
    if (!runs.length) {
      el.replaceChildren(h("h1", { class: "unseen" }, "Look into a run"), howto());
      return () => {};
    }
    return new Look(store, el, runs).start();
  },
};

class Look {
  #store;
  #el;
  #runs;

  constructor(store, el, runs) {
    this.#store = store;
    this.#el = el;
    this.#runs = runs;
  }

  start() {
    const choose = chooser(this.#runs, this.#store.view("look").run, (run) => this.#store.view("look", { run }));
    this.#el.replaceChildren(h("h1", { class: "unseen" }, "Look into a run"), h("div", { class: "bar-top" }, choose.el));
    return this.#store.listen(() => choose.show(this.#store.view("look").run));
  }
}
