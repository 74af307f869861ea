"""`MultiHeadAttention` against `torch.nn.MultiheadAttention` with the same weights."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workings.attention import causal_mask
from workings.layers import MultiHeadAttention
from workings.trace import Trace

BATCH, QUERIES, KEYS, WIDTH, HEADS = 3, 5, 7, 12, 4


def twins(
    width: int, heads: int, bias: bool = True
) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Two layers with the same random weights and biases, ours and torch's."""
    torch.manual_seed(width)
    ours = MultiHeadAttention(width, heads, bias=bias).double()
    theirs = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            nn.init.normal_(parameter, std=0.5)  # torch starts biases at zero, which hides mistakes
        theirs.in_proj_weight.copy_(ours.qkv.weight)
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(ours.qkv.bias)
            theirs.out_proj.bias.copy_(ours.output.bias)
    return ours, theirs


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def gradients(output: Tensor, *wanted: Tensor | None) -> list[Tensor]:
    cotangent = draw(*output.shape).detach()
    return list(torch.autograd.grad(output, [t for t in wanted if t is not None], cotangent))


def parameters_of_ours(layer: MultiHeadAttention) -> tuple[Tensor | None, ...]:
    return layer.qkv.weight, layer.qkv.bias, layer.output.weight, layer.output.bias


def parameters_of_theirs(layer: nn.MultiheadAttention) -> tuple[Tensor | None, ...]:
    return layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias


def seen(queries: int, keys: int) -> Tensor:
    """A mask in which every query sees something."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(queries, keys, generator=generator) > 0.4
    mask[:, 0] = True
    return mask


LENGTHS = torch.tensor([7, 2, 4])
PADDED = torch.arange(KEYS) < LENGTHS[:, None]  # [batch, keys], true for the words
PER_HEAD = torch.stack([seen(QUERIES, KEYS).roll(n, -1) for n in range(BATCH * HEADS)])
ADDED = torch.randn(QUERIES, KEYS, generator=torch.Generator().manual_seed(2)).double()

# Ours: true may look. Theirs: true may not.
CROSS_MASKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no mask": ({}, {}),
    "boolean": (
        {"mask": seen(QUERIES, KEYS)},
        {"attn_mask": ~seen(QUERIES, KEYS)},
    ),
    "additive": ({"mask": ADDED}, {"attn_mask": ADDED}),
    "each head its own": (
        {"mask": PER_HEAD.view(BATCH, HEADS, QUERIES, KEYS)},
        {"attn_mask": ~PER_HEAD},
    ),
    "padding": ({"mask": PADDED[:, None, None]}, {"key_padding_mask": ~PADDED}),
    "padding and boolean": (
        {"mask": PADDED[:, None, None] & seen(QUERIES, KEYS)},
        {"key_padding_mask": ~PADDED, "attn_mask": ~seen(QUERIES, KEYS)},
    ),
}


@pytest.mark.parametrize("look", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", CROSS_MASKS)
def test_cross_attention_and_its_gradients(name: str, bias: bool, look: bool) -> None:
    ours, theirs = twins(WIDTH, HEADS, bias)
    x, context = draw(BATCH, QUERIES, WIDTH), draw(BATCH, KEYS, WIDTH)
    our_options, their_options = CROSS_MASKS[name]

    with Trace(only="weights" if look else "nothing") as trace:
        output = ours(x, context, **our_options)
    expected, weights = theirs(
        x, context, context, need_weights=look, average_attn_weights=False, **their_options
    )

    torch.testing.assert_close(output, expected)
    if look:
        torch.testing.assert_close(trace["weights"], weights)
    torch.testing.assert_close(
        gradients(output, x, context, *parameters_of_ours(ours)),
        gradients(expected, x, context, *parameters_of_theirs(theirs)),
    )


@pytest.mark.parametrize("look", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("heads", [1, 3, 12])
@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "causal and padding"])
def test_self_attention_and_its_gradients(mask: str, heads: int, look: bool) -> None:
    ours, theirs = twins(WIDTH, heads)
    x = draw(BATCH, KEYS, WIDTH)
    allowed = causal_mask(KEYS, KEYS) if "causal" in mask else seen(KEYS, KEYS)
    our_options, their_options = {
        "none": ({}, {}),
        "causal": ({"causal": True}, {"attn_mask": ~allowed, "is_causal": True}),
        "boolean": ({"mask": allowed}, {"attn_mask": ~allowed}),
        "causal and padding": (
            {"mask": PADDED[:, None, None], "causal": True},
            {"attn_mask": ~allowed, "key_padding_mask": ~PADDED},
        ),
    }[mask]

    with Trace(only="weights" if look else "nothing"):
        output = ours(x, **our_options)
    expected, _ = theirs(x, x, x, need_weights=False, **their_options)

    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(
        gradients(output, x, *parameters_of_ours(ours)),
        gradients(expected, x, *parameters_of_theirs(theirs)),
    )


def test_the_comparison_notices_an_inverted_mask_and_swapped_projections() -> None:
    ours, theirs = twins(WIDTH, HEADS)
    x = draw(BATCH, KEYS, WIDTH)
    expected, _ = theirs(x, x, x, attn_mask=~seen(KEYS, KEYS))
    assert not torch.allclose(ours(x, mask=~seen(KEYS, KEYS)), expected, rtol=0.1)
    with torch.no_grad():
        ours.qkv.weight.copy_(ours.qkv.weight.roll(WIDTH, 0))
    assert not torch.allclose(ours(x, mask=seen(KEYS, KEYS)), expected, rtol=0.1)


def test_a_padded_batch_gives_what_each_sequence_gives_alone() -> None:
    ours, theirs = twins(WIDTH, HEADS)
    x = draw(BATCH, KEYS, WIDTH)
    together = ours(x, mask=PADDED[:, None, None])
    for i, length in enumerate(LENGTHS.tolist()):
        alone = x[i : i + 1, :length]
        torch.testing.assert_close(together[i : i + 1, :length], theirs(alone, alone, alone)[0])


def test_the_snippet_of_the_notes() -> None:
    """L0: two tokens of width 3, one head, `batch_first=True`."""
    ours, theirs = twins(3, 1)
    x = torch.tensor([[[-0.1, 0.1, 0.3], [0.4, -1.1, -0.3]]], dtype=torch.float64)
    with Trace(only=["weights"]) as trace:
        output = ours(x)
    expected, weights = theirs(x, x, x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(trace["weights"][:, 0], weights)


@pytest.mark.parametrize("shared_heads", [1, 2])
def test_shared_heads_are_whole_heads_that_repeat(shared_heads: int) -> None:
    _, theirs = twins(WIDTH, HEADS)
    ours = MultiHeadAttention(WIDTH, HEADS, kv_heads=shared_heads).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            nn.init.normal_(parameter, std=0.5)
        for mine, whole in (
            (ours.qkv.weight, theirs.in_proj_weight),
            (ours.qkv.bias, theirs.in_proj_bias),
        ):
            query, key, value = torch.split(mine, ours._split_sizes())
            repeated = [
                rows.unflatten(0, (shared_heads, -1))
                .repeat_interleave(HEADS // shared_heads, dim=0)
                .flatten(0, 1)
                for rows in (key, value)
            ]
            whole.copy_(torch.cat([query, *repeated]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    x, context = draw(BATCH, QUERIES, WIDTH), draw(BATCH, KEYS, WIDTH)
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0])
    torch.testing.assert_close(ours(x, context), theirs(x, context, context)[0])


def test_weights_are_dropped_in_training_only() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, HEADS, dropout=0.5).double()
    x = draw(BATCH, KEYS, WIDTH)
    assert not torch.allclose(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_each_projection_starts_as_a_square_matrix_would() -> None:
    torch.manual_seed(0)
    ours = MultiHeadAttention(256, 4)
    bound = math.sqrt(6 / (256 + 256))  # Glorot's, uniform
    for weight in (*ours.qkv.weight.chunk(3), ours.output.weight):
        assert weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    assert (ours.qkv.bias == 0).all()
    assert (ours.output.bias == 0).all()
