"""Characters as tokens."""

from collections import Counter
from collections.abc import Iterable, Sequence

from workings.data.tokenizer import Span, Tokenizer, most_frequent


class Characters(Tokenizer):
    """A token for every character, as it stands: nothing is lower-cased.

    >>> tokenizer = Characters.train(["hello"])
    >>> tokenizer.encode("hell?"), len(tokenizer)
    ([5, 4, 3, 3, 2], 7)
    >>> tokenizer.decode([5, 4, 3, 3, 6])
    'hello'
    """

    kind = "characters"

    @classmethod
    def train(
        cls, texts: Iterable[str], size: int = 20_000, min_count: int = 1, *, stop: bool = False
    ) -> "Characters":
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(text)
        return cls(most_frequent(counts, size, min_count, stop=stop), stop=stop)

    def tokens(self, text: str) -> list[str]:
        return list(text)

    def spans(self, text: str) -> list[Span]:
        return [(i, i + 1) for i in range(len(text))]

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)
