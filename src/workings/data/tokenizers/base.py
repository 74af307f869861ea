"""The base class of tokenizers: text to tokens to ids and back, saved as JSON."""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, ClassVar

from workings.errors import UserError
from workings.io import write_bytes

PAD_TOKEN, BOS_TOKEN, UNK_TOKEN, EOS_TOKEN = "<pad>", "<s>", "<unk>", "</s>"
REPLACEMENT_CHARACTER = "\ufffd"  # stands for an incomplete character
FORMAT = "workings tokenizer"
VERSION = 2
MAX_TOKEN_CHARACTERS = 32  # long texts are tokenized so many characters per token at a time
_SENTENCE_ENDS = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")

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
        return text if text and REPLACEMENT_CHARACTER not in text else token

    def split_pieces(self, text: str) -> list[str]:
        """Return the text that each token adds, from the end of the token before it.

        If several tokens make up one character, the first has it and the others are empty.
        """
        ends = [0, *accumulate((end for _, end in self.find_spans(text)), max)]
        return [text[start:end] for start, end in pairwise(ends)]

    def decode_pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text that each token adds when the tokens are decoded from left to right."""
        pieces, decoded, first = [""] * len(ids), "", 0
        for k in range(1, len(ids) + 1):
            text = self.decode(ids[:k])
            # The next token may complete the last character.
            is_incomplete = text.endswith(REPLACEMENT_CHARACTER) and k < len(ids)
            if is_incomplete:
                text = text.rstrip(REPLACEMENT_CHARACTER)
            added = text[len(decoded) :]
            if added:
                pieces[first] = added
                decoded += added
            if added or not is_incomplete:
                first = k
        return pieces

    def label_pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return the labels of pieces, such as words without the spaces between them."""
        return list(pieces)

    def split_long_text(self, text: str, max_tokens: int) -> list[str]:
        """Split a text of more than `max_tokens` into sentences, and long ones between words.

        If the text begins with a target language tag, each part does.
        """
        language, max_characters = (
            self.extract_language_tag(text),
            max_tokens * MAX_TOKEN_CHARACTERS,
        )
        rest, max_tokens = text[len(language) :], max_tokens - bool(language)
        if self._fit_prefix(rest, max_tokens, max_characters) == len(rest):
            return [text]
        parts = []
        for sentence in map(str.strip, _SENTENCE_ENDS.split(rest)):
            while sentence:
                end = self._fit_prefix(sentence, max_tokens, max_characters)
                parts.append(language + sentence[:end])
                sentence = sentence[end:].lstrip()
        return parts or [text]

    def _fit_prefix(self, text: str, max_tokens: int, max_characters: int) -> int:
        """Return the length of the longest prefix of so many tokens, of whole words if possible."""
        if len(text.encode("utf-8", "replace")) <= max_tokens:  # a token has at least one byte
            return len(text)
        spans = self.find_spans(text[:max_characters])
        if len(spans) <= max_tokens and len(text) <= max_characters:
            return len(text)
        cut = spans[max_tokens][0] if len(spans) > max_tokens else max_characters
        return max((k for k in range(cut // 2, cut) if text[k].isspace()), default=cut)

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


def get_stop_id(tokenizer: Tokenizer) -> int:
    """Return the id of the end-of-sequence token."""
    assert tokenizer.eos_id is not None
    return tokenizer.eos_id


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
