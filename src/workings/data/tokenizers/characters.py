"""A tokenizer with one token per character."""

from collections import Counter
from collections.abc import Iterable, Sequence

from workings.data.tokenizers.base import Span, Tokenizer, select_vocabulary


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
            counts.update(text)
        return cls(
            select_vocabulary(counts, vocab_size, min_count, with_eos=with_eos), with_eos=with_eos
        )

    def tokenize(self, text: str) -> list[str]:
        return list(text)

    def find_spans(self, text: str) -> list[Span]:
        return [(i, i + 1) for i in range(len(text))]

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)
