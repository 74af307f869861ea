"""Multi-head attention, its cache, and similarities with weights for `attend(…, similarity=…)`.

Similarities in the order of the course: an MLP of query and key (`AdditiveSimilarity`); the inner
product, which is cheaper (`attention.dot`); the inner product over √d, which trains at any width
(`attention.scaled_dot`, the default of `attend`); a matrix between query and key, which may then
have different widths (`GeneralSimilarity`).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workings.attention import Mask, attend
from workings.errors import UserError
from workings.layers.linear import Linear, apply_linear
from workings.layers.positions import RotaryPositions
from workings.modules import expect_width
from workings.trace import tap

MIN_CAPACITY = 16  # positions in a new cache


class AdditiveSimilarity(nn.Module):
    """Additive (Bahdanau) similarity: `vᵀ tanh(W_q q + W_k k)`.

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
        """Return a score for every pair; needs memory for `[…, queries, keys, hidden]`."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k keys d_k"]) -> Float[Tensor, "*k keys hidden"]:
        """Return `W_k k`, which a decoder computes once for all of its steps."""
        expect_width(key.shape[-1], self.key.in_features, "keys")
        projected: Tensor = self.key(key)
        return projected

    def compare(
        self, query: Float[Tensor, "*q queries d_q"], projected: Float[Tensor, "*k keys hidden"]
    ) -> Float[Tensor, "... queries keys"]:
        """Return a score for every pair of a query and a projected key."""
        expect_width(query.shape[-1], self.query.in_features, "queries")
        hidden = torch.tanh(self.query(query).unsqueeze(-2) + projected.unsqueeze(-3))
        scores: Tensor = self.score(hidden)
        return scores.squeeze(-1)


class GeneralSimilarity(nn.Module):
    """General (Luong) similarity: `qᵀ W k`.

    >>> GeneralSimilarity(4, 3)(torch.zeros(2, 1, 4), torch.ones(2, 5, 3)).shape
    torch.Size([2, 1, 5])
    """

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(query_width, key_width, bias=False)

    def forward(
        self, query: Float[Tensor, "*q queries d_q"], key: Float[Tensor, "*k keys d_k"]
    ) -> Float[Tensor, "... queries keys"]:
        """Project the queries to the keys' width; return the inner products."""
        expect_width(query.shape[-1], self.projection.in_features, "queries")
        expect_width(key.shape[-1], self.projection.out_features, "keys")
        projected: Tensor = self.projection(query)
        return projected @ key.transpose(-2, -1)


class KeyValueCache:
    """Keys and values of earlier positions, `[batch, heads, time, width]` each.

    The buffer doubles when it is full, so that appending copies only the new positions. For
    generation only: gradients do not flow through the cache.

    >>> cache = KeyValueCache()
    >>> for _ in range(3):
    ...     key, value = cache.append(torch.ones(2, 4, 1, 8), torch.ones(2, 4, 1, 8))
    >>> key.shape
    torch.Size([2, 4, 3, 8])
    >>> cache.select(torch.tensor([1, 1, 0])).read()[0].shape
    torch.Size([3, 4, 3, 8])
    """

    def __init__(self) -> None:
        self._buffer: Tensor | None = None  # [batch, 2 · heads, capacity, width]
        self._last_shape: torch.Size | None = None
        self._capacity = 0
        self.length = 0

    def append(
        self, key: Float[Tensor, "batch heads new d"], value: Float[Tensor, "batch heads new d"]
    ) -> tuple[Float[Tensor, "batch heads time d"], Float[Tensor, "batch heads time d"]]:
        """Append new positions; return the keys and values of all positions."""
        if key.shape != value.shape:
            raise UserError(f"keys {[*key.shape]}, values {[*value.shape]}: the shapes must agree")
        return self.append_joint(torch.cat((key, value), 1))

    def append_joint(
        self, both: Float[Tensor, "batch two_heads new d"]
    ) -> tuple[Float[Tensor, "batch heads time d"], Float[Tensor, "batch heads time d"]]:
        """Append new positions whose values follow the keys, as further heads."""
        begin, new, shape = self.length, both.size(-2), both.shape
        if begin + new > self._capacity or shape != self._last_shape:
            self._buffer = _ensure_capacity(self._buffer, both, begin + new)
            self._capacity, self._last_shape = self._buffer.size(-2), shape
        assert self._buffer is not None
        room = self._buffer.narrow(-2, begin, new)
        room.copy_(both.detach() if both.requires_grad else both)
        self.length = begin + new
        return self.read()

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads time d"], Float[Tensor, "batch heads time d"]]:
        """Return the keys and values of all positions."""
        assert self._buffer is not None
        filled = self._buffer.narrow(-2, 0, self.length)
        heads = filled.size(1) // 2
        return filled.narrow(1, 0, heads), filled.narrow(1, heads, heads)

    def select(self, rows: Int[Tensor, " chosen"]) -> "KeyValueCache":
        """Return a cache of these rows of the batch, in this order; a row may occur repeatedly."""
        selected = KeyValueCache()
        if self.length:
            assert self._buffer is not None
            # Unused capacity is copied, too: whole rows are copied several times as fast.
            selected._buffer = self._buffer.index_select(0, rows)
            selected._capacity, selected.length = self._capacity, self.length
        return selected


class ConcatenatedCache(KeyValueCache):
    """A cache that concatenates, so that torch.export records keys and values of any length.

    >>> past = torch.zeros(2, 4, 3, 8)
    >>> ConcatenatedCache(past, past).append(past, past)[0].shape
    torch.Size([2, 4, 6, 8])
    """

    def __init__(
        self,
        key: Float[Tensor, "batch heads time d"],
        value: Float[Tensor, "batch heads time d"],
    ) -> None:
        super().__init__()
        self._key, self._value, self.length = key, value, key.shape[-2]

    def append(
        self, key: Float[Tensor, "batch heads new d"], value: Float[Tensor, "batch heads new d"]
    ) -> tuple[Float[Tensor, "batch heads time d"], Float[Tensor, "batch heads time d"]]:
        """Append new positions; return the keys and values of all positions."""
        self._key, self._value = (
            torch.cat((self._key, key), -2),
            torch.cat((self._value, value), -2),
        )
        self.length = self._key.shape[-2]
        return self.read()

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads time d"], Float[Tensor, "batch heads time d"]]:
        """Return the keys and values of all positions."""
        return self._key, self._value


def _ensure_capacity(buffer: Tensor | None, new: Tensor, end: int) -> Tensor:
    """Return a buffer for at least `end` positions, with the content of the old one."""
    batch, heads, _, width = new.shape
    if buffer is not None:
        expected = [buffer.size(0), buffer.size(1) // 2, buffer.size(3)]
        given = [batch, heads // 2, width]
        if given != expected:  # a batch of one would be broadcast to all rows without an error
            raise UserError(f"expected [batch, heads, width] {expected}, got {given}")
        if buffer.shape[-2] >= end:
            return buffer
    capacity = max(2 * end, MIN_CAPACITY)
    larger = torch.empty(batch, heads, capacity, width, dtype=new.dtype, device=new.device)
    if buffer is not None:
        larger.narrow(-2, 0, buffer.size(2)).copy_(buffer)
    return larger


class MultiHeadAttention(nn.Module):
    """Multi-head attention: `Concat(head_1 … head_h) W_O`.

    W_Q, W_K and W_V are stacked in one matrix, `qkv`, so that self-attention needs one product.
    With fewer `kv_heads` than `heads`, each key and value head serves a group of query heads
    (grouped-query attention). `rotary` applies rotary positions to queries and keys in
    self-attention: to the first `rotary_fraction` of the features of each head.

    Taps: input, context (in cross-attention), query, key, value, those of `attend`, output.

    >>> MultiHeadAttention(d_model=8, heads=2)(torch.ones(1, 5, 8), causal=True).shape
    torch.Size([1, 5, 8])
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
        rotary_base: float = 10_000.0,
        rotary_fraction: float = 1.0,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or d_model % heads:
            raise UserError(f"heads = {heads}: must divide d_model = {d_model}")
        if kv_heads < 1 or heads % kv_heads:
            raise UserError(f"kv_heads = {kv_heads}: must divide heads = {heads}")
        self.d_model, self.heads, self.kv_heads = d_model, heads, kv_heads
        self.d_head = d_model // heads
        self.dropout = dropout
        self.rotary: RotaryPositions | None = None
        if rotary:
            self.rotary = RotaryPositions(int(self.d_head * rotary_fraction), base=rotary_base)
        self.qkv = Linear(d_model, d_model + 2 * kv_heads * self.d_head, bias=bias)
        self.output = Linear(d_model, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize W_Q, W_K, W_V and W_O separately (Xavier uniform), and biases to zero."""
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
        """Attend from `x` to itself, or to the `context` (cross-attention).

        `mask` broadcasts to `[batch, heads, queries, keys]`. With a `cache`, self-attention appends
        its keys and values and attends to all cached ones; cross-attention projects the context in
        the first call and reads keys and values from the cache afterwards.
        """
        expect_width(x.shape[-1], self.d_model)
        x = tap("input", x)
        if context is None:
            projected = torch.split(self.qkv(x), self._split_sizes(), dim=-1)
            query, key, value = (self._split_heads(t) for t in projected)
            if self.rotary is not None:
                start = 0 if cache is None else cache.length
                query, key = self.rotary(query, start), self.rotary(key, start)
            if cache is not None:
                key, value = cache.append(key, value)
        else:
            expect_width(context.shape[-1], self.d_model, "context vectors")
            context = tap("context", context)
            query = self._split_heads(
                apply_linear(x, *self.query_weights(), training=self.training)
            )
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
        """Return the keys and values of a context."""
        weights = self._weight_rows(self.d_model, None)
        projected = apply_linear(context, *weights, training=self.training)
        key, value = (self._split_heads(half) for half in projected.chunk(2, dim=-1))
        return key, value

    def query_weights(self) -> tuple[Float[Tensor, "width width"], Float[Tensor, " width"] | None]:
        """Return W_Q and its bias, or None without biases."""
        return self._weight_rows(0, self.d_model)

    def _cached_key_value(
        self, context: Tensor, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.project_key_value(context)
        return cache.read() if cache.length else cache.append(*self.project_key_value(context))

    def _split_sizes(self) -> list[int]:
        kv_width = self.kv_heads * self.d_head
        return [self.d_model, kv_width, kv_width]

    def _weight_rows(self, start: int, end: int | None) -> tuple[Tensor, Tensor | None]:
        bias = self.qkv.bias
        return self.qkv.weight[start:end], None if bias is None else bias[start:end]

    def _split_heads(self, x: Tensor) -> Tensor:
        """Reshape `[batch, time, heads · d_head]` to `[batch, heads, time, d_head]`."""
        batch, time, width = x.shape
        return x.view(batch, time, width // self.d_head, self.d_head).transpose(1, 2)
