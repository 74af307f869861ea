"""The base class of tokenizers: text to tokens to ids and back, saved as JSON."""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from workings.errors import UserError
from workings.io import write_bytes

PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN = "<pad>", "<s>", "<unk>", "</s>"
FORMAT = "workings tokenizer"
VERSION = 2

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
