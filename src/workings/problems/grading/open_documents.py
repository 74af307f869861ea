r"""Read documents of LibreOffice (.odt, .ods), Word and rich text (.rtf) into text and tables.

Only text and cells are taken: macros, links and embedded objects are never looked at.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from xml.etree.ElementTree import Element

from workings.errors import UserError
from workings.problems.documents.sources.office import Archive, format_paragraph
from workings.problems.grading.answer_text import FileAnswers
from workings.problems.grading.grid_answers import parse_worksheets
from workings.problems.grading.marking import SheetProblem
from workings.problems.grading.table_texts import is_blank_mark

SPREADSHEET_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
_TYPE_PREFIX = "application/vnd.oasis.opendocument."
_MAX_REPEATED = 300  # columns; a sheet ends with thousands of empty ones
_RTF = re.compile(
    r"\\'(?P<hex>[0-9a-fA-F]{2})|\\u(?P<code>-?\d+) ?\??|\\(?P<word>[a-z]+)(?P<argument>-?\d+)? ?"
    r"|\\(?P<symbol>[^a-z])|(?P<brace>[{}])|(?P<line>[\r\n]+)|(?P<text>[^\\{}\r\n]+)"
)
_RTF_IGNORED = (
    "fonttbl",
    "colortbl",
    "stylesheet",
    "info",
    "pict",
    "header",
    "footer",
    "listtable",
)
_RTF_BREAKS = {"par": "\n", "line": "\n", "row": "\n", "tab": "\t", "cell": "\t"}


def read_open_document_type(content: bytes) -> str | None:
    """Return the type of an OpenDocument file; None for any other archive."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive, archive.open("mimetype") as file:
            kind = file.read(200).decode("ascii", "replace").strip()
    except (zipfile.BadZipFile, KeyError, OSError, RuntimeError, NotImplementedError, ValueError):
        return None
    return kind if kind.startswith(_TYPE_PREFIX) else None


def read_open_spreadsheet(
    content: bytes, problems: Sequence[SheetProblem], name: str | None
) -> FileAnswers:
    """Read every table of an .ods file; a table may be named after its problem."""
    sheets = []
    for table in _read_body(content).iter():
        if _tag(table) == "table":
            title = _get(table, "name")
            rows = [row for row in table.iter() if _tag(row) == "table-row"]
            sheets.append((title, [_read_row(row) for row in rows]))
    return parse_worksheets(sheets, problems, name)


def read_open_text(content: bytes) -> str:
    """Return the text of an .odt file; a table is a list of its rows."""
    return "\n".join(_list_lines(_read_body(content)))


def read_word_text(content: bytes) -> str:
    """Return the text of a Word document as it was typed; the rows of a table are lines."""
    root = Archive(content).read_xml("word/document.xml")
    if root is None:
        raise UserError("not a Word file: it has no word/document.xml")
    return "\n".join(_list_word_lines(root))


def _list_word_lines(element: Element) -> Iterator[str]:
    for child in element:
        tag = _tag(child)
        if tag == "p":
            yield format_paragraph(child)
        elif tag == "tr":
            cells = (e for e in child if _tag(e) == "tc")
            yield f"| {' | '.join(' '.join(_list_word_lines(cell)) for cell in cells)} |"
        else:
            yield from _list_word_lines(child)


def _read_body(content: bytes) -> Element:
    root = Archive(content).read_xml("content.xml")
    if root is None:
        raise UserError("not a document that can be read: it has no content.xml")
    return root


def _list_lines(element: Element) -> Iterator[str]:
    for child in element:
        if _tag(child) in ("p", "h"):
            yield "".join(_list_texts(child))
        elif _tag(child) == "table":
            rows = [_read_row(row) for row in child.iter() if _tag(row) == "table-row"]
            yield (
                "["
                + ", ".join(
                    f"[{', '.join('?' if is_blank_mark(cell) else cell for cell in row)}]"
                    for row in rows
                )
                + "]"
            )
        else:
            yield from _list_lines(child)


def _list_texts(element: Element) -> Iterator[str]:
    """Yield the pieces of a paragraph; spaces, tabs and line breaks are elements."""
    yield element.text or ""
    for child in element:
        tag = _tag(child)
        if tag in ("s", "tab", "line-break"):
            yield {"s": " ", "tab": "\t", "line-break": "\n"}[tag]
        elif tag != "annotation":
            yield from _list_texts(child)
        yield child.tail or ""


def _read_row(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if _tag(cell) in ("table-cell", "covered-table-cell"):
            text = "\n".join("".join(_list_texts(p)) for p in cell if _tag(p) == "p").strip()
            value = _get(cell, "value")
            repeated = _get(cell, "number-columns-repeated")
            count = min(int(repeated), _MAX_REPEATED) if repeated.isdecimal() else 1
            # The value has all digits; what is shown may be rounded.
            cells += [value or text] * count
    return cells


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _get(element: Element, name: str) -> str:
    return next((v for key, v in element.attrib.items() if key.rpartition("}")[2] == name), "")


def strip_rich_text(text: str) -> str:
    r"""Return the text of a rich text file without its formatting.

    >>> strip_rich_text(r"{\rtf1\ansi{\fonttbl\f0 Arial;}\f0 Q = [[1, \u8722?2]]\par K}")
    'Q = [[1, −2]]\nK'
    """
    pieces: list[str] = []
    depth = ignored = 0  # the depth of the group that is ignored
    for match in _RTF.finditer(text):
        if match["brace"]:
            depth += 1 if match["brace"] == "{" else -1
            ignored = 0 if depth < ignored else ignored
        elif match["symbol"] == "*" or match["word"] in _RTF_IGNORED:
            ignored = ignored or depth
        elif not ignored:
            pieces.append(_read_rtf_piece(match))
    return "".join(pieces)


def _read_rtf_piece(match: re.Match[str]) -> str:
    if match["hex"]:
        return bytes.fromhex(match["hex"]).decode("cp1252", "replace")
    if match["code"]:
        return chr(int(match["code"]) % 0x10000)
    if match["symbol"]:
        return {"\n": "\n", "\r": "\n", "~": " "}.get(match["symbol"], match["symbol"])
    return match["text"] or _RTF_BREAKS.get(match["word"] or "", "")
