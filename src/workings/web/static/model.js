// @ts-check
// Observable state of a component, with the interface of an anywidget model.

/** @template {object} [State=any] */
export class Model {
  /** @type {State} */
  #values;
  /** @type {Map<string, (() => void)[]>} */
  #listeners = new Map();

  /** @param {NoInfer<State>} values */
  constructor(values) {
    this.#values = { ...values };
  }

  /**
   * @template {keyof State} Name
   * @param {Name} name
   * @returns {State[Name]}
   */
  get(name) {
    return this.#values[name];
  }

  /**
   * Set a value and call its listeners, also where the value is the same.
   * @template {keyof State} Name
   * @param {Name} name
   * @param {State[Name]} value
   */
  set(name, value) {
    this.#values[name] = value;
    for (const listener of this.#listeners.get(`change:${String(name)}`) ?? []) listener();
  }

  /**
   * @param {`change:${string & keyof State}`} event
   * @param {() => void} listener
   */
  on(event, listener) {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  /** Send changes to the kernel: only a notebook has one. */
  save_changes() {}
}
