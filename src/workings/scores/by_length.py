"""Where translations fail: the score by how long the source is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workings.errors import UserError, shown
from workings.scores import measures
from workings.scores.measures import Measure
from workings.scores.pairs import References, expect_as_many

BUCKETS = 8  # a curve
ENOUGH = 50  # sentences, below which BLEU says little
FEW, FEWEST = 5, 10  # buckets of a set that is too small for that, and sentences of each


@dataclass(frozen=True)
class Bucket:
    """The sentences whose sources have from `fewest` to `most` words, both included; the mean."""

    fewest: int
    most: int
    mean: float
    sentences: int
    score: float


def by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    ends: Sequence[int] | None = None,
    measure: Measure | None = None,
) -> list[Bucket]:
    """Score the sentences of each bucket of lengths together, by BLEU if no measure is given.

    That is BLEU of as many words in a row, up to four, as a bucket's translations have.
    `ends` are the numbers of words at which buckets end; what is longer is one more bucket.
    Without them buckets are chosen that have enough sentences. Empty ones are left out.

    >>> texts = ["a b c d", "a b c d e", "a b c d e f g"]
    >>> for bucket in by_length(texts, ["a b c d", "a b c d e", "b c d e"], texts, ends=[5]):
    ...     print(bucket.fewest, bucket.most, bucket.sentences, round(bucket.score))
    4 5 2 100
    6 7 1 47
    """
    expect_as_many(sources, hypotheses, "sources")
    counts = (measure or measures.bleu(short=True)).count(hypotheses, references)
    lengths = np.array([len(source.split()) for source in sources])
    shortest, longest = int(lengths.min()), int(lengths.max())
    chosen = list(balanced_ends(lengths.tolist()) if ends is None else _rising(ends))
    if chosen[-1] < longest:
        chosen.append(longest)
    buckets = []
    for before, most in pairwise([shortest - 1, *(end for end in chosen if end >= shortest)]):
        inside = (lengths > before) & (lengths <= most)
        if inside.any():
            score = counts.score_of(counts.rows[inside].sum(0)).score
            mean = float(lengths[inside].mean())
            buckets.append(Bucket(before + 1, most, mean, int(inside.sum()), score))
    return buckets


def balanced_ends(
    lengths: Sequence[int], *, buckets: int = BUCKETS, enough: int | None = None
) -> list[int]:
    """Choose where buckets end: none has too few sentences, and all have about as many.

    Unless it is said how many are `enough`, it takes fewer in a small set.

    >>> balanced_ends([5, 5, 6, 6, 8, 20], buckets=3, enough=2)
    [5, 6, 20]
    """
    rising = sorted(lengths)
    if enough is None:
        enough = min(ENOUGH, max(FEWEST, math.ceil(len(rising) / FEW)))
    least = max(enough, math.ceil(len(rising) / buckets))
    ends, begun = [], 0
    for place, (length, following) in enumerate(pairwise(rising), 1):
        if length < following and place - begun >= least and len(rising) - place >= least:
            ends.append(length)
            begun = place
    return [*ends, rising[-1]]


def _rising(ends: Sequence[int]) -> Sequence[int]:
    whole = all(isinstance(end, int) and end > 0 for end in ends)
    if not ends or not whole or any(a >= b for a, b in pairwise(ends)):
        raise UserError(f"expected rising numbers of words like [10, 20, 30], got {shown(ends)}")
    return ends
