"""Layer norm looks along a vector; batch norm over sequences looks across the batch."""

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from workings.attention import Mask
from workings.errors import UserError, did_you_mean, expect_width
from workings.layers.attention import MultiHeadAttention
from workings.layers.cache import KeyValueCache
from workings.layers.dropout import Dropout
from workings.trace import is_tapped, tap


class LayerNorm(nn.Module):
    """`γ (x − μ)/σ + β` over the features of each vector; the notes' form has `eps=0.0`.

    Taps: mean, variance, normalised.

    >>> LayerNorm(3, eps=0.0)(torch.tensor([1.0, 2.0, 6.0])).detach()
    tensor([-0.9258, -0.4629,  1.3887])
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalise each vector on its own."""
        expect_width(x.shape[-1], self.width)
        if not is_tapped("mean", "variance", "normalised"):
            return F.layer_norm(x, (self.width,), self.gamma, self.beta, self.eps)
        mean = tap("mean", x.mean(-1, keepdim=True))
        variance = tap("variance", (x - mean).square().mean(-1, keepdim=True))
        normalised = tap("normalised", (x - mean) / torch.sqrt(variance + self.eps))
        return self.gamma * normalised + self.beta


class SequenceBatchNorm(nn.Module):
    """Batch norm of each feature over all real positions of the batch: padding does not count.

    While training it uses (and keeps running means of) the batch's own mean and variance, so that
    what a sentence becomes depends on its neighbours in the batch; layer norm has no such tie.

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
        """Normalise; `real` is false at padding, which comes out as zeros."""
        expect_width(x.shape[-1], self.width)
        vectors = x.flatten(0, 1) if padding_mask is None else x[padding_mask]  # [positions, width]
        if self.training and len(vectors) < 2:
            raise UserError(f"batch norm trains on 2 real positions or more, got {len(vectors)}")
        normalised = F.batch_norm(
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
            return normalised.view_as(x)
        return torch.zeros_like(x).masked_scatter(padding_mask.unsqueeze(-1), normalised)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # what GPT-2 was trained with
    "silu": F.silu,  # Marian's "swish"
}


class FeedForward(nn.Module):
    """`W_2 σ(W_1 x + b_1) + b_2`, at each position on its own. Taps: hidden, activated.

    >>> from torch import ones
    >>> FeedForward(4, 16, activation="gelu")(ones(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: str = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UserError(f"activation {activation!r}: {did_you_mean(activation, ACTIVATIONS)}")
        self.activation = activation
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Widen, bend, narrow."""
        expect_width(x.shape[-1], self.inner.in_features)
        hidden = tap("hidden", self.inner(x))
        activated = tap("activated", ACTIVATIONS[self.activation](hidden))
        output: Tensor = self.outer(self.dropout(activated))
        return output


NormPlacement: TypeAlias = Literal["pre", "post"]


class Residual(nn.Module):
    """The path around a sublayer: `norm(x + f(x))` (post) or `x + f(norm(x))` (pre).

    >>> from torch import ones
    >>> Residual(3, "pre", dropout=0.0)(ones(1, 2, 3), lambda normed: normed + 1).detach()
    tensor([[[2., 2., 2.],
             [2., 2., 2.]]])
    """

    def __init__(self, d_model: int, norm: NormPlacement, dropout: float) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise UserError(f"norm {norm!r}: expected one of pre, post")
        self.norm_placement = norm
        self.norm = LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time width"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch time width"]:
        """Go through the sublayer and around it."""
        out: Tensor
        if self.norm_placement == "pre":
            out = x + self.dropout(sublayer(self.norm(x)))
        else:
            out = self.norm(x + self.dropout(sublayer(x)))
        return out


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward. Causal, it is the block of a decoder-only model.

    Tap: residual, what it hands on.

    >>> from torch import ones
    >>> EncoderBlock(8, heads=2, d_ff=32)(ones(1, 5, 8), causal=True).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        *,
        norm: NormPlacement = "pre",
        activation: str = "relu",
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        hidden_dropout: float | None = None,
        kv_heads: int | None = None,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        of_weights = dropout if attention_dropout is None else attention_dropout
        of_hidden = dropout if hidden_dropout is None else hidden_dropout
        self.attention = MultiHeadAttention(
            d_model, heads, kv_heads=kv_heads, dropout=of_weights, rotary=rotary
        )
        self.attention_residual = Residual(d_model, norm, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=of_hidden)
        self.feed_forward_residual = Residual(d_model, norm, dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        *,
        mask: Mask | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Let the sequence look at itself; same shape in and out."""
        x = self.attention_residual(
            x, lambda x: self.attention(x, mask=mask, causal=causal, cache=cache)
        )
        return tap("residual", self.feed_forward_residual(x, self.feed_forward))


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to a memory, then feed-forward.

    >>> from torch import ones
    >>> DecoderBlock(8, heads=2, d_ff=32)(ones(1, 3, 8), memory=ones(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        d_ff: int,
        *,
        norm: NormPlacement = "pre",
        activation: str = "relu",
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        hidden_dropout: float | None = None,
    ) -> None:
        super().__init__()
        of_weights = dropout if attention_dropout is None else attention_dropout
        of_hidden = dropout if hidden_dropout is None else hidden_dropout
        self.attention = MultiHeadAttention(d_model, heads, dropout=of_weights)
        self.attention_residual = Residual(d_model, norm, dropout)
        self.cross_attention = MultiHeadAttention(d_model, heads, dropout=of_weights)
        self.cross_attention_residual = Residual(d_model, norm, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, activation=activation, dropout=of_hidden)
        self.feed_forward_residual = Residual(d_model, norm, dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        memory: Float[Tensor, "batch source width"],
        *,
        memory_mask: Mask | None = None,
        cache: KeyValueCache | None = None,
        memory_cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Let each position look back at its own sequence, then at the whole memory."""
        x = self.attention_residual(x, lambda x: self.attention(x, causal=True, cache=cache))
        x = self.cross_attention_residual(
            x, lambda x: self.cross_attention(x, memory, mask=memory_mask, cache=memory_cache)
        )
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out
