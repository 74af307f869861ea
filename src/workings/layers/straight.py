"""Layers as plain functions, for reading a token at a time.

Such a step has so little to compute that calling modules would take most of its time. The sums are
the layers' own, but there is nothing to look at in between: whoever traces runs those.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.attention import attend_last
from workings.layers.blocks import EncoderBlock
from workings.layers.cache import KeyValueCache
from workings.layers.feed_forward import ACTIVATIONS
from workings.layers.norms import LayerNorm

Step: TypeAlias = Callable[[Tensor, KeyValueCache], Tensor]


def _gelu(x: Tensor) -> Tensor:
    half = x * 0.5
    return torch.addcmul(half, half, torch.erf(x * 0.5**0.5))


# F.gelu prepares a oneDNN primitive each time, which takes longer than a few hundred numbers do.
_ACTIVATIONS = {**ACTIVATIONS, "gelu": _gelu}


def straight(block: EncoderBlock) -> Step:
    """Make a function of a causal block that reads one more token of each sequence.

    It computes with the weights that the block has now, and without dropout.

    >>> block = EncoderBlock(8, heads=2, hidden=32).eval()
    >>> x = torch.randn(3, 8)
    >>> usual = block(x.unsqueeze(1), causal=True, cache=KeyValueCache()).squeeze(1)
    >>> torch.allclose(straight(block)(x, KeyValueCache()), usual, atol=1e-5)
    True
    """
    attention, feed_forward = block.attention, block.feed_forward
    heads, shared, head_width = attention.heads, attention.shared_heads, attention.head_width
    parts = [heads, shared, shared]
    project, output = straight_linear(attention.project), straight_linear(attention.output)
    rotary = attention.rotary
    inner, outer = straight_linear(feed_forward.inner), straight_linear(feed_forward.outer)
    activation = _ACTIVATIONS[feed_forward.activation]
    around_attention, around_feed_forward = (
        straight_norm(residual.norm)
        for residual in (block.around_attention, block.around_feed_forward)
    )

    def attended(x: Tensor, cache: KeyValueCache) -> Tensor:
        vectors = project(x).view(-1, sum(parts), 1, head_width)
        query, key, value = vectors.split_with_sizes(parts, 1)
        if rotary is not None:  # queries and keys, which are neighbours, at once
            turned = rotary.forward(vectors.narrow(1, 0, heads + shared), cache.length)
            query, key = turned.split_with_sizes(parts[:2], 1)
        mixed = attend_last(query, *cache.append(key, value))
        return output(mixed.view(x.shape))

    def fed_forward(x: Tensor) -> Tensor:
        return outer(activation(inner(x)))

    def pre(x: Float[Tensor, "batch width"], cache: KeyValueCache) -> Float[Tensor, "batch width"]:
        x = x + attended(around_attention(x), cache)
        return x + fed_forward(around_feed_forward(x))

    def post(x: Float[Tensor, "batch width"], cache: KeyValueCache) -> Float[Tensor, "batch width"]:
        x = around_attention(x + attended(x, cache))
        return around_feed_forward(x + fed_forward(x))

    return pre if block.around_attention.place == "pre" else post


def straight_norm(norm: LayerNorm) -> Callable[[Tensor], Tensor]:
    """Make a function of a layer norm."""
    shape, gamma, beta, eps = (norm.width,), norm.gamma, norm.beta, norm.eps
    return lambda x: torch.layer_norm(x, shape, gamma, beta, eps)


def straight_linear(linear: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Make a function of a linear layer, of `[batch, width]`."""
    columns, bias = linear.weight.t(), linear.bias
    if bias is None:
        return lambda x: torch.mm(x, columns)
    return lambda x: torch.addmm(bias, x, columns)
