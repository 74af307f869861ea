"""Transformer blocks: attention and feed-forward, each with a residual path and a norm."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from workings.attention import Mask
from workings.errors import UserError
from workings.layers.cache import KeyValueCache
from workings.layers.dropout import Dropout
from workings.layers.feed_forward import FeedForward
from workings.layers.multi_head import MultiHeadAttention
from workings.layers.norms import LayerNorm
from workings.trace import tap

NormPlace: TypeAlias = Literal["pre", "post"]


class Residual(nn.Module):
    """The path around a sublayer: `norm(x + f(x))` (post) or `x + f(norm(x))` (pre).

    >>> from torch import ones
    >>> Residual(3, "pre", dropout=0.0)(ones(1, 2, 3), lambda normed: normed + 1).detach()
    tensor([[[2., 2., 2.],
             [2., 2., 2.]]])
    """

    def __init__(self, width: int, norm: NormPlace, dropout: float) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise UserError(f"norm {norm!r}: expected one of pre, post")
        self.place = norm
        self.norm = LayerNorm(width)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time width"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch time width"]:
        """Go through the sublayer and around it."""
        out: Tensor
        if self.place == "pre":
            out = x + self.dropout(sublayer(self.norm(x)))
        else:
            out = self.norm(x + self.dropout(sublayer(x)))
        return out


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward. Causal, it is the block of a decoder-only model.

    Tap: residual, what it hands on.

    >>> from torch import ones
    >>> EncoderBlock(8, heads=2, hidden=32)(ones(1, 5, 8), causal=True).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        norm: NormPlace = "pre",
        activation: str = "relu",
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        hidden_dropout: float | None = None,
        shared_heads: int | None = None,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        of_weights = dropout if attention_dropout is None else attention_dropout
        of_hidden = dropout if hidden_dropout is None else hidden_dropout
        self.attention = MultiHeadAttention(
            width, heads, shared_heads=shared_heads, dropout=of_weights, rotary=rotary
        )
        self.around_attention = Residual(width, norm, dropout)
        self.feed_forward = FeedForward(width, hidden, activation=activation, dropout=of_hidden)
        self.around_feed_forward = Residual(width, norm, dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time width"],
        *,
        mask: Mask | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch time width"]:
        """Let the sequence look at itself; same shape in and out."""
        x = self.around_attention(
            x, lambda x: self.attention(x, mask=mask, causal=causal, cache=cache)
        )
        return tap("residual", self.around_feed_forward(x, self.feed_forward))


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention to a memory, then feed-forward.

    >>> from torch import ones
    >>> DecoderBlock(8, heads=2, hidden=32)(ones(1, 3, 8), memory=ones(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        norm: NormPlace = "pre",
        activation: str = "relu",
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        hidden_dropout: float | None = None,
    ) -> None:
        super().__init__()
        of_weights = dropout if attention_dropout is None else attention_dropout
        of_hidden = dropout if hidden_dropout is None else hidden_dropout
        self.attention = MultiHeadAttention(width, heads, dropout=of_weights)
        self.around_attention = Residual(width, norm, dropout)
        self.cross = MultiHeadAttention(width, heads, dropout=of_weights)
        self.around_cross = Residual(width, norm, dropout)
        self.feed_forward = FeedForward(width, hidden, activation=activation, dropout=of_hidden)
        self.around_feed_forward = Residual(width, norm, dropout)

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
        x = self.around_attention(x, lambda x: self.attention(x, causal=True, cache=cache))
        x = self.around_cross(
            x, lambda x: self.cross(x, memory, mask=memory_mask, cache=memory_cache)
        )
        out: Tensor = self.around_feed_forward(x, self.feed_forward)
        return out
