"""Multi-head attention: self, cross and cached."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from workings.attention import Mask, attend
from workings.errors import UserError
from workings.layers.cache import KeyValueCache
from workings.layers.positions import RotaryPositions
from workings.trace import tap


class MultiHeadAttention(nn.Module):
    """`Concat(head_1 … head_h) W_O`, each head attending in its own slice of the width.

    One matrix holds W_Q, W_K and W_V one above the other, so that self-attention projects in one
    product. Fewer `shared_heads` than heads: keys and values serve groups of query heads. `rotary`
    turns queries and keys by their positions (in self-attention).

    Taps: input, context (in cross-attention), query, key, value, those of `attend`, output.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        shared_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        shared_heads = heads if shared_heads is None else shared_heads
        if heads < 1 or width % heads:
            raise UserError(f"{heads} heads do not divide a width of {width}")
        if shared_heads < 1 or heads % shared_heads:
            raise UserError(f"{shared_heads} shared heads do not divide {heads} heads")
        self.width, self.heads, self.shared_heads = width, heads, shared_heads
        self.head_width = width // heads
        self.dropout = dropout
        self.rotary = RotaryPositions(self.head_width) if rotary else None
        self.project = nn.Linear(width, width + 2 * shared_heads * self.head_width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start each projection as a square matrix of its own would start; biases at zero."""
        for weight in (*torch.split(self.project.weight, self._widths()), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for linear in (self.project, self.output):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(
        self,
        x: Float[Tensor, "batch queries width"],
        context: Float[Tensor, "batch keys width"] | None = None,
        *,
        mask: Mask | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch queries width"]:
        """Let `x` look at itself, or at the `context`.

        `mask` broadcasts to `[batch, heads, queries, keys]`. With a `cache`, self-attention looks
        at what was cached before, too, and adds to it; cross-attention projects the context the
        first time and reads it from the cache from then on.
        """
        if x.shape[-1] != self.width:
            raise UserError(f"expected vectors of width {self.width}, got {x.shape[-1]}")
        x = tap("input", x)
        if context is None:
            query, key, value = torch.split(self.project(x), self._widths(), dim=-1)
            query, key, value = self._split(query), self._split(key), self._split(value)
            if self.rotary is not None:
                start = 0 if cache is None else cache.length
                query, key = self.rotary(query, start), self.rotary(key, start)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            if context.shape[-1] != self.width:
                raise UserError(
                    f"expected a context of width {self.width}, got {context.shape[-1]}"
                )
            context = tap("context", context)
            query = self._split(F.linear(x, *self.query_weights()))
            key, value = self._remembered(context, cache)
        query = tap("query", query)
        key, value = tap("key", key), tap("value", value)
        dropout = self.dropout if self.training else 0.0
        mixed = attend(query, key, value, mask=mask, causal=causal, dropout=dropout)
        concatenated = mixed.transpose(1, 2).flatten(2)  # [batch, queries, width]
        return tap("output", self.output(concatenated))

    def memory(
        self, context: Float[Tensor, "batch keys width"]
    ) -> tuple[Float[Tensor, "batch heads keys d"], Float[Tensor, "batch heads keys d"]]:
        """The keys and values of a context."""
        projected = F.linear(context, *self._rows(self.width, None))
        key, value = (self._split(half) for half in projected.chunk(2, dim=-1))
        return key, value

    def query_weights(self) -> tuple[Float[Tensor, "width width"], Float[Tensor, " width"] | None]:
        """The matrix, and the bias if there is one, that makes queries."""
        return self._rows(0, self.width)

    def _remembered(self, context: Tensor, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.memory(context)
        return cache.read() if cache.length else cache.append(*self.memory(context))

    def _widths(self) -> list[int]:
        shared = self.shared_heads * self.head_width
        return [self.width, shared, shared]

    def _rows(self, start: int, end: int | None) -> tuple[Tensor, Tensor | None]:
        bias = self.project.bias
        return self.project.weight[start:end], None if bias is None else bias[start:end]

    def _split(self, x: Tensor) -> Tensor:
        """`[batch, time, heads · head_width] → [batch, heads, time, head_width]`."""
        batch, time, width = x.shape
        return x.view(batch, time, width // self.head_width, self.head_width).transpose(1, 2)
