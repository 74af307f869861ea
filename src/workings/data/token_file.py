"""Tokens of a long text in a file that is mapped into memory: a text may be larger than that."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workings.data.sets import cache_folder
from workings.data.tokenizer import Tokenizer
from workings.errors import UserError
from workings.locks import locked

Ids = NDArray[np.uint16] | NDArray[np.uint32]
DIGEST = 32  # bytes at the end of a file: the SHA-256 of what stands before


def mapped(texts: Iterable[str], tokenizer: Tokenizer, checksum: str) -> Ids:
    """Encode pieces of text into a file of the user's cache, and map it.

    What was encoded before, the same text (by its checksum) by the same tokenizer, is not again,
    unless the file has been damaged since.
    """
    kind = "uint16" if len(tokenizer) <= 2**16 else "uint32"
    table = json.dumps(tokenizer.to_table(), sort_keys=True)
    key = hashlib.sha256(f"{checksum}\0{table}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    folder = cache_folder() / "tokens"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{key}.{kind}"
    with locked(folder / f".{key}.lock"):
        ids = _whole(path, kind)
        if ids is None:
            _write(path, texts, tokenizer, kind)
            ids = _whole(path, kind)
    if ids is None:  # a file system without locks, and two at once
        raise UserError(f"{path}: it was changed while it was written: once more")
    return ids


def _whole(path: Path, kind: str) -> Ids | None:
    """Map a file whose tokens are those that were written; None: it has to be written."""
    if not path.is_file() or path.stat().st_size <= DIGEST:
        return None
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    tokens, digest = raw[:-DIGEST], raw[-DIGEST:]
    if (
        len(tokens) % np.dtype(kind).itemsize
        or hashlib.sha256(tokens.data).digest() != digest.tobytes()
    ):
        return None
    ids: Ids = tokens.view(kind)
    return ids


def _write(path: Path, texts: Iterable[str], tokenizer: Tokenizer, kind: str) -> None:
    part = path.with_name(f"{path.name}.part")
    digest, count = hashlib.sha256(), 0
    try:
        with part.open("wb") as file:
            for text in texts:
                raw = np.asarray(tokenizer.encode(text), dtype=kind).tobytes()
                digest.update(raw)
                file.write(raw)
                count += len(raw)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        if not count:
            raise UserError("the text is empty: there is nothing to learn from")
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"{path}: {why}: the tokens of a text need room there") from None
    finally:
        part.unlink(missing_ok=True)


def text_checksum(texts: Iterable[str]) -> tuple[str, int]:
    """The SHA-256 of a text given in pieces, and how many characters it has."""
    digest, count = hashlib.sha256(), 0
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        count += len(text)
    return digest.hexdigest(), count
