// Site search: a page must contain every word. Titles weigh most, then headings.
const box = document.getElementById("search");
const list = document.getElementById("results");
const up = document.body.dataset.up;
const MAX_RESULTS = 12;

function scorePage(page, words) {
  let score = 0;
  let anchor = "";
  let heading = "";
  for (const word of words) {
    const match = page.headings.find(([, text]) => text.toLowerCase().includes(word));
    if (page.title.toLowerCase().includes(word)) score += 10;
    else if (match) {
      score += 5;
      [anchor, heading] = match;
    } else if (page.words.toLowerCase().includes(word)) score += 1;
    else return null;
  }
  return { page, score, anchor, heading };
}

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = words.length ? window.pages.map((page) => scorePage(page, words)).filter(Boolean) : [];
  matches.sort((a, b) => b.score - a.score);
  list.replaceChildren(
    ...matches.slice(0, MAX_RESULTS).map(({ page, anchor, heading }) => {
      const link = document.createElement("a");
      link.href = up + page.path + (anchor ? `#${anchor}` : "");
      link.textContent = heading ? `${page.title}: ${heading}` : page.title;
      const item = document.createElement("li");
      item.append(link);
      return item;
    }),
  );
  if (words.length && !matches.length) list.textContent = "nothing found";
}

box.addEventListener("input", search);
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter") list.querySelector("a")?.click();
  if (event.key === "Escape") {
    box.value = "";
    search();
  }
});
