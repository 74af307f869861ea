"""Numbers that took long to make, in files of the user's cache that are mapped into memory."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workings.data.datasets import cache_folder
from workings.data.tokenizers.base import Tokenizer
from workings.errors import UserError
from workings.io import file_lock

DIGEST_BYTES = 32  # bytes at the end of a file: the SHA-256 of what stands before


def open_cached_array(
    category: str, key: str, dtype: str, make_chunks: Callable[[], Iterable[NDArray[Any]]]
) -> tuple[NDArray[Any], str]:
    """Map the file of this key, of numbers of a kind; make it first, a piece after the other.

    The SHA-256 of its bytes comes with it.

    What was made before is not again, unless the file has been damaged since. It appears when it is
    whole, and its arrays cannot be written to. `room` is a folder of the cache.
    """
    folder = cache_folder() / category
    path = (
        folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.{dtype}"
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}: {category} are kept there") from None
    with file_lock(folder / f".{path.stem}.lock"):
        found = _open_verified(path, dtype)
        if found is None:
            _write_chunks(path, make_chunks(), category)
            found = _open_verified(path, dtype)
    if found is None:  # a file system without locks, and two at once
        raise UserError(f"{path}: it was changed while it was written: once more")
    return found


def _open_verified(path: Path, dtype: str) -> tuple[NDArray[Any], str] | None:
    """Map a file whose numbers are those that were written; None: it has to be written."""
    if not path.is_file() or path.stat().st_size < DIGEST_BYTES:
        return None
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    numbers, digest = raw[:-DIGEST_BYTES], raw[-DIGEST_BYTES:]
    if (
        len(numbers) % np.dtype(dtype).itemsize
        or hashlib.sha256(numbers.data).digest() != digest.tobytes()
    ):
        return None
    return numbers.view(dtype), digest.tobytes().hex()


def _write_chunks(path: Path, chunks: Iterable[NDArray[Any]], category: str) -> None:
    part = path.with_name(f"{path.name}.part")
    digest = hashlib.sha256()
    try:
        with part.open("wb") as file:
            for piece in chunks:
                raw = piece.tobytes()
                digest.update(raw)
                file.write(raw)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: {why}: {category} need room there") from None
    finally:
        part.unlink(missing_ok=True)


TokenIds = NDArray[np.uint16] | NDArray[np.uint32]


def encode_cached(texts: Iterable[str], tokenizer: Tokenizer, checksum: str) -> TokenIds:
    """Encode pieces of text into a file of the user's cache, and map it.

    What was encoded before, the same text (by its checksum) by the same tokenizer, is not again.
    """
    kind = "uint16" if len(tokenizer) <= 2**16 else "uint32"
    table = json.dumps(tokenizer.to_dict(), sort_keys=True)

    def encoded() -> Iterable[NDArray[np.unsignedinteger]]:
        return (np.asarray(tokenizer.encode(text), dtype=kind) for text in texts)

    ids, _ = open_cached_array("tokens", f"{checksum}\0{table}", kind, encoded)
    if not len(ids):
        raise UserError("the text is empty: there is nothing to learn from")
    return ids


def compute_text_checksum(texts: Iterable[str]) -> tuple[str, int]:
    """The SHA-256 of a text given in pieces, and how many characters it has."""
    digest, count = hashlib.sha256(), 0
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        count += len(text)
    return digest.hexdigest(), count
