"""Readers of text files and streams, gzipped or not: lines, records and labeled examples."""

import csv
import gzip
import io
import json
import math
import zlib
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar, cast

from workings.data.shards import list_shards
from workings.data.tables import flatten_fields, is_saved_dataset, read_saved_dataset, read_table
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import check_inside, parse_json_object
from workings.plain_text import find_surrogate

T = TypeVar("T")
PathOrStream = str | Path | BinaryIO | io.BufferedIOBase

LABEL_SEPARATOR = "\x1f"  # ASCII unit separator
FILE_FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "text", "fasttext", "folder")
TABLE_FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
MAX_LINE_BYTES = 64 * 2**20
"""Limit of a line, and of a text file in a folder. Lines are held in memory, files are not."""
CHUNK_BYTES = 2**20
"""Longer lines are read in chunks by `read_text_chunks`."""
FREE_EXPANSION_BYTES = 256 * 2**20
"""Every gzipped file may hold this many bytes, however small it is."""
MAX_EXPANSION_RATIO = 100
"""Beyond that, a gzipped file may hold this many bytes per byte of its own. Prose reaches 4."""

FASTTEXT_LABEL = "__label__"
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_FORMAT_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".txt": "text",
    ".text": "text",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A text and its label, if it has one."""

    text: str
    label: str | None = None
    """of a text with several labels: all of them, joined by LABEL_SEPARATOR"""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of a text that may have several."""
        return tuple(self.label.split(LABEL_SEPARATOR)) if self.label else ()


class Record(NamedTuple):
    """The fields of a record by name, and its location in the file, for error messages."""

    location: str
    fields: dict[str, Any]


def read_examples(
    source: PathOrStream,
    *,
    format: str | None = None,  # noqa: A002 - the usual name
    text: str = "text",
    label: str | None = "label",
    columns: Sequence[str] | None = None,
    label_names: Mapping[str, str] | None = None,
    label_delimiter: str | None = None,
    skip_missing: bool = False,
) -> Iterator[Example]:
    r"""Read examples; `text` and `label` are the columns (or keys) that hold them.

    The format is detected from the file name unless it is given. `label=None` reads texts only.
    `columns` names the columns of a CSV or TSV file without a header, where `text` and `label` may
    also be numbers from 1; `label_names` renames labels: `{"0": "negative"}`. With
    `label_delimiter`, a text has any number of labels: a list in JSON, or names with this delimiter
    between them. `skip_missing` leaves out rows without a text or a label. A plain text file has
    one text per line and no labels, or fastText's `__label__NAME` before the text; a folder has one
    sub-folder per label, `folder/LABEL/*.txt`, or is a dataset that Hugging Face's `save_to_disk`
    wrote.

    >>> import io
    >>> file = io.BytesIO(b'text,label\n"Good, very good.",positive\nBad.,negative\n')
    >>> for example in read_examples(file, format="csv"):
    ...     print(example)
    Example(text='Good, very good.', label='positive')
    Example(text='Bad.', label='negative')
    """
    detected = detect_format(source, format)
    if detected == "text" and label is not None and is_fasttext(source):
        detected = "fasttext"
    if detected in ("text", "fasttext", "folder") and not _is_saved_dataset(source):
        text, label = "text", None if detected == "text" else label and "label"
    is_numbered = columns is None and detected in ("csv", "tsv") and _are_numbers(text, label)
    records = read_records(source, format=detected, columns=columns, numbered_columns=is_numbered)
    return to_examples(
        records,
        text,
        label,
        label_names,
        label_delimiter=label_delimiter,
        skip_missing=skip_missing,
    )


def _are_numbers(text: str, label: str | None) -> bool:
    return all(name.isascii() and name.isdecimal() for name in (text, label or "1"))


def is_fasttext(source: PathOrStream) -> bool:
    """Return True if the first line of a file begins with fastText's `__label__`."""
    if not isinstance(source, str | Path) or not Path(source).is_file():
        return False
    with open_maybe_gzip(source) as stream:
        return (
            stream.read(len(_BOM) + len(FASTTEXT_LABEL))
            .removeprefix(_BOM)
            .startswith(FASTTEXT_LABEL.encode())
        )


def _is_saved_dataset(source: PathOrStream) -> bool:
    return isinstance(source, str | Path) and is_saved_dataset(Path(source))


def is_missing(value: object) -> bool:
    """Return True for an empty text, null and NaN.

    >>> [is_missing(value) for value in (" ", None, float("nan"), 0, "no")]
    [True, True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return True
    return (
        value != value if isinstance(value, float) else isinstance(value, str) and not value.strip()
    )


def to_examples(
    records: Iterator[Record],
    text: str,
    label: str | None,
    label_names: Mapping[str, str] | None = None,
    *,
    label_delimiter: str | None = None,
    skip_missing: bool = False,
) -> Iterator[Example]:
    """Select the text and the label of each record; see `read_examples`."""
    names = label_names or {}
    columns = (text,) if label is None else (text, label)
    for record in records:
        if skip_missing and any(is_missing(_get_field(record, name)) for name in columns):
            continue
        content = get_text(record, text)
        if label is None:
            yield Example(content)
        elif label_delimiter is not None:
            values = _get_labels(record, label, label_delimiter)
            yield Example(content, LABEL_SEPARATOR.join(names.get(v, v) for v in values))
        else:
            value = _get_label(record, label)
            yield Example(content, names.get(value, value))


def read_records(
    source: PathOrStream,
    *,
    format: str | None = None,  # noqa: A002
    columns: Sequence[str] | None = None,
    numbered_columns: bool = False,
) -> Iterator[Record]:
    r"""Read records with all their fields.

    `columns` names the columns of a CSV or TSV file without a header; with `numbered_columns` they
    are named by their numbers, from "1". A path of one shard, such as
    `train-00000-of-00003.parquet`, stands for all of them.

    >>> import io
    >>> pairs = io.BytesIO("bread\tpain\nwine\tvin\n".encode())
    >>> [record.fields["fr"] for record in read_records(pairs, format="tsv", columns=("en", "fr"))]
    ['pain', 'vin']
    """
    detected = detect_format(source, format)
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise UserError(f"{path}: no such file")
        if path.is_dir() and detected != "folder":
            raise UserError(f"{path} is a folder: expected a {detected} file")
        if detected == "folder" and not path.is_dir():
            raise UserError(f"{path} is a file: expected a folder")
    if columns is not None and detected not in ("csv", "tsv"):
        raise UserError(f"columns are for csv and tsv files, not for {detected}")
    sources = list_shards(Path(source)) if isinstance(source, str | Path) else [source]
    records = (_read_source(one, detected, columns, numbered_columns) for one in sources)
    return _require_records(chain.from_iterable(records), source)


def _read_source(
    source: PathOrStream, file_format: str, columns: Sequence[str] | None, numbered_columns: bool
) -> Iterator[Record]:
    if file_format == "csv":
        return _read_csv(source, columns, numbered_columns)
    if file_format == "tsv":
        return _read_tsv(source, columns, numbered_columns)
    if file_format == "jsonl":
        return _read_jsonl(source)
    if file_format == "text":
        return _read_plain_text(source)
    if file_format == "fasttext":
        return _read_fasttext(source)
    if file_format in ("parquet", "arrow"):
        return _read_table_file(source, file_format)
    if _is_saved_dataset(source):
        return _read_saved_dataset(source)
    return _read_class_folder(source)


def _require_records(records: Iterator[Record], source: PathOrStream) -> Iterator[Record]:
    """Yield all records; raise UserError if there is none."""
    record = None
    for record in records:
        yield record
    if record is None:
        raise UserError(f"{source_name(source)}: empty: no examples")


def detect_format(source: PathOrStream, format: str | None = None) -> str:  # noqa: A002
    """Return the given format, or the one that the file name implies.

    >>> detect_format("reviews.tsv.gz")
    'tsv'
    """
    if format is not None:
        if format not in FILE_FORMATS:
            raise UserError(f"format = {format!r}: {did_you_mean(format, FILE_FORMATS)}")
        return format
    if isinstance(source, str | Path) and Path(source).is_dir():
        return "folder"
    name = source_name(source)
    detected = detect_format_by_name(name)
    if detected is None:
        formats = ", ".join(FILE_FORMATS)
        raise UserError(f"{name}: unknown file name suffix: give the format, one of {formats}")
    return detected


def detect_format_by_name(name: str) -> str | None:
    """Return the format that a file name's suffix implies, or None.

    >>> detect_format_by_name("reviews.JSONL.gz"), detect_format_by_name("reviews.de")
    ('jsonl', None)
    """
    path = Path(name.lower())
    return _FORMAT_BY_SUFFIX.get(
        path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    )


def get_text(record: Record, column: str, hint: str = "") -> str:
    """Return the text of a column; raise UserError with the column names and a hint otherwise.

    >>> get_text(Record("a.csv, line 2", {"en": "bread"}), "en")
    'bread'
    """
    value = record.fields.get(column)
    if not isinstance(value, str):
        value = _get_field(record, column, hint)
        raise UserError(f"{record.location}: {column!r} is not text but {_short_json(value)}")
    return value


def _get_field(record: Record, column: str, hint: str = "") -> Any:
    if column not in record.fields:
        columns = truncate(", ".join(islice(record.fields, 20)), 200) or "none"
        raise UserError(f"{record.location}: no column {column!r}: the columns are {columns}{hint}")
    return record.fields[column]


def _get_label(record: Record, column: str) -> str:
    """Return a label: text, or a number or boolean of JSON written as text."""
    value = _get_field(record, column)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if not isinstance(value, str):
        hint = ": several labels need data.multi_label = true" if isinstance(value, list) else ""
        raise UserError(
            f"{record.location}: {column!r} is not a label but {_short_json(value)}{hint}"
        )
    if not value.strip():
        raise UserError(f"{record.location}: {column!r} is empty: every example needs a label")
    return value.strip()


def _get_labels(record: Record, column: str, delimiter: str) -> list[str]:
    """Return the labels of a text, each once: a list in JSON, or the parts of a field."""
    value = _get_field(record, column)
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = [part for part in value.split(delimiter) if part.strip()]
    elif not isinstance(value, list):
        value = [value]
    names = [_get_label(Record(record.location, {column: name}), column) for name in value]
    return list(dict.fromkeys(name.replace(LABEL_SEPARATOR, " ") for name in names))


def _short_json(value: Any) -> str:
    try:
        return f"{json.dumps(value):.40}"
    except RecursionError:
        return "a deeply nested value"


def _read_csv(
    source: PathOrStream, columns: Sequence[str] | None, numbered_columns: bool
) -> Iterator[Record]:
    name = source_name(source)
    # This limit is global in the csv module; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = (line for _, line in read_lines(source))
    first = next(lines, None)
    if first is None:
        return
    # Spreadsheets separate by semicolons where the comma is the decimal separator.
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    header = list(columns) if columns is not None else None
    start = 1
    try:
        for values in reader:
            location = f"{name}, line {start}"
            start = reader.line_num + 1
            if not values:
                continue
            if header is None:
                header = _make_header(values, numbered_columns, location)
                if not numbered_columns:
                    continue
            yield _make_record(header, values, location)
    except csv.Error as error:
        # An unclosed quote extends the record to the end of the file: name the record's first line.
        if "new-line character" in str(error):
            problem = "a carriage return within a row: end the lines with LF or CRLF"
            raise UserError(f"{name}, line {start}: not CSV: {problem}") from None
        raise UserError(f"{name}, line {start}: not CSV: {error}") from None


def _read_tsv(
    source: PathOrStream, columns: Sequence[str] | None, numbered_columns: bool
) -> Iterator[Record]:
    """Split lines at tabs. Quotes have no meaning: corpora in this format have unpaired ones."""
    name, header = source_name(source), list(columns) if columns is not None else None
    for number, line in read_lines(source):
        if not (line := line.rstrip("\r\n")):
            continue
        location, values = f"{name}, line {number}", line.split("\t")
        if header is None:
            header = _make_header(values, numbered_columns, location)
            if not numbered_columns:
                continue
        yield _make_record(header, values, location)


def _make_header(values: list[str], numbered_columns: bool, location: str) -> list[str]:
    """Return the column names: numbers from 1, or the fields of the first line."""
    if numbered_columns:
        return [str(i) for i in range(1, len(values) + 1)]
    names = [value.strip() for value in values]
    if len(set(names)) < len(names):
        duplicate = next(name for name, count in Counter(names).items() if count > 1)
        raise UserError(f"{location}: the header has the column {safe_repr(duplicate)} twice")
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
        location = f"{name}, line {number}"
        if number == 1 and line.lstrip().startswith("["):
            raise UserError(f"{location}: not JSON lines but a list: expected one object per line")
        fields = flatten_fields(parse_json_object(line, location), {})
        if "\\u" in line:  # only an escape can be an unpaired surrogate
            for key, value in fields.items():
                if isinstance(value, str) and (surrogate := find_surrogate(value)):
                    raise UserError(
                        f"{location}: {safe_repr(key)} has an unpaired surrogate: {surrogate}"
                    )
        yield Record(location, fields)


def _read_plain_text(source: PathOrStream) -> Iterator[Record]:
    """Read one text per line; empty lines are empty texts, so that line numbers are kept."""
    name = source_name(source)
    for number, line in read_lines(source):
        yield Record(f"{name}, line {number}", {"text": line.rstrip("\r\n")})


def _read_fasttext(source: PathOrStream) -> Iterator[Record]:
    """Read lines of fastText's format: `__label__NAME text`, with one label or several."""
    name = source_name(source)
    for number, line in read_lines(source):
        if not (line := line.strip()):
            continue
        labels = []
        while line.startswith(FASTTEXT_LABEL):
            label, *rest = line.split(maxsplit=1)
            labels.append(label.removeprefix(FASTTEXT_LABEL))
            line = rest[0] if rest else ""
        if not labels or not all(labels):
            location = f"{name}, line {number}"
            raise UserError(f"{location}: no label: expected {FASTTEXT_LABEL}NAME and a text")
        fields = {"text": line, "label": labels if len(labels) > 1 else labels[0]}
        yield Record(f"{name}, line {number}", fields)


def _read_table_file(source: PathOrStream, file_format: str) -> Iterator[Record]:
    if not isinstance(source, str | Path):
        raise UserError(f"{source_name(source)}: expected the path of a file, got a stream")
    for number, fields in read_table(Path(source), file_format):
        yield Record(f"{source_name(source)}, row {number}", fields)


def _read_saved_dataset(source: PathOrStream) -> Iterator[Record]:
    assert isinstance(source, str | Path)
    return starmap(Record, read_saved_dataset(Path(source)))


def _read_class_folder(source: PathOrStream) -> Iterator[Record]:
    if not isinstance(source, str | Path):
        raise UserError(f"{source_name(source)}: expected the path of a folder, got a stream")
    folder = Path(source)
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise UserError(f"{folder}: expected a sub-folder for each class: {folder}/LABEL/*.txt")
    for class_folder in classes:
        check_inside(class_folder, folder)
        if find_surrogate(class_folder.name):
            raise UserError(
                f"{source_name(class_folder)}: the folder name is not UTF-8: rename it to the label"
            )
        files = sorted(p for p in class_folder.iterdir() if p.name.endswith((".txt", ".txt.gz")))
        if not files:
            raise UserError(f"{source_name(class_folder)}: no texts: expected *.txt files")
        for file in files:
            check_inside(file, folder)
            # Editors end a file with a newline that is not part of the text.
            text = read_full_text(file).rstrip("\r\n")
            yield Record(source_name(file), {"text": text, "label": class_folder.name})


def source_name(source: PathOrStream) -> str:
    """Return the name of a file or stream for error messages.

    >>> source_name("reviews.csv")
    'reviews.csv'
    """
    name = source if isinstance(source, str | Path) else getattr(source, "name", "<stream>")
    return truncate(str(name), 300)


def read_lines(source: PathOrStream) -> Iterator[tuple[int, str]]:
    r"""Read lines with their line endings, numbered from 1, without a byte order mark.

    Lines end at a newline only: other line separators of Unicode occur inside texts.

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
            try:  # inlined from `decode_utf8`: a function call per line would dominate the time
                line = raw.decode("utf-8")
            except UnicodeDecodeError:
                line = decode_utf8(raw, f"{name}, line {number}", is_first_line=number == 1)
            if number == 1:
                line = line.removeprefix("\ufeff")
            if line:  # empty if the byte order mark is the whole file
                yield number, line


class ItemsUntilError(Generic[T]):
    """An iterable that ends at a UserError, which is raised by `raise_error` afterwards.

    A consumer that reads ahead in batches can so process all items before the error.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = items
        self._error: UserError | None = None

    def __iter__(self) -> Iterator[T]:
        try:
            yield from self._items
        except UserError as error:
            self._error = error

    def raise_error(self) -> None:
        """Raise the error at which the iteration ended, if there was one."""
        if self._error is not None:
            raise self._error


def read_text_chunks(source: PathOrStream) -> Iterator[str]:
    r"""Read a text in lines; very long lines are split into chunks.

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
                location = f"{name}, line {number}"
                if number == 1:
                    decode_utf8(raw, location, is_first_line=True)  # its message is more specific
                byte = error.object[error.start]
                raise UserError(f"{location}: not UTF-8: byte 0x{byte:02x}") from None
            if not raw:
                return
            yield text.removeprefix("\ufeff") if number == 1 else text
            number += raw.endswith(b"\n")


def read_full_text(source: PathOrStream) -> str:
    """Read a file as one text, without a byte order mark."""
    name = source_name(source)
    with open_maybe_gzip(source) as stream:
        raw = stream.read(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise UserError(f"{name}: longer than {MAX_LINE_BYTES:,} bytes: too long for one text")
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        number = raw.removeprefix(_BOM).count(b"\n", 0, error.start) + 1
        line = raw.split(b"\n")[number - 1]
        # Decoding the line raises the error message.
        return decode_utf8(line, f"{name}, line {number}", is_first_line=number == 1)


def decode_utf8(raw: bytes, location: str, *, is_first_line: bool = False) -> str:
    """Decode UTF-8; raise UserError with location and column of an invalid byte."""
    try:
        return (raw.removeprefix(_BOM) if is_first_line else raw).decode("utf-8")
    except UnicodeDecodeError as error:
        if is_first_line and raw.startswith(_UTF_16_BOMS):
            raise UserError(f"{location}: the file is UTF-16: save it as UTF-8") from None
        column = len(error.object[: error.start].decode("utf-8")) + 1
        byte = error.object[error.start]
        raise UserError(f"{location}: not UTF-8: byte 0x{byte:02x} in column {column}") from None


@contextmanager
def open_maybe_gzip(source: PathOrStream) -> Iterator[io.BufferedReader]:
    """Open a file or stream, and decompress it if its first bytes are gzip's."""
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
    if isinstance(stream, io.BufferedReader):
        buffered = stream
    else:
        buffered = io.BufferedReader(_CountingReader(stream))
    if buffered.peek(2)[:2] != _GZIP_MAGIC:
        return buffered
    return io.BufferedReader(_GzipReader(buffered, name), 2**18)


class _CountingReader(io.RawIOBase):
    """A raw stream that reads another one, counts bytes, and does not close it."""

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
    """The decompressed content of a gzipped stream, up to the limits on expansion."""

    def __init__(self, stream: io.BufferedIOBase, name: str) -> None:
        self._compressed = _CountingReader(stream)
        super().__init__(gzip.GzipFile(fileobj=self._compressed, mode="rb"))
        self._name = name

    def read(self, size: int = -1, /) -> bytes:
        try:
            data = super().read(size)
        except EOFError:
            raise UserError(f"{self._name}: the gzipped file is truncated") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self._name}: the gzipped file is damaged: {error}") from None
        limit = FREE_EXPANSION_BYTES + MAX_EXPANSION_RATIO * self._compressed.count
        if self.count > limit:
            raise UserError(
                f"{self._name}: decompresses to more than {limit:,} bytes, over "
                f"{MAX_EXPANSION_RATIO} times its size: decompress it first if that is intended"
            )
        return data
