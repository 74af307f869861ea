// The search of the site: every word must be on the page; titles count most, then headings.
const box = document.getElementById("search");
const list = document.getElementById("found");
const up = document.body.dataset.up;
const MOST = 12;

function scored(page, words) {
  let score = 0;
  let anchor = "";
  let heading = "";
  for (const word of words) {
    const where = page.headings.find(([, text]) => text.toLowerCase().includes(word));
    if (page.title.toLowerCase().includes(word)) score += 10;
    else if (where) {
      score += 5;
      [anchor, heading] = where;
    } else if (page.words.toLowerCase().includes(word)) score += 1;
    else return null;
  }
  return { page, score, anchor, heading };
}

function show() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? window.pages.map((page) => scored(page, words)).filter(Boolean) : [];
  found.sort((a, b) => b.score - a.score);
  list.replaceChildren(
    ...found.slice(0, MOST).map(({ page, anchor, heading }) => {
      const link = document.createElement("a");
      link.href = up + page.path + (anchor ? `#${anchor}` : "");
      link.textContent = heading ? `${page.title}: ${heading}` : page.title;
      const item = document.createElement("li");
      item.append(link);
      return item;
    }),
  );
  if (words.length && !found.length) list.textContent = "nothing found";
}

box.addEventListener("input", show);
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter") list.querySelector("a")?.click();
  if (event.key === "Escape") {
    box.value = "";
    show();
  }
});
