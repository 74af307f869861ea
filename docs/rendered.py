"""Markdown pages as HTML: headings to link to, coloured code, links to where the site has it."""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

# Files that get a page of their own, since a browser may not show them.
SHOWN = {".py": "python", ".toml": "toml", ".tex": "latex"}


@dataclass
class Rendered:
    """A page of the site, before it stands in its frame."""

    path: PurePosixPath
    """where it stands below the site's root, ending in .html"""
    title: str
    body: str
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    """level, anchor and text"""
    links: list[str] = field(default_factory=list)
    """what it leads to: addresses in the source's own terms"""
    words: str = ""
    """its text, for the search"""

    @property
    def anchors(self) -> set[str]:
        return {anchor for _, anchor, _ in self.headings}


def render(text: str, path: PurePosixPath, *, trusted: bool = True) -> Rendered:
    """Render a page. Of a source that is not trusted, what looks like HTML is shown as text."""
    parser = MarkdownIt("commonmark", {"html": trusted, "highlight": coloured}).enable("table")
    tokens = parser.parse(text)
    page = Rendered(path, path.stem, "")
    for heading, inside in _headings(tokens):
        anchor = unused(slug(plain(inside)), page.anchors)
        heading.attrSet("id", anchor)
        page.headings.append((int(heading.tag[1]), anchor, plain(inside)))
    for token in _all(tokens):
        for name in ("href", "src"):
            if address := token.attrGet(name):
                page.links.append(str(address))
                token.attrSet(name, _on_site(str(address), path))
    page.title = next((text for level, _, text in page.headings if level == 1), page.title)
    page.words = " ".join(plain(t) for t in tokens if t.type == "inline")
    # Wide tables and pictures scroll by themselves; the page never does.
    body = re.sub(
        r"<table>.*?</table>",
        r'<div class="wide" tabindex="0">\g<0></div>',
        parser.renderer.render(tokens, parser.options, {}),
        flags=re.DOTALL,
    )
    # A picture is drawn at its own size once one follows it.
    page.body = re.sub(
        r'<p>(<img src="([^"]*)"[^>]*>)</p>', r'<p class="wide"><a href="\2">\1</a></p>', body
    )
    return page


def slug(heading: str) -> str:
    """Make an anchor of a heading, as GitHub does, so that links serve there and here.

    >>> slug("RNNs, and why: a `tap`")
    'rnns-and-why-a-tap'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def unused(anchor: str, taken: set[str]) -> str:
    """Number an anchor that is there already."""
    if anchor not in taken:
        return anchor
    return next(name for k in range(1, 10_000) if (name := f"{anchor}-{k}") not in taken)


def plain(token: Token) -> str:
    """Give the text of a heading or a paragraph, without its marks."""
    seen = (c for c in token.children or () if c.type in ("text", "code_inline", "softbreak"))
    return "".join(" " if child.type == "softbreak" else child.content for child in seen)


@cache
def coloured(code: str, language: str, attributes: str = "") -> str:
    """Colour code; commands by what they are, everything unknown not at all."""
    try:
        lexer = get_lexer_by_name({"sh": "bash"}.get(language, language))
    except ClassNotFound:
        return f'<pre tabindex="0"><code>{escape(code)}</code></pre>'
    # The name goes inside: markdown-it wraps output that does not begin with <pre in a second one.
    title = f'<span class="file">{escape(attributes)}</span>' if attributes else ""
    return (
        highlight(code, lexer, HtmlFormatter(wrapcode=True))
        .replace('<div class="highlight"><pre>', f'<pre class="highlight" tabindex="0">{title}')
        .replace("</pre></div>", "</pre>")
    )


def colours() -> str:
    """Write the rules for coloured code, by day and by night."""
    day = HtmlFormatter(style="vs").get_style_defs("pre.highlight")
    night = HtmlFormatter(style="github-dark").get_style_defs("pre.highlight")
    keep = [
        "\n".join(line for line in rules.splitlines() if line.startswith("pre.highlight ."))
        for rules in (day, night)
    ]
    return f"{keep[0]}\n@media (prefers-color-scheme: dark) {{\n{keep[1]}\n}}\n"


def is_elsewhere(address: str) -> bool:
    """Whether an address leads out of the repository."""
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def target(address: str, page: Path) -> tuple[Path, str]:
    """Find the file that a page's link means, and the anchor in it."""
    parts = urlsplit(address)
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
    return file, unquote(parts.fragment)


def _on_site(address: str, page: PurePosixPath) -> str:
    """Turn a link to a page's source into one to the page; what is not of docs/ is below files/."""
    if is_elsewhere(address) or address.startswith("#"):
        return address
    inside = posixpath.normpath(page.parent / address)
    if inside.startswith("../"):
        inside = f"files/{inside.removeprefix('../')}"
    else:
        inside = re.sub(r"\.(md|ipynb)(?=#|$)", ".html", inside)
    if PurePosixPath(inside).suffix in SHOWN:
        inside += ".html"
    return "../" * (len(page.parts) - 1) + inside


def _headings(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    for token, inside in pairwise(tokens):
        if token.type == "heading_open":
            yield token, inside


def _all(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or [])
