// @ts-check
// The choice of a run, the names of its parts, and its input: a text, a numbered scene or a picture of the user's.

import { button, h, redraw, stepper } from "./dom.js";

const KINDS = {
  classify: "classifier",
  language: "language model",
  translate: "translator",
  caption: "captioner",
};
/**
 * The parts of a model that have attention.
 * @type {Record<string, string>}
 */
export const PART_NAMES = {
  alignment: "alignment",
  cross: "cross-attention",
  decoder: "decoder self-attention",
  encoder: "encoder self-attention",
};
const FIRST_TEXTS = {
  language: "The first ",
  classify: "smiling face with open mouth",
  translate: "woman and man holding hands",
  caption: "",
};
const SECOND_TEXTS = {
  language: "The second ",
  classify: "visage souriant avec bouche ouverte",
  translate: "woman holding hands and man",
  caption: "",
};
const TEXT_LABELS = {
  language: "Prompt",
  classify: "Text to classify",
  translate: "Sentence to translate",
  caption: "",
};
const MAX_TEXT = "20000";
const TYPING_PAUSE = 250; // milliseconds after the last key before a text is sent
const PICTURE_SIDE = 640; // pixels of a picture's shorter side that are sent, more than any model takes
export const SCENES = 200;

/**
 * Return the run of this name, or else the first.
 * @param {Api.Run[]} runs
 * @param {string | undefined} name
 */
export function findRun(runs, name) {
  return /** @type {Api.Run} */ (runs.find((run) => run.name === name) ?? runs[0]);
}

/**
 * Return a list of runs; `show` chooses one, and says so where it is not found.
 * @param {Api.Run[]} runs
 * @param {(name: string) => void} onChange
 * @param {string} [label]
 */
export function runList(runs, onChange, label = "Run") {
  const note = h("span", { class: "hint missing", role: "status" });
  const heading = h("span", { class: "label" }, label);
  const select = h(
    "select",
    { onchange: (event) => onChange(event.target.value) },
    runs.map(({ name, title, kind }) =>
      h("option", { value: name }, title === name ? `${name} (${KINDS[kind]})` : `${name}: ${title}`),
    ),
  );
  const show = (/** @type {string | undefined} */ name) => {
    const isFound = !name || runs.some((run) => run.name === name);
    select.value = findRun(runs, name).name;
    note.textContent = isFound ? "" : `The run “${name.slice(0, 60)}” was not found; another is shown.`;
  };
  return { el: h("label", { class: "choice" }, heading, select, note), heading, show };
}

/** Return how to train a run. */
export function noRuns() {
  const install = document.querySelector('meta[name="install-command"]')?.getAttribute("content") ?? "";
  return h(
    "div",
    { class: "empty" },
    h("p", {}, "There are no runs yet. Train one, offline, in a minute or two:"),
    h("pre", {}, "workings train emoji\nworkings serve runs/emoji"),
    h(
      "p",
      {},
      "This page then shows the output of the model and its attention weights for any input. ",
      "You can give it several runs. Training needs ",
      h("code", {}, install),
      ".",
    ),
  );
}

/**
 * Return a text to begin with: of the run's own data, if it has recorded some.
 * @param {Api.Run} run
 */
export function firstText({ kind, texts, samples }) {
  return texts?.[0] ?? samples?.[0] ?? FIRST_TEXTS[kind];
}

/**
 * Return a text to compare with the first.
 * @param {Api.Run} run
 */
export function secondText({ kind, samples }) {
  return samples?.[1] ?? SECOND_TEXTS[kind];
}

/**
 * Return a text area whose text is reported while it is typed (`live`) and when it is complete.
 * @param {Api.Run["kind"]} kind
 * @param {(text: string, live: boolean) => void} onChange
 */
export function textInput(kind, onChange) {
  let timer = 0;
  const report = (/** @type {boolean} */ live) => {
    clearTimeout(timer);
    if (area.isConnected) onChange(area.value, live); // else another run has been chosen meanwhile
  };
  const area = h("textarea", {
    rows: "1",
    spellcheck: "false",
    dir: "auto",
    maxlength: MAX_TEXT,
    "aria-label": TEXT_LABELS[kind],
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => report(true), TYPING_PAUSE);
    },
    onchange: () => report(false),
  });
  const el = h("label", { class: "text-input" }, h("span", { class: "label" }, TEXT_LABELS[kind]), area);
  return { el, show: (/** @type {string} */ text) => showText(area, text) };
}

/**
 * Return a choice of texts.
 * @param {Api.Run["kind"]} kind
 * @param {string[]} texts
 * @param {(text: string) => void} onChange
 */
export function textChoice(kind, texts, onChange) {
  const options = texts.map((text) => h("option", { value: text }, text));
  const select = h("select", { onchange: (event) => onChange(event.target.value) }, options);
  const show = (/** @type {string} */ text) => {
    select.value = text;
  };
  return { el: h("label", { class: "choice" }, h("span", { class: "label" }, TEXT_LABELS[kind]), select), show };
}

/**
 * Return a text field of one line; its text is reported while it is typed (`live`) and when it is complete.
 * @param {string} label
 * @param {(text: string, live: boolean) => void} onChange
 */
export function textField(label, onChange) {
  let timer = 0;
  const report = (/** @type {boolean} */ live) => {
    clearTimeout(timer);
    if (input.isConnected) onChange(input.value, live);
  };
  const heading = h("span", { class: "label" }, label);
  const input = h("input", {
    type: "text",
    maxlength: MAX_TEXT,
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => report(true), TYPING_PAUSE);
    },
    onchange: () => report(false),
  });
  const el = h("label", { class: "choice words" }, heading, input);
  return { el, heading, show: (/** @type {string} */ text) => showText(input, text) };
}

/**
 * Show a text, unless the user is typing another.
 * @param {HTMLInputElement | HTMLTextAreaElement} field
 * @param {string} text
 */
function showText(field, text) {
  if (document.activeElement !== field && field.value !== text) field.value = text;
}

/**
 * Return a choice of a numbered scene or a picture of the user's.
 * @param {object} options
 * @param {(scene: number) => void} options.onScene
 * @param {(picture: string | null) => void} options.onPicture base64 of a JPEG; null: back to the scenes
 * @param {(message: string) => void} options.onError
 */
export function pictureInput({ onScene, onPicture, onError }) {
  const el = h("div", { class: "toggles" });
  const file = h("input", {
    type: "file",
    accept: "image/*",
    class: "unseen",
    tabindex: "-1",
    "aria-hidden": "true",
    onchange: async () => {
      try {
        if (file.files?.[0]) onPicture(await shrink(file.files[0]));
      } catch {
        onError("this browser cannot read that file as a picture");
      }
      file.value = "";
    },
  });
  const show = (/** @type {number} */ scene, /** @type {boolean} */ hasPicture) =>
    redraw(
      el,
      stepper("Scene", scene, 1, SCENES, onScene),
      button("Use your own picture…", () => file.click(), { data: { control: "picture" } }),
      file,
      hasPicture && [
        h("span", { class: "hint" }, "your picture"),
        button("Back to the scenes", () => onPicture(null), { data: { control: "scenes" } }),
      ],
    );
  return { el, show };
}

/**
 * Return a picture as base64 of a JPEG that is small enough to send.
 * @param {File} file
 */
async function shrink(file) {
  const image = await createImageBitmap(file);
  const factor = Math.min(1, PICTURE_SIDE / Math.min(image.width, image.height));
  const canvas = h("canvas", {
    width: Math.round(image.width * factor),
    height: Math.round(image.height * factor),
  });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.9).split(",")[1] ?? "";
}
