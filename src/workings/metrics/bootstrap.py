"""Is one system better than another, or only luckier? Paired bootstrap resampling (Koehn 2004).

Test sets are drawn from the one there is, sentences with replacement, and both systems are scored
on each. sacreBLEU's own test centres the differences and asks for their size instead; its
p-value is another one, its intervals are these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.metrics import bleu
from workings.metrics.bleu import CorpusMetric, MetricStatistics, References

MIN_RESAMPLES = 40  # resamples of which the lowest and the highest fortieth can be left out


@dataclass(frozen=True)
class Estimate:
    """A figure on the test set as it is, and where 95 % of the resamples have it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test set."""

    baseline: Estimate
    system: Estimate
    difference: Estimate  # of the system over the baseline
    p_value: float  # the share of resamples in which the better one is not better
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
    """Compare two systems' translations of the same sentences, by BLEU if no measure is given.

    A p of 0 is fewer than one in `resamples`. Where both have one score, p is 1.

    >>> right = ["ein Hund rennt durch den Schnee", "zwei Katzen schlafen auf dem Sofa"] * 20
    >>> worse = [text.replace("den", "das") for text in right]
    >>> found = compare_systems(worse, right, right, resamples=100)
    >>> round(found.difference.value, 1), found.p_value
    (22.2, 0.0)
    """
    if resamples < MIN_RESAMPLES:
        raise UserError(f"expected at least {MIN_RESAMPLES} resamples, got {resamples}")
    metric = metric or bleu.bleu_metric()
    counts = [metric.collect_statistics(texts, references) for texts in (baseline, system)]
    before, after = (counted.score().score for counted in counts)
    one, other = _score_resamples(counts, resamples, seed)
    lead = other - one if after > before else one - other
    return Comparison(
        baseline=_estimate(before, one),
        system=_estimate(after, other),
        difference=_estimate(after - before, other - one),
        p_value=1.0 if after == before else float(np.mean(lead <= 0)),
        resamples=resamples,
        seed=seed,
        signature=counts[0].signature,
    )


def _score_resamples(
    statistics: Sequence[MetricStatistics], resamples: int, seed: int
) -> NDArray[np.float64]:
    """Score every system on each of the resamples: [systems, resamples]."""
    dice = np.random.default_rng(seed)
    sentences = len(statistics[0].rows)
    scores = np.empty((len(statistics), resamples))
    for k in range(resamples):
        drawn = dice.integers(sentences, size=sentences)
        times = np.bincount(drawn, minlength=sentences)
        for system, counted in enumerate(statistics):
            scores[system, k] = counted.compute_score(times @ counted.rows).score
    return scores


def _estimate(value: float, scores: NDArray[np.float64]) -> Estimate:
    """Leave out the lowest and the highest fortieth of the resamples."""
    rising = np.sort(scores)
    aside = len(rising) // MIN_RESAMPLES
    return Estimate(value, float(rising[aside]), float(rising[-1 - aside]))
