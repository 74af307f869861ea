"""Paired bootstrap against scoring every resample from its texts, and against sacreBLEU's."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from workings.errors import UserError
from workings.metrics.bleu import (
    chrf_metric,
    moses_bleu_metric,
    score_tokenized_bleu,
    score_translations,
)
from workings.metrics.bootstrap import compare_systems


def make_systems(sentences, *error_rates, seed=0):
    """Return references made of numbers, and a system for each error rate of words."""
    rng = np.random.default_rng(seed)
    references = [rng.integers(50, size=rng.integers(3, 15)) for _ in range(sentences)]
    systems = [
        [np.where(rng.random(len(r)) < rate, rng.integers(50, size=len(r)), r) for r in references]
        for rate in error_rates
    ]
    return [[" ".join(map(str, numbers)) for numbers in texts] for texts in (references, *systems)]


METRICS = [
    (None, lambda h, r: score_translations(h, r).bleu.score),
    (chrf_metric(), lambda h, r: score_translations(h, r).chrf.score),
    (moses_bleu_metric("en"), lambda h, r: score_tokenized_bleu(h, r, language="en").score),
]


@pytest.mark.parametrize(("metric", "score"), METRICS, ids=["bleu", "chrf", "moses"])
def test_resampled_scores_equal_scores_of_resampled_texts(metric, score):
    references, one, other = make_systems(12, 0.3, 0.25)
    result = compare_systems(one, other, references, metric=metric, resamples=80, seed=3)

    rng = np.random.default_rng(3)
    samples = [rng.choice(12, size=12) for _ in range(80)]
    expected = np.array(
        [
            [score([system[i] for i in ids], [references[i] for i in ids]) for ids in samples]
            for system in (one, other)
        ]
    )
    before, after = score(one, references), score(other, references)
    for estimate, value, scores in (
        (result.baseline, before, expected[0]),
        (result.system, after, expected[1]),
        (result.difference, after - before, expected[1] - expected[0]),
    ):
        assert estimate.value == pytest.approx(value)
        # 2.5% of 80 resamples are two on each side.
        assert [estimate.low, estimate.high] == pytest.approx(list(np.sort(scores)[[2, -3]]))
    better, worse = (1, 0) if after > before else (0, 1)
    assert result.p_value == np.mean(expected[better] <= expected[worse])


def test_intervals_equal_sacrebleus(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    references, one, other = make_systems(60, 0.3, 0.25)
    systems = [("one", one), ("other", other)]
    _, table = PairedTest(systems, {"BLEU": BLEU()}, [references], test_type="bs")()
    result = compare_systems(one, other, references, seed=7)
    for ours, theirs in zip((result.baseline, result.system), table["BLEU"], strict=True):
        assert ours.value == pytest.approx(theirs.score)
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs.ci)


@pytest.mark.parametrize(
    ("error_rates", "is_significant"), [((0.4, 0.2), True), ((0.3, 0.3), False)]
)
def test_significance_agrees_with_sacrebleu(error_rates, is_significant):
    references, one, other = make_systems(60, *error_rates)
    systems = [("one", one), ("other", other)]
    _, table = PairedTest(systems, {"BLEU": BLEU()}, [references], test_type="bs")()
    result = compare_systems(one, other, references)
    assert (result.p_value < 0.05) == (table["BLEU"][1].p_value < 0.05) == is_significant
    assert (result.difference.low <= 0 <= result.difference.high) != is_significant


def test_swapping_systems_changes_only_the_sign():
    references, one, other = make_systems(30, 0.3, 0.25)
    forward = compare_systems(one, other, references)
    backward = compare_systems(other, one, references)
    assert forward.p_value == backward.p_value
    assert forward.difference.value == -backward.difference.value
    assert (forward.difference.low, forward.difference.high) == (
        -backward.difference.high,
        -backward.difference.low,
    )
    assert forward.baseline == backward.system


def test_system_compared_with_itself_has_p_value_1():
    references, one = make_systems(10, 0.3)
    result = compare_systems(one, one, references)
    assert result.p_value == 1
    assert result.difference.low == result.difference.high == 0


def test_same_seed_gives_same_comparison():
    references, one, other = make_systems(20, 0.3, 0.25)
    assert compare_systems(one, other, references) == compare_systems(one, other, references)
    assert compare_systems(one, other, references, seed=1) != compare_systems(
        one, other, references, seed=2
    )


def test_equal_systems_are_rarely_significant():
    """One comparison in ten is expected at p < 0.05: either of the two systems may be ahead."""
    significant = [
        compare_systems(one, other, references, resamples=100).p_value < 0.05
        for references, one, other in (make_systems(30, 0.3, 0.3, seed=k) for k in range(60))
    ]
    assert sum(significant) <= 15


def test_invalid_arguments_are_rejected():
    with pytest.raises(UserError, match=r"as many references as hypotheses \(1\), got 2"):
        compare_systems(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(UserError, match="at least 40 resamples, got 5"):
        compare_systems(["a"], ["a"], ["a"], resamples=5)
