// Elements by hand. Text goes in as text nodes only: nobody's words are ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, given = {}, ...children) {
  return filled(document.createElement(tag), given, children);
}

export function svg(tag, given = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), given, children);
}

function filled(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// A choice of a few: radio buttons side by side.
export function choice(label, name, options, chosen, change) {
  return h("fieldset", { class: "choice" }, h("legend", {}, label), h("div", { class: "segments" },
    options.map(([value, words]) => h("label", {},
      h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => change(value) }),
      h("span", {}, words)))));
}

// A whole number with a button on either side. One that an address brought may be out of bounds.
export function stepper(label, value, least, most, change) {
  const next = (by) => Math.min(Math.max(value + by, least), most);
  const button = (by, words, sign) => h("button", {
    type: "button", "aria-label": `${words}: ${label}`, data: { step: `${label}${by}` },
    "aria-disabled": next(by) === value ? "true" : null,
    onclick: () => next(by) !== value && change(next(by)),
  }, sign);
  return h("div", { class: "choice stepper", role: "group", "aria-label": label },
    h("span", { class: "legend-like" }, label),
    h("div", { class: "segments" }, button(-1, "less", "−"), h("output", {}, String(value)), button(1, "more", "+")));
}

export function button(words, click, given = {}) {
  return h("button", { type: "button", onclick: click, ...given }, words);
}
