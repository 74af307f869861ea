"""The cross-entropy of a large vocabulary, without ever holding all of its scores.

A few thousand tokens times a vocabulary of ten thousand are hundreds of megabytes, written and read
several times over. Here a few rows are scored at a time, while they are in the cache, and their
gradients are made at once: of the whole only sums are kept.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ROWS = 256


def chunked_cross_entropy(
    features: Float[Tensor, "rows width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, " vocabulary"] | None,
    targets: Int[Tensor, " rows"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The sum of `cross_entropy(features @ weight.T + bias, targets, label_smoothing=smoothing)`.

    >>> features, weight = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> chunked_cross_entropy(features, weight, None, torch.tensor([0, 1]))
    tensor(0.7910)
    """
    with torch.autocast(features.device.type, enabled=False):  # sums of so many want 32 bits
        total: Tensor = _ChunkedCrossEntropy.apply(
            features.to(weight.dtype), weight, bias, targets, label_smoothing
        )  # type: ignore[no-untyped-call]
    return total


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        label_smoothing: float,
    ) -> Tensor:
        total = features.new_zeros(())
        trained = any(ctx.needs_input_grad[:3])
        of_features = torch.empty_like(features) if trained else None
        of_weight = torch.zeros_like(weight) if trained else None
        of_bias = torch.zeros_like(bias) if trained and bias is not None else None
        even = label_smoothing / len(weight)
        for begin in range(0, len(features), CHUNK_ROWS):
            some, right = (
                features[begin : begin + CHUNK_ROWS],
                targets[begin : begin + CHUNK_ROWS].unsqueeze(1),
            )
            scores = torch.nn.functional.linear(some, weight, bias)
            highest = scores.amax(1, keepdim=True)
            total -= (1 - label_smoothing) * scores.gather(1, right).sum()
            if label_smoothing:
                total -= even * scores.sum()
            slope = scores.sub_(highest).exp_()
            normal = slope.sum(1, keepdim=True)
            total += (highest + normal.log()).sum()
            if of_features is None or of_weight is None:
                continue
            slope.div_(normal)  # the probabilities, less what they should be
            if label_smoothing:
                slope -= even
            slope.scatter_add_(
                1, right, slope.new_full((1, 1), label_smoothing - 1).expand_as(right)
            )
            torch.mm(slope, weight, out=of_features[begin : begin + CHUNK_ROWS])
            of_weight.addmm_(slope.t(), some)
            if of_bias is not None:
                of_bias += slope.sum(0)
        ctx.gradients = of_features, of_weight, of_bias
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if g is None else g.mul_(grad_output) for g in ctx.gradients), None, None
