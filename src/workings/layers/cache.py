"""The keys and values of what has been read so far."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workings.errors import UserError


class KeyValueCache:
    """Keys and values of earlier positions, `[batch, heads, time, width]`, in room that doubles.

    Appending copies only what is new. For generating only: autograd does not see through it.

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
        self._shapes: tuple[torch.Size, torch.Size] | None = None  # of what came last
        self._capacity = 0
        self.length = 0

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads time d_k"], Float[Tensor, "batch heads time d_v"]]:
        """Add new positions; return all of them."""
        begin, new, shapes = self.length, key.size(-2), (key.shape, value.shape)
        if begin + new > self._capacity or shapes != self._shapes:  # else as it was the last time
            self._key = _ensure_capacity(self._key, key, begin + new)
            self._value = _ensure_capacity(self._value, value, begin + new)
            self._capacity, self._shapes = self._key.size(-2), shapes
        assert self._key is not None
        assert self._value is not None
        self._key.narrow(-2, begin, new).copy_(key.detach() if key.requires_grad else key)
        self._value.narrow(-2, begin, new).copy_(value.detach() if value.requires_grad else value)
        self.length = begin + new
        return self.read()

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads time d_k"], Float[Tensor, "batch heads time d_v"]]:
        """All positions so far."""
        assert self._key is not None
        assert self._value is not None
        return self._key.narrow(-2, 0, self.length), self._value.narrow(-2, 0, self.length)

    def select(self, rows: Int[Tensor, " chosen"]) -> "KeyValueCache":
        """Make a cache of these rows of the batch, in this order, some perhaps several times."""
        chosen = KeyValueCache()
        if self.length:
            assert self._key is not None
            assert self._value is not None
            # With the room that is still empty: whole rows are copied several times as fast.
            chosen._key, chosen._value = (
                self._key.index_select(0, rows),
                self._value.index_select(0, rows),
            )
            chosen._capacity, chosen.length = self._capacity, self.length
        return chosen


def _ensure_capacity(buffer: Tensor | None, new: Tensor, end: int) -> Tensor:
    batch, heads, _, width = new.shape
    if buffer is not None:
        expected, given = (*buffer.shape[:2], buffer.shape[-1]), (batch, heads, width)
        if given != expected:  # copying would spread a batch of one over all rows
            raise UserError(f"expected [batch, heads, width] {[*expected]}, got {[*given]}")
        if buffer.shape[-2] >= end:
            return buffer
    room = torch.empty(batch, heads, max(2 * end, 16), width, dtype=new.dtype, device=new.device)
    if buffer is not None:
        room.narrow(-2, 0, buffer.size(2)).copy_(buffer)
    return room
