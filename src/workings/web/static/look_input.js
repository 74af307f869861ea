// What a run is given: a text, or a picture.

import { button, h, stepper } from "./dom.js";

const FIRST = { language: "The first ", classify: "smiling face with open mouth", translate: "woman and man holding hands", caption: "" };
const WORDS = { language: "A text to go on with", classify: "A text to classify", translate: "A sentence to translate" };
const SIDE = 640;  // pixels of a picture that is sent: more than any model sees

export function firstText(kind) {
  return FIRST[kind];
}

// A text that is read while it is typed.
export function textInput(kind, text, change) {
  let waiting = 0;
  // What is typed is for this run: nothing is told any more when another has taken its place.
  const tell = (live) => { clearTimeout(waiting); if (area.isConnected) change(area.value, live); };
  const area = h("textarea", { rows: "3", spellcheck: "false", dir: "auto", maxlength: "20000", "aria-label": WORDS[kind], value: text,
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => tell(true), 250); },
    onchange: () => tell(false) });
  const show = (words) => { if (document.activeElement !== area && area.value !== words) area.value = words; };
  return { el: h("label", { class: "given-text" }, h("span", { class: "legend-like" }, WORDS[kind]), area), show };
}

// A drawn scene by its number, or somebody's own picture, which stays on this page.
export function pictureInput(scene, changeScene, take, refuse) {
  const box = h("div", { class: "toggles" });
  const file = h("input", { type: "file", accept: "image/*", class: "unseen", tabindex: "-1", "aria-hidden": "true", onchange: async () => {
    try {
      if (file.files[0]) take(await shrunk(file.files[0]));
    } catch {
      refuse("that file is no picture that this browser can read");
    }
    file.value = "";
  } });
  const show = (number, own) => {
    const active = box.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    box.replaceChildren(stepper("Drawn scene", number, 1, 200, changeScene), button("A picture of your own…", () => file.click()), file,
      ...(own ? [h("span", { class: "hint" }, "your picture"), button("Back to the scenes", () => take(null))] : []));
    if (active) box.querySelector(`[data-step="${active}"]`)?.focus();
  };
  show(scene, false);
  return { el: box, show };
}

// Make a photograph small enough to be sent.
async function shrunk(file) {
  const image = await createImageBitmap(file);
  const by = Math.min(1, SIDE / Math.min(image.width, image.height));
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(image.width * by), height: Math.round(image.height * by) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9).split(",")[1];
}
