"""Paired bootstrap resampling (Koehn 2004): is the difference between two systems significant?

Test sets are resampled from the given one, sentences with replacement, and both systems are scored
on each. sacreBLEU's test computes the same intervals, but another p-value: it centers the
differences and counts how many are larger in magnitude.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.metrics.bleu import CorpusMetric, MetricStatistics, References, bleu_metric

MIN_RESAMPLES = 40  # so that at least one score lies below and one above the 95% interval


@dataclass(frozen=True)
class Estimate:
    """A value measured on the test set, and its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The scores of two systems on one test set, and whether they differ significantly."""

    baseline: Estimate
    system: Estimate
    difference: Estimate  # system minus baseline
    p_value: float  # fraction of resamples in which the better system is not better
    resamples: int
    seed: int
    signature: str


def compare_systems(
    baseline: Sequence[str],
    system: Sequence[str],
    references: References,
    *,
    metric: CorpusMetric | None = None,
    resamples: int = 1000,
    seed: int = 12345,
) -> Comparison:
    """Compare two systems' translations of the same sentences, by BLEU unless a metric is given.

    A p-value of 0 means less than 1 / `resamples`. With equal scores it is 1.

    >>> good = ["ein Hund rennt durch den Schnee", "zwei Katzen schlafen auf dem Sofa"] * 20
    >>> worse = [text.replace("den", "das") for text in good]
    >>> comparison = compare_systems(worse, good, good, resamples=100)
    >>> round(comparison.difference.value, 1), comparison.p_value
    (22.2, 0.0)
    """
    if resamples < MIN_RESAMPLES:
        raise UserError(f"expected at least {MIN_RESAMPLES} resamples, got {resamples}")
    metric = metric or bleu_metric()
    statistics = [metric.collect_statistics(texts, references) for texts in (baseline, system)]
    baseline_score, system_score = (counts.score().score for counts in statistics)
    baseline_scores, system_scores = _score_resamples(statistics, resamples, seed)
    differences = system_scores - baseline_scores
    lead = differences if system_score > baseline_score else -differences
    return Comparison(
        baseline=_estimate(baseline_score, baseline_scores),
        system=_estimate(system_score, system_scores),
        difference=_estimate(system_score - baseline_score, differences),
        p_value=1.0 if system_score == baseline_score else float(np.mean(lead <= 0)),
        resamples=resamples,
        seed=seed,
        signature=statistics[0].signature,
    )


def _score_resamples(
    statistics: Sequence[MetricStatistics], resamples: int, seed: int
) -> NDArray[np.float64]:
    """Return the score of every system on each resample, `[systems, resamples]`."""
    rng = np.random.default_rng(seed)
    num_sentences = len(statistics[0].rows)
    scores = np.empty((len(statistics), resamples))
    for k in range(resamples):
        sample = rng.integers(num_sentences, size=num_sentences)
        multiplicity = np.bincount(sample, minlength=num_sentences)
        for system, counts in enumerate(statistics):
            scores[system, k] = counts.compute_score(multiplicity @ counts.rows).score
    return scores


def _estimate(value: float, scores: NDArray[np.float64]) -> Estimate:
    """Return the value with the interval that leaves out 2.5% of the scores on each side."""
    ascending = np.sort(scores)
    tail = len(ascending) // MIN_RESAMPLES
    return Estimate(value, float(ascending[tail]), float(ascending[-1 - tail]))
