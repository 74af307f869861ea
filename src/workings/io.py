"""Files read with care: real ones, in their own folder, and no larger than they should be."""

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from workings.errors import UserError, safe_repr, truncate

# tomllib takes time with the square of a key's parts; nobody writes so many.
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){16}""")


def open_regular_file(path: Path, mode: str = "rb") -> BinaryIO:
    """Open a regular file, unbuffered; a link, a pipe or a device in its place is refused."""
    if path.is_symlink():
        raise UserError(f"{path}: a link, which might lead anywhere: a file is needed")
    file = cast(BinaryIO, open(path, mode, buffering=0, opener=_open_without_following))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UserError(f"{path}: a pipe or a device: a file is needed")
    return file


def _open_without_following(path: str, flags: int) -> int:
    """Follow no link that came a moment ago, and wait for nobody at the other end of a pipe."""
    cautious = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | cautious, 0o666)


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a regular file of at most so many bytes."""
    with open_regular_file(path) as file:
        return read_limited(file, max_bytes, path)


def read_limited(file: BinaryIO, max_bytes: int, name: object) -> bytes:
    """Read to the end, unless that is too far away: a device or a pipe has no size to ask for."""
    pieces, left = [], max_bytes + 1
    while left and (piece := file.read(min(left, 2**20))):
        pieces.append(piece)
        left -= len(piece)
    if not left:
        raise UserError(f"{name}: larger than {max_bytes:,} bytes: not what it should be")
    return b"".join(pieces)


def existing_path(text: str) -> Path | None:
    """Find what is there under the name that a text is, if it is one.

    >>> existing_path("a review " * 100) is None, existing_path(".") == Path()
    (True, True)
    """
    # Path.exists would not have it that a text is too long for a name.
    return Path(text) if os.path.exists(text) else None  # noqa: PTH110


def check_inside(path: Path, folder: Path) -> None:
    """Refuse what a link leads out of a folder, and what is neither a file nor a folder."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{truncate(str(path), 300)}: a link that leads out of its folder")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{truncate(str(path), 300)}: a pipe or a device: a file is needed")


def parse_toml(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parse TOML; whatever is wrong with it is a ValueError, at once."""
    if _DEEP_KEY.search(text):
        raise UserError("nested too deeply: a key has at most a few parts")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except RecursionError:
        raise UserError("nested too deeply: a list of lists is as deep as it gets") from None


def read_json_object(path: Path, max_bytes: int) -> dict[str, Any]:
    """Read a JSON object from a file; raise UserError if the file is larger or something else."""
    try:
        raw = read_bytes(path, max_bytes)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    return parse_json_object(raw, path)


def parse_json_object(text: str | bytes, location: object) -> dict[str, Any]:
    """Parse a JSON object; raise UserError that begins with `location` if it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{location}: not JSON: {truncate(str(error))}") from None
    if not isinstance(value, dict):
        raise UserError(f"{location}: expected a JSON object, got {safe_repr(value, 40)}")
    return value


class LockHeld(Exception):  # noqa: N818
    """Another process holds the lock."""


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a file that is made for it; raise `Taken` rather than wait, if told so."""
    with open_regular_file(path, "ab") as file:
        if os.name == "nt":
            _lock_on_windows(file.fileno(), wait)
        else:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise LockHeld(str(path)) from None
            except OSError:  # some network file systems know no locks: do without
                pass
        yield


def _lock_on_windows(handle: int, wait: bool) -> None:
    import msvcrt

    os.lseek(handle, 0, os.SEEK_SET)
    while True:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK if not wait else msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            return
        except OSError:  # waiting, it gives up after ten seconds; we do not
            if not wait:
                raise LockHeld from None
