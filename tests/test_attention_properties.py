"""Properties of attention for random inputs: equivariance, causality, weights, caching."""

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

Attend = Callable[..., Tensor]
numbers = st.floats(-4, 4, width=32).map(float)
sizes = st.integers(1, 6)


def holds_for(**strategies: st.SearchStrategy) -> Callable[[Callable[..., None]], object]:
    return lambda test: settings(max_examples=40)(given(**strategies)(test))


def explicit(*tensors: Tensor, **options: object) -> Tensor:
    with Trace(only="weights"):
        return attend(*tensors, **options)


both_paths = pytest.mark.parametrize("run", [attend, explicit], ids=["fused", "explicit"])


@st.composite
def sequences(draw: st.DrawFn, batch: int | None = None) -> Tensor:
    """Draw `[batch, time, 3]`, or `[time, 3]` without a batch."""
    shape = (draw(sizes), 3) if batch is None else (batch, draw(sizes), 3)
    return torch.from_numpy(draw(arrays(np.float64, shape, elements=numbers)))


@st.composite
def qkv(draw: st.DrawFn, cached: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Draw query, key and value; `cached`: there are at most as many queries as keys."""
    keys = draw(sizes)
    queries = draw(st.integers(1, keys)) if cached else draw(sizes)
    shapes = (queries, 3), (keys, 3), (keys, 2)
    query, key, value = (
        torch.from_numpy(draw(arrays(np.float64, shape, elements=numbers))) for shape in shapes
    )
    return query, key, value


def random_sequence(time: int, seed: int = 0) -> Tensor:
    """Return a random sequence with outputs that differ between positions."""
    return torch.randn(time, 3, generator=torch.Generator().manual_seed(seed)).double()


# -- permutation equivariance --------------------------------------------------------------------


@both_paths
@holds_for(x=sequences(), data=st.data())
def test_self_attention_is_permutation_equivariant(
    run: Attend, x: Tensor, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(x))))
    torch.testing.assert_close(run(x[order], x[order], x[order]), run(x, x, x)[order])


@holds_for(x=sequences(batch=2), data=st.data())
def test_multi_head_attention_is_permutation_equivariant(x: Tensor, data: st.DataObject) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(3, 3).double()
    order = data.draw(st.permutations(range(x.shape[1])))
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])


@both_paths
@holds_for(tensors=qkv(), data=st.data())
def test_the_order_of_the_keys_does_not_matter(
    run: Attend, tensors: tuple[Tensor, Tensor, Tensor], data: st.DataObject
) -> None:
    query, key, value = tensors
    order = data.draw(st.permutations(range(len(key))))
    torch.testing.assert_close(run(query, key[order], value[order]), run(query, key, value))


@both_paths
def test_causal_attention_is_not_permutation_equivariant(run: Attend) -> None:
    x, order = random_sequence(5), [4, 2, 0, 1, 3]
    reordered = run(x[order], x[order], x[order], causal=True)
    assert not torch.allclose(reordered, run(x, x, x, causal=True)[order], atol=0.1)


# -- causality -----------------------------------------------------------------------------------


@both_paths
@holds_for(tensors=qkv(cached=True), data=st.data())
def test_causal_outputs_do_not_depend_on_later_keys(
    run: Attend, tensors: tuple[Tensor, Tensor, Tensor], data: st.DataObject
) -> None:
    query, key, value = tensors
    earlier = len(key) - len(query)
    now = data.draw(st.integers(0, len(query) - 1))
    later_key, later_value = key.clone(), value.clone()
    later_key[earlier + now + 1 :] += 3
    later_value[earlier + now + 1 :] -= 5
    before = run(query, key, value, causal=True)[: now + 1]
    after = run(query, later_key, later_value, causal=True)[: now + 1]
    torch.testing.assert_close(after, before)


@both_paths
def test_bidirectional_outputs_depend_on_later_keys(run: Attend) -> None:
    x = random_sequence(5)
    future = torch.cat([x[:4], x[4:] + 3])
    assert not torch.allclose(run(future, future, future)[:4], run(x, x, x)[:4], atol=0.1)


# -- weights -------------------------------------------------------------------------------------


@holds_for(tensors=qkv(), causal=st.booleans())
def test_softmax_weights_are_positive_and_sum_to_one(
    tensors: tuple[Tensor, Tensor, Tensor], causal: bool
) -> None:
    with Trace(only="weights") as trace:
        attend(*tensors, causal=causal)
    weights = trace["weights"]
    queries, keys = weights.shape
    has_keys = torch.arange(queries) >= (queries - keys if causal else 0)
    torch.testing.assert_close(weights.sum(-1), has_keys.double())
    assert (weights >= 0).all()


@both_paths
@holds_for(tensors=qkv())
def test_a_softmax_output_lies_between_the_values(
    run: Attend, tensors: tuple[Tensor, Tensor, Tensor]
) -> None:
    value = tensors[-1]
    mixed = run(*tensors)
    assert (mixed >= value.amin(0) - 1e-9).all()
    assert (mixed <= value.amax(0) + 1e-9).all()


# -- batches -------------------------------------------------------------------------------------


@both_paths
@holds_for(x=sequences(batch=3), causal=st.booleans())
def test_sequences_of_a_batch_are_independent(run: Attend, x: Tensor, causal: bool) -> None:
    heads = x[:, None]  # [batch, heads, time, width]
    batched = run(heads, heads, heads, causal=causal)
    for alone, i in zip(batched, range(3), strict=True):
        torch.testing.assert_close(alone[0], run(x[i], x[i], x[i], causal=causal))
    changed = heads.clone()
    changed[1] += 1
    others = run(changed, changed, changed, causal=causal)[[0, 2]]
    torch.testing.assert_close(others, batched[[0, 2]])


# -- caching --------------------------------------------------------------------------------------


@both_paths
@holds_for(x=sequences(), data=st.data())
def test_the_last_queries_of_a_cached_sequence(run: Attend, x: Tensor, data: st.DataObject) -> None:
    block = data.draw(st.integers(1, len(x)))
    expected = run(x, x, x, causal=True)
    torch.testing.assert_close(run(x[-block:], x, x, causal=True), expected[-block:])


@holds_for(
    time=st.integers(1, 40),
    kv_heads=st.sampled_from([1, 2, 4]),
    is_traced=st.booleans(),
    data=st.data(),
)
def test_a_cached_layer_equals_one_causal_pass(
    time: int, kv_heads: int, is_traced: bool, data: st.DataObject
) -> None:
    """Read token by token or in blocks; 40 steps exceed the initial capacity of the cache."""
    torch.manual_seed(time)
    layer = MultiHeadAttention(8, 4, kv_heads=kv_heads).double()
    x = torch.randn(2, time, 8, dtype=torch.float64)
    cache, outputs, start = KeyValueCache(), [], 0
    token_by_token = data.draw(st.booleans())
    with torch.no_grad(), Trace(only="weights" if is_traced else "output"):
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
