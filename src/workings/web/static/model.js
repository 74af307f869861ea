// A component's state, in the shape of an anywidget model: get, set, and `change:name`.

export class Model {
  #values;
  #listeners = new Map();

  constructor(values = {}) {
    this.#values = { ...values };
  }

  get(name) {
    return this.#values[name];
  }

  set(name, value) {
    this.#values[name] = value;
    for (const listener of this.#listeners.get(`change:${name}`) ?? []) listener();
  }

  on(event, listener) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  save_changes() {}
}
