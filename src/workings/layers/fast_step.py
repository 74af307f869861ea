"""Transformer blocks as plain functions, for generating token by token.

One step computes so little that calling modules would take most of its time. The functions compute
the same as the modules, but have no taps and no hooks: with a trace open, the modules are used.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workings.attention import attend_all, attend_last
from workings.layers.attention import KeyValueCache, MultiHeadAttention
from workings.layers.transformer import (
    ACTIVATIONS,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    Residual,
    RMSNorm,
)

BlockStep: TypeAlias = Callable[[Tensor, KeyValueCache], Tensor]
KeyValues: TypeAlias = tuple[Tensor, Tensor]


MAX_COPIED_WEIGHTS = 2**18  # of a matrix that is stored transposed: 1 MiB


def fast_block_step(block: EncoderBlock) -> BlockStep:
    """Return a function that applies a causal block to one more token of each sequence.

    It uses the block's current weights, and no dropout.

    >>> block = EncoderBlock(8, heads=2, d_ff=32).eval()
    >>> x = torch.randn(3, 8)
    >>> expected = block(x.unsqueeze(1), causal=True, cache=KeyValueCache()).squeeze(1)
    >>> torch.allclose(fast_block_step(block)(x, KeyValueCache()), expected, atol=1e-5)
    True
    """
    if block.is_parallel:
        return _parallel_block_step(block)
    self_attend = _residual_step(block.attention_residual, _self_attention_step(block.attention))
    feed_forward = _residual_step(
        block.feed_forward_residual, _feed_forward_step(block.feed_forward)
    )

    def step(x: Float[Tensor, "batch width"], cache: KeyValueCache) -> Float[Tensor, "batch width"]:
        return feed_forward(self_attend(x, cache))

    return step


def _parallel_block_step(block: EncoderBlock) -> BlockStep:
    self_attend, attention_norm = (
        _self_attention_step(block.attention),
        fast_norm(block.attention_residual.norm),
    )
    feed_forward, feed_forward_norm = (
        _feed_forward_step(block.feed_forward),
        fast_norm(block.feed_forward_residual.norm),
    )

    def step(x: Float[Tensor, "batch width"], cache: KeyValueCache) -> Float[Tensor, "batch width"]:
        return x + self_attend(attention_norm(x), cache) + feed_forward(feed_forward_norm(x))

    return step


class FastDecoder:
    """Decoder blocks as one function, applied to one more token of each hypothesis.

    The hypotheses of one source must be adjacent rows, equally many per source: they are the
    queries of one attention over the keys and values of their source, which are stored once.
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
        """Return the cross-attention keys and values of the sources, for each block."""
        return [attention.project_key_value(source) for attention in self._cross_attentions]

    def __call__(
        self,
        x: Float[Tensor, "rows width"],
        caches: Sequence[KeyValueCache],
        key_values: Sequence[KeyValues],
        mask: Float[Tensor, "sources 1 1 time"] | None,
    ) -> Float[Tensor, "rows width"]:
        """Return the output of the last block for one token of each hypothesis."""
        for (self_attend, cross_attend, feed_forward), cache, memory in zip(
            self._steps, caches, key_values, strict=True
        ):
            x = feed_forward(cross_attend(self_attend(x, cache), memory, mask))
        return x


def _residual_step(residual: Residual, sublayer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a sublayer with its residual connection and norm."""
    norm = fast_norm(residual.norm)
    if residual.norm_placement == "pre":
        return lambda x, *rest: x + sublayer(norm(x), *rest)
    return lambda x, *rest: norm(x + sublayer(x, *rest))


def _self_attention_step(attention: MultiHeadAttention) -> Callable[..., Tensor]:
    heads, kv_heads, d_head = attention.heads, attention.kv_heads, attention.d_head
    num_heads = heads + 2 * kv_heads
    project, output = fast_linear(attention.qkv), fast_linear(attention.output)
    rotary = attention.rotary

    def step(x: Tensor, cache: KeyValueCache) -> Tensor:
        vectors = project(x).view(-1, num_heads, 1, d_head)
        if rotary is not None:  # queries and keys are adjacent: rotate them in one call
            rotated = rotary.forward(vectors.narrow(1, 0, heads + kv_heads), cache.length)
            vectors = torch.cat((rotated, vectors.narrow(1, heads + kv_heads, kv_heads)), 1)
        key_value = cache.append_joint(vectors.narrow(1, heads, 2 * kv_heads))
        return output(attend_last(vectors.narrow(1, 0, heads), *key_value).view(x.shape))

    return step


def _cross_attention_step(attention: MultiHeadAttention) -> Callable[..., Tensor]:
    heads, d_head = attention.heads, attention.d_head
    weight, bias = attention.query_weights()
    transposed, output = weight.t(), fast_linear(attention.output)

    def step(x: Tensor, memory: KeyValues, mask: Tensor | None) -> Tensor:
        key, value = memory
        query = torch.mm(x, transposed) if bias is None else torch.addmm(bias, x, transposed)
        query = query.view(key.shape[0], -1, heads, d_head).transpose(1, 2)
        mixed = attend_all(query, key, value, mask)
        return output(mixed.transpose(1, 2).reshape(x.shape))

    return step


def _feed_forward_step(feed_forward: FeedForward) -> Callable[..., Tensor]:
    inner, outer = fast_linear(feed_forward.inner), fast_linear(feed_forward.outer)
    activation = ACTIVATIONS[feed_forward.activation]
    if feed_forward.gate is None:
        return lambda x: outer(activation(inner(x)))
    gate = fast_linear(feed_forward.gate)
    return lambda x: outer(activation(gate(x)) * inner(x))


def fast_norm(norm: LayerNorm | RMSNorm) -> Callable[[Tensor], Tensor]:
    """Return a norm as a function."""
    shape, gamma, eps = (norm.width,), norm.gamma, norm.eps
    if isinstance(norm, RMSNorm):
        return lambda x: torch.rms_norm(x, shape, gamma, eps)
    beta = norm.beta
    return lambda x: torch.layer_norm(x, shape, gamma, beta, eps)


def fast_linear(linear: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Return a linear layer as a function of `[batch, width]`."""
    transposed, bias = linear.weight.t(), linear.bias
    if transposed.numel() <= MAX_COPIED_WEIGHTS:  # faster; larger ones cost memory
        transposed = transposed.contiguous()
    if bias is None:
        return lambda x: torch.mm(x, transposed)
    return lambda x: torch.addmm(bias, x, transposed)
