// A dialog that takes text: a matrix, a slide, a file.

import { button, h } from "./dom.js";

// `take` gets the text, and may throw an Error whose message is shown; else the dialog closes.
export function paste({ title, hint, files = false, action = "Read it", take }) {
  const area = h("textarea", { rows: "10", spellcheck: "false", "aria-label": title });
  const told = h("p", { class: "status", role: "alert" });
  const file = files && h("label", { class: "file" }, "or a file: ", h("input", {
    type: "file", accept: ".toml,.tex,.md,.txt,.csv", onchange: async (event) => {
      const [chosen] = event.target.files;
      if (chosen && chosen.size < 400_000) area.value = await chosen.text();
      else if (chosen) told.textContent = "that file is larger than 400 kB";
    },
  }));
  const send = async () => {
    try {
      await take(area.value);
      dialog.close();
    } catch (error) {
      told.textContent = error.message;
    }
  };
  const dialog = h("dialog", { class: "paste", "aria-label": title, onclose: () => dialog.remove() },
    h("h2", {}, title), h("p", { class: "hint" }, hint), area, file || null, told,
    h("div", { class: "actions" }, button(action, send, { class: "main" }), button("Cancel", () => dialog.close())));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send();
  });
  document.body.append(dialog);
  dialog.showModal();
  area.focus();
}
