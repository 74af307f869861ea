"""Byte pairs that fall apart by chance: a word is read in other pieces from epoch to epoch.

Provilkov et al. (2020), "BPE-Dropout": whenever pairs could be merged, each is left as it is with a
certain chance. What is learned from the usual pieces alone knows rare words by one spelling only.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

from workings.data.byte_pair import BytePair

VARIANTS = 16
"""Ways to split each word that are drawn once; every time it is read, one of them is taken."""


class LoosePairs:
    """Texts whose words are split anew each epoch; `share` of the merges are left out.

    >>> pieces = BytePair.train(["low lower lowest"] * 10, size=270)
    >>> loose = LoosePairs(pieces, ["lower low"], share=0.3, seed=0)
    >>> [[pieces.token(i) for i in loose.drawn(epoch)[0]] for epoch in (0, 1, 0)]
    [['low', 'e', 'r', 'Ġlow'], ['low', 'e', 'r', 'Ġ', 'l', 'o', 'w'], ['low', 'e', 'r', 'Ġlow']]
    """

    def __init__(self, pieces: BytePair, texts: Sequence[str], share: float, seed: int) -> None:
        self._seed = seed
        numbers: dict[str, int] = {}
        words = [
            [numbers.setdefault(word, len(numbers)) for word in pieces.words(t)] for t in texts
        ]
        self._words = np.fromiter(chain.from_iterable(words), np.int64)
        self._ends = np.cumsum([len(some) for some in words], dtype=np.int64)
        draw = Random(seed)  # noqa: S311 - no secret hangs on it
        variants = list(_variants(pieces, numbers, share, draw))
        self._ids = np.fromiter(chain.from_iterable(variants), np.int32)
        self._lengths = np.array([len(ids) for ids in variants], np.int64)
        self._begins = np.cumsum(self._lengths) - self._lengths

    def drawn(self, epoch: int) -> list[NDArray[np.int32]]:
        """The ids of each text, as its words fall apart in this epoch: the same ones every time."""
        # The stream of this older generator is frozen: every numpy draws the same.
        draw = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([self._seed, epoch])))
        chosen = self._words * VARIANTS + draw.randint(VARIANTS, size=len(self._words))
        lengths = self._lengths[chosen]
        ends = np.cumsum(lengths)
        # Where each id of the result stands among the variants': it follows the one before it.
        places = np.repeat(self._begins[chosen] - (ends - lengths), lengths)
        ids = self._ids[places + np.arange(len(places))]
        cuts = np.concatenate(([0], ends))[self._ends]
        return np.split(ids, cuts[:-1])


def _variants(
    pieces: BytePair, words: dict[str, int], share: float, draw: Random
) -> Iterator[list[int]]:
    """As many ways to split each word, one word after the other."""
    ranks = {pair: rank for rank, pair in enumerate(pieces.merges)}
    ids = {pieces.token(i): i for i in range(len(pieces))}
    for word in words:
        for _ in range(VARIANTS):
            yield [ids[part] for part in _split(word, ranks, share, draw)]


def _split(word: str, ranks: dict[tuple[str, str], int], share: float, draw: Random) -> list[str]:
    """Merge the pair that comes first among those that are not left out, until none is left."""
    parts = list(word)
    while True:
        found = (
            (ranks[pair], k)
            for k, pair in enumerate(pairwise(parts))
            if pair in ranks and draw.random() >= share
        )
        _, k = min(found, default=(0, -1))
        if k < 0:
            return parts
        parts[k : k + 2] = [parts[k] + parts[k + 1]]
