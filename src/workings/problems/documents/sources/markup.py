"""Read HTML (with tables and MathML) and notebooks; nothing is executed or fetched."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from workings.errors import UserError
from workings.problems.documents.sources.base import Place, Source
from workings.problems.documents.sources.programs import Prints, find_prints, name_prints
from workings.problems.documents.sources.text import add_text, stand_at

_BLOCKS = frozenset(
    [
        "p",
        "div",
        "li",
        "ul",
        "ol",
        "section",
        "article",
        "header",
        "footer",
        "blockquote",
        "figure",
        "figcaption",
        "br",
        "hr",
        "dd",
        "dt",
        "dl",
        "main",
        "nav",
        "aside",
        "body",
        "html",
        "form",
        "fieldset",
        "summary",
        "details",
        "center",
        "tr",
        "td",
        "th",
    ]
)
_SKIPPED = frozenset({"script", "style", "head", "template", "noscript", "annotation", "svg"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"]
)
# Formulas drawn for the eye, beside the same formula as MathML or TeX: KaTeX, MathJax.
_PICTURES = frozenset(
    ["katex-html", "MathJax", "MathJax_Preview", "MathJax_Display", "MathJax_SVG"]
)
_MAX_DEPTH = 200
_MAX_CELLS = 10_000


def add_html(source: Source, text: str) -> None:
    """Add an HTML page."""
    reader = _PageReader(source)
    reader.feed(text)
    reader.close()
    reader.end_block()


class _PageReader(HTMLParser):
    """Collects text by block, tables by cell and formulas of MathML as plain notation."""

    def __init__(self, source: Source) -> None:
        super().__init__(convert_charrefs=True)
        self._source = source
        self._text: list[str] = []
        self._line = 1
        self._level = 0
        self._skipped = self._pre = self._hidden = 0
        self._is_tex = False
        self._table: list[list[str]] | None = None
        self._table_line = 1
        self._caption: list[str] | None = None
        self._cell: list[str] | None = None
        self._label = ""
        self._math: list[_MathElement] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden:
            self._hidden += tag not in _VOID
            return
        if tag not in _VOID and _is_picture(tag, dict(attrs)):
            self._hidden = 1
            return
        if tag == "script" and (dict(attrs).get("type") or "").startswith("math/tex"):
            self._is_tex = True
            self.handle_data(r" \( ")
            return
        if self._math or tag == "math":
            if len(self._math) < _MAX_DEPTH:
                self._math.append(_MathElement(tag))
            return
        if tag in _SKIPPED:
            self._skipped += 1
        elif tag in ("sup", "sub"):
            self.handle_data("^{" if tag == "sup" else "_{")
        elif tag == "table":
            self.end_block()
            self._table, self._table_line, self._label = [], self.getpos()[0], ""
        elif self._table is not None and tag == "caption":
            self._caption = []
        elif self._table is not None and tag == "tr":
            self._table.append([])
        elif self._table is not None and tag in ("td", "th"):
            self._end_cell()
            if not self._table:
                self._table.append([])
            self._cell = []
        elif tag == "pre":
            self.end_block()
            self._pre += 1
        elif self._table is None and (tag in _BLOCKS or tag in _HEADINGS):
            self.end_block()
            self._level = _HEADINGS.get(tag, 0)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= tag not in _VOID
            return
        if self._is_tex and tag == "script":
            self.handle_data(r" \) ")
            self._is_tex = False
            return
        if self._math:
            self._end_math(tag)
            return
        if tag in _SKIPPED:
            self._skipped = max(0, self._skipped - 1)
        elif tag in ("sup", "sub"):
            self.handle_data("}")
        elif tag == "caption" and self._caption is not None:
            self._label, self._caption = "".join(self._caption), None
        elif tag in ("td", "th", "tr"):
            self._end_cell()
        elif tag == "table" and self._table is not None:
            self._end_table()
        elif tag == "pre":
            self.end_block()
            self._pre = max(0, self._pre - 1)
        elif self._table is None and (tag in _BLOCKS or tag in _HEADINGS):
            self.end_block()

    def _end_math(self, tag: str) -> None:
        while len(self._math) > 1 and self._math[-1].tag != tag:
            inner = self._math.pop()  # an element that is not closed
            self._math[-1].children.append(inner.to_text())
        element = self._math.pop()
        if self._math:
            self._math[-1].children.append(element.to_text())
        else:
            self.handle_data(rf" \( {element.to_text()} \) ")

    def handle_data(self, data: str) -> None:
        if self._skipped or self._hidden:
            return
        if self._math:
            if self._math[-1].tag not in _SKIPPED:
                self._math[-1].children.append(data.strip())
        elif self._caption is not None:
            self._caption.append(data)
        elif self._cell is not None:
            self._cell.append(data)
        elif self._table is None:
            if not self._text:
                self._line = self.getpos()[0]
                data = data if self._pre else data.lstrip(" \t")
                self._line += len(data) - len(data.lstrip("\n")) if not self._pre else 0
                data = data if self._pre else data.lstrip()
            if data:
                self._text.append(data)

    def end_block(self) -> None:
        """Add the text that has been collected since the last block."""
        text, line = "".join(self._text), self._line
        self._text = []
        if not text.strip():
            return
        if self._level:
            source = Source(grids=self._source.grids)
            add_text(source, " ".join(text.split()), lambda k: line + k)
            self._source.add_line(" ".join(part.text for part in source.lines), line, self._level)
            self._level = 0
        else:
            add_text(self._source, text, lambda k: line + k, is_code=bool(self._pre))

    def _end_cell(self) -> None:
        if self._cell is not None and self._table:
            if sum(map(len, self._table)) < _MAX_CELLS:
                self._table[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None

    def _end_table(self) -> None:
        self._end_cell()
        cells, self._table = self._table or [], None
        line = self._table_line
        label = re.sub(r"[:=\s]+$", "", " ".join(self._label.split()))
        parts = Source(grids=self._source.grids)
        parts.add_table([row for row in cells if row], line)
        for part in parts.lines:
            text = f"{label} = {part.text}" if label and "=" not in part.text else part.text
            add_plain_line(self._source, text, line)


def _is_picture(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Return True for an element that only draws a formula which the page has as text, too."""
    classes = (attributes.get("class") or "").split()
    return tag == "mjx-math" or (tag != "mjx-container" and not _PICTURES.isdisjoint(classes))


def add_plain_line(source: Source, text: str, place: Place) -> None:
    """Add a line that may have markup and marks of grids."""
    from workings.problems.documents.sources.plain import normalize_characters, to_plain

    marks = re.findall("\ue000\\d+\ue001", text)
    for part in marks:
        text = text.replace(part, f"GRIDMARK{part[1:-1]}GRIDEND")
    text = to_plain(normalize_characters(text))
    for part in marks:
        text = text.replace(f"GRIDMARK{part[1:-1]}GRIDEND", part)
    source.add_line(text, place)


class _MathElement:
    """An element of MathML with the plain notation of its children."""

    def __init__(self, tag: str) -> None:
        self.tag, self.children = tag, list[str]()

    def to_text(self) -> str:
        """Return the plain notation; a table becomes LaTeX, which later stages read."""
        parts = [child for child in self.children if child]
        tag = self.tag
        if tag == "mtd":
            return " ".join(parts) + "\x02"
        if tag == "mtr":
            return " & ".join(p.rstrip("\x02") for p in parts) + "\x03"
        if tag == "mtable":
            rows = [part.rstrip("\x03") for part in parts]
            return r"\begin{matrix}" + r" \\ ".join(rows) + r"\end{matrix}"
        if tag == "mfenced":
            return (
                "(" + ", ".join(parts) + ")" if not any("\\begin" in p for p in parts) else parts[0]
            )
        if tag == "mfrac" and len(parts) == 2:
            return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
        if tag == "msqrt":
            return rf"\sqrt{{{' '.join(parts)}}}"
        if tag in ("msup", "msub") and len(parts) == 2:
            return f"{parts[0]}{'^' if tag == 'msup' else '_'}{{{parts[1]}}}"
        if tag == "msubsup" and len(parts) == 3:
            return f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}}"
        if tag == "mover" and len(parts) == 2:
            accents = {"~": "tilde", "˜": "tilde", "^": "hat", "ˆ": "hat", "¯": "bar"}
            return rf"\{accents[parts[1]]}{{{parts[0]}}}" if parts[1] in accents else parts[0]
        if tag == "mo" and parts and parts[0] in "[]()|":
            return parts[0]
        return " ".join(parts)


def add_notebook(source: Source, text: str) -> None:
    """Add the cells and outputs of a notebook (`.ipynb`)."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("not a notebook: it is not valid JSON") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UserError("not a notebook: it has no cells")
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            continue
        place = f"cell {number}"
        code = _join(cell.get("source"))
        if cell.get("cell_type") == "markdown":
            add_text(source, code, stand_at(place))
        elif cell.get("cell_type") == "code":
            prints, outputs = find_prints(code), cell.get("outputs")
            kept = [
                line
                for k, line in enumerate(code.split("\n"))
                if k not in prints.lines and not line.startswith(("%", "!"))
            ]  # what is printed says the same with numbers
            add_text(source, "\n".join(kept), stand_at(place), is_code=True)
            _add_outputs(source, prints, outputs if isinstance(outputs, list) else [], place)
        source.add_line("", place)


def _add_outputs(source: Source, prints: Prints, outputs: list[Any], place: str) -> None:
    for output in outputs:
        data = output.get("data") if isinstance(output, dict) else None
        if isinstance(output, dict) and output.get("output_type") == "stream":
            text = name_prints(_join(output.get("text")), prints.printed)
        elif isinstance(data, dict):
            text = _join(data.get("text/plain"))
            named = name_prints(text, prints.last)
            is_frame = named == text and len(prints.last) == 1 and prints.last[0]
            text = f"{prints.last[0]} =\n{text}" if is_frame else named
        else:
            continue
        add_text(source, text, stand_at(place), is_code=True)


def _join(value: Any) -> str:
    """Return a multi-line string of a notebook, which may be a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
