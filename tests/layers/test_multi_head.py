import math

import pytest
import torch
from torch import Tensor

from workings import Trace, UserError
from workings.layers import KeyValueCache, MultiHeadAttention


def by_hand(
    layer: MultiHeadAttention, x: Tensor, context: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Each head with its own slice of the matrices, one after another, in the notes' order."""
    weight, bias = layer.qkv.weight, layer.qkv.bias
    size, shared = layer.d_head, layer.kv_heads
    keys_at, values_at = layer.d_model, layer.d_model + shared * size

    def projected(what: Tensor, start: int) -> Tensor:
        return what @ weight[start : start + size].T + bias[start : start + size]

    heads = []
    for head in range(layer.heads):
        serving = head // (layer.heads // shared)
        query = projected(x, head * size)
        key = projected(context, keys_at + serving * size)
        value = projected(context, values_at + serving * size)
        scores = query @ key.transpose(1, 2) / math.sqrt(size)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        heads.append(scores.softmax(-1) @ value)
    return torch.cat(heads, dim=-1) @ layer.output.weight.T + layer.output.bias


@pytest.mark.parametrize(("heads", "shared"), [(1, 1), (2, 2), (4, 4), (4, 2), (4, 1)])
def test_heads_are_neighbouring_slices_of_the_width(heads, shared, fill, waves):
    layer = fill(MultiHeadAttention(8, heads, kv_heads=shared))
    x = waves(2, 5, 8, start=300)
    torch.testing.assert_close(layer(x), by_hand(layer, x, x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [4, 2])
def test_queries_may_come_from_one_sequence_and_keys_from_another(shared, fill, waves):
    layer = fill(MultiHeadAttention(8, 4, kv_heads=shared))
    x, context = waves(2, 3, 8, start=300), waves(2, 7, 8, start=777)
    torch.testing.assert_close(layer(x, context), by_hand(layer, x, context), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(layer(x, x), layer(x), atol=1e-5, rtol=1e-5)


def test_padding_is_hidden_from_every_head(fill, waves):
    layer = fill(MultiHeadAttention(8, 4))
    x, real = (
        waves(2, 5, 8, start=300),
        torch.tensor([[True] * 5, [True, True, False, False, True]]),
    )
    out = layer(x, mask=real[:, None, None])
    expected = by_hand(layer, x, x, mask=real[:, None])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(out[1], layer(x)[1], atol=1e-2)


def test_shared_heads_are_whole_heads_with_the_same_weights(fill, waves):
    grouped, whole = fill(MultiHeadAttention(8, 4, kv_heads=2)), MultiHeadAttention(8, 4)
    with torch.no_grad():
        for name in ("weight", "bias"):
            query, key, value = getattr(grouped.qkv, name).split([8, 4, 4])
            doubled = [
                torch.cat([half for half in rows.split(2) for _ in range(2)])
                for rows in (key, value)
            ]
            getattr(whole.qkv, name).copy_(torch.cat((query, *doubled)))
    whole.output.load_state_dict(grouped.output.state_dict())
    x = waves(2, 5, 8, start=300)
    torch.testing.assert_close(grouped(x, causal=True), whole(x, causal=True))


@pytest.mark.parametrize("pieces", [(1,) * 6, (3, 1, 1, 1), (2, 4), (6,)])
@pytest.mark.parametrize("shared", [4, 2])
def test_a_cache_makes_piece_by_piece_the_same_as_the_whole(pieces, shared, fill, waves):
    layer = fill(MultiHeadAttention(8, 4, kv_heads=shared))
    x, cache = waves(2, 6, 8, start=300), KeyValueCache()
    parts = [layer(part, causal=True, cache=cache) for part in x.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, causal=True))


def test_beams_reorder_the_cache(fill, waves):
    layer, rows = fill(MultiHeadAttention(8, 2)), torch.tensor([2, 0, 0])
    x, more = waves(3, 4, 8, start=300), waves(3, 1, 8, start=999)
    cache = KeyValueCache()
    layer(x, causal=True, cache=cache)
    step = layer(more, causal=True, cache=cache.select(rows))
    whole = layer(torch.cat((x[rows], more), dim=1), causal=True)
    torch.testing.assert_close(step, whole[:, -1:])
    unordered = layer(torch.cat((x, more), dim=1), causal=True)
    assert not torch.allclose(step, unordered[:, -1:], atol=1e-2)


def test_a_cached_memory_is_projected_once(fill, waves):
    layer, cache = fill(MultiHeadAttention(8, 2)), KeyValueCache()
    x, memory = waves(2, 1, 8, start=300), waves(2, 5, 8, start=500)
    expected = layer(x, memory)
    torch.testing.assert_close(layer(x, memory, cache=cache), expected)
    torch.testing.assert_close(layer(x, memory * math.nan, cache=cache), expected)
    assert cache.length == 5


def test_weights_can_be_read_and_a_head_switched_off(fill, waves):
    layer, x = fill(MultiHeadAttention(8, 4)), waves(2, 5, 8, start=300)
    with Trace() as trace:
        layer(x)
    assert trace["weights"].shape == (2, 4, 5, 5)
    torch.testing.assert_close(trace["weights"].sum(-1), torch.ones(2, 4, 5))
    keep = torch.tensor([1.0, 0.0, 1.0, 1.0]).reshape(4, 1, 1)
    with Trace(scale={"mixed": keep}):
        without = layer(x)
    blind = fill(MultiHeadAttention(8, 4))
    with torch.no_grad():
        blind.output.weight[:, 2:4] = 0  # what W_O reads of head 1
    torch.testing.assert_close(without, blind(x))


def test_snapshot(fill):
    x = torch.tensor([[[1.0, 0.0], [0.5, -0.5]]])
    expected = [[[-2.322097, -1.313710], [-2.357327, -1.320357]]]
    out = fill(MultiHeadAttention(2, 2))(x)
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


def test_without_bias_nothing_in_gives_nothing_out():
    layer = MultiHeadAttention(8, 2, bias=False)
    assert {name for name, _ in layer.named_parameters()} == {"qkv.weight", "output.weight"}
    assert not layer(torch.zeros(1, 3, 8)).any()
    assert not layer(torch.zeros(1, 3, 8), torch.zeros(1, 4, 8)).any()


def test_dropout_is_for_training_only(fill, waves):
    layer, x = fill(MultiHeadAttention(8, 2, dropout=1.0)), waves(1, 3, 8)
    torch.testing.assert_close(layer(x), layer.output.bias.expand(1, 3, 8))
    torch.testing.assert_close(layer.eval()(x), fill(MultiHeadAttention(8, 2))(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_model": 8, "heads": 3}, "heads = 3: must divide d_model = 8"),
        ({"d_model": 8, "heads": 0}, "heads = 0: must divide"),
        ({"d_model": 8, "heads": 4, "kv_heads": 3}, "kv_heads = 3: must divide heads = 4"),
        ({"d_model": 8, "heads": 4, "kv_heads": 0}, "kv_heads = 0: must divide"),
    ],
)
def test_heads_that_do_not_divide_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        MultiHeadAttention(**arguments)


def test_another_width_is_refused():
    with pytest.raises(UserError, match="expected vectors of width 8, got 6"):
        MultiHeadAttention(8, 2)(torch.zeros(1, 3, 6))
