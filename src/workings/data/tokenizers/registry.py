"""The tokenizers by name: to train one, and to load one that was saved."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workings.data.tokenizers.base import EOS_TOKEN, FORMAT, VERSION, Tokenizer
from workings.data.tokenizers.byte_pair import BytePairTokenizer, GPT2Tokenizer
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import read_bytes

TOKENIZERS: dict[str, type[Tokenizer]] = {
    c.kind: c for c in (CharacterTokenizer, WordTokenizer, BytePairTokenizer)
}
LOADABLE_TOKENIZERS = TOKENIZERS | {
    c.kind: c for c in (GPT2Tokenizer, UnigramTokenizer)
}  # what a file may hold
MAX_FILE_BYTES = 256 * 2**20


def train_tokenizer(
    kind: str,
    texts: Iterable[str],
    vocab_size: int = 20_000,
    min_count: int = 1,
    *,
    with_eos: bool = False,
    pad_to: int | None = None,
) -> Tokenizer:
    """Make a tokenizer of the named kind from texts.

    >>> train_tokenizer("words", ["We are learning AI", "AI is a CS topic"])
    WordTokenizer(11 tokens)
    """
    if kind not in TOKENIZERS:
        raise UserError(f"tokenizer = {kind!r}: {did_you_mean(kind, TOKENIZERS)}")
    tokenizer = TOKENIZERS[kind].train(texts, vocab_size, min_count, with_eos=with_eos)
    return tokenizer if pad_to is None else pad_vocabulary(tokenizer, pad_to)


def pad_vocabulary(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """Return a tokenizer with unused tokens added, so that a model of a given size fits it.

    >>> pad_vocabulary(train_tokenizer("characters", ["abc"]), 8)
    CharacterTokenizer(8 tokens)
    """
    if size < len(tokenizer):
        raise UserError(f"padded_vocab_size = {size}: the tokenizer has {len(tokenizer)} tokens")
    table = tokenizer.to_dict()
    unused = [f"<unused{k}>" for k in range(size - len(tokenizer))]
    return type(tokenizer).from_dict({**table, "vocabulary": [*table["vocabulary"], *unused]})


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer that `save` wrote.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     CharacterTokenizer.train(["hello"]).save(f"{folder}/tokenizer.json")
    ...     load_tokenizer(f"{folder}/tokenizer.json")
    CharacterTokenizer(7 tokens)
    """
    path = Path(path)
    table = _read_json(path)
    version = table.get("version")
    if table.get("format") != FORMAT or not isinstance(version, int):
        raise UserError(f"{path}: not a tokenizer of this program")
    if version > VERSION:
        raise UserError(
            f"{path}: of version {safe_repr(version)}, newer than this program's {VERSION}"
        )
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in LOADABLE_TOKENIZERS:
        word = kind if isinstance(kind, str) else ""
        raise UserError(
            f"{path}: kind = {safe_repr(kind)}: {did_you_mean(word, LOADABLE_TOKENIZERS)}"
        )
    vocabulary = table.get("vocabulary")
    if not isinstance(vocabulary, list) or not all(isinstance(t, str) for t in vocabulary):
        raise UserError(f"{path}: its vocabulary is not a list of texts")
    specials = list(LOADABLE_TOKENIZERS[kind].default_specials)
    if table.get("specials") not in (specials, [*specials, EOS_TOKEN]):
        raise UserError(
            f"{path}: its specials are not {', '.join(specials) or 'none'} and perhaps {EOS_TOKEN}"
        )
    try:
        return LOADABLE_TOKENIZERS[kind].from_dict(table)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a broken tokenizer: {truncate(str(error), 150)}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(read_bytes(path, MAX_FILE_BYTES).decode("utf-8", "surrogatepass"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a tokenizer: not JSON: {truncate(str(error))}") from None
    if not isinstance(table, dict):
        raise UserError(f"{path}: not a tokenizer of this program")
    return table
