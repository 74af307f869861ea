"""Layers as plain functions, for reading a token at a time.

Such a step has so little to compute that calling modules would take most of its time. The sums are
the layers' own, but there is nothing to look at in between: whoever traces runs those.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.attention import attend_all, attend_last
from workings.layers.attention import MultiHeadAttention
from workings.layers.cache import KeyValueCache
from workings.layers.transformer import (
    ACTIVATIONS,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    Residual,
)

BlockStep: TypeAlias = Callable[[Tensor, KeyValueCache], Tensor]
KeyValues: TypeAlias = tuple[Tensor, Tensor]  # keys and values


def _gelu(x: Tensor) -> Tensor:
    half = x * 0.5
    return torch.addcmul(half, half, torch.erf(x * 0.5**0.5))


# F.gelu prepares a oneDNN primitive each time, which takes longer than a few hundred numbers do.
_ACTIVATIONS = {**ACTIVATIONS, "gelu": _gelu}


def fast_block_step(block: EncoderBlock) -> BlockStep:
    """Make a function of a causal block that reads one more token of each sequence.

    It computes with the weights that the block has now, and without dropout.

    >>> block = EncoderBlock(8, heads=2, d_ff=32).eval()
    >>> x = torch.randn(3, 8)
    >>> usual = block(x.unsqueeze(1), causal=True, cache=KeyValueCache()).squeeze(1)
    >>> torch.allclose(fast_block_step(block)(x, KeyValueCache()), usual, atol=1e-5)
    True
    """
    attend = _residual_step(block.attention_residual, _self_attention_step(block.attention))
    feed = _residual_step(block.feed_forward_residual, _feed_forward_step(block.feed_forward))

    def step(x: Float[Tensor, "batch width"], cache: KeyValueCache) -> Float[Tensor, "batch width"]:
        return feed(attend(x, cache))

    return step


class FastDecoder:
    """Blocks of a decoder as one function that writes one more token of each translation.

    Translations of one source stand together, equally many of each, and share what they look at:
    they are the queries of one attention.
    """

    def __init__(self, blocks: Sequence[DecoderBlock]) -> None:
        self._cross_attentions = [block.cross_attention for block in blocks]
        self._steps = [
            (
                _residual_step(block.attention_residual, _self_attention_step(block.attention)),
                _residual_step(
                    block.cross_attention_residual, _cross_attention_step(block.cross_attention)
                ),
                _residual_step(block.feed_forward_residual, _feed_forward_step(block.feed_forward)),
            )
            for block in blocks
        ]

    def project_key_values(self, source: Float[Tensor, "sources time width"]) -> list[KeyValues]:
        """Keys and values of what there is to look at, block by block: once a source."""
        return [cross.project_key_value(source) for cross in self._cross_attentions]

    def __call__(
        self,
        x: Float[Tensor, "rows width"],
        caches: Sequence[KeyValueCache],
        key_values: Sequence[KeyValues],
        mask: Float[Tensor, "sources 1 1 time"] | None,
    ) -> Float[Tensor, "rows width"]:
        """Read a token of each translation."""
        for (attend, cross, feed), cache, memory in zip(
            self._steps, caches, key_values, strict=True
        ):
            x = feed(cross(attend(x, cache), memory, mask))
        return x


def _residual_step(residual: Residual, sublayer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Go through the sublayer and around it, with the norm before or after."""
    norm = fast_norm(residual.norm)
    if residual.norm_placement == "pre":
        return lambda x, *given: x + sublayer(norm(x), *given)
    return lambda x, *given: norm(x + sublayer(x, *given))


def _self_attention_step(attention: MultiHeadAttention) -> Callable[..., Tensor]:
    heads, shared, head_width = attention.heads, attention.kv_heads, attention.d_head
    parts = [heads, shared, shared]
    project, output = fast_linear(attention.qkv), fast_linear(attention.output)
    rotary = attention.rotary

    def attended(x: Tensor, cache: KeyValueCache) -> Tensor:
        vectors = project(x).view(-1, sum(parts), 1, head_width)
        query, key, value = vectors.split_with_sizes(parts, 1)
        if rotary is not None:  # queries and keys, which are neighbours, at once
            turned = rotary.forward(vectors.narrow(1, 0, heads + shared), cache.length)
            query, key = turned.split_with_sizes(parts[:2], 1)
        return output(attend_last(query, *cache.append(key, value)).view(x.shape))

    return attended


def _cross_attention_step(attention: MultiHeadAttention) -> Callable[..., Tensor]:
    heads, width = attention.heads, attention.d_head
    weight, bias = attention.query_weights()
    columns, output = weight.t(), fast_linear(attention.output)

    def crossed(x: Tensor, memory: KeyValues, mask: Tensor | None) -> Tensor:
        key, value = memory
        query = torch.mm(x, columns) if bias is None else torch.addmm(bias, x, columns)
        query = query.view(key.shape[0], -1, heads, width).transpose(1, 2)
        mixed = attend_all(query, key, value, mask)
        return output(mixed.transpose(1, 2).reshape(x.shape))

    return crossed


def _feed_forward_step(feed_forward: FeedForward) -> Callable[..., Tensor]:
    inner, outer = fast_linear(feed_forward.inner), fast_linear(feed_forward.outer)
    activation = _ACTIVATIONS[feed_forward.activation]
    return lambda x: outer(activation(inner(x)))


def fast_norm(norm: LayerNorm) -> Callable[[Tensor], Tensor]:
    """Make a function of a layer norm."""
    shape, gamma, beta, eps = (norm.width,), norm.gamma, norm.beta, norm.eps
    return lambda x: torch.layer_norm(x, shape, gamma, beta, eps)


def fast_linear(linear: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Make a function of a linear layer, of `[batch, width]`."""
    columns, bias = linear.weight.t(), linear.bias
    if bias is None:
        return lambda x: torch.mm(x, columns)
    return lambda x: torch.addmm(bias, x, columns)
