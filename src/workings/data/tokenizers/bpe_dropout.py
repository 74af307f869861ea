"""BPE-dropout: words are split into different tokens in every epoch.

Provilkov et al. (2020): in every merge step each candidate pair is dropped with some probability.
A model trained on the usual split alone sees a rare word in a single spelling.
"""

from array import array
from collections.abc import Sequence
from itertools import chain, pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

from workings.data.tokenizers.byte_pair import BytePairTokenizer

MAX_VARIANTS = 32
"""Splits of a word that are sampled per epoch; more occurrences of the word reuse them.

Most words of a language are rare. With this limit Multi30k takes two to three seconds per epoch.
"""
MAX_WORD_BYTES = 32
"""Longer words are split without dropout: in a text without spaces a sentence is one word."""


class BPEDropout:
    """Texts that are encoded again in every epoch, dropping merges with probability `dropout`.

    >>> tokenizer = BytePairTokenizer.train(["low lower lowest"] * 10, vocab_size=270)
    >>> texts = BPEDropout(tokenizer, ["lower low"], dropout=0.1, seed="b")
    >>> [[tokenizer.id_to_token(i) for i in texts.sample_epoch(epoch)[0]] for epoch in (0, 1, 0)]
    [['low', 'e', 'r', 'Ġlow'], ['l', 'o', 'w', 'e', 'r', 'Ġlow'], ['low', 'e', 'r', 'Ġlow']]
    """

    def __init__(
        self, tokenizer: BytePairTokenizer, texts: Sequence[str], dropout: float, seed: str
    ) -> None:
        self._tokenizer, self._dropout, self._seed = tokenizer, dropout, seed
        self._ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
        self._ids = {tokenizer.id_to_token(i): i for i in range(len(tokenizer))}
        indices: dict[str, int] = {}
        words = [
            [indices.setdefault(word, len(indices)) for word in tokenizer.pre_tokenize(text)]
            for text in texts
        ]
        self._unique_words = list(indices)
        self._words = np.fromiter(chain.from_iterable(words), np.int64)
        """Indices into the unique words, of all texts."""
        self._ends = np.cumsum([len(text_words) for text_words in words], dtype=np.int64)
        """The end of each text among these words."""
        self._counts = np.minimum(np.bincount(self._words, minlength=len(indices)), MAX_VARIANTS)
        """The number of splits to sample of each unique word."""

    def sample_epoch(self, epoch: int) -> list[NDArray[np.int32]]:
        """Return the ids of each text in this epoch; the same epoch gives the same ids."""
        rng = Random(f"{self._seed} {epoch}")  # noqa: S311 - not for cryptography
        ids, lengths = self._sample_variants(rng)
        starts = np.cumsum(lengths) - lengths
        # The stream of this legacy generator is frozen: it is the same in every numpy version.
        uniform = np.random.RandomState(rng.getrandbits(32)).random_sample(len(self._words))
        first_variant = np.cumsum(self._counts) - self._counts
        counts = self._counts[self._words]
        variants = first_variant[self._words] + (uniform * counts).astype(np.int64)
        lengths = lengths[variants]
        ends = np.cumsum(lengths)
        # Index of each output id among the variants' ids: consecutive within a word.
        offsets = np.repeat(starts[variants] - (ends - lengths), lengths)
        text_ends = np.concatenate(([0], ends))[self._ends]
        return np.split(ids[offsets + np.arange(len(offsets))], text_ends)[:-1]

    def _sample_variants(self, rng: Random) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Sample splits of all unique words; return their ids, concatenated, and their lengths."""
        ids, lengths = array("i"), array("q")
        for word, count in zip(self._unique_words, self._counts.tolist(), strict=True):
            for _ in range(count):
                split = self._sample_split(word, rng)
                ids.extend(split)
                lengths.append(len(split))
        return np.array(ids, np.int32), np.array(lengths, np.int64)

    def _sample_split(self, word: str, rng: Random) -> list[int]:
        """Merge the pair of lowest rank among those not dropped, until there is none."""
        if len(word) > MAX_WORD_BYTES:
            return self._tokenizer.encode(self._tokenizer.join([word]))
        parts, ranks, dropout = list(word), self._ranks, self._dropout
        while len(parts) > 1:
            candidates = (
                (ranks[pair], k)
                for k, pair in enumerate(pairwise(parts))
                if pair in ranks and rng.random() >= dropout
            )
            _, k = min(candidates, default=(0, -1))
            if k < 0:
                break
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
        return [self._ids[part] for part in parts]
