"""Paired bootstrap against the slow way, scoring texts again, and against sacreBLEU's own."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from workings.errors import UserError
from workings.metrics import bleu
from workings.metrics.bleu import score_tokenized_bleu, score_translations
from workings.metrics.bootstrap import compare_systems


def made_up(sentences, *wrong, seed=0):
    """References of numbers, and for each share of wrong words a system that has such many."""
    dice = np.random.default_rng(seed)
    references = [dice.integers(50, size=dice.integers(3, 15)) for _ in range(sentences)]
    systems = [
        [
            np.where(dice.random(len(r)) < share, dice.integers(50, size=len(r)), r)
            for r in references
        ]
        for share in wrong
    ]
    return [[" ".join(map(str, numbers)) for numbers in texts] for texts in (references, *systems)]


MEASURES = [
    (None, lambda h, r: score_translations(h, r).bleu.score),
    (bleu.chrf_metric(), lambda h, r: score_translations(h, r).chrf.score),
    (bleu.moses_bleu_metric("en"), lambda h, r: score_tokenized_bleu(h, r, language="en").score),
]


@pytest.mark.parametrize(("measure", "scored"), MEASURES, ids=["bleu", "chrf", "moses"])
def test_counts_added_up_are_texts_scored_again(measure, scored):
    references, one, other = made_up(12, 0.3, 0.25)
    found = compare_systems(one, other, references, metric=measure, resamples=80, seed=3)

    dice = np.random.default_rng(3)
    drawn = [dice.choice(12, size=12) for _ in range(80)]
    slow = np.array(
        [
            [scored([system[i] for i in some], [references[i] for i in some]) for some in drawn]
            for system in (one, other)
        ]
    )
    before, after = scored(one, references), scored(other, references)
    for estimate, value, scores in (
        (found.baseline, before, slow[0]),
        (found.system, after, slow[1]),
        (found.difference, after - before, slow[1] - slow[0]),
    ):
        assert estimate.value == pytest.approx(value)
        # The two lowest and the two highest of eighty are outside.
        assert [estimate.low, estimate.high] == pytest.approx(list(np.sort(scores)[[2, -3]]))
    better, worse = (1, 0) if after > before else (0, 1)
    assert found.p_value == np.mean(slow[better] <= slow[worse])


def test_intervals_are_sacrebleus(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    references, one, other = made_up(60, 0.3, 0.25)
    systems = [("one", one), ("other", other)]
    _, table = PairedTest(systems, {"BLEU": BLEU()}, [references], test_type="bs")()
    found = compare_systems(one, other, references, seed=7)
    for ours, theirs in zip((found.baseline, found.system), table["BLEU"], strict=True):
        assert ours.value == pytest.approx(theirs.score)
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs.ci)


@pytest.mark.parametrize(("wrong", "clear"), [((0.4, 0.2), True), ((0.3, 0.3), False)])
def test_it_comes_to_the_same_verdict_as_sacrebleu(wrong, clear):
    references, one, other = made_up(60, *wrong)
    systems = [("one", one), ("other", other)]
    _, table = PairedTest(systems, {"BLEU": BLEU()}, [references], test_type="bs")()
    found = compare_systems(one, other, references)
    assert (found.p_value < 0.05) == (table["BLEU"][1].p_value < 0.05) == clear
    assert (found.difference.low <= 0 <= found.difference.high) != clear


def test_who_comes_first_changes_the_sign_alone():
    references, one, other = made_up(30, 0.3, 0.25)
    there, back = compare_systems(one, other, references), compare_systems(other, one, references)
    assert there.p_value == back.p_value
    assert there.difference.value == -back.difference.value
    assert (there.difference.low, there.difference.high) == (
        -back.difference.high,
        -back.difference.low,
    )
    assert there.baseline == back.system


def test_a_system_is_not_better_than_itself():
    references, one = made_up(10, 0.3)
    found = compare_systems(one, one, references)
    assert found.p_value == 1
    assert found.difference.low == found.difference.high == 0


def test_the_seed_decides():
    references, one, other = made_up(20, 0.3, 0.25)
    assert compare_systems(one, other, references) == compare_systems(one, other, references)
    assert compare_systems(one, other, references, seed=1) != compare_systems(
        one, other, references, seed=2
    )


def test_chance_alone_is_seldom_significant():
    """Of equal systems one in ten may seem better at p < 0.05: either of the two may be ahead."""
    seen = [
        compare_systems(one, other, references, resamples=100).p_value < 0.05
        for references, one, other in (made_up(30, 0.3, 0.3, seed=k) for k in range(60))
    ]
    assert sum(seen) <= 15


def test_what_cannot_be_compared():
    with pytest.raises(UserError, match=r"as many references as hypotheses \(1\), got 2"):
        compare_systems(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(UserError, match="at least 40 resamples, got 5"):
        compare_systems(["a"], ["a"], ["a"], resamples=5)
