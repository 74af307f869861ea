from itertools import chain, pairwise, product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workings.data import make_batches, make_pair_batches, pad
from workings.errors import UserError

LENGTHS = st.lists(st.integers(0, 400), max_size=300)
BOUNDS = st.tuples(st.none() | st.integers(1, 40), st.none() | st.integers(1, 2000)).filter(any)


@given(LENGTHS, BOUNDS, st.integers(0, 2**32), st.integers(0, 9), st.integers(1, 9), st.booleans())
def test_every_example_exactly_once(
    lengths: list[int],
    bounds: tuple[int | None, int | None],
    seed: int,
    epoch: int,
    pool: int,
    shuffle: bool,
) -> None:
    size, tokens = bounds
    settings: Any = {"max_tokens": tokens, "seed": seed, "pool": pool, "shuffle": shuffle}
    found = make_batches(lengths, size, epoch=epoch, **settings)
    assert sorted(chain(*found)) == list(range(len(lengths)))
    assert all(found)
    for batch in found:
        assert size is None or len(batch) <= size
        longest = max(lengths[i] for i in batch)
        assert tokens is None or len(batch) == 1 or longest * len(batch) <= tokens
    assert found == make_batches(lengths, size, epoch=epoch, **settings)
    if tokens is None:
        assert sum(len(batch) < size for batch in found) <= 1  # type: ignore[operator]


def padding(lengths: np.ndarray[Any, Any], found: list[list[int]]) -> float:
    cells = sum(len(batch) * max(lengths[i] for i in batch) for batch in found)
    return float(cells / lengths.sum())


def test_buckets_save_padding() -> None:
    lengths = np.random.RandomState(0).lognormal(5.4, 0.6, 8000).astype(int)
    mixed = padding(lengths, make_batches(lengths, 64, seed=0, pool=1))
    pooled = padding(lengths, make_batches(lengths, 64, seed=0))
    assert pooled < 1.2 < 2.5 < mixed


def test_seed_and_epoch_change_the_order() -> None:
    lengths = list(range(200))
    one = make_batches(lengths, 8, seed=1, epoch=0)
    assert one != make_batches(lengths, 8, seed=1, epoch=1)
    assert one != make_batches(lengths, 8, seed=2, epoch=0)
    longest = [max(batch) for batch in one]
    assert longest != sorted(longest)


def test_the_stream_is_frozen() -> None:
    found = make_batches([3, 1, 4, 1, 5, 9, 2, 6], 2, seed=0, epoch=0, pool=2)
    assert found == [[3, 6], [1, 2], [0, 5], [4, 7]]  # a run that is resumed must find them so


def test_in_order_of_length() -> None:
    lengths = [5, 2, 9, 1]
    found = make_batches(lengths, 1, seed=0, shuffle=False)
    assert [lengths[i] for (i,) in found] == [1, 2, 5, 9]


def test_batches_of_nothing() -> None:
    assert make_batches([], 4, seed=0) == []
    assert make_batches([], max_tokens=4, seed=0) == []


@pytest.mark.parametrize(
    "wrong", [{}, {"batch_size": 0}, {"max_tokens": 0}, {"batch_size": 2, "pool": 0}]
)
def test_wrong_sizes(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"at least|a size, or a number of tokens"):
        make_batches([1, 2], seed=0, **wrong)  # type: ignore[arg-type]


BOUND = st.none() | st.integers(1, 15)
SEQUENCES = st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=8)


@given(SEQUENCES, st.integers(-1, 3), BOUND, BOUND)
def test_padding(
    sequences: list[list[int]], value: int, length: int | None, longest: int | None
) -> None:
    ids, lengths = pad(sequences, value, length=length, max_length=longest)
    bound = min(b for b in (length, longest, 99) if b is not None)
    cut = [sequence[:bound] for sequence in sequences]
    assert lengths.tolist() == [len(sequence) for sequence in cut]
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.shape == (len(sequences), length or max(1, *map(len, cut), 1))
    for row, sequence in zip(ids.tolist(), cut, strict=True):
        assert row[: len(sequence)] == sequence
        assert set(row[len(sequence) :]) <= {value}


def test_padding_takes_arrays_and_tensors() -> None:
    expected = pad([[1, 2], [3]])[0]
    for made in (np.array, torch.tensor, lambda x: np.array(x, np.int32), tuple):
        ids, lengths = pad([made([1, 2]), made([3])])  # type: ignore[operator]
        assert torch.equal(ids, expected)
        assert lengths.tolist() == [2, 1]


def test_padding_that_cannot_be() -> None:
    with pytest.raises(UserError, match="no sequences"):
        pad([])
    with pytest.raises(UserError, match="length = 0"):
        pad([[1]], length=0)
    with pytest.raises(UserError, match="longest = 0"):
        pad([[1]], max_length=0)


def test_neighbours_of_like_length_meet() -> None:
    found = make_batches([1, 100] * 50, 10, seed=3)
    assert all(a == b for batch in found for a, b in pairwise(i % 2 for i in batch))


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=200),
    st.integers(1, 2000),
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.booleans(),
)
def test_every_pair_exactly_once(
    lengths: list[tuple[int, int]], tokens: int, seed: int, pool: int, shuffle: bool
) -> None:
    sides = [[both[side] for both in lengths] for side in (0, 1)]
    settings: Any = {"seed": seed, "epoch": 3, "pool": pool, "shuffle": shuffle}
    found = make_pair_batches(*sides, tokens, **settings)
    assert sorted(chain(*found)) == list(range(len(lengths)))
    for batch, side in product(found, sides):
        assert len(batch) == 1 or len(batch) * max(side[i] for i in batch) <= tokens
    assert found == make_pair_batches(*map(np.array, sides), tokens, **settings)


def test_pairs_of_like_length_on_both_sides_meet() -> None:
    draw = np.random.RandomState(0)
    source = draw.lognormal(2.4, 0.5, 8000).astype(int) + 1
    target = np.maximum((source * draw.normal(1, 0.15, 8000)).astype(int), 1)
    pooled = make_pair_batches(source, target, 1024, seed=0)
    mixed = make_pair_batches(source, target, 1024, seed=0, pool=1)
    for side in (source, target):
        assert padding(side, pooled) < 1.15 < 1.8 < padding(side, mixed)
    assert pooled != make_pair_batches(source, target, 1024, seed=0, epoch=1)


def test_sides_of_unequal_number() -> None:
    with pytest.raises(UserError, match="2 sources, but 1 targets"):
        make_pair_batches([1, 2], [1], seed=0)
    with pytest.raises(UserError, match="tokens = 0"):
        make_pair_batches([1, 2], [1, 2], 0, seed=0)
    assert make_pair_batches([], [], seed=0) == []
