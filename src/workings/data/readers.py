"""Numbered lines of text out of a file or stream, gzip'd or not."""

import csv
import gzip
import io
import json
import math
import re
import zlib
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import check_inside

PathOrStream = str | Path | BinaryIO | io.BufferedIOBase

MAX_LINE_BYTES = 64 * 2**20
"""Bytes in a line, and in a text of a folder; a line is held in memory, a file never is."""
CHUNK_BYTES = 2**20
"""Bytes of a very long line that are read at a time, where a text need not come in lines."""
FREE_EXPANSION_BYTES = 256 * 2**20
"""Bytes that a gzip'd file may hold, however small it is."""
MAX_EXPANSION_RATIO = 100
"""Bytes that a gzip'd file may hold for each of its own beyond that. Prose reaches four."""

_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def source_name(source: PathOrStream) -> str:
    """What an error calls the source.

    >>> source_name("reviews.csv")
    'reviews.csv'
    """
    name = source if isinstance(source, str | Path) else getattr(source, "name", "<stream>")
    return truncate(str(name), 300)


def read_lines(source: PathOrStream) -> Iterator[tuple[int, str]]:
    r"""Read line after line, counted from 1, without a byte order mark, each with its ending.

    Lines end where files end them, at a newline: other marks that Unicode takes for a line's end
    may stand inside a review, and do.

    >>> list(read_lines(io.BytesIO(b"one\ntwo\x85\n")))
    Traceback (most recent call last):
    workings.errors.UserError: <stream>, line 2: not UTF-8: byte 0x85 in column 4
    >>> list(read_lines(io.BytesIO("one\ntwo\x85\n".encode())))
    [(1, 'one\n'), (2, 'two\x85\n')]
    """
    name = source_name(source)
    with open_maybe_gzip(source) as stream:
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES:
                raise UserError(f"{name}, line {number}: longer than {MAX_LINE_BYTES:,} bytes")
            try:  # here rather than in `decoded`: a call a line is what reading costs
                line = raw.decode("utf-8")
            except UnicodeDecodeError:
                line = decode_utf8(raw, f"{name}, line {number}", is_first_line=number == 1)
            if number == 1:
                line = line.removeprefix("\ufeff")
            if line:  # else the mark was all there is
                yield number, line


def read_text_chunks(source: PathOrStream) -> Iterator[str]:
    r"""Read a text in lines, or, where a line is very long, in parts of one.

    >>> list(read_text_chunks(io.BytesIO(b"one\ntwo")))
    ['one\n', 'two']
    """
    name, number = source_name(source), 1
    decoder = getincrementaldecoder("utf-8")()
    with open_maybe_gzip(source) as stream:
        while True:
            raw = stream.readline(CHUNK_BYTES)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                at = f"{name}, line {number}"
                if number == 1:
                    decode_utf8(raw, at, is_first_line=True)  # which tells more
                byte = error.object[error.start]
                raise UserError(f"{at}: not UTF-8: byte 0x{byte:02x}") from None
            if not raw:
                return
            yield text.removeprefix("\ufeff") if number == 1 else text
            number += raw.endswith(b"\n")


def read_full_text(source: PathOrStream) -> str:
    """Read everything as one text, without a byte order mark."""
    name = source_name(source)
    with open_maybe_gzip(source) as stream:
        raw = stream.read(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise UserError(f"{name}: longer than {MAX_LINE_BYTES:,} bytes: not one text")
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        number = raw.removeprefix(_BOM).count(b"\n", 0, error.start) + 1
        line = raw.split(b"\n")[number - 1]
        return decode_utf8(
            line, f"{name}, line {number}", is_first_line=number == 1
        )  # says what is wrong


def decode_utf8(raw: bytes, location: str, *, is_first_line: bool = False) -> str:
    """Read bytes as UTF-8, or say where they are not."""
    try:
        return (raw.removeprefix(_BOM) if is_first_line else raw).decode("utf-8")
    except UnicodeDecodeError as error:
        if is_first_line and raw.startswith(_UTF_16_BOMS):
            raise UserError(f"{location}: UTF-16: save it as UTF-8") from None
        column = len(error.object[: error.start].decode("utf-8")) + 1
        byte = error.object[error.start]
        raise UserError(f"{location}: not UTF-8: byte 0x{byte:02x} in column {column}") from None


@contextmanager
def open_maybe_gzip(source: PathOrStream) -> Iterator[io.BufferedReader]:
    """Open what may be gzip'd, which its first bytes tell and its name may not."""
    name = source_name(source)
    if not isinstance(source, str | Path):
        yield _decompress(cast(io.BufferedIOBase, source), name)
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise UserError(f"{name}: no such file") from None
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    with file:
        yield _decompress(file, name)


def _decompress(stream: io.BufferedIOBase, name: str) -> io.BufferedReader:
    seen = (
        stream
        if isinstance(stream, io.BufferedReader)
        else io.BufferedReader(_CountingReader(stream))
    )
    if seen.peek(2)[:2] != _GZIP_MAGIC:
        return seen
    return io.BufferedReader(_GzipReader(seen, name), 2**18)


class _CountingReader(io.RawIOBase):
    """Lends a stream to a reader that would otherwise close it, and counts what is read."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _GzipReader(_CountingReader):
    """What a gzip'd stream holds, up to the stated limits."""

    def __init__(self, stream: io.BufferedIOBase, name: str) -> None:
        self._packed = _CountingReader(stream)
        super().__init__(gzip.GzipFile(fileobj=self._packed, mode="rb"))
        self._name = name

    def read(self, size: int = -1, /) -> bytes:
        try:
            data = super().read(size)
        except EOFError:
            raise UserError(f"{self._name}: the gzip'd file is cut short") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self._name}: the gzip'd file is damaged: {error}") from None
        limit = FREE_EXPANSION_BYTES + MAX_EXPANSION_RATIO * self._packed.count
        if self.count > limit:
            raise UserError(
                f"{self._name}: holds more than {limit:,} bytes, {MAX_EXPANSION_RATIO} times its size: "
                "unpack it first if that is right"
            )
        return data


FILE_FORMATS = ("csv", "tsv", "jsonl", "text", "folder")

_SURROGATE = re.compile("[\ud800-\udfff]")
_FORMAT_BY_SUFFIX = {
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


class Record(NamedTuple):
    """A record of a file, its fields by name, and where it stands, for errors."""

    location: str
    fields: dict[str, Any]


def read_examples(
    source: PathOrStream,
    *,
    format: str | None = None,  # noqa: A002 - the word that people look for
    text: str = "text",
    label: str | None = "label",
    columns: Sequence[str] | None = None,
    label_names: Mapping[str, str] | None = None,
) -> Iterator[Example]:
    r"""Read examples; `text` and `label` name the columns (or keys) that hold them.

    The format is told by the name's ending where it is not given. `label=None` reads texts alone.
    `columns` names the columns of a CSV or TSV file that has no header, and `names` renames labels:
    `{"0": "negative"}`. Plain text has a text a line and no labels; in a folder,
    `folder/LABEL/*.txt`, the sub-folders are the labels.

    >>> import io
    >>> file = io.BytesIO(b'text,label\n"Good, very good.",positive\nBad.,negative\n')
    >>> for example in read_examples(file, format="csv"):
    ...     print(example)
    Example(text='Good, very good.', label='positive')
    Example(text='Bad.', label='negative')
    """
    chosen = detect_format(source, format)
    if chosen in ("text", "folder"):
        text, label = "text", (label and "label") if chosen == "folder" else None
    return _to_examples(
        read_records(source, format=chosen, columns=columns), text, label, label_names or {}
    )


def _to_examples(
    records: Iterator[Record], text: str, label: str | None, label_names: Mapping[str, str]
) -> Iterator[Example]:
    for row in records:
        content = get_text(row, text)
        if label is None:
            yield Example(content)
        else:
            given = _get_label(row, label)
            yield Example(content, label_names.get(given, given))


def get_text(record: Record, name: str, hint: str = "") -> str:
    """Take the text of a column, or say that it is none, with advice on what columns there are.

    >>> get_text(Record("a.csv, line 2", {"en": "bread"}), "en")
    'bread'
    """
    content = record.fields.get(name)
    if not isinstance(content, str):
        _get_field(record, name, hint)  # which complains, if the column is not there at all
        raise UserError(f"{record.location}: {name!r} is not text but {_short_json(content)}")
    return content


def _get_field(record: Record, name: str, hint: str = "") -> Any:
    if name not in record.fields:
        there = truncate(", ".join(islice(record.fields, 20)), 200) or "none"
        raise UserError(f"{record.location}: no column {name!r}: there are {there}{hint}")
    return record.fields[name]


def _get_label(record: Record, column: str) -> str:
    """Make a label of what JSON or CSV holds: text, a number, true or false."""
    value = record.fields[column] if column in record.fields else _get_field(record, column)
    where = record.location
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if not isinstance(value, str):
        raise UserError(f"{where}: {column!r} is not a label but {_short_json(value)}")
    if not value.strip():
        raise UserError(f"{where}: {column!r} is empty: every example needs a label")
    return value.strip()


def _short_json(value: Any) -> str:
    try:
        return f"{json.dumps(value):.40}"
    except RecursionError:
        return "something deep"


def detect_format(source: PathOrStream, format: str | None = None) -> str:  # noqa: A002
    """Tell a source's format: as given, or else by its name.

    >>> detect_format("reviews.tsv.gz")
    'tsv'
    """
    name = source_name(source)
    if format is not None:
        if format not in FILE_FORMATS:
            raise UserError(f"format = {format!r}: {did_you_mean(format, FILE_FORMATS)}")
        return format
    if isinstance(source, str | Path) and Path(source).is_dir():
        return "folder"
    guess = detect_format_by_name(name)
    if guess is None:
        raise UserError(f"{name}: its name tells no format: give one of {', '.join(FILE_FORMATS)}")
    return guess


def detect_format_by_name(name: str) -> str | None:
    """Tell a format by a name's ending, if that tells one.

    >>> detect_format_by_name("reviews.JSONL.gz"), detect_format_by_name("reviews.de")
    ('jsonl', None)
    """
    path = Path(name.lower())
    return _FORMAT_BY_SUFFIX.get(
        path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    )


def read_records(
    source: PathOrStream,
    *,
    format: str | None = None,  # noqa: A002
    columns: Sequence[str] | None = None,
    numbered_columns: bool = False,
) -> Iterator[Record]:
    r"""Read records with all their fields, for those who want more than a text and a label.

    A CSV or TSV file without a header has its columns named by `columns`, or by their numbers,
    from "1", where it is `numbered`.

    >>> import io
    >>> pairs = io.BytesIO("bread\tpain\nwine\tvin\n".encode())
    >>> [record.fields["fr"] for record in read_records(pairs, format="tsv", columns=("en", "fr"))]
    ['pain', 'vin']
    """
    chosen = detect_format(source, format)
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise UserError(f"{path}: no such file")
        if path.is_dir() != (chosen == "folder"):
            raise UserError(f"{path}: {'a' if path.is_dir() else 'no'} folder: not {chosen}")
    if columns is not None and chosen not in ("csv", "tsv"):
        raise UserError(f"columns are named in csv and tsv files, not in {chosen}")
    if chosen == "csv":
        return _require_records(_read_csv(source, columns, numbered_columns), source)
    if chosen == "tsv":
        return _require_records(_read_tsv(source, columns, numbered_columns), source)
    if chosen == "jsonl":
        return _require_records(_read_jsonl(source), source)
    return _require_records(
        _read_plain_text(source) if chosen == "text" else _read_class_folder(source), source
    )


def _require_records(records: Iterator[Record], source: PathOrStream) -> Iterator[Record]:
    """Pass rows on, and complain where there is none."""
    row = None
    for row in records:
        yield row
    if row is None:
        raise UserError(f"{source_name(source)}: empty: no examples in it")


def _read_csv(
    source: PathOrStream, columns: Sequence[str] | None, numbered_columns: bool
) -> Iterator[Record]:
    name = source_name(source)
    # The limit is the csv module's own, for the whole process: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    rest = read_lines(source)
    first = next((line for _, line in rest), None)
    if first is None:
        return
    # Spreadsheets write semicolons wherever the comma is the decimal mark.
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(_chain_lines(first, rest), delimiter=delimiter, strict=True)
    header = list(columns) if columns is not None else None
    start = 1
    try:
        for values in reader:
            where = f"{name}, line {start}"
            start = reader.line_num + 1
            if not values:
                continue
            if header is None:
                header = (
                    _number_columns(values) if numbered_columns else _check_header(values, where)
                )
                if not numbered_columns:
                    continue
            yield _make_record(header, values, where)
    except csv.Error as error:
        # An opening quote that nothing closes swallows the rest: the record's first line is named.
        raise UserError(f"{name}, line {start}: not CSV: {error}") from None


def _chain_lines(first: str, rest: Iterator[tuple[int, str]]) -> Iterator[str]:
    yield first
    for _, line in rest:
        yield line


def _read_tsv(
    source: PathOrStream, columns: Sequence[str] | None, numbered_columns: bool
) -> Iterator[Record]:
    """Split lines at tabs. A quotation mark is one: corpora in this form hold unpaired ones."""
    name, header = source_name(source), list(columns) if columns is not None else None
    for number, line in read_lines(source):
        if not (line := line.rstrip("\r\n")):
            continue
        where, values = f"{name}, line {number}", line.split("\t")
        if header is None:
            header = _number_columns(values) if numbered_columns else _check_header(values, where)
            if not numbered_columns:
                continue
        yield _make_record(header, values, where)


def _number_columns(values: list[str]) -> list[str]:
    return [str(i) for i in range(1, len(values) + 1)]


def _check_header(values: list[str], location: str) -> list[str]:
    names = [value.strip() for value in values]
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise UserError(f"{location}: the header names {safe_repr(twice)} twice")
    return names


def _make_record(header: list[str], values: list[str], location: str) -> Record:
    if len(values) != len(header):
        raise UserError(f"{location}: {len(values)} fields, but {len(header)} columns")
    return Record(location, dict(zip(header, values, strict=True)))


def _read_jsonl(source: PathOrStream) -> Iterator[Record]:
    name = source_name(source)
    for number, line in read_lines(source):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON: {truncate(str(error))}") from None
        if not isinstance(record, dict):
            raise UserError(f"{where}: not a JSON object, one a line, but {_short_json(record)}")
        if "\\u" in line:  # only an escape can smuggle in half a character
            _check_no_surrogates(record, where)
        yield Record(where, record)


def _check_no_surrogates(record: dict[str, Any], location: str) -> None:
    for key, value in record.items():
        if isinstance(value, str):
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                half = f"\\u{ord(value[error.start]):04x}"
                raise UserError(
                    f"{location}: {safe_repr(key)} holds half a character: {half}"
                ) from None


def _read_plain_text(source: PathOrStream) -> Iterator[Record]:
    """Take each line for a text, an empty line for an empty one, so that none shifts."""
    name = source_name(source)
    for number, line in read_lines(source):
        yield Record(f"{name}, line {number}", {"text": line.rstrip("\r\n")})


def _read_class_folder(source: PathOrStream) -> Iterator[Record]:
    if not isinstance(source, str | Path):
        raise UserError(f"{source_name(source)}: a folder is read by its path")
    folder = Path(source)
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise UserError(f"{folder}: expected a sub-folder for each class: {folder}/LABEL/*.txt")
    for place in classes:
        check_inside(place, folder)
        if not place.name.isascii() and _SURROGATE.search(place.name):
            raise UserError(f"{source_name(place)}: its name is not UTF-8: no name for a class")
        files = sorted(p for p in place.iterdir() if p.name.endswith((".txt", ".txt.gz")))
        if not files:
            raise UserError(f"{source_name(place)}: a class without texts: expected *.txt in it")
        for file in files:
            check_inside(file, folder)
            # Editors end a file with a newline that is no part of the text.
            yield Record(
                source_name(file),
                {"text": read_full_text(file).rstrip("\r\n"), "label": place.name},
            )
