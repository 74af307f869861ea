"""Numbers that took long to make, in files of the user's cache that are mapped into memory."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workings.data.sets import cache_folder
from workings.errors import UserError
from workings.locks import locked

DIGEST = 32  # bytes at the end of a file: the SHA-256 of what stands before


def mapped_file(
    room: str, key: str, kind: str, make: Callable[[], Iterable[NDArray[Any]]]
) -> tuple[NDArray[Any], str]:
    """Map the file of this key, of numbers of a kind; make it first, a piece after the other.

    The SHA-256 of its bytes comes with it.

    What was made before is not again, unless the file has been damaged since. It appears when it is
    whole, and its arrays cannot be written to. `room` is a folder of the cache.
    """
    folder = cache_folder() / room
    path = (
        folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.{kind}"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}: {room} are kept there") from None
    with locked(folder / f".{path.stem}.lock"):
        found = _whole(path, kind)
        if found is None:
            _write(path, make(), room)
            found = _whole(path, kind)
    if found is None:  # a file system without locks, and two at once
        raise UserError(f"{path}: it was changed while it was written: once more")
    return found


def _whole(path: Path, kind: str) -> tuple[NDArray[Any], str] | None:
    """Map a file whose numbers are those that were written; None: it has to be written."""
    if not path.is_file() or path.stat().st_size < DIGEST:
        return None
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    numbers, digest = raw[:-DIGEST], raw[-DIGEST:]
    if (
        len(numbers) % np.dtype(kind).itemsize
        or hashlib.sha256(numbers.data).digest() != digest.tobytes()
    ):
        return None
    return numbers.view(kind), digest.tobytes().hex()


def _write(path: Path, pieces: Iterable[NDArray[Any]], room: str) -> None:
    part = path.with_name(f"{path.name}.part")
    digest = hashlib.sha256()
    try:
        with part.open("wb") as file:
            for piece in pieces:
                raw = piece.tobytes()
                digest.update(raw)
                file.write(raw)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: {why}: {room} need room there") from None
    finally:
        part.unlink(missing_ok=True)
