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
def test_every_example_is_in_exactly_one_batch(
    lengths: list[int],
    bounds: tuple[int | None, int | None],
    seed: int,
    epoch: int,
    pool: int,
    shuffle: bool,
) -> None:
    batch_size, max_tokens = bounds
    settings: Any = {"max_tokens": max_tokens, "seed": seed, "pool": pool, "shuffle": shuffle}
    batches = make_batches(lengths, batch_size, epoch=epoch, **settings)
    assert sorted(chain(*batches)) == list(range(len(lengths)))
    assert all(batches)
    for batch in batches:
        assert batch_size is None or len(batch) <= batch_size
        max_length = max(lengths[i] for i in batch)
        assert max_tokens is None or len(batch) == 1 or max_length * len(batch) <= max_tokens
    assert batches == make_batches(lengths, batch_size, epoch=epoch, **settings)
    if max_tokens is None:
        assert sum(len(batch) < batch_size for batch in batches) <= 1  # type: ignore[operator]


def padding_ratio(lengths: np.ndarray[Any, Any], batches: list[list[int]]) -> float:
    cells = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return float(cells / lengths.sum())


def test_pools_reduce_padding() -> None:
    lengths = np.random.RandomState(0).lognormal(5.4, 0.6, 8000).astype(int)
    mixed = padding_ratio(lengths, make_batches(lengths, 64, seed=0, pool=1))
    pooled = padding_ratio(lengths, make_batches(lengths, 64, seed=0))
    assert pooled < 1.2 < 2.5 < mixed


def test_seed_and_epoch_change_the_order() -> None:
    lengths = list(range(200))
    one = make_batches(lengths, 8, seed=1, epoch=0)
    assert one != make_batches(lengths, 8, seed=1, epoch=1)
    assert one != make_batches(lengths, 8, seed=2, epoch=0)
    max_lengths = [max(batch) for batch in one]
    assert max_lengths != sorted(max_lengths)


def test_batches_are_the_same_in_every_version() -> None:
    batches = make_batches([3, 1, 4, 1, 5, 9, 2, 6], 2, seed=0, epoch=0, pool=2)
    assert batches == [[3, 6], [1, 2], [0, 5], [4, 7]]  # a resumed run needs the same batches


def test_without_shuffling_examples_are_sorted_by_length() -> None:
    lengths = [5, 2, 9, 1]
    batches = make_batches(lengths, 1, seed=0, shuffle=False)
    assert [lengths[i] for (i,) in batches] == [1, 2, 5, 9]


def test_no_examples_make_no_batches() -> None:
    assert make_batches([], 4, seed=0) == []
    assert make_batches([], max_tokens=4, seed=0) == []


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 0}, {"max_tokens": 0}, {"batch_size": 2, "pool": 0}]
)
def test_invalid_options_are_rejected(options: dict[str, int]) -> None:
    with pytest.raises(
        UserError, match=r"expected at least 1|expected batch_size, max_tokens or both"
    ):
        make_batches([1, 2], seed=0, **options)  # type: ignore[arg-type]


BOUND = st.none() | st.integers(1, 15)
SEQUENCES = st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=1, max_size=8)


@given(SEQUENCES, st.integers(-1, 3), BOUND, BOUND)
def test_pad(
    sequences: list[list[int]], value: int, length: int | None, max_length: int | None
) -> None:
    ids, lengths = pad(sequences, value, length=length, max_length=max_length)
    limit = min(n for n in (length, max_length, 99) if n is not None)
    truncated = [sequence[:limit] for sequence in sequences]
    assert lengths.tolist() == [len(sequence) for sequence in truncated]
    assert ids.dtype == lengths.dtype == torch.int64
    assert ids.shape == (len(sequences), length or max(1, *map(len, truncated), 1))
    for row, sequence in zip(ids.tolist(), truncated, strict=True):
        assert row[: len(sequence)] == sequence
        assert set(row[len(sequence) :]) <= {value}


def test_pad_accepts_arrays_and_tensors() -> None:
    expected = pad([[1, 2], [3]])[0]
    for make in (np.array, torch.tensor, lambda x: np.array(x, np.int32), tuple):
        ids, lengths = pad([make([1, 2]), make([3])])  # type: ignore[operator]
        assert torch.equal(ids, expected)
        assert lengths.tolist() == [2, 1]


def test_pad_rejects_invalid_arguments() -> None:
    with pytest.raises(UserError, match="no sequences"):
        pad([])
    with pytest.raises(UserError, match="length = 0"):
        pad([[1]], length=0)
    with pytest.raises(UserError, match="max_length = 0"):
        pad([[1]], max_length=0)


def test_batches_have_similar_lengths() -> None:
    batches = make_batches([1, 100] * 50, 10, seed=3)
    assert all(a == b for batch in batches for a, b in pairwise(i % 2 for i in batch))


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=200),
    st.integers(1, 2000),
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.booleans(),
)
def test_every_pair_is_in_exactly_one_batch(
    lengths: list[tuple[int, int]], max_tokens: int, seed: int, pool: int, shuffle: bool
) -> None:
    sides = [[pair[side] for pair in lengths] for side in (0, 1)]
    settings: Any = {"seed": seed, "epoch": 3, "pool": pool, "shuffle": shuffle}
    batches = make_pair_batches(*sides, max_tokens, **settings)
    assert sorted(chain(*batches)) == list(range(len(lengths)))
    for batch, side in product(batches, sides):
        assert len(batch) == 1 or len(batch) * max(side[i] for i in batch) <= max_tokens
    assert batches == make_pair_batches(*map(np.array, sides), max_tokens, **settings)


def test_pair_batches_have_similar_lengths_on_both_sides() -> None:
    rng = np.random.RandomState(0)
    source = rng.lognormal(2.4, 0.5, 8000).astype(int) + 1
    target = np.maximum((source * rng.normal(1, 0.15, 8000)).astype(int), 1)
    pooled = make_pair_batches(source, target, 1024, seed=0)
    mixed = make_pair_batches(source, target, 1024, seed=0, pool=1)
    for side in (source, target):
        assert padding_ratio(side, pooled) < 1.15 < 1.8 < padding_ratio(side, mixed)
    assert pooled != make_pair_batches(source, target, 1024, seed=0, epoch=1)


def test_pair_batches_reject_invalid_arguments() -> None:
    with pytest.raises(UserError, match="2 sources, but 1 targets"):
        make_pair_batches([1, 2], [1], seed=0)
    with pytest.raises(UserError, match="max_tokens = 0"):
        make_pair_batches([1, 2], [1, 2], 0, seed=0)
    assert make_pair_batches([], [], seed=0) == []
