"""One-dimensional convolution over a sequence, and pooling that ignores padding."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class Conv1d(nn.Conv1d):
    """torch's Conv1d, but faster on a CPU: computed as Conv2d, it needs no copy of its input."""

    def forward(self, x: Float[Tensor, "batch width time"]) -> Float[Tensor, "batch channels w"]:
        """Return the output channels of each window."""
        if not x.is_cpu or isinstance(self.padding, str):
            output: Tensor = super().forward(x)
            return output
        image, kernel = x.unsqueeze(2), self.weight.unsqueeze(2)  # an image of height 1
        stride, padding = (1, *self.stride), (0, *self.padding)
        return F.conv2d(image, kernel, self.bias, stride, padding).squeeze(2)


class Convolution(nn.Module):
    """A convolution over windows of `kernel` positions, `stride` apart; features come last.

    >>> Convolution(width=8, channels=4, kernel=3, stride=2)(torch.ones(1, 9, 8)).shape
    torch.Size([1, 4, 4])
    """

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
        """Return the output channels of each window."""
        output: Tensor = self.layer(x.transpose(1, 2))
        return output.transpose(1, 2)

    def output_lengths(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Return how many windows contain no padding, for each sequence; at least one."""
        return ((lengths + 2 * self.padding - self.kernel).clamp(min=0) // self.stride) + 1


def padding_mask(lengths: Int[Tensor, " batch"], time: int) -> Bool[Tensor, "batch time"]:
    """Return True at the tokens and False at padding (PyTorch's key_padding_mask inverted).

    >>> padding_mask(torch.tensor([1, 3]), 3).int()
    tensor([[1, 0, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(1)


def max_pool(
    x: Float[Tensor, "batch time width"], mask: Bool[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch width"]:
    """Return the maximum of each feature over the unmasked positions; zero if there is none."""
    if mask is None:
        return x.amax(1)
    largest = x.masked_fill(~mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(1)
    return largest.masked_fill(~mask.any(1, keepdim=True), 0)


def mean_pool(
    x: Float[Tensor, "batch time width"], mask: Bool[Tensor, "batch time"] | None = None
) -> Float[Tensor, "batch width"]:
    """Return the mean of each feature over the unmasked positions; zero if there is none."""
    if mask is None:
        return x.mean(1)
    weights = mask.to(x.dtype) / mask.sum(1, keepdim=True).clamp(min=1)
    return (weights.unsqueeze(1) @ x).squeeze(1)  # in this order, the backward pass needs no copy
