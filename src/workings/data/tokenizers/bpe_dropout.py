"""Byte pairs that fall apart by chance: words are read in other pieces from epoch to epoch.

Provilkov et al. (2020), "BPE-Dropout": whenever pairs could be merged, each is left as it is with a
certain chance. What is learned from the usual pieces alone knows rare words by one spelling only.
"""

from array import array
from collections.abc import Sequence
from itertools import chain, pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

from workings.data.tokenizers.byte_pair import BytePairTokenizer

MAX_VARIANTS = 32
"""Splits of a word that are drawn in an epoch, at most: what is read more often takes one of them.

Most words of a language are rare. Multi30k's take two or three seconds an epoch so.
"""
MAX_WORD_BYTES = 32
"""Bytes of a word that falls apart: a sentence without spaces is one word, and would take long."""


class BPEDropout:
    """Texts whose words are split anew each epoch, with the chance `share` for a pair to be left.

    >>> tokenizer = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=270)
    >>> loose = BPEDropout(tokenizer, ["lower low"], dropout=0.1, seed="b")
    >>> [[tokenizer.id_to_token(i) for i in loose.sample_epoch(epoch)[0]] for epoch in (0, 1, 0)]
    [['low', 'e', 'r', 'Ġlow'], ['l', 'o', 'w', 'e', 'r', 'Ġlow'], ['low', 'e', 'r', 'Ġlow']]
    """

    def __init__(
        self, tokenizer: BytePairTokenizer, texts: Sequence[str], dropout: float, seed: str
    ) -> None:
        self._tokenizer, self._dropout, self._seed = tokenizer, dropout, seed
        self._ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
        self._ids = {tokenizer.id_to_token(i): i for i in range(len(tokenizer))}
        numbers: dict[str, int] = {}
        words = [
            [numbers.setdefault(word, len(numbers)) for word in tokenizer.pre_tokenize(t)]
            for t in texts
        ]
        self._ends = np.cumsum([len(some) for some in words], dtype=np.int64)
        self._words = np.fromiter(chain.from_iterable(words), np.int64)
        self._counts = np.minimum(np.bincount(self._words, minlength=len(numbers)), MAX_VARIANTS)
        self._unique_words = list(numbers)

    def sample_epoch(self, epoch: int) -> list[NDArray[np.int32]]:
        """The ids of each text, as its words fall apart in this epoch: the same ones every time."""
        draw = Random(f"{self._seed} {epoch}")  # noqa: S311 - no secret hangs on it
        ids, lengths = self._sample_variants(draw)
        begins = np.cumsum(lengths) - lengths
        # The stream of this older generator is frozen: every numpy draws the same.
        chances = np.random.RandomState(draw.getrandbits(32)).random_sample(len(self._words))
        first = np.cumsum(self._counts) - self._counts  # of each word's variants
        chosen = first[self._words] + (chances * self._counts[self._words]).astype(np.int64)
        ends = np.cumsum(lengths[chosen])
        # Where each id of the result stands among the variants': it follows the one before it.
        places = np.repeat(begins[chosen] - (ends - lengths[chosen]), lengths[chosen])
        cuts = np.concatenate(([0], ends))[self._ends]
        return np.split(ids[places + np.arange(len(places))], cuts)[:-1]

    def _sample_variants(self, rng: Random) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Splits of each word, one after the other, as many as are wanted: ids, and lengths."""
        ids, lengths = array("i"), array("q")
        for word, count in zip(self._unique_words, self._counts.tolist(), strict=True):
            for _ in range(count):
                before = len(ids)
                ids.extend(self._sample_split(word, rng))
                lengths.append(len(ids) - before)
        return np.array(ids, np.int32), np.array(lengths, np.int64)

    def _sample_split(self, word: str, rng: Random) -> list[int]:
        """Merge the pair that comes first among those that are not left, until none is found."""
        if len(word) > MAX_WORD_BYTES:
            return self._tokenizer.encode(self._tokenizer.join([word]))
        parts, ranks, share = list(word), self._ranks, self._dropout
        while len(parts) > 1:
            found = (
                (ranks[pair], k)
                for k, pair in enumerate(pairwise(parts))
                if pair in ranks and rng.random() >= share
            )
            _, k = min(found, default=(0, -1))
            if k < 0:
                break
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
        return [self._ids[part] for part in parts]
