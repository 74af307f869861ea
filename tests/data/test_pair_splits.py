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

# Few sentences, so that most of them have several partners.
SENTENCES = st.text("abcAB.! é", max_size=3)
PAIRS = st.lists(st.builds(SentencePair, SENTENCES, SENTENCES), max_size=60)
COUNTS = st.integers(0, 12)


def bare(text: str) -> str:
    return " ".join(re.findall("[abcé]+", text.lower())) or text


@given(PAIRS, COUNTS, COUNTS, st.integers(0, 3))
def test_nothing_is_lost_and_no_sentence_is_in_two_parts(
    pairs: list[SentencePair], first: int, second: int, seed: int
) -> None:
    try:
        parts = hold_out_pairs(pairs, first, second, seed=seed)
    except UserError:
        return
    assert sum(map(Counter, parts), Counter()) == Counter(pairs)
    assert len(parts[1]) <= first
    assert len(parts[2]) <= second
    whole = [[p for p in part if p.source.strip() and p.target.strip()] for part in parts]
    for sentences in (
        [{bare(p.source) for p in part} for part in whole],
        [{bare(p.target) for p in part} for part in whole],
    ):
        assert not any(one & other for one, other in combinations(sentences, 2))
    assert all(p.source.strip() and p.target.strip() for part in parts[1:] for p in part)
    turned = hold_out_pairs(pairs[::-1], first, second, seed=seed)
    assert tuple(part[::-1] for part in turned) == parts


@given(st.integers(10, 200), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9))
def test_single_pairs_are_held_out_to_the_number(
    count: int, first: int, second: int, seed: int
) -> None:
    pairs = [SentencePair(f"a{i}", f"b{i}") for i in range(count)]
    kept, one, other = hold_out_pairs(pairs, first, second, seed=seed)
    assert (len(kept), len(one), len(other)) == (count - first - second, first, second)


def test_the_seed_chooses() -> None:
    pairs = [SentencePair(f"a{i}", f"b{i}") for i in range(100)]
    assert hold_out_pairs(pairs, 20, seed=1) != hold_out_pairs(pairs, 20, seed=2)
    frozen = hold_out_pairs(pairs, 3, seed=0)[1]
    assert [p.source for p in frozen] == ["a0", "a32", "a67"]  # scores of old runs are of this test


def test_a_group_too_large_is_kept_whole() -> None:
    large = [SentencePair("hi", f"b{i}") for i in range(50)]
    pairs = [*large, *(SentencePair(f"a{i}", f"c{i}") for i in range(20))]
    kept, held = hold_out_pairs(pairs, 20)
    assert kept == large
    assert len(held) == 20


@given(st.lists(st.lists(st.integers(0, 20), max_size=3), max_size=40))
def test_what_hangs_together(keys: list[list[int]]) -> None:
    numbers = group_by_shared_keys(keys)
    # The reference: take neighbours in until there are none.
    for start in range(len(keys)):
        reached, seen = {start}, set(keys[start])
        while True:
            more = {i for i, some in enumerate(keys) if seen & set(some)} - reached
            if not more:
                break
            reached |= more
            seen |= {key for i in more for key in keys[i]}
        assert reached == {i for i, number in enumerate(numbers) if number == numbers[start]}


def test_very_many_in_one_group() -> None:
    chain = [SentencePair(f"a{i // 2}", f"b{(i + 1) // 2}") for i in range(20_000)]
    assert set(group_by_shared_keys(map(pair_keys, chain))) == {0}


def test_sentences_that_are_one() -> None:
    same = ["Va\u202f!", "va !", "« Va. »", "VA", "\uff36\uff21"]
    assert {sentence_key(text) for text in same} == {"va"}
    different = ["की", "का", "!", "?", "", "C++", "C", "2.5", "25", "🙂", "🙃"]
    assert len({sentence_key(text) for text in different}) == len(different)


def test_only_what_is_wrong_is_left_out() -> None:
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
    kept, cleaned = filter_pairs([*bad, *good], 100, 3.0)
    assert kept == good
    assert cleaned == FilterStats(4, num_empty=2, num_too_long=2, num_uneven=2)
    assert cleaned.describe() == ("4 pairs; left out: 2 empty, 2 longer than 100 words, 2 uneven")
    assert filter_pairs(bad, 100_000, float("inf"))[1].num_kept == 4


@given(st.text("ab é\u3000\n"))
def test_words_are_what_stands_between_blanks(text: str) -> None:
    assert count_words(text) == len(text.split())


def test_looks_and_checksum() -> None:
    one = PairSplits("toy", (SentencePair("a", "b"),), (), (), FilterStats(1))
    assert repr(one) == "PairSplits('toy': 1 train, 0 validation, 0 test)"
    others = [
        PairSplits("toy", (), (SentencePair("a", "b"),), (), FilterStats(0)),
        PairSplits("toy", (SentencePair("ab", ""),), (), (), FilterStats(1)),
        PairSplits("toy", (SentencePair("a", "b"),) * 2, (), (), FilterStats(1)),
    ]
    assert len({splits.checksum for splits in (one, *others)}) == 4


def test_what_cannot_be_held_out() -> None:
    with pytest.raises(
        UserError, match=r"of 4 pairs 1 may be held out, but those .* are 2 or more"
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
