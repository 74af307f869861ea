"""Tokens of a long text in a file that is mapped into memory: a text may be larger than that."""

import hashlib
import json
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from workings.data.mapped_file import mapped_file
from workings.data.tokenizer import Tokenizer
from workings.errors import UserError

Ids = NDArray[np.uint16] | NDArray[np.uint32]


def mapped(texts: Iterable[str], tokenizer: Tokenizer, checksum: str) -> Ids:
    """Encode pieces of text into a file of the user's cache, and map it.

    What was encoded before, the same text (by its checksum) by the same tokenizer, is not again.
    """
    kind = "uint16" if len(tokenizer) <= 2**16 else "uint32"
    table = json.dumps(tokenizer.to_table(), sort_keys=True)

    def encoded() -> Iterable[NDArray[np.unsignedinteger]]:
        return (np.asarray(tokenizer.encode(text), dtype=kind) for text in texts)

    ids, _ = mapped_file("tokens", f"{checksum}\0{table}", kind, encoded)
    if not len(ids):
        raise UserError("the text is empty: there is nothing to learn from")
    return ids


def text_checksum(texts: Iterable[str]) -> tuple[str, int]:
    """The SHA-256 of a text given in pieces, and how many characters it has."""
    digest, count = hashlib.sha256(), 0
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass"))
        count += len(text)
    return digest.hexdigest(), count
