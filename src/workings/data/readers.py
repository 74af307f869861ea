"""Examples out of files: CSV, TSV, JSON lines, plain text, a folder for each class.

Everything streams: a reader holds one example at a time, and a file may be larger than memory.
"""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from workings.data.lines import LARGEST_LINE, Source, lines, name_of, whole
from workings.errors import UserError, brief, near, shown
from workings.files import check_inside

FORMATS = ("csv", "tsv", "jsonl", "text", "folder")

_HALF = re.compile("[\ud800-\udfff]")
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".text": "text",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A text, and the label that somebody gave it."""

    text: str
    label: str | None = None


class Row(NamedTuple):
    """A record of a file, its fields by name, and where it stands, for errors."""

    where: str
    fields: dict[str, Any]


def read(
    source: Source,
    *,
    format: str | None = None,  # noqa: A002 - the word that people look for
    text: str = "text",
    label: str | None = "label",
    columns: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Iterator[Example]:
    r"""Read examples; `text` and `label` name the columns (or keys) that hold them.

    The format is told by the name's ending where it is not given. `label=None` reads texts alone.
    `columns` names the columns of a CSV or TSV file that has no header, and `names` renames labels:
    `{"0": "negative"}`. Plain text has a text a line and no labels; in a folder,
    `folder/LABEL/*.txt`, the sub-folders are the labels.

    >>> import io
    >>> file = io.BytesIO(b'text,label\n"Good, very good.",positive\nBad.,negative\n')
    >>> for example in read(file, format="csv"):
    ...     print(example)
    Example(text='Good, very good.', label='positive')
    Example(text='Bad.', label='negative')
    """
    chosen = format_of(source, format)
    if chosen in ("text", "folder"):
        text, label = "text", (label and "label") if chosen == "folder" else None
    return _examples(rows(source, format=chosen, columns=columns), text, label, names or {})


def _examples(
    found: Iterator[Row], text: str, label: str | None, names: Mapping[str, str]
) -> Iterator[Example]:
    for row in found:
        content = text_of(row, text)
        if label is None:
            yield Example(content)
        else:
            given = _label(row, label)
            yield Example(content, names.get(given, given))


def text_of(row: Row, name: str, advice: str = "") -> str:
    """Take the text of a column, or say that it is none, with advice on what columns there are.

    >>> text_of(Row("a.csv, line 2", {"en": "bread"}), "en")
    'bread'
    """
    content = row.fields.get(name)
    if not isinstance(content, str):
        _field(row, name, advice)  # which complains, if the column is not there at all
        raise UserError(f"{row.where}: {name!r} is not text but {_shown(content)}")
    return content


def _field(row: Row, name: str, advice: str = "") -> Any:
    if name not in row.fields:
        there = brief(", ".join(islice(row.fields, 20)), 200) or "none"
        raise UserError(f"{row.where}: no column {name!r}: there are {there}{advice}")
    return row.fields[name]


def _label(row: Row, column: str) -> str:
    """Make a label of what JSON or CSV holds: text, a number, true or false."""
    value = row.fields[column] if column in row.fields else _field(row, column)
    where = row.where
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if not isinstance(value, str):
        raise UserError(f"{where}: {column!r} is not a label but {_shown(value)}")
    if not value.strip():
        raise UserError(f"{where}: {column!r} is empty: every example needs a label")
    return value.strip()


def _shown(value: Any) -> str:
    try:
        return f"{json.dumps(value):.40}"
    except RecursionError:
        return "something deep"


def format_of(source: Source, format: str | None = None) -> str:  # noqa: A002
    """Tell a source's format: as given, or else by its name.

    >>> format_of("reviews.tsv.gz")
    'tsv'
    """
    name = name_of(source)
    if format is not None:
        if format not in FORMATS:
            raise UserError(f"format = {format!r}: {near(format, FORMATS)}")
        return format
    if isinstance(source, str | Path) and Path(source).is_dir():
        return "folder"
    guess = format_by_name(name)
    if guess is None:
        raise UserError(f"{name}: its name tells no format: give one of {', '.join(FORMATS)}")
    return guess


def format_by_name(name: str) -> str | None:
    """Tell a format by a name's ending, if that tells one.

    >>> format_by_name("reviews.JSONL.gz"), format_by_name("reviews.de")
    ('jsonl', None)
    """
    path = Path(name.lower())
    return _SUFFIXES.get(path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix)


def rows(
    source: Source,
    *,
    format: str | None = None,  # noqa: A002
    columns: Sequence[str] | None = None,
    numbered: bool = False,
) -> Iterator[Row]:
    r"""Read records with all their fields, for those who want more than a text and a label.

    A CSV or TSV file without a header has its columns named by `columns`, or by their numbers,
    from "1", where it is `numbered`.

    >>> import io
    >>> pairs = io.BytesIO("bread\tpain\nwine\tvin\n".encode())
    >>> [row.fields["fr"] for row in rows(pairs, format="tsv", columns=("en", "fr"))]
    ['pain', 'vin']
    """
    chosen = format_of(source, format)
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise UserError(f"{path}: no such file")
        if path.is_dir() != (chosen == "folder"):
            raise UserError(f"{path}: {'a' if path.is_dir() else 'no'} folder: not {chosen}")
    if columns is not None and chosen not in ("csv", "tsv"):
        raise UserError(f"columns are named in csv and tsv files, not in {chosen}")
    if chosen == "csv":
        return _some(_csv(source, columns, numbered), source)
    if chosen == "tsv":
        return _some(_tsv(source, columns, numbered), source)
    if chosen == "jsonl":
        return _some(_jsonl(source), source)
    return _some(_text(source) if chosen == "text" else _folder(source), source)


def _some(found: Iterator[Row], source: Source) -> Iterator[Row]:
    """Pass rows on, and complain where there is none."""
    row = None
    for row in found:
        yield row
    if row is None:
        raise UserError(f"{name_of(source)}: empty: no examples in it")


def _csv(source: Source, columns: Sequence[str] | None, numbered: bool) -> Iterator[Row]:
    name = name_of(source)
    # The limit is the csv module's own, for the whole process: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_LINE))
    rest = lines(source)
    first = next((line for _, line in rest), None)
    if first is None:
        return
    # Spreadsheets write semicolons wherever the comma is the decimal mark.
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(_chain(first, rest), delimiter=delimiter, strict=True)
    header = list(columns) if columns is not None else None
    start = 1
    try:
        for values in reader:
            where = f"{name}, line {start}"
            start = reader.line_num + 1
            if not values:
                continue
            if header is None:
                header = _numbers(values) if numbered else _header(values, where)
                if not numbered:
                    continue
            yield _row(header, values, where)
    except csv.Error as error:
        # An opening quote that nothing closes swallows the rest: the record's first line is named.
        raise UserError(f"{name}, line {start}: not CSV: {error}") from None


def _chain(first: str, rest: Iterator[tuple[int, str]]) -> Iterator[str]:
    yield first
    for _, line in rest:
        yield line


def _tsv(source: Source, columns: Sequence[str] | None, numbered: bool) -> Iterator[Row]:
    """Split lines at tabs. A quotation mark is one: corpora in this form hold unpaired ones."""
    name, header = name_of(source), list(columns) if columns is not None else None
    for number, line in lines(source):
        if not (line := line.rstrip("\r\n")):
            continue
        where, values = f"{name}, line {number}", line.split("\t")
        if header is None:
            header = _numbers(values) if numbered else _header(values, where)
            if not numbered:
                continue
        yield _row(header, values, where)


def _numbers(values: list[str]) -> list[str]:
    return [str(i) for i in range(1, len(values) + 1)]


def _header(values: list[str], where: str) -> list[str]:
    names = [value.strip() for value in values]
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise UserError(f"{where}: the header names {shown(twice)} twice")
    return names


def _row(header: list[str], values: list[str], where: str) -> Row:
    if len(values) != len(header):
        raise UserError(f"{where}: {len(values)} fields, but {len(header)} columns")
    return Row(where, dict(zip(header, values, strict=True)))


def _jsonl(source: Source) -> Iterator[Row]:
    name = name_of(source)
    for number, line in lines(source):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON: {brief(str(error))}") from None
        if not isinstance(record, dict):
            raise UserError(f"{where}: not a JSON object, one a line, but {_shown(record)}")
        if "\\u" in line:  # only an escape can smuggle in half a character
            _check_whole_characters(record, where)
        yield Row(where, record)


def _check_whole_characters(record: dict[str, Any], where: str) -> None:
    for key, value in record.items():
        if isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                half = f"\\u{ord(value[error.start]):04x}"
                raise UserError(f"{where}: {shown(key)} holds half a character: {half}") from None


def _text(source: Source) -> Iterator[Row]:
    """Take each line for a text, an empty line for an empty one, so that none shifts."""
    name = name_of(source)
    for number, line in lines(source):
        yield Row(f"{name}, line {number}", {"text": line.rstrip("\r\n")})


def _folder(source: Source) -> Iterator[Row]:
    if not isinstance(source, str | Path):
        raise UserError(f"{name_of(source)}: a folder is read by its path")
    folder = Path(source)
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise UserError(f"{folder}: expected a sub-folder for each class: {folder}/LABEL/*.txt")
    for place in classes:
        check_inside(place, folder)
        if not place.name.isascii() and _HALF.search(place.name):
            raise UserError(f"{name_of(place)}: its name is not UTF-8: no name for a class")
        files = sorted(p for p in place.iterdir() if p.name.endswith((".txt", ".txt.gz")))
        if not files:
            raise UserError(f"{name_of(place)}: a class without texts: expected *.txt in it")
        for file in files:
            check_inside(file, folder)
            # Editors end a file with a newline that is no part of the text.
            yield Row(name_of(file), {"text": whole(file).rstrip("\r\n"), "label": place.name})
