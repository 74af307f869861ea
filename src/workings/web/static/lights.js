// What a cell has to do with: its row and column, its tokens everywhere, the numbers it comes from.

const MARKS = ["here", "along", "asks", "asked", "read"];

// `focus`: {key, row, column}, or null; `reads`: blocks of cells, or none yet.
export function light(root, focus, reads = []) {
  for (const mark of MARKS)
    for (const element of root.querySelectorAll(`.${mark}`)) element.classList.remove(mark);
  if (!focus) return;
  const home = [...root.querySelectorAll("figure.matrix")].find((figure) => figure.dataset.key === focus.key);
  if (!home) return;
  const axis = (name) => home.dataset[name].split(" ").filter(Boolean);
  const tokens = { tokens: new Set(), context: new Set() };
  for (const name of focus.row === null ? [] : axis("rows")) tokens[name]?.add(focus.row);
  for (const name of focus.column === null ? [] : axis("columns")) tokens[name]?.add(focus.column);
  for (const figure of root.querySelectorAll("figure.matrix")) {
    const blocks = reads.filter((block) => block.key === figure.dataset.key);
    mark(figure, tokens, blocks, figure.dataset.key === focus.key ? focus : null);
  }
}

function mark(figure, tokens, blocks, focus) {
  const rows = figure.dataset.rows.split(" ");
  const columns = figure.dataset.columns.split(" ");
  for (const element of figure.querySelectorAll("[data-row], [data-column]")) {
    const [row, column] = [Number(element.dataset.row), Number(element.dataset.column)];
    const marks = element.classList;
    const on = (axes, index, name) => axes.includes(name) && tokens[name].has(index);
    if (on(rows, row, "tokens") || on(columns, column, "tokens")) marks.add("asks");
    if (on(rows, row, "context") || on(columns, column, "context")) marks.add("asked");
    if (focus && (row === focus.row || column === focus.column)) marks.add("along");
    if (focus && row === focus.row && column === focus.column) marks.add("here");
    if (blocks.some((block) => block.rows.includes(row) && block.columns.includes(column))) marks.add("read");
  }
}
