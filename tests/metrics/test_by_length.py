"""A bucket's score is the score of the sentences of that length."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from workings.errors import UserError
from workings.metrics.bleu import chrf_metric, score_translations
from workings.metrics.by_length import choose_bucket_ends, score_by_length

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=120)


def make_texts(lengths):
    """Return sources of these lengths, translations with errors towards their ends, references."""
    references = [" ".join(f"w{i % 7}" for i in range(length)) for length in lengths]
    hypotheses = [" ".join("x" if i % 11 > 5 else f"w{i % 7}" for i in range(n)) for n in lengths]
    return references, hypotheses, references


@given(LENGTHS, st.none() | st.sets(st.integers(1, 45), min_size=1).map(sorted))
def test_bucket_score_equals_score_of_its_sentences(lengths, ends):
    sources, hypotheses, references = make_texts(lengths)
    buckets = score_by_length(sources, hypotheses, references, bucket_ends=ends)
    assert sum(bucket.sentences for bucket in buckets) == len(lengths)
    assert all(a.max_words < b.min_words for a, b in pairwise(buckets))
    for bucket in buckets:
        inside = [i for i, n in enumerate(lengths) if bucket.min_words <= n <= bucket.max_words]
        expected = BLEU(effective_order=True).corpus_score(
            [hypotheses[i] for i in inside], [[references[i] for i in inside]]
        )
        assert len(inside) == bucket.sentences
        assert bucket.mean_words == pytest.approx(sum(lengths[i] for i in inside) / len(inside))
        assert bucket.score == expected.score


@given(LENGTHS, st.integers(1, 10), st.integers(1, 30))
def test_chosen_buckets_have_enough_sentences(lengths, num_buckets, min_size):
    ends = choose_bucket_ends(lengths, num_buckets=num_buckets, min_bucket_size=min_size)
    assert ends == sorted(set(ends))
    assert ends[-1] == max(lengths)
    assert len(ends) <= num_buckets
    if len(ends) > 1:
        sizes = [sum(a < n <= b for n in lengths) for a, b in pairwise([-1, *ends])]
        assert min(sizes) >= min_size


def test_chosen_buckets_do_not_exceed_the_limit():
    assert len(choose_bucket_ends(range(19), num_buckets=10, min_bucket_size=1)) <= 10


def test_single_bucket_has_the_score_of_the_corpus():
    sources, hypotheses, references = make_texts([3, 9, 20, 31])
    (bucket,) = score_by_length(sources, hypotheses, references, bucket_ends=[50])
    assert (bucket.min_words, bucket.max_words, bucket.sentences) == (3, 50, 4)
    assert bucket.score == score_translations(hypotheses, references).bleu.score


def test_buckets_count_words_of_the_source():
    _, hypotheses, references = make_texts([30, 30])
    short, long = score_by_length(
        ["one", "one two three"], hypotheses, references, bucket_ends=[2, 3]
    )
    assert (short.min_words, short.max_words, long.min_words, long.max_words) == (1, 2, 3, 3)


def test_correct_short_sentences_score_100():
    texts = ["go", "run", "help me", "the cat sat on the mat"]
    buckets = score_by_length(texts, texts, texts, bucket_ends=[1, 2])
    assert [bucket.score for bucket in buckets] == pytest.approx([100.0] * 3)


def test_other_metric():
    sources, hypotheses, references = make_texts([8, 30])
    rows = score_by_length(sources, hypotheses, references, bucket_ends=[10], metric=chrf_metric())
    assert rows[1].score == score_translations(hypotheses[1:], references[1:]).chrf.score


@pytest.mark.parametrize("ends", [[], [10, 10], [20, 10], [0, 10], [2.5], "ab"])
def test_invalid_bucket_ends_are_rejected(ends):
    with pytest.raises(UserError, match="expected increasing numbers of words"):
        score_by_length(*make_texts([3, 4]), bucket_ends=ends)


def test_number_of_sources_must_match():
    with pytest.raises(UserError, match=r"as many sources as hypotheses \(2\), got 1"):
        score_by_length(["a"], ["a", "b"], ["a", "b"])
    with pytest.raises(UserError, match="nothing to score"):
        score_by_length([], [], [])


def test_small_set_has_fewer_and_smaller_buckets():
    few = choose_bucket_ends([k % 20 for k in range(80)])
    assert 4 <= len(few) <= 5
    many = choose_bucket_ends([k % 20 for k in range(300)])
    assert len(many) == 5  # of at least 50 sentences
    assert choose_bucket_ends([1, 2, 3, 4, 5]) == [5]  # too few sentences for two buckets
