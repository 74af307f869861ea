"""A tokenizer with one token per character."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workings.data.tokenizers.base import Span, Tokenizer, select_vocabulary
from workings.ragged import RaggedArray

LONG_TEXT = 10_000  # characters that numpy counts faster than Python


class CharacterTokenizer(Tokenizer):
    """A tokenizer with one token per character; case is kept.

    >>> tokenizer = CharacterTokenizer.train(["hello"])
    >>> tokenizer.encode("hell?"), len(tokenizer)
    ([5, 4, 3, 3, 2], 7)
    >>> tokenizer.decode([5, 4, 3, 3, 6])
    'hello'
    """

    kind = "characters"

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int = 20_000,
        min_count: int = 1,
        *,
        with_eos: bool = False,
    ) -> "CharacterTokenizer":
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text if len(text) < LONG_TEXT else _count_characters(text))
        return cls(
            select_vocabulary(counts, vocab_size, min_count, with_eos=with_eos), with_eos=with_eos
        )

    def tokenize(self, text: str) -> list[str]:
        return list(text)

    def encode_array(self, text: str, dtype: str) -> NDArray[np.unsignedinteger[Any]]:
        codes = _code_points(text)
        table = np.full(int(codes.max(initial=0)) + 1, self.unk_id, dtype)
        for token, k in self._ids.items():
            if len(token) == 1 and ord(token) < len(table):
                table[ord(token)] = k
        return table[codes]

    def encode_rows(self, texts: Sequence[str], dtype: str) -> RaggedArray:
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return RaggedArray(self.encode_array("".join(texts), dtype), lengths)

    def find_spans(self, text: str) -> list[Span]:
        return [(i, i + 1) for i in range(len(text))]

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _count_characters(text: str) -> dict[str, int]:
    counts = np.bincount(_code_points(text))
    return {chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}
