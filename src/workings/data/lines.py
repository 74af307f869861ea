"""Numbered lines of text out of a file or stream, gzip'd or not."""

import gzip
import io
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from workings.errors import UserError, brief

Source = str | Path | BinaryIO | io.BufferedIOBase

LARGEST_LINE = 64 * 2**20
"""Bytes in a line, and in a text of a folder; a line is held in memory, a file never is."""
STRETCH = 2**20
"""Bytes of a very long line that are read at a time, where a text need not come in lines."""
FREE_EXPANSION = 256 * 2**20
"""Bytes that a gzip'd file may hold, however small it is."""
MOST_EXPANSION = 100
"""Bytes that a gzip'd file may hold for each of its own beyond that. Prose reaches four."""

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def name_of(source: Source) -> str:
    """What an error calls the source.

    >>> name_of("reviews.csv")
    'reviews.csv'
    """
    name = source if isinstance(source, str | Path) else getattr(source, "name", "<stream>")
    return brief(str(name), 300)


def lines(source: Source) -> Iterator[tuple[int, str]]:
    r"""Read line after line, counted from 1, without a byte order mark, each with its ending.

    Lines end where files end them, at a newline: other marks that Unicode takes for a line's end
    may stand inside a review, and do.

    >>> list(lines(io.BytesIO(b"one\ntwo\x85\n")))
    Traceback (most recent call last):
    workings.errors.UserError: <stream>, line 2: not UTF-8: byte 0x85 in column 4
    >>> list(lines(io.BytesIO("one\ntwo\x85\n".encode())))
    [(1, 'one\n'), (2, 'two\x85\n')]
    """
    name = name_of(source)
    with opened(source) as stream:
        number = 0
        while raw := stream.readline(LARGEST_LINE + 1):
            number += 1
            if len(raw) > LARGEST_LINE:
                raise UserError(f"{name}, line {number}: longer than {LARGEST_LINE:,} bytes")
            try:  # here rather than in `decoded`: a call a line is what reading costs
                line = raw.decode("utf-8")
            except UnicodeDecodeError:
                line = decoded(raw, f"{name}, line {number}", first=number == 1)
            if number == 1:
                line = line.removeprefix("\ufeff")
            if line:  # else the mark was all there is
                yield number, line


def stretches(source: Source) -> Iterator[str]:
    r"""Read a text in lines, or, where a line is very long, in parts of one.

    >>> list(stretches(io.BytesIO(b"one\ntwo")))
    ['one\n', 'two']
    """
    name, number = name_of(source), 1
    decoder = getincrementaldecoder("utf-8")()
    with opened(source) as stream:
        while True:
            raw = stream.readline(STRETCH)
            try:
                text = decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                at = f"{name}, line {number}"
                if number == 1:
                    decoded(raw, at, first=True)  # which tells more
                byte = error.object[error.start]
                raise UserError(f"{at}: not UTF-8: byte 0x{byte:02x}") from None
            if not raw:
                return
            yield text.removeprefix("\ufeff") if number == 1 else text
            number += raw.endswith(b"\n")


def whole(source: Source) -> str:
    """Read everything as one text, without a byte order mark."""
    name = name_of(source)
    with opened(source) as stream:
        raw = stream.read(LARGEST_LINE + 1)
    if len(raw) > LARGEST_LINE:
        raise UserError(f"{name}: longer than {LARGEST_LINE:,} bytes: not one text")
    try:
        return raw.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        number = raw.removeprefix(_BOM).count(b"\n", 0, error.start) + 1
        line = raw.split(b"\n")[number - 1]
        return decoded(line, f"{name}, line {number}", first=number == 1)  # says what is wrong


def decoded(raw: bytes, where: str, *, first: bool = False) -> str:
    """Read bytes as UTF-8, or say where they are not."""
    try:
        return (raw.removeprefix(_BOM) if first else raw).decode("utf-8")
    except UnicodeDecodeError as error:
        if first and raw.startswith(_UTF_16):
            raise UserError(f"{where}: UTF-16: save it as UTF-8") from None
        column = len(error.object[: error.start].decode("utf-8")) + 1
        byte = error.object[error.start]
        raise UserError(f"{where}: not UTF-8: byte 0x{byte:02x} in column {column}") from None


@contextmanager
def opened(source: Source) -> Iterator[io.BufferedReader]:
    """Open what may be gzip'd, which its first bytes tell and its name may not."""
    name = name_of(source)
    if not isinstance(source, str | Path):
        yield _unpacked(cast(io.BufferedIOBase, source), name)
        return
    try:
        file = Path(source).open("rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise UserError(f"{name}: no such file") from None
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    with file:
        yield _unpacked(file, name)


def _unpacked(stream: io.BufferedIOBase, name: str) -> io.BufferedReader:
    seen = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_Plain(stream))
    if seen.peek(2)[:2] != _GZIP:
        return seen
    return io.BufferedReader(_Inflated(seen, name), 2**18)


class _Plain(io.RawIOBase):
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


class _Inflated(_Plain):
    """What a gzip'd stream holds, up to the stated limits."""

    def __init__(self, stream: io.BufferedIOBase, name: str) -> None:
        self._packed = _Plain(stream)
        super().__init__(gzip.GzipFile(fileobj=self._packed, mode="rb"))
        self._name = name

    def read(self, size: int = -1, /) -> bytes:
        try:
            data = super().read(size)
        except EOFError:
            raise UserError(f"{self._name}: the gzip'd file is cut short") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise UserError(f"{self._name}: the gzip'd file is damaged: {error}") from None
        limit = FREE_EXPANSION + MOST_EXPANSION * self._packed.count
        if self.count > limit:
            raise UserError(
                f"{self._name}: holds more than {limit:,} bytes, {MOST_EXPANSION} times its size: "
                "unpack it first if that is right"
            )
        return data
