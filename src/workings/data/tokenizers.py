"""The tokenizers by name: to train one, and to load one that was saved."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workings.data.borrowed import Borrowed
from workings.data.byte_pair import BytePair
from workings.data.characters import Characters
from workings.data.pieces import Pieces
from workings.data.tokenizer import FORMAT, STOP, VERSION, Tokenizer
from workings.data.words import Words
from workings.errors import UserError, brief, near, shown
from workings.files import read_bytes

KINDS: dict[str, type[Tokenizer]] = {c.kind: c for c in (Characters, Words, BytePair)}
SAVED = KINDS | {c.kind: c for c in (Borrowed, Pieces)}  # what a file may hold
LARGEST_FILE = 256 * 2**20


def train_tokenizer(
    kind: str, texts: Iterable[str], size: int = 20_000, min_count: int = 1, *, stop: bool = False
) -> Tokenizer:
    """Make a tokenizer of the named kind from texts.

    >>> train_tokenizer("words", ["We are learning AI", "AI is a CS topic"])
    Words(11 tokens)
    """
    if kind not in KINDS:
        raise UserError(f"tokenizer = {kind!r}: {near(kind, KINDS)}")
    return KINDS[kind].train(texts, size, min_count, stop=stop)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Characters.train(["hello"]).save(f"{folder}/tokenizer.json")
    ...     load_tokenizer(f"{folder}/tokenizer.json")
    Characters(7 tokens)
    """
    path = Path(path)
    table = _table(path)
    version = table.get("version")
    if table.get("format") != FORMAT or not isinstance(version, int):
        raise UserError(f"{path}: not a tokenizer of this program")
    if version > VERSION:
        raise UserError(f"{path}: of version {shown(version)}, newer than this program's {VERSION}")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in SAVED:
        word = kind if isinstance(kind, str) else ""
        raise UserError(f"{path}: kind = {shown(kind)}: {near(word, SAVED)}")
    vocabulary = table.get("vocabulary")
    if not isinstance(vocabulary, list) or not all(isinstance(t, str) for t in vocabulary):
        raise UserError(f"{path}: its vocabulary is not a list of texts")
    specials = list(SAVED[kind].first_specials)
    if table.get("specials") not in (specials, [*specials, STOP]):
        raise UserError(
            f"{path}: its specials are not {', '.join(specials) or 'none'} and perhaps {STOP}"
        )
    try:
        return SAVED[kind].from_table(table)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a broken tokenizer: {brief(str(error), 150)}") from None


def _table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(read_bytes(path, LARGEST_FILE).decode("utf-8", "surrogatepass"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a tokenizer: not JSON: {brief(str(error))}") from None
    if not isinstance(table, dict):
        raise UserError(f"{path}: not a tokenizer of this program")
    return table
