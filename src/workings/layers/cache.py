"""A cache of keys and values, for generating token by token."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.errors import UserError

MIN_CAPACITY = 16  # positions


class KeyValueCache:
    """Keys and values of earlier positions, `[batch, heads, time, width]`.

    The buffers double when they are full, so that appending copies only the new positions. For
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
        self._key: Tensor | None = None
        self._value: Tensor | None = None
        self._last_shapes: tuple[torch.Size, torch.Size] | None = None
        self._capacity = 0
        self.length = 0

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads time d_k"], Float[Tensor, "batch heads time d_v"]]:
        """Append new positions; return the keys and values of all positions."""
        begin, new, shapes = self.length, key.size(-2), (key.shape, value.shape)
        if begin + new > self._capacity or shapes != self._last_shapes:
            self._key = _ensure_capacity(self._key, key, begin + new)
            self._value = _ensure_capacity(self._value, value, begin + new)
            self._capacity, self._last_shapes = self._key.size(-2), shapes
        assert self._key is not None
        assert self._value is not None
        self._key.narrow(-2, begin, new).copy_(key.detach() if key.requires_grad else key)
        self._value.narrow(-2, begin, new).copy_(value.detach() if value.requires_grad else value)
        self.length = begin + new
        return self.read()

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads time d_k"], Float[Tensor, "batch heads time d_v"]]:
        """Return the keys and values of all positions."""
        assert self._key is not None
        assert self._value is not None
        return self._key.narrow(-2, 0, self.length), self._value.narrow(-2, 0, self.length)

    def select(self, rows: Int[Tensor, " chosen"]) -> "KeyValueCache":
        """Return a cache of these rows of the batch, in this order; a row may occur repeatedly."""
        selected = KeyValueCache()
        if self.length:
            assert self._key is not None
            assert self._value is not None
            # Unused capacity is copied, too: whole rows are copied several times as fast.
            selected._key = self._key.index_select(0, rows)
            selected._value = self._value.index_select(0, rows)
            selected._capacity, selected.length = self._capacity, self.length
        return selected


def _ensure_capacity(buffer: Tensor | None, new: Tensor, end: int) -> Tensor:
    """Return a buffer for at least `end` positions, with the content of the old one."""
    batch, heads, _, width = new.shape
    if buffer is not None:
        expected, given = (*buffer.shape[:2], buffer.shape[-1]), (batch, heads, width)
        if given != expected:  # a batch of one would be broadcast to all rows without an error
            raise UserError(f"expected [batch, heads, width] {[*expected]}, got {[*given]}")
        if buffer.shape[-2] >= end:
            return buffer
    capacity = max(2 * end, MIN_CAPACITY)
    larger = torch.empty(batch, heads, capacity, width, dtype=new.dtype, device=new.device)
    if buffer is not None:
        larger.narrow(-2, 0, buffer.size(2)).copy_(buffer)
    return larger
