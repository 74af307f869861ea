"""What holds for attention whatever the numbers are."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from workings.attention import attend
from workings.layers import KeyValueCache, MultiHeadAttention
from workings.trace import Trace

Way = Callable[..., Tensor]
numbers = st.floats(-4, 4, width=32).map(float)
sizes = st.integers(1, 6)


def holds_for(**strategies: st.SearchStrategy) -> Callable[[Callable[..., None]], object]:
    return lambda test: settings(max_examples=40)(given(**strategies)(test))


def explicit(*tensors: Tensor, **options: object) -> Tensor:
    with Trace(only="weights"):
        return attend(*tensors, **options)


both_ways = pytest.mark.parametrize("how", [attend, explicit], ids=["fused", "explicit"])


@st.composite
def sequences(draw: st.DrawFn, batch: int | None = None) -> Tensor:
    """`[batch, time, 3]`, or `[time, 3]` where no batch is asked for."""
    shape = (draw(sizes), 3) if batch is None else (batch, draw(sizes), 3)
    return torch.from_numpy(draw(arrays(np.float64, shape, elements=numbers)))


@st.composite
def qkv(draw: st.DrawFn, cached: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """A query, key and value; `cached`: the queries are the last of the key sequence."""
    keys = draw(sizes)
    queries = draw(st.integers(1, keys)) if cached else draw(sizes)
    shapes = (queries, 3), (keys, 3), (keys, 2)
    query, key, value = (
        torch.from_numpy(draw(arrays(np.float64, shape, elements=numbers))) for shape in shapes
    )
    return query, key, value


def spread(time: int, seed: int = 0) -> Tensor:
    """A sequence whose outputs surely vary."""
    return torch.randn(time, 3, generator=torch.Generator().manual_seed(seed)).double()


# -- permutation equivariance --------------------------------------------------------------------


@both_ways
@holds_for(x=sequences(), data=st.data())
def test_reordering_the_input_reorders_the_output(how: Way, x: Tensor, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(x))))
    torch.testing.assert_close(how(x[order], x[order], x[order]), how(x, x, x)[order])


@holds_for(x=sequences(batch=2), data=st.data())
def test_reordering_goes_through_a_multi_head_layer(x: Tensor, data: st.DataObject) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(3, 3).double()
    order = data.draw(st.permutations(range(x.shape[1])))
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])


@both_ways
@holds_for(tensors=qkv(), data=st.data())
def test_the_order_of_the_keys_does_not_matter(
    how: Way, tensors: tuple[Tensor, Tensor, Tensor], data: st.DataObject
) -> None:
    query, key, value = tensors
    order = data.draw(st.permutations(range(len(key))))
    torch.testing.assert_close(how(query, key[order], value[order]), how(query, key, value))


@both_ways
def test_with_a_causal_mask_the_order_does_matter(how: Way) -> None:
    x, order = spread(5), [4, 2, 0, 1, 3]
    reordered = how(x[order], x[order], x[order], causal=True)
    assert not torch.allclose(reordered, how(x, x, x, causal=True)[order], atol=0.1)


# -- causality -----------------------------------------------------------------------------------


@both_ways
@holds_for(tensors=qkv(cached=True), data=st.data())
def test_changing_the_future_changes_nothing_in_the_past(
    how: Way, tensors: tuple[Tensor, Tensor, Tensor], data: st.DataObject
) -> None:
    query, key, value = tensors
    earlier = len(key) - len(query)
    now = data.draw(st.integers(0, len(query) - 1))
    later_key, later_value = key.clone(), value.clone()
    later_key[earlier + now + 1 :] += 3
    later_value[earlier + now + 1 :] -= 5
    before = how(query, key, value, causal=True)[: now + 1]
    after = how(query, later_key, later_value, causal=True)[: now + 1]
    torch.testing.assert_close(after, before)


@both_ways
def test_without_causal_the_future_does_change_the_past(how: Way) -> None:
    x = spread(5)
    future = torch.cat([x[:4], x[4:] + 3])
    assert not torch.allclose(how(future, future, future)[:4], how(x, x, x)[:4], atol=0.1)


# -- weights -------------------------------------------------------------------------------------


@holds_for(tensors=qkv(), causal=st.booleans())
def test_softmax_weights_are_positive_and_sum_to_one(
    tensors: tuple[Tensor, Tensor, Tensor], causal: bool
) -> None:
    with Trace(only="weights") as trace:
        attend(*tensors, causal=causal)
    weights = trace["weights"]
    queries, keys = weights.shape
    sees_something = torch.arange(queries) >= (queries - keys if causal else 0)
    torch.testing.assert_close(weights.sum(-1), sees_something.double())
    assert (weights >= 0).all()


@both_ways
@holds_for(tensors=qkv())
def test_a_softmax_mixture_lies_between_the_values(
    how: Way, tensors: tuple[Tensor, Tensor, Tensor]
) -> None:
    value = tensors[-1]
    mixed = how(*tensors)
    assert (mixed >= value.amin(0) - 1e-9).all()
    assert (mixed <= value.amax(0) + 1e-9).all()


# -- batches -------------------------------------------------------------------------------------


@both_ways
@holds_for(x=sequences(batch=3), causal=st.booleans())
def test_sequences_of_a_batch_do_not_see_each_other(how: Way, x: Tensor, causal: bool) -> None:
    heads = x[:, None]  # [batch, heads, time, width]
    together = how(heads, heads, heads, causal=causal)
    for alone, i in zip(together, range(3), strict=True):
        torch.testing.assert_close(alone[0], how(x[i], x[i], x[i], causal=causal))
    changed = heads.clone()
    changed[1] += 1
    others = how(changed, changed, changed, causal=causal)[[0, 2]]
    torch.testing.assert_close(others, together[[0, 2]])


# -- cached --------------------------------------------------------------------------------------


@both_ways
@holds_for(x=sequences(), data=st.data())
def test_a_block_of_queries_at_the_end_of_a_longer_key_sequence(
    how: Way, x: Tensor, data: st.DataObject
) -> None:
    block = data.draw(st.integers(1, len(x)))
    whole = how(x, x, x, causal=True)
    torch.testing.assert_close(how(x[-block:], x, x, causal=True), whole[-block:])


@holds_for(
    time=st.integers(1, 40),
    shared_heads=st.sampled_from([1, 2, 4]),
    traced=st.booleans(),
    data=st.data(),
)
def test_a_cached_layer_gives_what_one_causal_pass_gives(
    time: int, shared_heads: int, traced: bool, data: st.DataObject
) -> None:
    """Token by token, or in blocks of any length; 40 steps outgrow the cache's first room."""
    torch.manual_seed(time)
    layer = MultiHeadAttention(8, 4, kv_heads=shared_heads).double()
    x = torch.randn(2, time, 8, dtype=torch.float64)
    cache, outputs, start = KeyValueCache(), [], 0
    token_by_token = data.draw(st.booleans())
    with torch.no_grad(), Trace(only="weights" if traced else "output"):
        while start < time:
            block = 1 if token_by_token else data.draw(st.integers(1, time - start))
            outputs.append(layer(x[:, start : start + block], causal=True, cache=cache))
            start += block
    torch.testing.assert_close(torch.cat(outputs, dim=1), layer(x, causal=True))


def test_cached_cross_attention_projects_the_context_once() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2).double()
    x, context = (torch.randn(2, n, 8, dtype=torch.float64) for n in (3, 5))
    cache = KeyValueCache()
    with torch.no_grad():
        steps = [
            layer(x[:, i : i + 1], context if i == 0 else 0 * context, cache=cache)
            for i in range(3)
        ]
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x, context))
    assert not torch.allclose(layer(x, context), layer(x, 0 * context))
