"""Similarities and the cache, and multi-head attention against `torch.nn.MultiheadAttention`."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workings import Trace, UserError, attend
from workings.attention import causal_mask, dot
from workings.layers import (
    AdditiveSimilarity,
    GeneralSimilarity,
    KeyValueCache,
    MultiHeadAttention,
)

# -- similarities ----------------------------------------------------------------------------------


def additive_reference(layer: AdditiveSimilarity, query: list[float], key: list[float]) -> float:
    """Compute `vᵀ tanh(W_q q + W_k k)` for one query and one key, with Python floats."""
    total = 0.0
    for v, w_q, w_k in zip(
        layer.score.weight[0].tolist(),
        layer.query.weight.tolist(),
        layer.key.weight.tolist(),
        strict=True,
    ):
        inside = sum(w * q for w, q in zip(w_q, query, strict=True))
        inside += sum(w * k for w, k in zip(w_k, key, strict=True))
        total += v * math.tanh(inside)
    return total


def general_reference(layer: GeneralSimilarity, query: list[float], key: list[float]) -> float:
    """Compute `qᵀ W k` for one query and one key; the layer stores Wᵀ."""
    return sum(
        key[j] * w * query[i]
        for j, row in enumerate(layer.projection.weight.tolist())
        for i, w in enumerate(row)
    )


CASES = [
    (AdditiveSimilarity(3, 2, 5), additive_reference),
    (GeneralSimilarity(3, 2), general_reference),
]


@pytest.mark.parametrize(("layer", "reference"), CASES)
def test_a_similarity_scores_every_pair_by_the_formula(layer, reference, fill, waves):
    fill(layer)
    query, key = waves(2, 4, 3, start=60), waves(2, 5, 2, start=80)
    expected = [
        [[reference(layer, q, k) for k in key[b].tolist()] for q in query[b].tolist()]
        for b in range(2)
    ]
    torch.testing.assert_close(layer(query, key), torch.tensor(expected))


@pytest.mark.parametrize(("layer", "reference"), CASES)
def test_attend_does_not_scale_the_scores_of_a_similarity(layer, reference, fill, waves):
    fill(layer)
    query, key, value = waves(1, 3, start=60), waves(5, 2, start=80), waves(5, 4, start=99)
    weights = [math.exp(reference(layer, query[0].tolist(), k)) for k in key.tolist()]
    expected = [
        sum(w * v for w, v in zip(weights, column, strict=True)) / sum(weights)
        for column in value.T.tolist()
    ]
    mixed = attend(query, key, value, similarity=layer)
    torch.testing.assert_close(mixed, torch.tensor([expected]))


@pytest.mark.parametrize(("layer", "_"), CASES)
def test_a_similarity_treats_batch_and_heads_independently(layer, _, waves):
    query, key = waves(2, 3, 4, 3), waves(2, 3, 5, 2)
    scores = layer(query, key)
    assert scores.shape == (2, 3, 4, 5)
    torch.testing.assert_close(scores[1, 2], layer(query[1, 2], key[1, 2]))


@pytest.mark.parametrize(("layer", "_"), CASES)
def test_every_weight_of_a_similarity_gets_a_gradient(layer, _, fill, waves):
    layer.zero_grad()
    attend(waves(4, 3), waves(5, 2), waves(5, 6), similarity=fill(layer)).pow(2).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_general_similarity_with_the_identity_is_the_inner_product(waves):
    layer, query, key = GeneralSimilarity(3, 3), waves(4, 3), waves(5, 3, start=20)
    with torch.no_grad():
        layer.projection.weight.copy_(torch.eye(3))
    torch.testing.assert_close(layer(query, key), dot(query, key))


def test_similarity_snapshots(fill):
    query, key = torch.tensor([[1.0, -1.0]]), torch.tensor([[0.5], [2.0]])
    additive, general = fill(AdditiveSimilarity(2, 1, 2)), fill(GeneralSimilarity(2, 1))
    torch.testing.assert_close(
        additive(query, key), torch.tensor([[0.305715, -0.309489]]), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        general(query, key), torch.tensor([[-0.033913, -0.135653]]), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("layer", [AdditiveSimilarity(3, 2, 5), GeneralSimilarity(3, 2)])
def test_similarities_refuse_other_widths(layer):
    with pytest.raises(UserError, match="expected queries of width 3, got 4"):
        layer(torch.zeros(1, 4), torch.zeros(1, 2))
    with pytest.raises(UserError, match="expected keys of width 2, got 4"):
        layer(torch.zeros(1, 3), torch.zeros(1, 4))


# -- multi-head attention, head by head ------------------------------------------------------------


def heads_one_by_one(
    layer: MultiHeadAttention, x: Tensor, context: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Compute each head with its own slice of the matrices, one after the other."""
    weight, bias = layer.qkv.weight, layer.qkv.bias
    size, kv_heads = layer.d_head, layer.kv_heads
    keys_at, values_at = layer.d_model, layer.d_model + kv_heads * size

    def project(x: Tensor, start: int) -> Tensor:
        return x @ weight[start : start + size].T + bias[start : start + size]

    heads = []
    for head in range(layer.heads):
        kv_head = head // (layer.heads // kv_heads)
        query = project(x, head * size)
        key = project(context, keys_at + kv_head * size)
        value = project(context, values_at + kv_head * size)
        scores = query @ key.transpose(1, 2) / math.sqrt(size)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        heads.append(scores.softmax(-1) @ value)
    return torch.cat(heads, dim=-1) @ layer.output.weight.T + layer.output.bias


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 2), (4, 4), (4, 2), (4, 1)])
def test_heads_are_adjacent_slices_of_the_width(heads, kv_heads, fill, waves):
    layer = fill(MultiHeadAttention(8, heads, kv_heads=kv_heads))
    x = waves(2, 5, 8, start=300)
    torch.testing.assert_close(layer(x), heads_one_by_one(layer, x, x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_cross_attention_equals_the_formula(kv_heads, fill, waves):
    layer = fill(MultiHeadAttention(8, 4, kv_heads=kv_heads))
    x, context = waves(2, 3, 8, start=300), waves(2, 7, 8, start=777)
    torch.testing.assert_close(
        layer(x, context), heads_one_by_one(layer, x, context), atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(layer(x, x), layer(x), atol=1e-5, rtol=1e-5)


def test_padding_is_masked_in_every_head(fill, waves):
    layer = fill(MultiHeadAttention(8, 4))
    x = waves(2, 5, 8, start=300)
    is_token = torch.tensor([[True] * 5, [True, True, False, False, True]])
    out = layer(x, mask=is_token[:, None, None])
    expected = heads_one_by_one(layer, x, x, mask=is_token[:, None])
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(out[1], layer(x)[1], atol=1e-2)


def test_grouped_heads_equal_full_heads_with_repeated_weights(fill, waves):
    grouped, full = fill(MultiHeadAttention(8, 4, kv_heads=2)), MultiHeadAttention(8, 4)
    with torch.no_grad():
        for name in ("weight", "bias"):
            query, key, value = getattr(grouped.qkv, name).split([8, 4, 4])
            doubled = [
                torch.cat([half for half in rows.split(2) for _ in range(2)])
                for rows in (key, value)
            ]
            getattr(full.qkv, name).copy_(torch.cat((query, *doubled)))
    full.output.load_state_dict(grouped.output.state_dict())
    x = waves(2, 5, 8, start=300)
    torch.testing.assert_close(grouped(x, causal=True), full(x, causal=True))


@pytest.mark.parametrize("pieces", [(1,) * 6, (3, 1, 1, 1), (2, 4), (6,)])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_cached_pieces_equal_one_pass(pieces, kv_heads, fill, waves):
    layer = fill(MultiHeadAttention(8, 4, kv_heads=kv_heads))
    x, cache = waves(2, 6, 8, start=300), KeyValueCache()
    parts = [layer(part, causal=True, cache=cache) for part in x.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), layer(x, causal=True))


def test_selected_rows_of_the_cache_continue_as_sequences(fill, waves):
    layer, rows = fill(MultiHeadAttention(8, 2)), torch.tensor([2, 0, 0])
    x, more = waves(3, 4, 8, start=300), waves(3, 1, 8, start=999)
    cache = KeyValueCache()
    layer(x, causal=True, cache=cache)
    step = layer(more, causal=True, cache=cache.select(rows))
    expected = layer(torch.cat((x[rows], more), dim=1), causal=True)
    torch.testing.assert_close(step, expected[:, -1:])
    unordered = layer(torch.cat((x, more), dim=1), causal=True)
    assert not torch.allclose(step, unordered[:, -1:], atol=1e-2)


def test_a_cached_context_is_projected_once(fill, waves):
    layer, cache = fill(MultiHeadAttention(8, 2)), KeyValueCache()
    x, memory = waves(2, 1, 8, start=300), waves(2, 5, 8, start=500)
    expected = layer(x, memory)
    torch.testing.assert_close(layer(x, memory, cache=cache), expected)
    torch.testing.assert_close(layer(x, memory * math.nan, cache=cache), expected)
    assert cache.length == 5


def test_weights_can_be_traced_and_a_head_ablated(fill, waves):
    layer, x = fill(MultiHeadAttention(8, 4)), waves(2, 5, 8, start=300)
    with Trace() as trace:
        layer(x)
    assert trace["weights"].shape == (2, 4, 5, 5)
    torch.testing.assert_close(trace["weights"].sum(-1), torch.ones(2, 4, 5))
    keep_heads = torch.tensor([1.0, 0.0, 1.0, 1.0]).reshape(4, 1, 1)
    with Trace(scale={"mixed": keep_heads}):
        ablated = layer(x)
    zeroed = fill(MultiHeadAttention(8, 4))
    with torch.no_grad():
        zeroed.output.weight[:, 2:4] = 0  # the columns of W_O for head 1
    torch.testing.assert_close(ablated, zeroed(x))


def test_multi_head_snapshot(fill):
    x = torch.tensor([[[1.0, 0.0], [0.5, -0.5]]])
    expected = [[[-2.322097, -1.313710], [-2.357327, -1.320357]]]
    out = fill(MultiHeadAttention(2, 2))(x)
    torch.testing.assert_close(out, torch.tensor(expected), atol=1e-5, rtol=0)


def test_without_bias_zeros_give_zeros():
    layer = MultiHeadAttention(8, 2, bias=False)
    assert {name for name, _ in layer.named_parameters()} == {"qkv.weight", "output.weight"}
    assert not layer(torch.zeros(1, 3, 8)).any()
    assert not layer(torch.zeros(1, 3, 8), torch.zeros(1, 4, 8)).any()


def test_multi_head_attention_drops_weights_in_training_only(fill, waves):
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
def test_numbers_of_heads_that_do_not_divide_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        MultiHeadAttention(**arguments)


def test_multi_head_attention_refuses_another_width():
    with pytest.raises(UserError, match="expected vectors of width 8, got 6"):
        MultiHeadAttention(8, 2)(torch.zeros(1, 3, 6))


# -- multi-head attention against torch's ----------------------------------------------------------


BATCH, QUERIES, KEYS, WIDTH, HEADS = 3, 5, 7, 12, 4


def layer_pair(
    width: int, heads: int, bias: bool = True
) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Return our layer and torch's with the same random weights and biases."""
    torch.manual_seed(width)
    ours = MultiHeadAttention(width, heads, bias=bias).double()
    theirs = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            nn.init.normal_(parameter, std=0.5)  # zero biases would hide mistakes
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(ours.qkv.bias)
            theirs.out_proj.bias.copy_(ours.output.bias)
    return ours, theirs


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def gradients(output: Tensor, *tensors: Tensor | None) -> list[Tensor]:
    cotangent = draw(*output.shape).detach()
    return list(torch.autograd.grad(output, [t for t in tensors if t is not None], cotangent))


def parameters_of_ours(layer: MultiHeadAttention) -> tuple[Tensor | None, ...]:
    return layer.qkv.weight, layer.qkv.bias, layer.output.weight, layer.output.bias


def parameters_of_theirs(layer: nn.MultiheadAttention) -> tuple[Tensor | None, ...]:
    return layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias


def random_mask(queries: int, keys: int) -> Tensor:
    """Return a random mask in which every query attends to something."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(queries, keys, generator=generator) > 0.4
    mask[:, 0] = True
    return mask


LENGTHS = torch.tensor([7, 2, 4])
PADDED = torch.arange(KEYS) < LENGTHS[:, None]  # [batch, keys], True at the tokens
PER_HEAD = torch.stack([random_mask(QUERIES, KEYS).roll(n, -1) for n in range(BATCH * HEADS)])
ADDED = torch.randn(QUERIES, KEYS, generator=torch.Generator().manual_seed(2)).double()

# In our masks, True means attend; in torch's, it means do not attend.
CROSS_MASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no mask": ({}, {}),
    "boolean": (
        {"mask": random_mask(QUERIES, KEYS)},
        {"attn_mask": ~random_mask(QUERIES, KEYS)},
    ),
    "additive": ({"mask": ADDED}, {"attn_mask": ADDED}),
    "one per head": (
        {"mask": PER_HEAD.view(BATCH, HEADS, QUERIES, KEYS)},
        {"attn_mask": ~PER_HEAD},
    ),
    "padding": ({"mask": PADDED[:, None, None]}, {"key_padding_mask": ~PADDED}),
    "padding and boolean": (
        {"mask": PADDED[:, None, None] & random_mask(QUERIES, KEYS)},
        {"key_padding_mask": ~PADDED, "attn_mask": ~random_mask(QUERIES, KEYS)},
    ),
}


@pytest.mark.parametrize("is_traced", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", CROSS_MASKS)
def test_cross_attention_equals_torchs_with_gradients(
    name: str, bias: bool, is_traced: bool
) -> None:
    ours, theirs = layer_pair(WIDTH, HEADS, bias)
    x, context = draw(BATCH, QUERIES, WIDTH), draw(BATCH, KEYS, WIDTH)
    our_options, their_options = CROSS_MASKS[name]

    with Trace(only="weights" if is_traced else "nothing") as trace:
        output = ours(x, context, **our_options)
    expected, weights = theirs(
        x, context, context, need_weights=is_traced, average_attn_weights=False, **their_options
    )

    torch.testing.assert_close(output, expected)
    if is_traced:
        torch.testing.assert_close(trace["weights"], weights)
    torch.testing.assert_close(
        gradients(output, x, context, *parameters_of_ours(ours)),
        gradients(expected, x, context, *parameters_of_theirs(theirs)),
    )


@pytest.mark.parametrize("is_traced", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("heads", [1, 3, 12])
@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "causal and padding"])
def test_self_attention_equals_torchs_with_gradients(
    mask: str, heads: int, is_traced: bool
) -> None:
    ours, theirs = layer_pair(WIDTH, heads)
    x = draw(BATCH, KEYS, WIDTH)
    allowed = causal_mask(KEYS, KEYS) if "causal" in mask else random_mask(KEYS, KEYS)
    our_options, their_options = {
        "none": ({}, {}),
        "causal": ({"causal": True}, {"attn_mask": ~allowed, "is_causal": True}),
        "boolean": ({"mask": allowed}, {"attn_mask": ~allowed}),
        "causal and padding": (
            {"mask": PADDED[:, None, None], "causal": True},
            {"attn_mask": ~allowed, "key_padding_mask": ~PADDED},
        ),
    }[mask]

    with Trace(only="weights" if is_traced else "nothing"):
        output = ours(x, **our_options)
    expected, _ = theirs(x, x, x, need_weights=False, **their_options)

    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(
        gradients(output, x, *parameters_of_ours(ours)),
        gradients(expected, x, *parameters_of_theirs(theirs)),
    )


def test_the_comparison_detects_an_inverted_mask_and_swapped_projections() -> None:
    ours, theirs = layer_pair(WIDTH, HEADS)
    x = draw(BATCH, KEYS, WIDTH)
    expected, _ = theirs(x, x, x, attn_mask=~random_mask(KEYS, KEYS))
    assert not torch.allclose(ours(x, mask=~random_mask(KEYS, KEYS)), expected, rtol=0.1)
    with torch.no_grad():
        ours.qkv.weight.copy_(ours.qkv.weight.roll(WIDTH, 0))
    assert not torch.allclose(ours(x, mask=random_mask(KEYS, KEYS)), expected, rtol=0.1)


def test_a_padded_batch_equals_each_sequence_alone() -> None:
    ours, theirs = layer_pair(WIDTH, HEADS)
    x = draw(BATCH, KEYS, WIDTH)
    batched = ours(x, mask=PADDED[:, None, None])
    for i, length in enumerate(LENGTHS.tolist()):
        alone = x[i : i + 1, :length]
        torch.testing.assert_close(batched[i : i + 1, :length], theirs(alone, alone, alone)[0])


def test_the_example_of_the_notes() -> None:
    """Lecture 0: two tokens of width 3, one head, `batch_first=True`."""
    ours, theirs = layer_pair(3, 1)
    x = torch.tensor([[[-0.1, 0.1, 0.3], [0.4, -1.1, -0.3]]], dtype=torch.float64)
    with Trace(only=["weights"]) as trace:
        output = ours(x)
    expected, weights = theirs(x, x, x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(trace["weights"][:, 0], weights)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_heads_equal_torchs_with_repeated_heads(kv_heads: int) -> None:
    _, theirs = layer_pair(WIDTH, HEADS)
    ours = MultiHeadAttention(WIDTH, HEADS, kv_heads=kv_heads).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            nn.init.normal_(parameter, std=0.5)
        for ours_parameter, full in (
            (ours.qkv.weight, theirs.in_proj_weight),
            (ours.qkv.bias, theirs.in_proj_bias),
        ):
            query, key, value = torch.split(ours_parameter, ours._split_sizes())
            repeated = [
                rows.unflatten(0, (kv_heads, -1))
                .repeat_interleave(HEADS // kv_heads, dim=0)
                .flatten(0, 1)
                for rows in (key, value)
            ]
            full.copy_(torch.cat([query, *repeated]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    x, context = draw(BATCH, QUERIES, WIDTH), draw(BATCH, KEYS, WIDTH)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])
    torch.testing.assert_close(ours(x, context), theirs(x, context, context)[0])


def test_dropout_is_random_in_training_only() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, HEADS, dropout=0.5).double()
    x = draw(BATCH, KEYS, WIDTH)
    assert not torch.allclose(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_each_projection_is_initialized_as_a_square_matrix() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(256, 4)
    bound = math.sqrt(6 / (256 + 256))  # Xavier uniform
    for weight in (*ours.qkv.weight.chunk(3), ours.output.weight):
        assert weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert (ours.qkv.bias == 0).all()
    assert (ours.output.bias == 0).all()


# -- key-value cache -------------------------------------------------------------------------------


def fill_cache(waves, *lengths: int) -> tuple[KeyValueCache, torch.Tensor, torch.Tensor]:
    """Append pieces of these lengths: batch 2, 3 heads, keys and values of width 4."""
    key, value = waves(2, 3, sum(lengths), 4), waves(2, 3, sum(lengths), 4, start=7)
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
    more_key, more_value = waves(2, 3, 2, 4, start=500), waves(2, 3, 2, 4, start=600)
    all_keys, all_values = cache.append(more_key, more_value)
    assert torch.equal(all_keys, torch.cat((key, more_key), dim=2))
    assert torch.equal(all_values, torch.cat((value, more_value), dim=2))


def test_selected_rows_are_independent_of_the_original(waves):
    cache, key, value = fill_cache(waves, 3)
    selected = cache.select(torch.tensor([1, 1, 0]))
    assert torch.equal(selected.read()[0], key[[1, 1, 0]])
    assert torch.equal(selected.read()[1], value[[1, 1, 0]])
    cache.append(waves(2, 3, 1, 4, start=500), waves(2, 3, 1, 4, start=500))
    selected.append(waves(3, 3, 1, 4, start=900), waves(3, 3, 1, 4, start=900))
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
