"""Layers of the Transformer: dropout, norms, feed-forward, residual connections, blocks of them."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from workings.attention import Mask
from workings.errors import UserError, did_you_mean
from workings.layers.attention import KeyValueCache, MultiHeadAttention
from workings.layers.linear import Linear
from workings.modules import expect_width
from workings.trace import is_tapped, tap

_RESOLUTION = 2**16  # the mask compares 16-bit random numbers with a threshold


class Dropout(nn.Dropout):
    """torch's Dropout, but on a CPU numpy draws the mask, ten times as fast.

    There torch's takes longer than the layer before it. The seed of each mask comes from torch's
    generator, so that `torch.manual_seed` determines it.

    >>> _ = torch.manual_seed(0)
    >>> Dropout(0.5)(torch.ones(8))
    tensor([0., 2., 2., 0., 2., 0., 0., 0.])
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """In training, zero each feature with probability `p` and scale up the rest."""
        return apply_dropout(x, self.p) if self.training else x


def apply_dropout(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Zero each number with probability `p` and divide the rest by `1 − p`."""
    threshold = round(p * _RESOLUTION)
    if not 0 < threshold < _RESOLUTION or not x.is_cpu or torch.compiler.is_compiling():
        return F.dropout(x, p)
    dtype = np.float64 if x.dtype == torch.float64 else np.float32
    scales = _draw_scales(x.shape, threshold, dtype)
    return (x * scales).to(x.dtype)  # a scale in 16 bits would be imprecise


def _draw_scales(
    shape: torch.Size, threshold: int, dtype: type[np.floating]
) -> Float[Tensor, "*shape"]:
    """Return 0 or `1 / (1 − p)` for each number; `p` is `threshold / _RESOLUTION`.

    A float mask: torch takes several times as long to multiply by a boolean one.
    """
    seed, count = int(torch.randint(2**62, ())), shape.numel()
    random_bits = np.random.SFC64(seed).random_raw(-(-count // 4)).view(np.uint16)[:count]
    scale = dtype(_RESOLUTION / (_RESOLUTION - threshold))
    return torch.from_numpy((random_bits >= np.uint16(threshold)) * scale).view(shape)


class LayerNorm(nn.Module):
    """Layer norm: `γ (x − μ)/√(σ² + eps) + β` over the features of each vector.

    The lecture notes use `eps=0.0`. Taps: mean, variance, normalised.

    >>> LayerNorm(3, eps=0.0)(torch.tensor([1.0, 2.0, 6.0])).detach()
    tensor([-0.9258, -0.4629,  1.3887])
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalize each vector."""
        expect_width(x.shape[-1], self.width)
        if not is_tapped("mean", "variance", "normalised"):
            return F.layer_norm(x, (self.width,), self.gamma, self.beta, self.eps)
        mean = tap("mean", x.mean(-1, keepdim=True))
        variance = tap("variance", (x - mean).square().mean(-1, keepdim=True))
        normalized = tap("normalised", (x - mean) / torch.sqrt(variance + self.eps))
        return self.gamma * normalized + self.beta


class RMSNorm(nn.Module):
    """Root mean square norm: `γ x/√(mean(x²) + eps)` over the features of each vector.

    Layer norm without the mean and without β (Zhang and Sennrich, 2019), as in Llama. Taps:
    mean_square, normalised.

    >>> RMSNorm(2, eps=0.0)(torch.tensor([1.0, 7.0])).detach()
    tensor([0.2000, 1.4000])
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalize each vector."""
        expect_width(x.shape[-1], self.width)
        if not is_tapped("mean_square", "normalised"):
            return F.rms_norm(x, (self.width,), self.gamma, self.eps)
        mean_square = tap("mean_square", x.square().mean(-1, keepdim=True))
        normalized = tap("normalised", x / torch.sqrt(mean_square + self.eps))
        return self.gamma * normalized


NormKind: TypeAlias = Literal["layer", "rms"]
NORMS: dict[str, type[LayerNorm] | type[RMSNorm]] = {"layer": LayerNorm, "rms": RMSNorm}


def build_norm(width: int, kind: NormKind = "layer", eps: float = 1e-5) -> LayerNorm | RMSNorm:
    """Return a layer norm, or a root mean square norm."""
    if kind not in NORMS:
        raise UserError(f"norm_kind {kind!r}: {did_you_mean(kind, NORMS)}")
    return NORMS[kind](width, eps=eps)


class SequenceBatchNorm(nn.Module):
    """Batch norm of each feature over all positions of the batch that are not padding.

    In training it uses the mean and variance of the batch, and updates running ones for evaluation:
    the output of a sentence depends on the rest of the batch, which is not so with layer norm.

    >>> x = torch.tensor([[[1.0], [99.0]], [[3.0], [-7.0]]])
    >>> padding_mask = torch.tensor([[True, False], [True, False]])
    >>> SequenceBatchNorm(1)(x, padding_mask).squeeze(-1).detach()
    tensor([[-1.0000,  0.0000],
            [ 1.0000,  0.0000]])
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, width: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.width, self.eps, self.momentum = width, eps, momentum
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_variance", torch.ones(width))

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        padding_mask: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Normalize; the output is zero where `padding_mask` is False."""
        expect_width(x.shape[-1], self.width)
        vectors = x.flatten(0, 1) if padding_mask is None else x[padding_mask]  # [positions, width]
        if self.training and len(vectors) < 2:
            raise UserError(f"batch norm needs 2 tokens or more to train on, got {len(vectors)}")
        normalized = F.batch_norm(
            vectors,
            self.running_mean,
            self.running_variance,
            self.gamma,
            self.beta,
            self.training,
            self.momentum,
            self.eps,
        )
        if padding_mask is None:
            return normalized.view_as(x)
        return torch.zeros_like(x).masked_scatter(padding_mask.unsqueeze(-1), normalized)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # as in GPT-2
    "silu": F.silu,  # "swish" in Marian
}


class FeedForward(nn.Module):
    """Feed-forward layer `W_2 σ(W_1 x + b_1) + b_2` at each position. Taps: hidden, activated.

    If it is `gated` (Shazeer, 2020), the activation applies to a third projection, and multiplies
    the hidden features: `W_2 (σ(W_3 x + b_3) ⊙ (W_1 x + b_1)) + b_2`, with silu Llama's SwiGLU. The
    tap gate has its output.

    >>> from torch import ones
    >>> FeedForward(4, 16, activation="gelu")(ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: str = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UserError(f"activation {activation!r}: {did_you_mean(activation, ACTIVATIONS)}")
        self.activation = activation
        self.inner = Linear(d_model, d_ff, bias=bias)
        self.gate = Linear(d_model, d_ff, bias=bias) if gated else None
        self.outer = Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Apply both linear layers, with the activation between them."""
        expect_width(x.shape[-1], self.inner.in_features)
        hidden, activate = tap("hidden", self.inner(x)), ACTIVATIONS[self.activation]
        if self.gate is None:
            activated = activate(hidden)
        else:
            activated = tap("gate", activate(self.gate(x))) * hidden
        activated = tap("activated", activated)
        output: Tensor = self.outer(self.dropout(activated))
        return output


NormPlacement: TypeAlias = Literal["pre", "post"]


class Residual(nn.Module):
    """Residual connection around a sublayer f: `x + f(norm(x))` (pre) or `norm(x + f(x))` (post).

    >>> from torch import ones
    >>> Residual(3, "pre", dropout=0.0)(ones(1, 2, 3), lambda normed: normed + 1).detach()
    tensor([[[2., 2., 2.],
             [2., 2., 2.]]])
    """

    def __init__(
        self,
        d_model: int,
        norm: NormPlacement,
        dropout: float,
        *,
        norm_kind: NormKind = "layer",
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise UserError(f"norm {norm!r}: expected one of pre, post")
        self.norm_placement = norm
        self.norm = build_norm(d_model, norm_kind, norm_eps)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time width"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch time width"]:
        """Apply the sublayer and add its input."""
        out: Tensor
        if self.norm_placement == "pre":
            out = x + self.branch(x, sublayer)
        else:
            out = self.norm(x + self.dropout(sublayer(x)))
        return out

    def branch(
        self, x: Float[Tensor, "batch time width"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch time width"]:
        """Return what a pre-norm sublayer adds to its input: `f(norm(x))`."""
        out: Tensor = self.dropout(sublayer(self.norm(x)))
        return out


class TransformerBlock(nn.Module):
    """Base class of encoder and decoder blocks: sublayers, each with a residual connection.

    `dropout` applies to the output of each sublayer, `attention_dropout` to the attention weights
    and `activation_dropout` to the hidden features of the feed-forward layer; None: as `dropout`.
    The options of rotary positions are those of self-attention.
    """

    has_cross_attention: ClassVar[bool] = False

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        *,
        norm: NormPlacement = "pre",
        norm_kind: NormKind = "layer",
        norm_eps: float = 1e-5,
        activation: str = "relu",
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation_dropout: float | None = None,
        kv_heads: int | None = None,
        rotary: bool = False,
        rotary_base: float = 10_000.0,
        rotary_fraction: float = 1.0,
    ) -> None:
        super().__init__()
        if attention_dropout is None:
            attention_dropout = dropout
        if activation_dropout is None:
            activation_dropout = dropout
        self.attention = MultiHeadAttention(
            d_model,
            heads,
            kv_heads=kv_heads,
            bias=bias,
            dropout=attention_dropout,
            rotary=rotary,
            rotary_base=rotary_base,
            rotary_fraction=rotary_fraction,
        )
        build_residual = partial(
            Residual, d_model, norm, dropout, norm_kind=norm_kind, norm_eps=norm_eps
        )
        self.attention_residual = build_residual()
        if self.has_cross_attention:
            self.cross_attention = MultiHeadAttention(
                d_model, heads, kv_heads=kv_heads, bias=bias, dropout=attention_dropout
            )
            self.cross_attention_residual = build_residual()
        self.feed_forward = FeedForward(
            d_model,
            d_ff,
            activation=activation,
            gated=gated,
            bias=bias,
            dropout=activation_dropout,
        )
        self.feed_forward_residual = build_residual()


class EncoderBlock(TransformerBlock):
    """Self-attention, then feed-forward; with `causal`, the block of a decoder-only model.

    With a `parallel_residual`, both read the input of the block, and both are added to it (GPT-J,
    GPT-NeoX). Tap: residual, the output of the block.

    >>> from torch import ones
    >>> EncoderBlock(d_model=8, heads=2, d_ff=32)(ones(1, 5, 8), causal=True).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        *,
        norm: NormPlacement = "pre",
        parallel_residual: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(d_model, heads, d_ff, norm=norm, **settings)
        if parallel_residual and norm != "pre":
            raise UserError(f"parallel_residual: expected norm 'pre', not {norm!r}")
        self.is_parallel = parallel_residual

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        *,
        mask: Mask | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Apply self-attention and feed-forward; `mask`, `causal` and `cache` as in attention."""

        def attend(x: Tensor) -> Tensor:
            attended: Tensor = self.attention(x, mask=mask, causal=causal, cache=cache)
            return attended

        if self.is_parallel:
            attended = self.attention_residual.branch(x, attend)
            return tap(
                "residual", x + attended + self.feed_forward_residual.branch(x, self.feed_forward)
            )
        x = self.attention_residual(x, attend)
        return tap("residual", self.feed_forward_residual(x, self.feed_forward))


class DecoderBlock(TransformerBlock):
    """Causal self-attention, cross-attention to the encoder's output, then feed-forward.

    >>> from torch import ones
    >>> DecoderBlock(d_model=8, heads=2, d_ff=32)(ones(1, 3, 8), memory=ones(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    has_cross_attention = True

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        memory: Float[Tensor, "batch source width"],
        *,
        memory_mask: Mask | None = None,
        cache: KeyValueCache | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Apply causal self-attention, cross-attention to `memory`, and feed-forward."""
        x = self.attention_residual(x, lambda x: self.attention(x, causal=True, cache=cache))
        x = self.cross_attention_residual(
            x, lambda x: self.cross_attention(x, memory, mask=memory_mask, cache=memory_cache)
        )
        output: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return output
