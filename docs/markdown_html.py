"""Convert Markdown pages to HTML: anchors for headings, highlighted code, links within the site."""

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

# Source files get their own page, because browsers may download instead of show them.
SOURCE_LANGUAGES = {".py": "python", ".toml": "toml", ".tex": "latex"}


@dataclass
class Page:
    """A page of the site, without header and navigation."""

    path: PurePosixPath
    """relative to the site's root, ending in .html"""
    title: str
    body: str
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    """level, anchor and text"""
    links: list[str] = field(default_factory=list)
    """link targets as they are written in the source"""
    words: str = ""
    """its text, for the search"""

    @property
    def anchors(self) -> set[str]:
        return {anchor for _, anchor, _ in self.headings}


def render(text: str, path: PurePosixPath, *, trusted: bool = True) -> Page:
    """Render a page. HTML in an untrusted source is escaped."""
    parser = MarkdownIt("commonmark", {"html": trusted, "highlight": highlight_code}).enable(
        "table"
    )
    tokens = parser.parse(text)
    page = Page(path, path.stem, "")
    for heading, inside in _headings(tokens):
        anchor = make_unique(slug(to_plain_text(inside)), page.anchors)
        heading.attrSet("id", anchor)
        page.headings.append((int(heading.tag[1]), anchor, to_plain_text(inside)))
    for token in _walk(tokens):
        for name in ("href", "src"):
            if address := token.attrGet(name):
                page.links.append(str(address))
                token.attrSet(name, _to_site_link(str(address), path))
    page.title = next((text for level, _, text in page.headings if level == 1), page.title)
    page.words = " ".join(to_plain_text(t) for t in tokens if t.type == "inline")
    # Wide tables and pictures scroll within their own box, not the page.
    body = re.sub(
        r"<table>.*?</table>",
        r'<div class="wide" tabindex="0">\g<0></div>',
        parser.renderer.render(tokens, parser.options, {}),
        flags=re.DOTALL,
    )
    # A picture links to itself, to be seen at its own size.
    page.body = re.sub(
        r'<p>(<img src="([^"]*)"[^>]*>)</p>', r'<p class="wide"><a href="\2">\1</a></p>', body
    )
    return page


def slug(heading: str) -> str:
    """Return the anchor of a heading by GitHub's rules, so that links work on both.

    >>> slug("RNNs, and why: a `tap`")
    'rnns-and-why-a-tap'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def make_unique(anchor: str, taken: set[str]) -> str:
    """Append a number to an anchor that is already taken."""
    if anchor not in taken:
        return anchor
    return next(name for k in range(1, 10_000) if (name := f"{anchor}-{k}") not in taken)


def to_plain_text(token: Token) -> str:
    """Return the text of a heading or paragraph, without markup."""
    children = (c for c in token.children or () if c.type in ("text", "code_inline", "softbreak"))
    return "".join(" " if child.type == "softbreak" else child.content for child in children)


_get_lexer = cache(get_lexer_by_name)
_FORMATTER = HtmlFormatter(wrapcode=True)


@cache
def highlight_code(code: str, language: str, attributes: str = "") -> str:
    """Return highlighted code, or plain code in an unknown language."""
    try:
        lexer = _get_lexer({"sh": "bash"}.get(language, language))
    except ClassNotFound:
        return f'<pre tabindex="0"><code>{escape(code)}</code></pre>'
    # The file name goes inside <pre>: markdown-it wraps other output in a second <pre>.
    title = f'<span class="file">{escape(attributes)}</span>' if attributes else ""
    return (
        highlight(code, lexer, _FORMATTER)
        .replace('<div class="highlight"><pre>', f'<pre class="highlight" tabindex="0">{title}')
        .replace("</pre></div>", "</pre>")
    )


def highlight_css() -> str:
    """Return the CSS rules of highlighted code, for light and dark color schemes."""
    light = HtmlFormatter(style="vs").get_style_defs("pre.highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre.highlight")
    rules = [
        "\n".join(line for line in styles.splitlines() if line.startswith("pre.highlight ."))
        for styles in (light, dark)
    ]
    return f"{rules[0]}\n@media (prefers-color-scheme: dark) {{\n{rules[1]}\n}}\n"


def is_external(address: str) -> bool:
    """Return True if a link leads out of the repository."""
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def resolve_link(address: str, page: Path) -> tuple[Path, str]:
    """Return the file and the anchor that a link of a page leads to."""
    parts = urlsplit(address)
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
    return file, unquote(parts.fragment)


def _to_site_link(address: str, page: PurePosixPath) -> str:
    """Turn a link between sources into one between pages; files outside docs/ are below files/."""
    if is_external(address) or address.startswith("#"):
        return address
    inside = posixpath.normpath(page.parent / address)
    if inside.startswith("../"):
        inside = f"files/{inside.removeprefix('../')}"
    else:
        inside = re.sub(r"\.(md|ipynb)(?=#|$)", ".html", inside)
    if PurePosixPath(inside).suffix in SOURCE_LANGUAGES:
        inside += ".html"
    return "../" * (len(page.parts) - 1) + inside


def _headings(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    for token, inside in pairwise(tokens):
        if token.type == "heading_open":
            yield token, inside


def _walk(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _walk(token.children or [])
