"""Splits by a hash of the text: complete, disjoint, stratified by label."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.data import Example, Splits, find_text_overlap, hold_out, load_dataset
from workings.data.splits import hash_to_unit_interval
from workings.errors import UserError

EXAMPLES = st.lists(
    st.builds(Example, st.text("abc", max_size=3), st.sampled_from(["x", "y", None])), max_size=60
)


@given(EXAMPLES, st.floats(0, 0.99), st.integers(0, 3))
def test_examples_are_preserved_and_no_text_is_in_both(
    examples: list[Example], fraction: float, seed: int
) -> None:
    rest, held = hold_out(examples, fraction, seed=seed)
    assert Counter(rest) + Counter(held) == Counter(examples)
    assert not {e.text for e in rest} & {e.text for e in held}
    reverse_rest, reverse_held = hold_out(examples[::-1], fraction, seed=seed)
    assert (reverse_rest[::-1], reverse_held[::-1]) == (rest, held)


@given(st.integers(0, 99), st.integers(0, 99), st.floats(0, 0.9))
def test_fraction_of_every_label_is_held_out(first: int, second: int, fraction: float) -> None:
    examples = [Example(f"{i}", "a") for i in range(first)]
    examples += [Example(f"-{i}", "b") for i in range(second)]
    _, held = hold_out(examples, fraction)
    counts = Counter(e.label for e in held)
    for label, total in (("a", first), ("b", second)):  # one text stays to train on
        assert counts[label] == min(round(fraction * total), max(total - 1, 0))


def test_seed_determines_the_split() -> None:
    examples = [Example(f"{i}", "a") for i in range(100)]
    assert hold_out(examples, 0.2, seed=1) != hold_out(examples, 0.2, seed=2)
    assert hold_out(examples, 0.2, seed=1) == hold_out(examples, 0.2, seed=1)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_invalid_fractions_are_rejected(fraction: float) -> None:
    with pytest.raises(UserError, match=r"fraction = .*: expected at least 0 and below 1"):
        hold_out([Example("a")], fraction)


def test_hashes_are_uniform() -> None:
    values = [hash_to_unit_interval(str(i)) for i in range(10_000)]
    assert all(0 <= x < 1 for x in values)
    for edge in (0.1, 0.5, 0.9):
        assert abs(sum(x < edge for x in values) / len(values) - edge) < 0.02
    assert 0 <= hash_to_unit_interval("\ud800") < 1


def test_find_text_overlap() -> None:
    first = [Example("a", "x"), Example("b", "x"), Example("a", "y")]
    second = [Example("c", "x"), Example("a", "x")]
    overlap = find_text_overlap(first, second)
    assert (overlap.texts, overlap.first_indices, overlap.second_indices) == (("a",), (0, 2), (1,))
    assert find_text_overlap(first, []).texts == ()


def test_labels_and_repr() -> None:
    splits = Splits("toy", (Example("a", "y"), Example("b", "x"), Example("c")), (), ())
    assert splits.labels == ("x", "y")
    assert repr(splits) == "Splits('toy': 3 train, 0 validation, 0 test)"


@pytest.mark.usefixtures("named")
def test_validation_of_imdb_is_held_out_of_train() -> None:
    splits = load_dataset("imdb", allow_download=False)
    assert [len(split) for split in (splits.train, splits.validation, splits.test)] == [
        22_500,
        2_500,
        25_000,
    ]
    assert splits.labels == ("negative", "positive")
    for split, count in ((splits.train, 11_250), (splits.validation, 1_250), (splits.test, 12_500)):
        counts = Counter(e.label for e in split)
        assert abs(counts["negative"] - count) <= 3
    assert not find_text_overlap(splits.train, splits.validation).texts
    overlap = find_text_overlap((*splits.train, *splits.validation), splits.test)
    assert len(overlap.texts) == 123


@pytest.mark.usefixtures("named")
def test_rt_polarity_is_split_by_text() -> None:
    splits = load_dataset("rt-polarity", allow_download=False)
    sizes = [len(split) for split in (splits.train, splits.validation, splits.test)]
    assert sum(sizes) == 10_662
    assert sizes[1] in range(1064, 1070)
    assert sizes[2] in range(1064, 1070)
    assert not find_text_overlap(splits.train, (*splits.validation, *splits.test)).texts
    assert not find_text_overlap(splits.validation, splits.test).texts
