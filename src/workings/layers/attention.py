"""Similarities with weights of their own, for `attend(…, similarity=…)`.

The notes' ladder: an MLP compares one query with each state (`Additive`); an inner product is
cheaper (`attention.dot`), over √d it trains at any width (`attention.scaled_dot`, what `attend`
does by itself); a matrix between the two lets their spaces differ (`General`).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from workings.attention import Mask, attend
from workings.errors import UserError, expect_width
from workings.layers.cache import KeyValueCache
from workings.layers.positions import RotaryPositions
from workings.trace import tap


class AdditiveSimilarity(nn.Module):
    """Compare by a small MLP: `vᵀ tanh(W_q q + W_k k)`.

    >>> from workings import attend
    >>> state, words = torch.zeros(2, 1, 4), torch.ones(2, 5, 3)
    >>> attend(state, words, words, similarity=AdditiveSimilarity(4, 3, hidden_size=8)).shape
    torch.Size([2, 1, 3])
    """

    def __init__(self, query_width: int, key_width: int, hidden_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden_size, bias=False)
        self.key = nn.Linear(key_width, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Score every pair; the hidden layer of a pair is `[…, queries, keys, hidden]`."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k keys d_k"]) -> Float[Tensor, "*k keys hidden"]:
        """What a key is to every query: computed once, where many queries come one by one."""
        expect_width(key.shape[-1], self.key.in_features, "keys")
        projected: Tensor = self.key(key)
        return projected

    def compare(
        self, query: Float[Tensor, "*q queries d_q"], projected: Float[Tensor, "*k keys hidden"]
    ) -> Float[Tensor, "... queries keys"]:
        """Score every pair of a query and a projected key."""
        expect_width(query.shape[-1], self.query.in_features, "queries")
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + projected.unsqueeze(-3))
        scores: Tensor = self.score(hidden)
        return scores.squeeze(-1)


class GeneralSimilarity(nn.Module):
    """Compare through a matrix: `qᵀ W k`.

    >>> GeneralSimilarity(4, 3)(torch.zeros(2, 1, 4), torch.ones(2, 5, 3)).shape
    torch.Size([2, 1, 5])
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(query_width, key_width, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Take the queries across to the keys' space, then the inner product."""
        expect_width(query.shape[-1], self.projection.in_features, "queries")
        expect_width(key.shape[-1], self.projection.out_features, "keys")
        crossed: Tensor = self.projection(query)
        return crossed @ key.transpose(-2, -1)


class MultiHeadAttention(nn.Module):
    """`Concat(head_1 … head_h) W_O`, each head attending in its own slice of the width.

    One matrix holds W_Q, W_K and W_V one above the other, so that self-attention projects in one
    product. Fewer `shared_heads` than heads: keys and values serve groups of query heads. `rotary`
    turns queries and keys by their positions (in self-attention).

    Taps: input, context (in cross-attention), query, key, value, those of `attend`, output.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or d_model % heads:
            raise UserError(f"{heads} heads do not divide a width of {d_model}")
        if kv_heads < 1 or heads % kv_heads:
            raise UserError(f"{kv_heads} shared heads do not divide {heads} heads")
        self.d_model, self.heads, self.kv_heads = d_model, heads, kv_heads
        self.d_head = d_model // heads
        self.dropout = dropout
        self.rotary = RotaryPositions(self.d_head) if rotary else None
        self.qkv = nn.Linear(d_model, d_model + 2 * kv_heads * self.d_head, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start each projection as a square matrix of its own would start; biases at zero."""
        for weight in (*torch.split(self.qkv.weight, self._split_sizes()), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for linear in (self.qkv, self.output):
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
        if x.shape[-1] != self.d_model:
            raise UserError(f"expected vectors of width {self.d_model}, got {x.shape[-1]}")
        x = tap("input", x)
        if context is None:
            query, key, value = torch.split(self.qkv(x), self._split_sizes(), dim=-1)
            query, key, value = (
                self._split_heads(query),
                self._split_heads(key),
                self._split_heads(value),
            )
            if self.rotary is not None:
                start = 0 if cache is None else cache.length
                query, key = self.rotary(query, start), self.rotary(key, start)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            if context.shape[-1] != self.d_model:
                raise UserError(
                    f"expected a context of width {self.d_model}, got {context.shape[-1]}"
                )
            context = tap("context", context)
            query = self._split_heads(F.linear(x, *self.query_weights()))
            key, value = self._cached_key_value(context, cache)
        query = tap("query", query)
        key, value = tap("key", key), tap("value", value)
        dropout = self.dropout if self.training else 0.0
        mixed = attend(query, key, value, mask=mask, causal=causal, dropout=dropout)
        concatenated = mixed.transpose(1, 2).flatten(2)  # [batch, queries, width]
        return tap("output", self.output(concatenated))

    def project_key_value(
        self, context: Float[Tensor, "batch keys width"]
    ) -> tuple[Float[Tensor, "batch heads keys d"], Float[Tensor, "batch heads keys d"]]:
        """The keys and values of a context."""
        projected = F.linear(context, *self._weight_rows(self.d_model, None))
        key, value = (self._split_heads(half) for half in projected.chunk(2, dim=-1))
        return key, value

    def query_weights(self) -> tuple[Float[Tensor, "width width"], Float[Tensor, " width"] | None]:
        """The matrix, and the bias if there is one, that makes queries."""
        return self._weight_rows(0, self.d_model)

    def _cached_key_value(
        self, context: Tensor, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.project_key_value(context)
        return cache.read() if cache.length else cache.append(*self.project_key_value(context))

    def _split_sizes(self) -> list[int]:
        shared = self.kv_heads * self.d_head
        return [self.d_model, shared, shared]

    def _weight_rows(self, start: int, end: int | None) -> tuple[Tensor, Tensor | None]:
        bias = self.qkv.bias
        return self.qkv.weight[start:end], None if bias is None else bias[start:end]

    def _split_heads(self, x: Tensor) -> Tensor:
        """`[batch, time, heads · head_width] → [batch, heads, time, head_width]`."""
        batch, time, width = x.shape
        return x.view(batch, time, width // self.d_head, self.d_head).transpose(1, 2)
