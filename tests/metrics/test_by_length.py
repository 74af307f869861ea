"""Scores by length are scores of the sentences of that length."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from workings.errors import UserError
from workings.metrics import bleu
from workings.metrics.bleu import score_translations
from workings.metrics.by_length import choose_bucket_ends, score_by_length

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=120)


def texts(lengths):
    """Sources of some lengths; translations that get worse towards their ends, and references."""
    references = [" ".join(f"w{i % 7}" for i in range(length)) for length in lengths]
    hypotheses = [" ".join("x" if i % 11 > 5 else f"w{i % 7}" for i in range(n)) for n in lengths]
    return references, hypotheses, references


@given(LENGTHS, st.none() | st.sets(st.integers(1, 45), min_size=1).map(sorted))
def test_a_bucket_is_scored_as_its_sentences_are(lengths, ends):
    sources, hypotheses, references = texts(lengths)
    buckets = score_by_length(sources, hypotheses, references, bucket_ends=ends)
    assert sum(bucket.sentences for bucket in buckets) == len(lengths)
    assert all(a.max_words < b.min_words for a, b in pairwise(buckets))
    for bucket in buckets:
        inside = [i for i, n in enumerate(lengths) if bucket.min_words <= n <= bucket.max_words]
        alone = BLEU(effective_order=True).corpus_score(
            [hypotheses[i] for i in inside], [[references[i] for i in inside]]
        )
        assert len(inside) == bucket.sentences
        assert bucket.mean_words == pytest.approx(sum(lengths[i] for i in inside) / len(inside))
        assert bucket.score == alone.score


@given(LENGTHS, st.integers(1, 10), st.integers(1, 30))
def test_chosen_buckets_have_enough_sentences(lengths, buckets, enough):
    ends = choose_bucket_ends(lengths, num_buckets=buckets, min_bucket_size=enough)
    assert ends == sorted(set(ends))
    assert ends[-1] == max(lengths)
    assert len(ends) <= buckets
    if len(ends) > 1:
        inside = [sum(a < n <= b for n in lengths) for a, b in pairwise([-1, *ends])]
        assert min(inside) >= enough


def test_chosen_buckets_are_not_too_many():
    assert len(choose_bucket_ends(range(19), num_buckets=10, min_bucket_size=1)) <= 10


def test_all_sentences_in_one_bucket_are_the_corpus():
    sources, hypotheses, references = texts([3, 9, 20, 31])
    (bucket,) = score_by_length(sources, hypotheses, references, bucket_ends=[50])
    assert (bucket.min_words, bucket.max_words, bucket.sentences) == (3, 50, 4)
    assert bucket.score == score_translations(hypotheses, references).bleu.score


def test_it_is_the_source_whose_words_are_counted():
    _, hypotheses, references = texts([30, 30])
    short, long = score_by_length(
        ["one", "one two three"], hypotheses, references, bucket_ends=[2, 3]
    )
    assert (short.min_words, short.max_words, long.min_words, long.max_words) == (1, 2, 3, 3)


def test_what_is_right_is_right_however_short():
    texts = ["go", "run", "help me", "the cat sat on the mat"]
    buckets = score_by_length(texts, texts, texts, bucket_ends=[1, 2])
    assert [bucket.score for bucket in buckets] == pytest.approx([100.0] * 3)


def test_by_another_measure():
    sources, hypotheses, references = texts([8, 30])
    rows = score_by_length(
        sources, hypotheses, references, bucket_ends=[10], metric=bleu.chrf_metric()
    )
    assert rows[1].score == score_translations(hypotheses[1:], references[1:]).chrf.score


@pytest.mark.parametrize("ends", [[], [10, 10], [20, 10], [0, 10], [2.5], "ab"])
def test_ends_that_are_none(ends):
    with pytest.raises(UserError, match="expected rising numbers of words"):
        score_by_length(*texts([3, 4]), bucket_ends=ends)


def test_a_source_for_every_sentence():
    with pytest.raises(UserError, match=r"as many sources as hypotheses \(2\), got 1"):
        score_by_length(["a"], ["a", "b"], ["a", "b"])
    with pytest.raises(UserError, match="nothing to score"):
        score_by_length([], [], [])


def test_a_small_set_has_a_curve_all_the_same():
    few = choose_bucket_ends([k % 20 for k in range(80)])
    assert 4 <= len(few) <= 5
    many = choose_bucket_ends([k % 20 for k in range(300)])
    assert len(many) == 5  # of fifty and more
    assert choose_bucket_ends([1, 2, 3, 4, 5]) == [5]  # too few for anything
