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


def mapped(texts: Iterable[str], tokenizer: Tokenizer, checksum: str) -> Ids:
    """Encode pieces of text into a file of the user's cache, and map it.

    What was encoded before, the same text (by its checksum) by the same tokenizer, is not again.
    """
    kind = "uint16" if len(tokenizer) <= 2**16 else "uint32"
    table = json.dumps(tokenizer.to_table(), sort_keys=True)
    key = hashlib.sha256(f"{checksum}\0{table}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    folder = cache_folder() / "tokens"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{key}.{kind}"
    with locked(folder / f".{key}.lock"):
        if not path.is_file():
            _write(path, texts, tokenizer, kind)
    ids: Ids = np.memmap(path, dtype=kind, mode="r")
    return ids


def _write(path: Path, texts: Iterable[str], tokenizer: Tokenizer, kind: str) -> None:
    part = path.with_name(f"{path.name}.part")
    count = 0
    with part.open("wb") as file:
        for text in texts:
            ids = np.asarray(tokenizer.encode(text), dtype=kind)
            ids.tofile(file)
            count += len(ids)
        file.flush()
        os.fsync(file.fileno())
    if not count:
        part.unlink()
        raise UserError("the text is empty: there is nothing to learn from")
    part.replace(path)


def text_checksum(texts: Iterable[str]) -> tuple[str, int]:
    """The SHA-256 of a text given in pieces, and how many characters it has."""
    digest, count = hashlib.sha256(), 0
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        count += len(text)
    return digest.hexdigest(), count
