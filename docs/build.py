"""Build the site: python docs/build.py FOLDER. Offline, and every link in it leads somewhere.

Pages are docs/*.md, the notebooks, and a page of reference for each room. Links are written as on
GitHub, to .md files, so that the sources can be read there, too.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath

from reference import front, reference, packages
from rendered import SHOWN, Rendered, colours, is_elsewhere, render, target

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
NAVIGATION = {
    "Begin": ("index", "path", "why", "recipes"),
    "Worked problems": ("learners", "teachers", "problem-format", "lectures", "workbench"),
    "Tasks": ("classify", "language", "translate", "caption"),
    "Looking inside": ("explain", "cells", "classifiers"),
    "Notebooks": ("notebooks/problem", "notebooks/inside"),
    "Further": ("hub", "cluster", "threads"),
    "Take part": ("extending", "design"),
}
REFERENCE = "reference/"
STYLE, INDEX = "site.css", "index.js"


class Site:
    """All pages, by their source: a file, or what a page of the reference would be called."""

    def __init__(self) -> None:
        self.pages: dict[Path, Rendered] = {}
        for name in (name for names in NAVIGATION.values() for name in names):
            source, text = _source(name)
            self.pages[source] = render(text, PurePosixPath(f"{name}.html"))
        texts = {"workings": front()} | {room: reference(room) for room in packages()}
        for name, text in texts.items():
            path = PurePosixPath(f"{REFERENCE}{name}.html")
            self.pages[DOCS / f"{REFERENCE}{name}.md"] = render(text, path, trusted=False)
        for file in [file for file in self._linked() if file.suffix in SHOWN and file.is_file()]:
            self.pages.setdefault(file, _shown(file))

    def _linked(self) -> Iterator[Path]:
        """Every file of the repository that some page leads to."""
        for source, page in self.pages.items():
            for address in page.links:
                if not is_elsewhere(address):
                    yield target(address, source)[0]

    def faults(self) -> Iterator[str]:
        """Tell every link that leads nowhere, and every page that the navigation has forgotten."""
        for source, page in self.pages.items():
            for address in filter(lambda a: not is_elsewhere(a), page.links):
                file, anchor = target(address, source)
                there = self.pages.get(file)
                if there is None and not (file.is_file() and ROOT in file.parents):
                    yield f"{source.relative_to(ROOT)}: {address}: there is no such file"
                elif there is not None and anchor and anchor not in there.anchors:
                    yield f"{source.relative_to(ROOT)}: {address}: no such heading"
        for source in {*DOCS.glob("*.md"), *DOCS.glob("notebooks/*.ipynb")} - set(self.pages):
            yield f"{source.relative_to(ROOT)}: in no part of NAVIGATION (docs/build.py)"

    def write(self, folder: Path) -> None:
        """Write pages, what they link to, the look and the index of the search."""
        if (folder / INDEX).is_file():  # a site of before
            shutil.rmtree(folder)
        for page in self.pages.values():
            _write(folder / page.path, self._framed(page))
        notebooks = {source for source in self.pages if source.suffix == ".ipynb"}
        for file in {*self._linked()} - set(self.pages) | notebooks:
            path = folder / _place(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, path)
        style = (DOCS / "look" / STYLE).read_text(encoding="utf-8")
        _write(folder / STYLE, style + colours())
        shutil.copy(DOCS / "look" / "search.js", folder)
        _write(folder / INDEX, f"window.pages = {json.dumps(list(self._index()))};\n")

    def _index(self) -> Iterator[dict[str, object]]:
        for page in self.pages.values():
            headings = [[anchor, text] for _, anchor, text in page.headings]
            yield {
                "path": str(page.path),
                "title": page.title,
                "headings": headings,
                "words": page.words,
            }

    def _framed(self, page: Rendered) -> str:
        up = "../" * (len(page.path.parts) - 1)
        return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)} · workings</title>
<link rel="stylesheet" href="{up}{STYLE}">
</head>
<body data-up="{up}">
<a class="skip" href="#content">To the text</a>
<header>
<a class="name" href="{up}index.html">workings</a>
<label>Search <input type="search" id="search" autocomplete="off"></label>
<ul id="found" aria-live="polite"></ul>
</header>
<details class="menu"><summary>Pages</summary></details>
<nav aria-label="Pages">{self._navigation(page, up)}</nav>
<main id="content">
{page.body}
</main>
<aside aria-label="On this page">{_contents(page)}</aside>
<script src="{up}index.js"></script>
<script src="{up}search.js"></script>
</body>
</html>
"""

    def _navigation(self, current: Rendered, up: str) -> str:
        by_name = {str(page.path.with_suffix("")): page for page in self.pages.values()}
        parts = NAVIGATION | {
            "Reference": tuple(f"{REFERENCE}{n}" for n in ("workings", *packages()))
        }
        lines = []
        for title, names in parts.items():
            lines.append(f"<h2>{escape(title)}</h2><ul>")
            for page in map(by_name.__getitem__, names):
                here = ' aria-current="page"' if page is current else ""
                lines.append(f'<li><a href="{up}{page.path}"{here}>{escape(page.title)}</a></li>')
            lines.append("</ul>")
        return "\n".join(lines)


def _contents(page: Rendered) -> str:
    inside = [(anchor, text) for level, anchor, text in page.headings if level == 2]
    if len(inside) < 2:
        return ""
    lines = (f'<li><a href="#{anchor}">{escape(text)}</a></li>' for anchor, text in inside)
    return f"<h2>On this page</h2><ul>{''.join(lines)}</ul>"


def _source(name: str) -> tuple[Path, str]:
    """Find a page's source, and its Markdown: of a notebook, its cells one after the other."""
    notebook = DOCS / f"{name}.ipynb"
    if not notebook.is_file():
        page = DOCS / f"{name}.md"
        return page, page.read_text(encoding="utf-8")
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = [
        "".join(cell["source"])
        if cell["cell_type"] == "markdown"
        else f"```python\n{''.join(cell['source'])}\n```"
        for cell in cells
    ]
    path = f"docs/{name}.ipynb"
    told = f"This page is the notebook `{path}`, without what its cells print: run it to see that."
    return notebook, "\n\n".join([texts[0], told, *texts[1:]])


def _shown(file: Path) -> Rendered:
    """Make a page of a file of code."""
    name, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
    return render(f"# {name}\n\n````{SHOWN[file.suffix]}\n{text}````\n", _place(file, ".html"))


def _place(file: Path, end: str = "") -> PurePosixPath:
    """Say where a file goes: of docs/ beside the pages, others below files/."""
    inside = file.relative_to(DOCS) if DOCS in file.parents else "files" / file.relative_to(ROOT)
    return PurePosixPath(f"{inside.as_posix()}{end}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Build, unless something is not as it should be."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.stderr.write("usage: python docs/build.py FOLDER\n")
        return 2
    site = Site()
    if faults := list(site.faults()):
        sys.stderr.writelines(f"{fault}\n" for fault in faults)
        return 1
    folder = Path(sys.argv[1])
    site.write(folder)
    sys.stdout.write(f"{len(site.pages)} pages: open {os.path.relpath(folder / 'index.html')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
