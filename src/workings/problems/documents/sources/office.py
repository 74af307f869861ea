"""Read Word, PowerPoint and Excel files as data: text, tables, Office math and numbers.

The files are ZIP archives of XML. Entities are refused, and sizes are checked before anything is
unpacked; macros, links and embedded objects are never looked at.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias
from xml.etree import ElementTree

from workings.errors import UserError
from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources.array_prints import pad_decimals
from workings.problems.documents.sources.base import Grid, Place, Source
from workings.problems.documents.sources.markup import add_plain_line
from workings.problems.documents.sources.tables import find_table_parts
from workings.problems.documents.sources.text import add_text, stand_at

_MAX_MEMBERS = 5_000
_MAX_MEMBER_BYTES = 40_000_000
_MAX_TOTAL_BYTES = 120_000_000
_MAX_DEPTH = 300
_MAX_SLIDES = 1_000
_MAX_ROWS, _MAX_COLUMNS = 5_000, 300
_DECIMAL_FORMATS = {1: 0, 2: 2, 3: 0, 4: 2}
_PERCENT_FORMATS = {9: 0, 10: 2}
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")


_CAPTION = re.compile(r"\s*(?:Table|Tabelle|Tableau|Tabla|Tabella|表)\s*\d+\s*[:.–-]\s*", re.I)


class Archive:
    """A ZIP archive with limits on what it unpacks."""

    def __init__(self, content: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
            members = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError):
            raise UserError("not a readable Office file: the ZIP archive is damaged") from None
        sizes = [member.file_size for member in members]
        if len(members) > _MAX_MEMBERS or sum(sizes) > _MAX_TOTAL_BYTES:
            raise UserError(f"an archive of {sum(sizes):,} bytes: at most {_MAX_TOTAL_BYTES:,}")
        self.names = [member.filename for member in members]

    def read_xml(self, name: str) -> ElementTree.Element | None:
        """Return the root of an XML member; None if there is none of this name."""
        if name not in self.names:
            return None
        try:
            with self._zip.open(name) as file:
                content = file.read(_MAX_MEMBER_BYTES + 1)
        except (
            zipfile.BadZipFile,
            OSError,
            ValueError,
            RuntimeError,
            NotImplementedError,
            EOFError,
        ):
            raise UserError(f"{name} is damaged") from None
        except Exception as error:  # zlib.error, lzma.LZMAError
            raise UserError(f"{name} is damaged: {error}") from None
        if len(content) > _MAX_MEMBER_BYTES:
            raise UserError(f"{name} is larger than {_MAX_MEMBER_BYTES:,} bytes")
        return parse_xml(content, name)


def parse_xml(content: bytes, name: str) -> ElementTree.Element:
    """Parse XML without entities and not deeper than a document is."""
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content or b"\x00" in content[:200]:
        raise UserError(f"{name} has a document type or entities, which are not read")
    depth = 0
    root: ElementTree.Element | None = None
    try:
        for event, element in ElementTree.iterparse(io.BytesIO(content), events=("start", "end")):  # noqa: S314 - no entities
            root = element if root is None else root
            depth += 1 if event == "start" else -1
            if depth > _MAX_DEPTH:
                raise UserError(f"{name} is nested deeper than {_MAX_DEPTH} elements")
    except ElementTree.ParseError:
        raise UserError(f"{name} is not valid XML") from None
    if root is None:
        raise UserError(f"{name} is empty")
    return root


def add_slides(source: Source, content: bytes) -> None:
    """Add the slides of a `.pptx` file, in the order of the presentation."""
    archive = Archive(content)
    for number, name in enumerate(_list_slides(archive), start=1):
        root = archive.read_xml(name)
        if root is None or number > _MAX_SLIDES:
            continue
        place = f"slide {number}"
        source.add_line("", place, 2)
        shapes = list(_find_shapes(root))
        for _, _, shape in _put_labels_first(sorted(shapes, key=lambda item: item[:2])):
            _add_shape(source, shape, place)


def _list_slides(archive: Archive) -> list[str]:
    """Return the names of the slides in the order that the presentation has them."""
    numbered = sorted(
        (int(match[1]), name)
        for name in archive.names
        if (match := re.fullmatch(r"ppt/slides/slide(\d{1,5})\.xml", name))
    )
    names = [name for _, name in numbered]
    presentation = archive.read_xml("ppt/presentation.xml")
    relations = archive.read_xml("ppt/_rels/presentation.xml.rels")
    if presentation is None or relations is None:
        return names
    targets = {item.get("Id"): f"ppt/{item.get('Target', '')}" for item in relations}
    listed = []
    for item in presentation.iter():
        if _tag(item) == "sldId":
            identifier = next((v for k, v in item.attrib.items() if k.endswith("}id")), "")
            listed.append(targets.get(identifier, ""))
    return [name for name in listed if name in names] or names


def _find_shapes(root: ElementTree.Element) -> Iterator["Shape"]:
    """Yield the shapes with text or a table, with their position: top, then left."""
    for order, shape in enumerate(e for e in root.iter() if _tag(e) in ("sp", "graphicFrame")):
        offset = next((e for e in shape.iter() if _tag(e) == "off"), None)
        is_title = any(_tag(e) == "ph" and "itle" in e.get("type", "") for e in shape.iter())
        top = -1 if is_title else _to_int(offset.get("y") if offset is not None else None, 0)
        left = _to_int(offset.get("x") if offset is not None else None, 0)
        yield top // 300_000, left if offset is not None else order, shape


Shape: TypeAlias = tuple[int, int, ElementTree.Element]


def _put_labels_first(shapes: Sequence[Shape]) -> Iterator[Shape]:
    """Yield the shapes with each label of a row of tables right before the table under it."""
    bands = [list(band) for _, band in groupby(shapes, key=lambda shape: shape[0])]
    while bands:
        band = bands.pop(0)
        tables = bands[0] if bands else []
        is_labeled = len(band) == len(tables) > 1 and not any(map(_has_table, band))
        if is_labeled and all(map(_has_table, tables)):
            bands.pop(0)
            yield from (shape for pair in zip(band, tables, strict=True) for shape in pair)
        else:
            yield from band


def _has_table(shape: Shape) -> bool:
    return any(_tag(element) == "tbl" for element in shape[2].iter())


def _to_int(text: str | None, default: int) -> int:
    try:
        return int(text or "")
    except ValueError:
        return default


def _add_shape(source: Source, shape: ElementTree.Element, place: str) -> None:
    table = next((e for e in shape.iter() if _tag(e) == "tbl"), None)
    if table is not None:
        _add_table(source, table, place)
        return
    for paragraph in (e for e in shape.iter() if _tag(e) == "p"):
        add_text(source, format_paragraph(paragraph), stand_at(place))


def _add_table(source: Source, table: ElementTree.Element, place: str) -> None:
    rows = [
        [
            " ".join(format_paragraph(p) for p in cell.iter() if _tag(p) == "p").strip()
            for cell in row
            if _tag(cell) == "tc"
        ]
        for row in table.iter()
        if _tag(row) == "tr"
    ]
    parts = Source(grids=source.grids)
    parts.add_table([row for row in rows if row], place)
    for part in parts.lines:
        add_plain_line(source, part.text, place)


def add_word(source: Source, content: bytes) -> None:
    """Add a `.docx` file: paragraphs, headings, tables and formulas."""
    root = Archive(content).read_xml("word/document.xml")
    if root is None:
        raise UserError("not a Word file: it has no word/document.xml")
    body = next((e for e in root if _tag(e) == "body"), root)
    for number, element in _put_captions_first(list(_list_blocks(body))):
        place = f"paragraph {number}"
        if _tag(element) == "tbl":
            _add_table(source, element, place)
            continue
        style = next((e for e in element.iter() if _tag(e) == "pStyle"), None)
        name = (
            next((v for k, v in style.attrib.items() if k.endswith("val")), "")
            if style is not None
            else ""
        )
        text = _CAPTION.sub("", format_paragraph(element))
        if (
            re.match(r"(?:heading|title|berschrift|Titre)", name, re.IGNORECASE)
            or "berschrift" in name
        ):
            source.add_line(text, place, 2)
        else:
            add_text(source, text, stand_at(place))


def _put_captions_first(
    blocks: list[ElementTree.Element],
) -> list[tuple[int, ElementTree.Element]]:
    """Return the numbered blocks of a document with the caption of each table before it.

    In a document whose first table has its caption below, the others have so, too.
    """
    numbered = list(enumerate(blocks, start=1))
    is_caption = [
        _tag(e) == "p" and _CAPTION.match(format_paragraph(e)) is not None for e in blocks
    ]
    first = next((k for k, e in enumerate(blocks) if _tag(e) == "tbl"), None)
    if first is None or (first and is_caption[first - 1]):
        return numbered
    for k in range(len(blocks) - 1):
        if _tag(blocks[k]) == "tbl" and is_caption[k + 1]:
            numbered[k : k + 2] = [numbered[k + 1], numbered[k]]
    return numbered


def _list_blocks(body: ElementTree.Element) -> Iterator[ElementTree.Element]:
    for element in body:
        if _tag(element) in ("p", "tbl"):
            yield element
        elif _tag(element) in ("sdt", "sdtContent", "ins", "section"):
            yield from _list_blocks(element)


def format_paragraph(paragraph: ElementTree.Element) -> str:
    """Return the text of a paragraph; formulas of Office math become LaTeX."""
    return "".join(_format_runs(paragraph))


def _format_runs(element: ElementTree.Element) -> Iterator[str]:
    for child in element:
        tag = _tag(child)
        if tag == "t":
            yield child.text or ""
        elif tag in ("br", "cr"):
            yield "\n"
        elif tag == "tab":
            yield "  "
        elif tag in ("oMath", "oMathPara"):
            yield f" {_format_math(child)} "
        elif tag == "r":
            yield from _format_run(child)
        elif tag not in ("pPr", "rPr", "del", "Fallback", "instrText", "tbl"):
            yield from _format_runs(child)


def _format_run(run: ElementTree.Element) -> Iterator[str]:
    """Yield the text of a run; raised and lowered text with ^ and _."""
    mark = ""
    for item in run.iter():
        if _tag(item) == "vertAlign":
            value = next(iter(item.attrib.values()), "")
            mark = {"superscript": "^", "subscript": "_"}.get(value, "")
        elif _tag(item) == "rPr" and (baseline := item.get("baseline")):
            mark = "_" if baseline.startswith("-") else "^" if baseline != "0" else ""
    text = "".join(_format_runs(run))
    yield f"{mark}{{{text.strip()}}}" if mark and text.strip() else text


def _format_math(element: ElementTree.Element) -> str:
    """Return LaTeX for Office math: fractions, roots, scripts, matrices."""
    tag = _tag(element)

    def part(name: str) -> str:
        element_part = next((child for child in element if _tag(child) == name), None)
        return "" if element_part is None else _format_math(element_part).strip()

    if tag == "t":
        return element.text or ""
    if tag == "f":
        return rf"\frac{{{part('num')}}}{{{part('den')}}}"
    if tag == "rad":
        return rf"\sqrt{{{part('e')}}}"
    if tag in ("sSub", "sSup", "sSubSup"):
        lower = f"_{{{part('sub')}}}" if tag != "sSup" else ""
        upper = f"^{{{part('sup')}}}" if tag != "sSub" else ""
        return f"{part('e')}{lower}{upper}"
    if tag == "m":
        rows = [
            " & ".join(_format_math(cell).strip() for cell in row if _tag(cell) == "e")
            for row in element
            if _tag(row) == "mr"
        ]
        return r"\begin{matrix}" + r" \\ ".join(rows) + r"\end{matrix}"
    if tag == "d":
        inner = ", ".join(_format_math(child) for child in element if _tag(child) == "e")
        return inner if "\\begin{matrix}" in inner else f"({inner})"
    if tag == "acc":
        accent = next(
            (v for e in element.iter() if _tag(e) == "chr" for v in e.attrib.values()), "^"
        )
        name = {"\u0303": "tilde", "~": "tilde", "\u0304": "bar"}.get(accent, "hat")
        return rf"\{name}{{{part('e')}}}"
    if tag == "func":
        return (
            f"{part('fName')}({part('e')})"
            if "(" not in part("e")[:1]
            else part("fName") + part("e")
        )
    skipped = ("rPr", "ctrlPr", "fPr", "dPr", "mPr", "radPr", "sSubPr", "sSupPr", "accPr", "deg")
    return "".join(_format_math(child) for child in element if _tag(child) not in skipped)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def add_workbook(source: Source, content: bytes) -> None:
    """Add the sheets of an `.xlsx` file; numbers have the decimals that their format shows."""
    archive = Archive(content)
    workbook = archive.read_xml("xl/workbook.xml")
    relations = archive.read_xml("xl/_rels/workbook.xml.rels")
    if workbook is None or relations is None:
        raise UserError("not an Excel file: it has no xl/workbook.xml")
    targets = {item.get("Id"): item.get("Target", "").lstrip("/") for item in relations}
    strings = _read_shared_strings(archive)
    formats = _read_formats(archive)
    for sheet in (e for e in workbook.iter() if _tag(e) == "sheet"):
        identifier = next((v for k, v in sheet.attrib.items() if k.endswith("}id")), "")
        target = targets.get(identifier, "")
        root = archive.read_xml(target if target.startswith("xl/") else f"xl/{target}")
        if root is not None:
            title = sheet.get("name", "Sheet")[:60]
            source.add_line(title, f"{title}!A1", 2)
            add_cells(source, _read_sheet(root, strings, formats), title)


def add_cells(source: Source, cells: list[list[str]], title: str) -> None:
    """Add the matrices of a sheet, each with the address of its first cell."""

    def find_place(row: int, column: int) -> Place:
        return f"{title}!{format_column(column)}{row + 1}"

    add_sheet(source, cells, find_place, pad_decimals)


def add_sheet(
    source: Source,
    cells: list[list[str]],
    place_of: Callable[[int, int], Place],
    adapt: Callable[[Rows], Rows] = list,
) -> None:
    """Add the matrices and texts of a sheet; a text after an empty row is a heading."""
    for part in find_table_parts(cells):
        place = place_of(part.row, part.column)
        if part.grid_rows is None:
            is_first = part.row == 0 or not any(cell.strip() for cell in cells[part.row - 1])
            if is_first and "=" not in part.label:
                source.add_line(part.label, place, 4)
            else:
                add_plain_line(source, part.label, place)
            continue
        rows = adapt(part.grid_rows)
        grid = Grid(rows, place, part.problem, part.row_labels, part.column_labels)
        mark = source.add_grid(grid)
        add_plain_line(source, f"{part.label} = {mark}" if part.label else mark, place)


def format_column(index: int) -> str:
    """Return the letters of a column, counted from 0.

    >>> format_column(0), format_column(27)
    ('A', 'AB')
    """
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _read_shared_strings(archive: Archive) -> list[str]:
    root = archive.read_xml("xl/sharedStrings.xml")
    if root is None:
        return []
    return ["".join(t.text or "" for t in item.iter() if _tag(t) == "t") for item in root]


def _read_formats(archive: Archive) -> list[tuple[int | None, bool]]:
    """Return decimals (None: as many as there are) and whether it is a percentage, by style."""
    root = archive.read_xml("xl/styles.xml")
    if root is None:
        return []
    custom = {}
    for item in (e for e in root.iter() if _tag(e) == "numFmt"):
        code = item.get("formatCode", "").split(";")[0]
        decimals = re.search(r"0(?:[.,](0+))?(?=[^0#]*$)", code)
        is_general = "E" in code or not decimals or "General" in code
        custom[item.get("numFmtId")] = (
            None if is_general else len(decimals[1] or "") if decimals else None,
            "%" in code,
        )
    styles = []
    for group in (e for e in root if _tag(e) == "cellXfs"):
        for style in group:
            identifier = style.get("numFmtId", "0")
            number = _to_int(identifier, 0)
            known = _DECIMAL_FORMATS.get(number), False
            if number in _PERCENT_FORMATS:
                known = _PERCENT_FORMATS[number], True
            styles.append(custom.get(identifier, known))
    return styles


def _read_sheet(
    root: ElementTree.Element, strings: list[str], formats: list[tuple[int | None, bool]]
) -> list[list[str]]:
    cells: dict[tuple[int, int], str] = {}
    for cell in (e for e in root.iter() if _tag(e) == "c"):
        match = _REFERENCE.fullmatch(cell.get("r", ""))
        if match is None:
            continue
        column = 0
        for letter in match[1]:
            column = column * 26 + ord(letter) - 64
        row = int(match[2])
        if row <= _MAX_ROWS and column <= _MAX_COLUMNS:
            cells[row - 1, column - 1] = _format_cell(cell, strings, formats)
    if not cells:
        return []
    height, width = (max(key[axis] for key in cells) + 1 for axis in (0, 1))
    return [[cells.get((i, j), "") for j in range(width)] for i in range(height)]


def _format_cell(
    cell: ElementTree.Element, strings: list[str], formats: list[tuple[int | None, bool]]
) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(t.text or "" for t in cell.iter() if _tag(t) == "t")
    value = next((e.text or "" for e in cell if _tag(e) == "v"), "")
    if kind == "s":
        index = _to_int(value, -1)
        return strings[index] if 0 <= index < len(strings) else ""
    if kind != "n":
        return value
    style = _to_int(cell.get("s"), 0)
    decimals, is_percent = formats[style] if 0 <= style < len(formats) else (None, False)
    try:
        number = float(value)
    except ValueError:
        return value
    if is_percent:
        return f"{number * 100:.{decimals or 0}f}%"
    if decimals is not None and abs(number) < 1e15:
        return f"{number:.{decimals}f}"
    return value if len(value) < 14 else f"{number:.12g}"
