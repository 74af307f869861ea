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
def test_nothing_is_lost_and_nothing_straddles(
    examples: list[Example], share: float, seed: int
) -> None:
    kept, held = hold_out(examples, share, seed=seed)
    assert Counter(kept) + Counter(held) == Counter(examples)
    assert not {e.text for e in kept} & {e.text for e in held}
    back, out = hold_out(examples[::-1], share, seed=seed)
    assert (back[::-1], out[::-1]) == (kept, held)


@given(st.integers(0, 99), st.integers(0, 99), st.floats(0, 0.9))
def test_every_label_gives_its_share(first: int, second: int, share: float) -> None:
    examples = [Example(f"{i}", "a") for i in range(first)]
    examples += [Example(f"-{i}", "b") for i in range(second)]
    _, held = hold_out(examples, share)
    counts = Counter(e.label for e in held)
    assert (counts["a"], counts["b"]) == (round(share * first), round(share * second))


def test_the_seed_chooses() -> None:
    examples = [Example(f"{i}", "a") for i in range(100)]
    assert hold_out(examples, 0.2, seed=1) != hold_out(examples, 0.2, seed=2)
    assert hold_out(examples, 0.2, seed=1) == hold_out(examples, 0.2, seed=1)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_shares_that_are_none(share: float) -> None:
    with pytest.raises(UserError, match="share"):
        hold_out([Example("a")], share)


def test_fractions_are_even() -> None:
    drawn = [hash_to_unit_interval(str(i)) for i in range(10_000)]
    assert all(0 <= x < 1 for x in drawn)
    for edge in (0.1, 0.5, 0.9):
        assert abs(sum(x < edge for x in drawn) / len(drawn) - edge) < 0.02
    assert 0 <= hash_to_unit_interval("\ud800") < 1


def test_shared_texts() -> None:
    first = [Example("a", "x"), Example("b", "x"), Example("a", "y")]
    second = [Example("c", "x"), Example("a", "x")]
    shared = find_text_overlap(first, second)
    assert (shared.texts, shared.first_indices, shared.second_indices) == (("a",), (0, 2), (1,))
    assert find_text_overlap(first, []).texts == ()


def test_labels_and_looks() -> None:
    splits = Splits("toy", (Example("a", "y"), Example("b", "x"), Example("c")), (), ())
    assert splits.labels == ("x", "y")
    assert repr(splits) == "Splits('toy': 3 train, 0 validation, 0 test)"


@pytest.mark.usefixtures("named")
def test_imdb_holds_out_of_train_alone() -> None:
    splits = load_dataset("imdb", allow_download=False)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [
        22_500,
        2_500,
        25_000,
    ]
    assert splits.labels == ("negative", "positive")
    for part, each in ((splits.train, 11_250), (splits.validation, 1_250), (splits.test, 12_500)):
        counts = Counter(e.label for e in part)
        assert abs(counts["negative"] - each) <= 3
    assert not find_text_overlap(splits.train, splits.validation).texts
    shared = find_text_overlap((*splits.train, *splits.validation), splits.test)
    assert len(shared.texts) == 123


@pytest.mark.usefixtures("named")
def test_rt_polarity_is_split_by_text() -> None:
    splits = load_dataset("rt-polarity", allow_download=False)
    sizes = [len(part) for part in (splits.train, splits.validation, splits.test)]
    assert sum(sizes) == 10_662
    assert sizes[1] in range(1064, 1070)
    assert sizes[2] in range(1064, 1070)
    assert not find_text_overlap(splits.train, (*splits.validation, *splits.test)).texts
    assert not find_text_overlap(splits.validation, splits.test).texts
