"""Scores by length are scores of the sentences of that length."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from workings.errors import UserError
from workings.scores import measures
from workings.scores.bleu import score
from workings.scores.by_length import balanced_ends, by_length

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=120)


def texts(lengths):
    """Sources of some lengths; translations that get worse towards their ends, and references."""
    references = [" ".join(f"w{i % 7}" for i in range(length)) for length in lengths]
    hypotheses = [" ".join("x" if i % 11 > 5 else f"w{i % 7}" for i in range(n)) for n in lengths]
    return references, hypotheses, references


@given(LENGTHS, st.none() | st.sets(st.integers(1, 45), min_size=1).map(sorted))
def test_a_bucket_is_scored_as_its_sentences_are(lengths, ends):
    sources, hypotheses, references = texts(lengths)
    buckets = by_length(sources, hypotheses, references, ends=ends)
    assert sum(bucket.sentences for bucket in buckets) == len(lengths)
    assert all(a.most < b.fewest for a, b in pairwise(buckets))
    for bucket in buckets:
        inside = [i for i, n in enumerate(lengths) if bucket.fewest <= n <= bucket.most]
        alone = BLEU(effective_order=True).corpus_score(
            [hypotheses[i] for i in inside], [[references[i] for i in inside]]
        )
        assert len(inside) == bucket.sentences
        assert bucket.mean == pytest.approx(sum(lengths[i] for i in inside) / len(inside))
        assert bucket.score == alone.score


@given(LENGTHS, st.integers(1, 10), st.integers(1, 30))
def test_chosen_buckets_have_enough_sentences(lengths, buckets, enough):
    ends = balanced_ends(lengths, buckets=buckets, enough=enough)
    assert ends == sorted(set(ends))
    assert ends[-1] == max(lengths)
    assert len(ends) <= buckets
    if len(ends) > 1:
        inside = [sum(a < n <= b for n in lengths) for a, b in pairwise([-1, *ends])]
        assert min(inside) >= enough


def test_chosen_buckets_are_not_too_many():
    assert len(balanced_ends(range(19), buckets=10, enough=1)) <= 10


def test_all_sentences_in_one_bucket_are_the_corpus():
    sources, hypotheses, references = texts([3, 9, 20, 31])
    (bucket,) = by_length(sources, hypotheses, references, ends=[50])
    assert (bucket.fewest, bucket.most, bucket.sentences) == (3, 50, 4)
    assert bucket.score == score(hypotheses, references).bleu.score


def test_it_is_the_source_whose_words_are_counted():
    _, hypotheses, references = texts([30, 30])
    short, long = by_length(["one", "one two three"], hypotheses, references, ends=[2, 3])
    assert (short.fewest, short.most, long.fewest, long.most) == (1, 2, 3, 3)


def test_what_is_right_is_right_however_short():
    texts = ["go", "run", "help me", "the cat sat on the mat"]
    buckets = by_length(texts, texts, texts, ends=[1, 2])
    assert [bucket.score for bucket in buckets] == pytest.approx([100.0] * 3)


def test_by_another_measure():
    sources, hypotheses, references = texts([8, 30])
    rows = by_length(sources, hypotheses, references, ends=[10], measure=measures.chrf())
    assert rows[1].score == score(hypotheses[1:], references[1:]).chrf.score


@pytest.mark.parametrize("ends", [[], [10, 10], [20, 10], [0, 10], [2.5], "ab"])
def test_ends_that_are_none(ends):
    with pytest.raises(UserError, match="expected rising numbers of words"):
        by_length(*texts([3, 4]), ends=ends)


def test_a_source_for_every_sentence():
    with pytest.raises(UserError, match=r"as many sources as hypotheses \(2\), got 1"):
        by_length(["a"], ["a", "b"], ["a", "b"])
    with pytest.raises(UserError, match="nothing to score"):
        by_length([], [], [])


def test_a_small_set_has_a_curve_all_the_same():
    few = balanced_ends([k % 20 for k in range(80)])
    assert 4 <= len(few) <= 5
    many = balanced_ends([k % 20 for k in range(300)])
    assert len(many) == 5  # of fifty and more
    assert balanced_ends([1, 2, 3, 4, 5]) == [5]  # too few for anything
