"""Tokenizers: their base class, and training, saving and loading them by kind."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from workings.errors import UserError, did_you_mean, safe_repr, truncate
from workings.io import read_json_object, write_bytes

PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN = "<pad>", "<s>", "<unk>", "</s>"
FORMAT = "workings tokenizer"
VERSION = 2
MAX_FILE_BYTES = 256 * 2**20

# Module and class of each kind. The modules import this one, so they are imported when needed.
TOKENIZERS = {
    "characters": "characters.CharacterTokenizer",
    "words": "words.WordTokenizer",
    "byte-pair": "byte_pair.BytePairTokenizer",
}
"""The kinds that can be trained."""
LOADABLE_TOKENIZERS = TOKENIZERS | {
    "gpt2": "byte_pair.GPT2Tokenizer",
    "unigram": "unigram.UnigramTokenizer",
}
"""These, and the kinds that come with imported models."""

Span = tuple[int, int]


class Tokenizer(ABC):
    """A mapping from text to token ids and back.

    The first ids are special tokens: 0 is padding, 1 begins a text, 2 is the unknown token and, in
    a vocabulary that has it, 3 ends a text. No text is encoded as a special token: "<pad>" in a
    review becomes five characters or an unknown word, never padding.
    """

    kind: ClassVar[str]
    default_specials: ClassVar[tuple[str, ...]] = (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN)
    pad_id: int = 0
    bos_id: int = 1
    unk_id: int = 2

    def __init__(self, vocabulary: Sequence[str], *, with_eos: bool = False) -> None:
        self._specials = (*self.default_specials, EOS_TOKEN) if with_eos else self.default_specials
        self._tokens: tuple[str, ...] = (*self._specials, *vocabulary)
        self._ids = {token: i for i, token in enumerate(vocabulary, len(self._specials))}
        if len(self._ids) != len(vocabulary):
            raise UserError("the vocabulary has a token twice")

    @classmethod
    @abstractmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 20_000,
        min_count: int = 1,
        *,
        with_eos: bool = False,
    ) -> "Tokenizer":
        """Build a tokenizer from texts, with at most `vocab_size` ids including the specials."""

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Split a text into readable tokens, in the vocabulary or not."""

    @abstractmethod
    def find_spans(self, text: str) -> list[Span]:
        """Return start and end of each token in the text: `text[start:end]`."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens of the vocabulary into a text."""

    def extract_language_tag(self, text: str) -> str:  # noqa: ARG002 - for subclasses
        """Return the tag at the start of a text that selects the target language, or ""."""
        return ""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without the tokens that begin and end it."""
        get_id, unk_id = self._ids.get, self.unk_id
        return [get_id(token, unk_id) for token in self.tokenize(text)]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the ids of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, without special tokens except for the unknown token."""
        num_specials = len(self._specials)
        tokens = [(i, self.id_to_token(i)) for i in ids]
        return self.join([token for i, token in tokens if i >= num_specials or token == UNK_TOKEN])

    def id_to_token(self, token_id: int) -> str:
        """Return the token of an id."""
        if not 0 <= token_id < len(self._tokens):
            raise UserError(f"token id {token_id} is out of range: 0 to {len(self._tokens) - 1:,}")
        return self._tokens[token_id]

    def token_to_text(self, token: str) -> str:
        """Return the text of a token, or its name if it is special or part of a character."""
        text = token if token in self._specials else self.join([token])
        return text if text and "\ufffd" not in text else token

    @property
    def eos_id(self) -> int | None:
        """The id that ends a text, or None if the vocabulary has none."""
        return 3 if EOS_TOKEN in self._specials else None

    @property
    def specials(self) -> tuple[str, ...]:
        """The special tokens, which have the first ids."""
        return self._specials

    def __len__(self) -> int:
        return len(self._tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.kind, self._tokens))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self):,} tokens)"

    def to_dict(self) -> dict[str, Any]:
        """Return the tokenizer as JSON values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "specials": list(self._specials),
            "vocabulary": list(self._tokens[len(self._specials) :]),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "Tokenizer":
        """Build the tokenizer that `to_dict` described."""
        return cls(table["vocabulary"], with_eos=EOS_TOKEN in table["specials"])

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON, atomically."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=0)
        # A character of the vocabulary may be an unpaired surrogate, if a training text had one.
        write_bytes(Path(path), text.encode("utf-8", "surrogatepass") + b"\n", unique=True)


def select_vocabulary(
    counts: Counter[str], vocab_size: int, min_count: int, *, with_eos: bool = False
) -> list[str]:
    """Return the most frequent tokens first, and equally frequent ones in alphabetical order.

    `vocab_size` includes the specials.

    >>> select_vocabulary(Counter("abracadabra"), vocab_size=6, min_count=2)
    ['a', 'b', 'r']
    """
    num_specials = 4 if with_eos else 3
    if vocab_size <= num_specials:
        raise UserError(
            f"vocab_size = {vocab_size}: expected more than the {num_specials} special tokens"
        )
    if not counts:
        raise UserError("no texts to build a vocabulary from")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    # A token spelled like a special one would be ambiguous: it stays unknown.
    reserved = (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN)
    candidates = [(token, count) for token, count in ranked if token not in reserved]
    max_tokens = vocab_size - num_specials
    return [token for token, count in candidates[:max_tokens] if count >= min_count]


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
    tokenizer = _import_class(kind).train(texts, vocab_size, min_count, with_eos=with_eos)
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
    ...     train_tokenizer("characters", ["hello"]).save(f"{folder}/tokenizer.json")
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
    tokenizer_class = _import_class(kind)
    specials = list(tokenizer_class.default_specials)
    if table.get("specials") not in (specials, [*specials, EOS_TOKEN]):
        expected = ", ".join(specials) or "none"
        raise UserError(f"{path}: expected the specials {expected}, with or without {EOS_TOKEN}")
    try:
        return tokenizer_class.from_dict(table)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: a broken tokenizer: {truncate(str(error), 150)}") from None


def _import_class(kind: str) -> type[Tokenizer]:
    module, _, name = LOADABLE_TOKENIZERS[kind].partition(".")
    tokenizer_class: type[Tokenizer] = getattr(import_module(f"{__package__}.{module}"), name)
    return tokenizer_class
