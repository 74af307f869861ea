"""One-dimensional convolution over a sequence, and pooling that knows about padding."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class Conv1d(nn.Conv1d):
    """torch's, which on a CPU first copies the features of a position apart, and here need not."""

    def forward(self, x: Float[Tensor, "batch width time"]) -> Float[Tensor, "batch channels w"]:
        """Look through each window."""
        if not x.is_cpu or isinstance(self.padding, str):
            seen: Tensor = super().forward(x)
            return seen
        flat, kernel = x.unsqueeze(2), self.weight.unsqueeze(2)  # a picture one pixel high
        stride, padding = (1, *self.stride), (0, *self.padding)
        return F.conv2d(flat, kernel, self.bias, stride, padding).squeeze(2)


class Convolution(nn.Module):
    """Slide a window of `kernel` positions along the sequence, `stride` at a time."""

    def __init__(
        self,
        width: int,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.layer = Conv1d(width, channels, kernel, stride=stride, padding=padding)

    def forward(
        self, x: Float[Tensor, "batch time width"]
    ) -> Float[Tensor, "batch windows channels"]:
        """Look through each window."""
        seen: Tensor = self.layer(x.transpose(1, 2))
        return seen.transpose(1, 2)

    def output_lengths(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """How many windows begin on real positions; at least one, so that nothing is empty."""
        return ((lengths + 2 * self.padding - self.kernel).clamp(min=0) // self.stride) + 1


def padding_mask(lengths: Int[Tensor, " batch"], time: int) -> Bool[Tensor, "batch time"]:
    """Mark the positions that are not padding.

    >>> padding_mask(torch.tensor([1, 3]), 3).int()
    tensor([[1, 0, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(1)


def max_pool(
    x: Float[Tensor, "batch time width"], mask: Bool[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch width"]:
    """Take the largest value of each feature over the real positions; of none, zero."""
    if mask is None:
        return x.amax(1)
    largest = x.masked_fill(~mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(1)
    return largest.masked_fill(~mask.any(1, keepdim=True), 0)


def mean_pool(
    x: Float[Tensor, "batch time width"], mask: Bool[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch width"]:
    """Average each feature over the real positions."""
    if mask is None:
        return x.mean(1)
    share = mask.to(x.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    return (share.unsqueeze(1) @ x).squeeze(1)  # in this order the gradient needs no copy
