"""What every tokenizer can do: text to tokens to ids and back, and itself to a file."""

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from workings.errors import UserError

PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN = "<pad>", "<s>", "<unk>", "</s>"
FORMAT = "workings tokenizer"
VERSION = 2

Span = tuple[int, int]


class Tokenizer(ABC):
    """Turns text into ids and back.

    The first ids are the specials: 0 pads, 1 starts a text, 2 stands for what is unknown and, in a
    vocabulary that has it, 3 ends a text. No text can spell them: "<pad>" in a review is five
    characters or an unknown word, never padding.
    """

    kind: ClassVar[str]
    default_specials: ClassVar[tuple[str, ...]] = (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN)
    pad_id: int = 0
    bos_id: int = 1
    unk_id: int = 2

    def __init__(self, vocabulary: Sequence[str], *, with_eos: bool = False) -> None:
        self._specials = (*self.default_specials, EOS_TOKEN) if with_eos else self.default_specials
        self._tokens: tuple[str, ...] = (*self._specials, *vocabulary)
        first = len(self._specials)
        self._ids = {token: number for number, token in enumerate(vocabulary, first)}
        if len(self._ids) != len(vocabulary):
            raise UserError("the vocabulary holds a token twice")

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
        """Make a tokenizer of at most `size` ids, the specials among them, from texts."""

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Split a text into tokens as a person can read them, known or not."""

    @abstractmethod
    def find_spans(self, text: str) -> list[Span]:
        """Tell for each token where it stands: `text[start:end]`."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """Put tokens of the vocabulary together into a text."""

    def extract_language_tag(self, text: str) -> str:  # noqa: ARG002 - ours know of none
        """What a text begins with that says which language is asked for, where that is a token."""
        return ""

    def encode(self, text: str) -> list[int]:
        """Turn a text into ids, without start and stop."""
        known, unknown = self._ids.get, self.unk_id
        return [known(token, unknown) for token in self.tokenize(text)]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Turn each text into ids."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into a text, leaving out padding, start and stop."""
        kept = [i for i in ids if i >= len(self._specials) or self.id_to_token(i) == UNK_TOKEN]
        return self.join([self.id_to_token(i) for i in kept])

    def id_to_token(self, token_id: int) -> str:
        """Name the token of an id."""
        if not 0 <= token_id < len(self._tokens):
            raise UserError(
                f"id {token_id}: the vocabulary has {len(self._tokens):,}, counted from 0"
            )
        return self._tokens[token_id]

    def token_to_text(self, token: str) -> str:
        """The text that a token stands for; of a special, or of a part of a letter, its name."""
        text = token if token in self._specials else self.join([token])
        return text if text and "\ufffd" not in text else token

    @property
    def eos_id(self) -> int | None:
        """The id that ends a text, where the vocabulary has one."""
        return 3 if EOS_TOKEN in self._specials else None

    @property
    def specials(self) -> tuple[str, ...]:
        """The tokens that stand before the vocabulary."""
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
        """Take the tokenizer apart into plain values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "specials": list(self._specials),
            "vocabulary": list(self._tokens[len(self._specials) :]),
        }

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "Tokenizer":
        """Make the tokenizer of such a table."""
        return cls(table["vocabulary"], with_eos=EOS_TOKEN in table["specials"])

    def save(self, path: str | Path) -> None:
        """Write the tokenizer as JSON, in one stroke: a reader never finds half of it."""
        path = Path(path)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=0)
        # A character of the vocabulary may be half of one, where the text it came from was broken.
        part.write_bytes(text.encode("utf-8", "surrogatepass") + b"\n")
        part.replace(path)


def select_vocabulary(
    counts: Counter[str], vocab_size: int, min_count: int, *, with_eos: bool = False
) -> list[str]:
    """Choose a vocabulary: the most frequent first, in the order of their characters where equal.

    `size` counts the specials, as the field's tools do.

    >>> select_vocabulary(Counter("abracadabra"), vocab_size=6, min_count=2)
    ['a', 'b', 'r']
    """
    room = vocab_size - (4 if with_eos else 3)
    if room < 1:
        raise UserError(f"size = {vocab_size}: the specials take {4 if with_eos else 3}: give more")
    if not counts:
        raise UserError("no texts to make a vocabulary from")
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    # What is spelt like a special is left to the unknown, before the room is given out.
    free = [(t, n) for t, n in ranked if t not in (PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN)]
    return [token for token, count in free[:room] if count >= min_count]
