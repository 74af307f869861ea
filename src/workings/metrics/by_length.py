"""Scores of translations by the length of the source sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workings.errors import UserError, safe_repr
from workings.metrics.bleu import CorpusMetric, References, bleu_metric, check_same_length

NUM_BUCKETS = 8
MIN_BUCKET_SIZE = 50  # sentences; BLEU of fewer is noisy
# Sets too small for that are split into at most 5 buckets of at least 10 sentences.
SMALL_SET_BUCKETS, SMALL_SET_MIN_BUCKET_SIZE = 5, 10


@dataclass(frozen=True)
class LengthBucket:
    """The score of the sentences whose sources have `min_words` to `max_words` words, inclusive."""

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
    """Score the sentences of each length bucket together, by BLEU unless a metric is given.

    BLEU is computed with `effective_order`, so that buckets of short sentences have a score.
    `bucket_ends` are the largest number of words of each bucket; longer sentences form another
    bucket. By default buckets are chosen that have enough sentences. Empty ones are left out.

    >>> texts = ["a b c d", "a b c d e", "a b c d e f g"]
    >>> hypotheses = ["a b c d", "a b c d e", "b c d e"]
    >>> for bucket in score_by_length(texts, hypotheses, texts, bucket_ends=[5]):
    ...     print(bucket.min_words, bucket.max_words, bucket.sentences, round(bucket.score))
    4 5 2 100
    6 7 1 47
    """
    check_same_length(sources, hypotheses, "sources")
    metric = metric or bleu_metric(effective_order=True)
    statistics = metric.collect_statistics(hypotheses, references)
    lengths = np.array([len(source.split()) for source in sources])
    min_length, max_length = int(lengths.min()), int(lengths.max())
    if bucket_ends is None:
        ends = choose_bucket_ends(lengths.tolist())
    else:
        ends = list(_check_increasing(bucket_ends))
    if ends[-1] < max_length:
        ends.append(max_length)
    buckets = []
    for previous_end, end in pairwise([min_length - 1, *(e for e in ends if e >= min_length)]):
        inside = (lengths > previous_end) & (lengths <= end)
        if inside.any():
            score = statistics.compute_score(statistics.rows[inside].sum(0)).score
            mean = float(lengths[inside].mean())
            buckets.append(LengthBucket(previous_end + 1, end, mean, int(inside.sum()), score))
    return buckets


def choose_bucket_ends(
    lengths: Sequence[int], *, num_buckets: int = NUM_BUCKETS, min_bucket_size: int | None = None
) -> list[int]:
    """Choose bucket ends such that buckets have about equal and sufficient numbers of sentences.

    The default of `min_bucket_size` is smaller for a small set.

    >>> choose_bucket_ends([5, 5, 6, 6, 8, 20], num_buckets=3, min_bucket_size=2)
    [5, 6, 20]
    """
    ascending = sorted(lengths)
    total = len(ascending)
    if min_bucket_size is None:
        small_set_size = max(SMALL_SET_MIN_BUCKET_SIZE, math.ceil(total / SMALL_SET_BUCKETS))
        min_bucket_size = min(MIN_BUCKET_SIZE, small_set_size)
    min_count = max(min_bucket_size, math.ceil(total / num_buckets))
    ends, start = [], 0
    for count, (length, next_length) in enumerate(pairwise(ascending), 1):
        if length < next_length and count - start >= min_count and total - count >= min_count:
            ends.append(length)
            start = count
    return [*ends, ascending[-1]]


def _check_increasing(ends: Sequence[int]) -> Sequence[int]:
    are_positive = all(isinstance(end, int) and end > 0 for end in ends)
    if not ends or not are_positive or any(a >= b for a, b in pairwise(ends)):
        raise UserError(
            f"expected increasing numbers of words like [10, 20, 30], got {safe_repr(ends)}"
        )
    return ends
