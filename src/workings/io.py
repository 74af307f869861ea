"""Files: atomic writes, reads of bounded size, locks, and paths that stay inside their folder."""

import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from workings.errors import UserError, safe_repr, truncate

# -- writing ---------------------------------------------------------------------------------------


@contextmanager
def atomic_write(path: Path, *, unique: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` if the block succeeds, and is deleted if not.

    Content and folder entry are flushed to disk, so a crash leaves the old file or the new one.
    `unique` puts the process id into the temporary name, for paths that several processes write.
    """
    part = _temporary_path(path, unique)
    try:
        part.unlink(missing_ok=True)  # left by a killed process, or a symlink to somewhere else
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_entries(path.parent)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        # The message names the file that the user knows, not the temporary one.
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(part)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_bytes(path: Path, content: bytes, *, unique: bool = False) -> None:
    """Write a file atomically."""
    with atomic_write(path, unique=unique) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def replace_file(part: Path, path: Path) -> None:
    """Rename a complete file; content and folder entry are flushed to disk."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(path)
    sync_entries(path.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, whose entries are flushed to disk."""
    missing = [p for p in (folder, *folder.parents) if not p.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for new in reversed(missing):
        with suppress(PermissionError):  # a parent that may be entered, but not read
            sync_entries(new.parent)


@contextmanager
def atomic_folder(folder: Path, *, unique: bool = False, replace: bool = False) -> Iterator[Path]:
    """Create a temporary folder that is renamed to `folder` if the block succeeds.

    It is deleted if the block fails. With `replace`, an existing folder is replaced; it is put
    back if the rename fails. `unique` is as in `atomic_write`. Everything in it is flushed to disk,
    so a crash leaves it complete or not at all. A crash just before the rename of a replacement may
    leave the old folder as `.NAME.old`.
    """
    part = _temporary_path(folder, unique)
    old = part.with_suffix(".old")
    try:
        shutil.rmtree(part, ignore_errors=True)
        make_folder(folder.parent)
        part.mkdir()
        yield part
        _sync_tree(part)
        if replace and folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.replace(folder)
        sync_entries(folder.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _temporary_path(path: Path, unique: bool) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part" if unique else f".{path.name}.part")


def sync_entries(folder: Path) -> None:
    """Flush a folder's entries to disk: without it, a power failure may undo renames in it."""
    if os.name == "posix":
        _sync(folder)


def _sync_tree(folder: Path) -> None:
    """Flush all files and folders below a folder, and its own entries, to disk."""
    if os.name == "posix":
        for path in folder.rglob("*"):
            if not path.is_symlink():
                _sync(path)
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- reading ---------------------------------------------------------------------------------------


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a regular file; raise UserError if it has more than `max_bytes`."""
    with open_regular_file(path) as file:
        return read_limited(file, max_bytes, path)


def read_limited(file: BinaryIO, max_bytes: int, name: object) -> bytes:
    """Read a stream to its end; raise UserError after `max_bytes`.

    Pipes and devices do not report a size, so the limit is enforced while reading.
    """
    chunks, remaining = [], max_bytes + 1
    while remaining and (chunk := file.read(min(remaining, 2**20))):
        chunks.append(chunk)
        remaining -= len(chunk)
    if not remaining:
        raise UserError(f"{name}: larger than the limit of {max_bytes:,} bytes")
    return b"".join(chunks)


def open_regular_file(path: Path, mode: str = "rb") -> BinaryIO:
    """Open a regular file without buffering; refuse symbolic links, pipes and devices.

    The links of Hugging Face's cache are followed to read them.
    """
    target = resolve_cache_link(path) if mode == "rb" else path
    if target.is_symlink():
        raise UserError(f"{path}: a symbolic link: expected a regular file (cp -L makes one)")
    file = cast(BinaryIO, open(target, mode, buffering=0, opener=_open_without_following))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise UserError(f"{path}: a pipe or a device: expected a regular file")
    return file


def resolve_cache_link(path: Path) -> Path:
    """Return the file behind a link of Hugging Face's cache; any other path is returned as it is.

    There, `models--NAME/snapshots/HASH/config.json` is a link to a file in `models--NAME/blobs`. A
    link that leads elsewhere could make a program read, and show, a private file.
    """
    if not path.is_symlink():
        return path
    for parent in path.absolute().parents:
        model = parent.parent
        if parent.name == "snapshots" and model.name.startswith("models--"):
            target = path.resolve()
            return target if target.is_relative_to(model.resolve() / "blobs") else path
    return path


def _open_without_following(path: str, flags: int) -> int:
    """Open a path, but fail on a symbolic link and do not block on a pipe.

    The link may have been created after `open_regular_file` looked.
    """
    cautious = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | cautious, 0o666)


def existing_path(text: str) -> Path | None:
    """Return a text as a path if a file or folder of that name exists, else None.

    >>> existing_path("a review " * 100) is None, existing_path(".") == Path()
    (True, True)
    """
    # Path.exists raises an OSError for a text that is too long for a file name.
    return Path(text) if os.path.exists(text) else None  # noqa: PTH110


def check_inside(path: Path, folder: Path) -> None:
    """Raise UserError if a link leads out of the folder, or the path is a pipe or a device."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{truncate(str(path), 300)}: a link that leads out of its folder")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UserError(f"{truncate(str(path), 300)}: a pipe or a device: expected a regular file")


# tomllib needs quadratic time for a key of many dotted parts: refuse more than any config has.
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){16}""")


def parse_toml(text: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parse TOML in bounded time; every error is a ValueError."""
    if _DEEP_KEY.search(text):
        raise UserError("nested too deeply: a key has 16 parts or more")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except RecursionError:
        raise UserError("nested too deeply: too many lists inside of lists") from None


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


# -- locking ---------------------------------------------------------------------------------------


class LockHeld(Exception):  # noqa: N818
    """Another process holds the lock."""


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created; without `wait`, raise `LockHeld`."""
    with open_regular_file(path, "ab") as file:
        if os.name == "nt":
            _lock_on_windows(file.fileno(), wait)
        else:
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise LockHeld(str(path)) from None
            except OSError:  # some network file systems have no locks: go on without
                pass
        yield


def _lock_on_windows(handle: int, wait: bool) -> None:
    import msvcrt

    os.lseek(handle, 0, os.SEEK_SET)
    while True:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK if not wait else msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
            return
        except OSError:  # LK_LOCK gives up after ten seconds: try again
            if not wait:
                raise LockHeld from None
