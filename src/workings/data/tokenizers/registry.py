"""Tokenizers by kind, and pairs of them for source and target: trained, or loaded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workings.data.tokenizers.base import EOS_TOKEN, FORMAT, VERSION, Tokenizer, get_stop_id
from workings.data.tokenizers.byte_pair import BytePairTokenizer, GPT2Tokenizer
from workings.data.tokenizers.characters import CharacterTokenizer
from workings.data.tokenizers.unigram import UnigramTokenizer
from workings.data.tokenizers.words import WordTokenizer
from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import read_json_object

TOKENIZERS: dict[str, type[Tokenizer]] = {
    c.kind: c for c in (CharacterTokenizer, WordTokenizer, BytePairTokenizer)
}
"""The kinds that can be trained."""
LOADABLE_TOKENIZERS = TOKENIZERS | {c.kind: c for c in (GPT2Tokenizer, UnigramTokenizer)}
"""These, and the kinds that come with imported models."""
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
    """Train a tokenizer of this kind on texts.

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
    """Load a tokenizer that `Tokenizer.save` wrote.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     CharacterTokenizer.train(["hello"]).save(f"{folder}/tokenizer.json")
    ...     load_tokenizer(f"{folder}/tokenizer.json")
    CharacterTokenizer(7 tokens)
    """
    path = Path(path)
    table = read_json_object(path, MAX_FILE_BYTES)
    version = table.get("version")
    if table.get("format") != FORMAT or not isinstance(version, int):
        raise UserError(f"{path}: not a tokenizer of this program")
    if version > VERSION:
        raise UserError(
            f"{path}: version {safe_repr(version)} is newer than this program's {VERSION}"
        )
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in LOADABLE_TOKENIZERS:
        name = kind if isinstance(kind, str) else ""
        raise UserError(
            f"{path}: kind = {safe_repr(kind)}: {did_you_mean(name, LOADABLE_TOKENIZERS)}"
        )
    vocabulary = table.get("vocabulary")
    if not isinstance(vocabulary, list) or not all(isinstance(t, str) for t in vocabulary):
        raise UserError(f"{path}: the vocabulary is not a list of texts")
    specials = list(LOADABLE_TOKENIZERS[kind].default_specials)
    if table.get("specials") not in (specials, [*specials, EOS_TOKEN]):
        expected = ", ".join(specials) or "none"
        raise UserError(f"{path}: expected the specials {expected}, with or without {EOS_TOKEN}")
    try:
        return LOADABLE_TOKENIZERS[kind].from_dict(table)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a broken tokenizer: {truncate(str(error), 150)}") from None


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of source and target; `lower`: they read lowercased text."""

    source: Tokenizer
    target: Tokenizer
    lower: bool = False

    def normalize_case(self, text: str) -> str:
        """Return a text as the tokenizers read it, lowercased if they are."""
        return text.lower() if self.lower else text

    def encode_source(self, text: str) -> list[int]:
        """Return the ids of a source sentence and the stop token."""
        return [*self.source.encode(self.normalize_case(text)), get_stop_id(self.source)]

    def encode_target(self, text: str) -> list[int]:
        """Return the ids of a target sentence, without start and stop tokens."""
        return self.target.encode(self.normalize_case(text))


def train_tokenizer_pair(
    kind: str,
    sources: Sequence[str],
    targets: Sequence[str],
    vocab_size: int,
    min_count: int,
    *,
    shared: bool,
    lower: bool,
    pad_to: int | None = None,
) -> TokenizerPair:
    """Train tokenizers with an end token on sources and targets, or a shared one on both."""

    def train(texts: Iterable[str]) -> Tokenizer:
        if lower:
            texts = [text.lower() for text in texts]
        return train_tokenizer(kind, texts, vocab_size, min_count, with_eos=True, pad_to=pad_to)

    if shared:
        tokenizer = train([*sources, *targets])
        return TokenizerPair(tokenizer, tokenizer, lower)
    return TokenizerPair(train(sources), train(targets), lower)


def load_tokenizer_pair(folder: Path, *, shared: bool, lower: bool) -> TokenizerPair:
    """Load the tokenizers of source and target, or a shared one, from a run's folder."""
    if shared:
        tokenizer = load_tokenizer(folder / "tokenizer.json")
        return TokenizerPair(tokenizer, tokenizer, lower)
    source, target = (load_tokenizer(folder / f"{side}.json") for side in ("source", "target"))
    return TokenizerPair(source, target, lower)
