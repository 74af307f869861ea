"""Filtered pairs, and splits that share no sentence."""

import re
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import FilterStats, PairSplits, SentencePair
from workings.data.parallel_splits import (
    count_words,
    filter_pairs,
    group_by_shared_keys,
    hold_out_pairs,
    pair_keys,
    sentence_key,
)
from workings.errors import UserError

# Few sentences, so that most of them have several translations.
SENTENCES = st.text("abcAB.! é", max_size=3)
PAIRS = st.lists(st.builds(SentencePair, SENTENCES, SENTENCES), max_size=60)
COUNTS = st.integers(0, 12)


def normalize(text: str) -> str:
    return " ".join(re.findall("[abcé]+", text.lower())) or text


@given(PAIRS, COUNTS, COUNTS, st.integers(0, 3))
def test_pairs_are_preserved_and_no_sentence_is_in_two_splits(
    pairs: list[SentencePair], first: int, second: int, seed: int
) -> None:
    try:
        lists = hold_out_pairs(pairs, first, second, seed=seed)
    except UserError:
        return
    assert sum(map(Counter, lists), Counter()) == Counter(pairs)
    assert len(lists[1]) <= first
    assert len(lists[2]) <= second
    complete = [[p for p in pairs if p.source.strip() and p.target.strip()] for pairs in lists]
    for sentences in (
        [{normalize(p.source) for p in pairs} for pairs in complete],
        [{normalize(p.target) for p in pairs} for pairs in complete],
    ):
        assert not any(a & b for a, b in combinations(sentences, 2))
    assert all(p.source.strip() and p.target.strip() for held in lists[1:] for p in held)
    reverse = hold_out_pairs(pairs[::-1], first, second, seed=seed)
    assert tuple(held[::-1] for held in reverse) == lists


@given(st.integers(10, 200), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_exact_counts_are_held_out_of_unrelated_pairs(
    count: int, first: int, second: int, seed: int
) -> None:
    pairs = [SentencePair(f"a{i}", f"b{i}") for i in range(count)]
    rest, test, validation = hold_out_pairs(pairs, first, second, seed=seed)
    assert (len(rest), len(test), len(validation)) == (count - first - second, first, second)


def test_seed_determines_the_held_out_pairs() -> None:
    pairs = [SentencePair(f"a{i}", f"b{i}") for i in range(100)]
    assert hold_out_pairs(pairs, 20, seed=1) != hold_out_pairs(pairs, 20, seed=2)
    held = hold_out_pairs(pairs, 3, seed=0)[1]
    assert [p.source for p in held] == [
        "a0",
        "a32",
        "a67",
    ]  # frozen: earlier scores are on this test set


def test_group_larger_than_the_count_is_not_held_out() -> None:
    large = [SentencePair("hi", f"b{i}") for i in range(50)]
    pairs = [*large, *(SentencePair(f"a{i}", f"c{i}") for i in range(20))]
    rest, held = hold_out_pairs(pairs, 20)
    assert rest == large
    assert len(held) == 20


@given(st.lists(st.lists(st.integers(0, 20), max_size=3), max_size=40))
def test_groups_equal_connected_components(keys: list[list[int]]) -> None:
    groups = group_by_shared_keys(keys)
    # Reference: a breadth-first search from each item.
    for start in range(len(keys)):
        reached, seen = {start}, set(keys[start])
        while True:
            more = {i for i, item_keys in enumerate(keys) if seen & set(item_keys)} - reached
            if not more:
                break
            reached |= more
            seen |= {key for i in more for key in keys[i]}
        assert reached == {i for i, group in enumerate(groups) if group == groups[start]}


def test_large_group_is_found_quickly() -> None:
    chain = [SentencePair(f"a{i // 2}", f"b{(i + 1) // 2}") for i in range(20_000)]
    assert set(group_by_shared_keys(map(pair_keys, chain))) == {0}


def test_sentence_key_ignores_case_and_punctuation() -> None:
    same = ["Va\u202f!", "va !", "« Va. »", "VA", "\uff36\uff21"]
    assert {sentence_key(text) for text in same} == {"va"}
    different = ["की", "का", "!", "?", "", "C++", "C", "2.5", "25", "🙂", "🙃"]
    assert len({sentence_key(text) for text in different}) == len(different)


def test_filter_leaves_out_empty_long_and_uneven_pairs() -> None:
    good = [
        SentencePair("Help!", "À l'aide, s'il vous plaît !"),
        SentencePair("word " * 100, "mot " * 34),
        SentencePair(
            "两个年轻的白人男子在灌木丛附近", "Two young white men are outside near many bushes"
        ),
        SentencePair("1 2 3 4", "1 2 3 4 5 6 7 8 9 10 11 12"),
    ]
    bad = [
        SentencePair("", "a"),
        SentencePair("a", "\u2003"),
        SentencePair("word " * 10_000, "mot " * 10_000),
        SentencePair("word " * 101, "mot"),
        SentencePair("1 2 3 4", "1 2 3 4 5 6 7 8 9 10 11 12 13"),
        SentencePair("a b c d e f g h i j", "a"),
    ]
    filtered, stats = filter_pairs([*bad, *good], 100, 3.0)
    assert filtered == good
    assert stats == FilterStats(4, num_empty=2, num_too_long=2, num_uneven=2)
    assert stats.describe() == ("4 pairs; left out: 2 empty, 2 longer than 100 words, 2 uneven")
    assert filter_pairs(bad, 100_000, float("inf"))[1].num_kept == 4


@given(st.text("ab é\u3000\n"))
def test_words_are_separated_by_spaces(text: str) -> None:
    assert count_words(text) == len(text.split())


def test_repr_and_checksum() -> None:
    one = PairSplits("toy", (SentencePair("a", "b"),), (), (), FilterStats(1))
    assert repr(one) == "PairSplits('toy': 1 train, 0 validation, 0 test)"
    others = [
        PairSplits("toy", (), (SentencePair("a", "b"),), (), FilterStats(0)),
        PairSplits("toy", (SentencePair("ab", ""),), (), (), FilterStats(1)),
        PairSplits("toy", (SentencePair("a", "b"),) * 2, (), (), FilterStats(1)),
    ]
    assert len({splits.checksum for splits in (one, *others)}) == 4


def test_counts_below_the_smallest_group_are_rejected() -> None:
    with pytest.raises(
        UserError, match=r"cannot hold out 1 of 4 pairs: the smallest group .* has 2"
    ):
        hold_out_pairs(
            [
                SentencePair("a", "b"),
                SentencePair("a", "c"),
                SentencePair("d", "e"),
                SentencePair("f", "e"),
            ],
            1,
        )
