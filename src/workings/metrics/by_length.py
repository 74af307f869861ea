"""Where translations fail: the score by how long the source is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workings.errors import UserError, safe_repr
from workings.metrics import bleu
from workings.metrics.bleu import CorpusMetric, References, check_same_length

NUM_BUCKETS = 8  # a curve
MIN_BUCKET_SIZE = 50  # sentences, below which BLEU says little
SMALL_SET_BUCKETS, SMALL_SET_MIN_BUCKET_SIZE = (
    5,
    10,
)  # buckets of a set that is too small for that, and sentences of each


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose sources have from `fewest` to `most` words, both included; the mean."""

    min_words: int
    max_words: int
    mean_words: float
    sentences: int
    score: float


def score_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    bucket_ends: Sequence[int] | None = None,
    metric: CorpusMetric | None = None,
) -> list[LengthBucket]:
    """Score the sentences of each bucket of lengths together, by BLEU if no measure is given.

    That is BLEU of as many words in a row, up to four, as a bucket's translations have.
    `ends` are the numbers of words at which buckets end; what is longer is one more bucket.
    Without them buckets are chosen that have enough sentences. Empty ones are left out.

    >>> texts = ["a b c d", "a b c d e", "a b c d e f g"]
    >>> for bucket in score_by_length(texts, ["a b c d", "a b c d e", "b c d e"], texts, bucket_ends=[5]):
    ...     print(bucket.min_words, bucket.max_words, bucket.sentences, round(bucket.score))
    4 5 2 100
    6 7 1 47
    """
    check_same_length(sources, hypotheses, "sources")
    counts = (metric or bleu.bleu_metric(effective_order=True)).collect_statistics(
        hypotheses, references
    )
    lengths = np.array([len(source.split()) for source in sources])
    shortest, longest = int(lengths.min()), int(lengths.max())
    chosen = list(
        choose_bucket_ends(lengths.tolist())
        if bucket_ends is None
        else _check_increasing(bucket_ends)
    )
    if chosen[-1] < longest:
        chosen.append(longest)
    buckets = []
    for before, most in pairwise([shortest - 1, *(end for end in chosen if end >= shortest)]):
        inside = (lengths > before) & (lengths <= most)
        if inside.any():
            score = counts.compute_score(counts.rows[inside].sum(0)).score
            mean = float(lengths[inside].mean())
            buckets.append(LengthBucket(before + 1, most, mean, int(inside.sum()), score))
    return buckets


def choose_bucket_ends(
    lengths: Sequence[int], *, num_buckets: int = NUM_BUCKETS, min_bucket_size: int | None = None
) -> list[int]:
    """Choose where buckets end: none has too few sentences, and all have about as many.

    Unless it is said how many are `enough`, it takes fewer in a small set.

    >>> choose_bucket_ends([5, 5, 6, 6, 8, 20], num_buckets=3, min_bucket_size=2)
    [5, 6, 20]
    """
    rising = sorted(lengths)
    if min_bucket_size is None:
        min_bucket_size = min(
            MIN_BUCKET_SIZE,
            max(SMALL_SET_MIN_BUCKET_SIZE, math.ceil(len(rising) / SMALL_SET_BUCKETS)),
        )
    least = max(min_bucket_size, math.ceil(len(rising) / num_buckets))
    ends, begun = [], 0
    for place, (length, following) in enumerate(pairwise(rising), 1):
        if length < following and place - begun >= least and len(rising) - place >= least:
            ends.append(length)
            begun = place
    return [*ends, rising[-1]]


def _check_increasing(ends: Sequence[int]) -> Sequence[int]:
    whole = all(isinstance(end, int) and end > 0 for end in ends)
    if not ends or not whole or any(a >= b for a, b in pairwise(ends)):
        raise UserError(
            f"expected rising numbers of words like [10, 20, 30], got {safe_repr(ends)}"
        )
    return ends
