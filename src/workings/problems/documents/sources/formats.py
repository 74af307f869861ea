"""Tell the format of a document and read it: by its first bytes, then by its name."""

import csv
import io
from pathlib import PurePath

from workings.errors import UserError, install_command
from workings.problems.documents.sources.base import Source
from workings.problems.documents.sources.markup import add_html, add_notebook
from workings.problems.documents.sources.text import add_text, stand_at

MAX_DOCUMENT_BYTES = 40_000_000
MAX_PAGES = 2_000
_MAX_CSV_ROWS = 20_000


def read_source(content: bytes, name: str = "") -> Source:
    """Read a document; `name` (a file name) decides where the bytes do not."""
    if len(content) > MAX_DOCUMENT_BYTES:
        raise UserError(f"{len(content):,} bytes: a document has at most {MAX_DOCUMENT_BYTES:,}")
    source, suffix = Source(), PurePath(name).suffix.lower()
    if content.startswith(b"%PDF"):
        _add_pdf(source, content)
    elif content.startswith(b"PK\x03\x04"):
        _add_office(source, content, suffix)
    elif content.startswith(b"\xd0\xcf\x11\xe0"):
        raise UserError("an old Office file: save it as .docx, .pptx or .xlsx")
    else:
        _add_text_format(source, _decode(content), suffix)
    return source


def _decode(content: bytes) -> str:
    for encoding in ("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig",):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            if b"\x00" in content[:4096]:
                raise UserError(f"not UTF-8 text (byte {error.start})") from None
    return content.decode("cp1252", errors="replace")  # text of Windows editors


def _add_text_format(source: Source, text: str, suffix: str) -> None:
    start = text[:2_000].lstrip().lower()
    if suffix == ".ipynb" or (start.startswith("{") and '"cells"' in text and '"nbformat"' in text):
        add_notebook(source, text)
    elif suffix in (".html", ".htm", ".xhtml") or start.startswith(("<!doctype html", "<html")):
        add_html(source, text)
    elif suffix in (".csv", ".tsv"):
        _add_csv(source, text, suffix)
    else:
        add_text(source, text, lambda line: line + 1)


def _add_csv(source: Source, text: str, suffix: str) -> None:
    from workings.problems.documents.sources.office import add_sheet

    first = text[:5_000]
    delimiter = "\t" if suffix == ".tsv" or "\t" in first else ";" if ";" in first else ","
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))[:_MAX_CSV_ROWS]
    except csv.Error as error:
        raise UserError(f"not CSV: {error}") from None
    add_sheet(source, rows, lambda row, _: row + 1)


def _add_office(source: Source, content: bytes, suffix: str) -> None:
    from workings.problems.documents.sources import office

    names = office.Archive(content).names
    if "word/document.xml" in names:
        office.add_word(source, content)
    elif "xl/workbook.xml" in names:
        office.add_workbook(source, content)
    elif "ppt/presentation.xml" in names:
        office.add_slides(source, content)
    else:
        what = suffix or "a ZIP archive"
        raise UserError(f"{what} is not read: expected .docx, .pptx, .xlsx, .pdf or text")


def _add_pdf(source: Source, content: bytes) -> None:
    try:
        import pypdf
    except ImportError:
        raise UserError(f"a PDF needs pypdf: {install_command('documents')}") from None
    import logging

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        pages = [
            page.extract_text() for page, _ in zip(reader.pages, range(MAX_PAGES), strict=False)
        ]
    except Exception as error:  # pypdf raises what the damage leads to
        raise UserError(f"not a readable PDF: {type(error).__name__}") from None
    for number, text in enumerate(pages, start=1):
        place = f"page {number}"
        source.add_line("", place, 2)
        add_text(source, text, stand_at(place))
