"""Build the documentation site: python docs/build.py FOLDER.

The pages are the Markdown files in docs/, the notebooks, and one reference page per package. The
site works offline. Links are written to .md files, so that the sources can be read on GitHub, too;
a broken link stops the build.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath

from markdown_html import SOURCE_LANGUAGES, Page, highlight_css, is_external, render, resolve_link
from reference import package_page, packages, reference

from workings.web.static_site import write_site

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
NAVIGATION = {
    "Start": ("index", "own-data", "install", "path", "why", "recipes"),
    "Worked problems": (
        "learners",
        "exam-questions",
        "teachers",
        "problem-format",
        "lectures",
        "workbench",
        "site",
    ),
    "Tasks": ("classify", "language", "translate", "caption", "fine-tuning"),
    "Look inside": ("gpt2", "explain", "cells", "classifiers", "gallery"),
    "Notebooks": ("notebooks/problem", "notebooks/library", "notebooks/inside"),
    "Other programs": (
        "interop/index",
        "interop/huggingface",
        "interop/ctranslate2",
        "interop/onnx",
        "interop/bertviz",
        "interop/transformerlens",
        "interop/sklearn",
        "interop/pandas",
        "interop/jupyter",
        "interop/moodle",
    ),
    "Further": ("tracking", "scale", "cluster", "threads"),
    "Develop": ("extending", "design", "decisions"),
}
REFERENCE = "reference/"
STYLE, INDEX = "site.css", "index.js"
TRY_IT = "try"  # the static page, in a folder of its own


class Site:
    """All pages by source file; a reference page has the name of a file that does not exist."""

    def __init__(self) -> None:
        self.pages: dict[Path, Page] = {}
        for name in (name for names in NAVIGATION.values() for name in names):
            source, text = _source(name)
            self.pages[source] = render(text, PurePosixPath(f"{name}.html"))
        texts = {"workings": package_page()} | {name: reference(name) for name in packages()}
        for name, text in texts.items():
            path = PurePosixPath(f"{REFERENCE}{name}.html")
            self.pages[DOCS / f"{REFERENCE}{name}.md"] = render(text, path, trusted=False)
        for file in list(self._linked_files()):
            if file.suffix in SOURCE_LANGUAGES and file.is_file():
                self.pages.setdefault(file, _source_page(file))

    def _linked_files(self) -> Iterator[Path]:
        """Yield every file of the repository that a page links to."""
        for source, page in self.pages.items():
            for address in page.links:
                if not is_external(address):
                    yield resolve_link(address, source)[0]

    def find_errors(self) -> Iterator[str]:
        """Yield every broken link, and every page that is missing from the navigation."""
        for source, page in self.pages.items():
            for address in filter(lambda a: not is_external(a), page.links):
                file, anchor = resolve_link(address, source)
                linked = self.pages.get(file)
                if linked is None and not (file.is_file() and ROOT in file.parents):
                    yield f"{source.relative_to(ROOT)}: {address}: no such file"
                elif linked is not None and anchor and anchor not in linked.anchors:
                    yield f"{source.relative_to(ROOT)}: {address}: no such heading"
        for source in {*DOCS.rglob("*.md"), *DOCS.glob("notebooks/*.ipynb")} - set(self.pages):
            yield f"{source.relative_to(ROOT)}: missing in NAVIGATION of docs/build.py"

    def write(self, folder: Path) -> None:
        """Write the pages, the files they link to, the style, the search index, the page to try."""
        if (folder / INDEX).is_file():  # an earlier build
            shutil.rmtree(folder)
        for page in self.pages.values():
            _write(folder / page.path, self._to_html(page))
        notebooks = {source for source in self.pages if source.suffix == ".ipynb"}
        for file in {*self._linked_files()} - set(self.pages) | notebooks:
            path = folder / _site_path(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, path)
        style = (DOCS / "assets" / STYLE).read_text(encoding="utf-8")
        _write(folder / STYLE, style + highlight_css())
        shutil.copy(DOCS / "assets" / "search.js", folder)
        write_site(folder / TRY_IT)
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

    def _to_html(self, page: Page) -> str:
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
<a class="skip" href="#content">Skip to content</a>
<header>
<a class="name" href="{up}index.html">workings</a>
<a class="try" href="{up}{TRY_IT}/index.html">Try it</a>
<label>Search <input type="search" id="search" autocomplete="off"></label>
<ul id="results" aria-live="polite"></ul>
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

    def _navigation(self, current: Page, up: str) -> str:
        by_name = {str(page.path.with_suffix("")): page for page in self.pages.values()}
        parts = NAVIGATION | {
            "Reference": tuple(f"{REFERENCE}{n}" for n in ("workings", *packages()))
        }
        lines = []
        for title, names in parts.items():
            lines.append(f"<h2>{escape(title)}</h2><ul>")
            for page in map(by_name.__getitem__, names):
                mark = ' aria-current="page"' if page is current else ""
                lines.append(f'<li><a href="{up}{page.path}"{mark}>{escape(page.title)}</a></li>')
            lines.append("</ul>")
        return "\n".join(lines)


def _contents(page: Page) -> str:
    inside = [(anchor, text) for level, anchor, text in page.headings if level == 2]
    if len(inside) < 2:
        return ""
    lines = (f'<li><a href="#{anchor}">{escape(text)}</a></li>' for anchor, text in inside)
    return f"<h2>On this page</h2><ul>{''.join(lines)}</ul>"


def _source(name: str) -> tuple[Path, str]:
    """Return a page's source file and its Markdown; a notebook's cells are joined."""
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
    note = f"This page is the notebook `{path}` without its output. Run it to see the output."
    return notebook, "\n\n".join([texts[0], note, *texts[1:]])


def _source_page(file: Path) -> Page:
    """Return the page of a source file."""
    name, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
    return render(
        f"# {name}\n\n````{SOURCE_LANGUAGES[file.suffix]}\n{text}````\n", _site_path(file, ".html")
    )


def _site_path(file: Path, end: str = "") -> PurePosixPath:
    """Return a file's path on the site: files of docs/ beside the pages, others below files/."""
    inside = file.relative_to(DOCS) if DOCS in file.parents else "files" / file.relative_to(ROOT)
    return PurePosixPath(f"{inside.as_posix()}{end}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Build the site, or print its errors."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.stderr.write("usage: python docs/build.py FOLDER\n")
        return 2
    site = Site()
    if errors := list(site.find_errors()):
        sys.stderr.writelines(f"{error}\n" for error in errors)
        return 1
    folder = Path(sys.argv[1])
    site.write(folder)
    sys.stdout.write(f"{len(site.pages)} pages: open {os.path.relpath(folder / 'index.html')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
