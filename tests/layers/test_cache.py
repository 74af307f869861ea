"""The key-value cache: appending, selecting rows, and shapes."""

import pytest
import torch

from workings import UserError
from workings.layers import KeyValueCache


def fill_cache(waves, *lengths: int) -> tuple[KeyValueCache, torch.Tensor, torch.Tensor]:
    """Append pieces of these lengths: batch 2, 3 heads, keys of width 4, values of width 5."""
    key, value = waves(2, 3, sum(lengths), 4), waves(2, 3, sum(lengths), 5, start=7)
    cache, start = KeyValueCache(), 0
    for length in lengths:
        piece = slice(start, start + length)
        cache.append(key[:, :, piece], value[:, :, piece])
        start += length
    return cache, key, value


@pytest.mark.parametrize("lengths", [(1,), (5, 1, 1, 2), (1,) * 70, (31, 2), (100,)])
def test_read_returns_all_appended_positions_in_order(lengths, waves):
    cache, key, value = fill_cache(waves, *lengths)
    assert cache.length == sum(lengths)
    cached_key, cached_value = cache.read()
    assert torch.equal(cached_key, key)
    assert torch.equal(cached_value, value)


def test_append_returns_all_positions(waves):
    cache, key, value = fill_cache(waves, 3)
    more_key, more_value = waves(2, 3, 2, 4, start=500), waves(2, 3, 2, 5, start=600)
    all_keys, all_values = cache.append(more_key, more_value)
    assert torch.equal(all_keys, torch.cat((key, more_key), dim=2))
    assert torch.equal(all_values, torch.cat((value, more_value), dim=2))


def test_selected_rows_are_independent_of_the_original(waves):
    cache, key, value = fill_cache(waves, 3)
    selected = cache.select(torch.tensor([1, 1, 0]))
    assert torch.equal(selected.read()[0], key[[1, 1, 0]])
    assert torch.equal(selected.read()[1], value[[1, 1, 0]])
    cache.append(waves(2, 3, 1, 4, start=500), waves(2, 3, 1, 5, start=500))
    selected.append(waves(3, 3, 1, 4, start=900), waves(3, 3, 1, 5, start=900))
    assert torch.equal(cache.read()[0][:, :, 3:], waves(2, 3, 1, 4, start=500))
    assert torch.equal(selected.read()[0][:, :, 3:], waves(3, 3, 1, 4, start=900))
    assert torch.equal(selected.read()[0][:, :, :3], key[[1, 1, 0]])


def test_selecting_from_an_empty_cache():
    assert KeyValueCache().select(torch.tensor([0, 0])).length == 0


def test_the_cache_keeps_the_dtype(waves):
    cache = KeyValueCache()
    key, _ = cache.append(waves(1, 1, 2, 4).double(), waves(1, 1, 2, 4).double())
    assert key.dtype == torch.float64


@pytest.mark.parametrize("shape", [(1, 3, 1, 4), (2, 1, 1, 4), (2, 3, 1, 1)])
def test_a_single_row_head_or_column_is_not_broadcast(shape, waves):
    cache, _, _ = fill_cache(waves, 3)
    with pytest.raises(UserError, match=r"expected \[batch, heads, width\] \[2, 3, 4\], got \["):
        cache.append(waves(*shape), waves(*shape))
    assert cache.length == 3
