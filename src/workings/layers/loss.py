"""Cross-entropy over a large vocabulary without holding all logits in memory.

The logits of a few thousand tokens over ten thousand words are hundreds of megabytes, written and
read several times. Here a few rows at a time are scored while they are in the CPU's cache, and
their gradients are computed in the same pass.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from workings.layers.linear import multiply

CHUNK_ROWS = 256  # tokens scored at a time


def chunked_cross_entropy(
    features: Float[Tensor, "rows width"],
    weight: Float[Tensor, "vocabulary width"],
    bias: Float[Tensor, " vocabulary"] | None,
    targets: Int[Tensor, " rows"],
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Return the summed cross-entropy of the logits `features @ weight.T + bias`.

    Equal to `F.cross_entropy(…, label_smoothing=label_smoothing, reduction="sum")`.

    >>> features, weight = torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> chunked_cross_entropy(features, weight, None, torch.tensor([0, 1]))
    tensor(0.7910)
    """
    with torch.autocast(features.device.type, enabled=False):  # long sums need 32 bits
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
        needs_grad = any(ctx.needs_input_grad[:3])
        grad_features = torch.empty_like(features) if needs_grad else None
        grad_weight = torch.zeros_like(weight) if needs_grad else None
        grad_bias = torch.zeros_like(bias) if needs_grad and bias is not None else None
        uniform = label_smoothing / len(weight)
        for begin in range(0, len(features), CHUNK_ROWS):
            rows = slice(begin, begin + CHUNK_ROWS)
            chunk, labels = features[rows], targets[rows].unsqueeze(1)
            logits = multiply(chunk, weight, bias)
            largest = logits.amax(1, keepdim=True)
            total -= (1 - label_smoothing) * logits.gather(1, labels).sum()
            if label_smoothing:
                total -= uniform * logits.sum()
            exponentials = logits.sub_(largest).exp_()
            normalizer = exponentials.sum(1, keepdim=True)
            total += (largest + normalizer.log()).sum()
            if grad_features is None or grad_weight is None:
                continue
            # The gradient of the logits: probabilities less the smoothed one-hot labels.
            grad_logits = exponentials.div_(normalizer)
            if label_smoothing:
                grad_logits -= uniform
            grad_logits.scatter_add_(
                1, labels, grad_logits.new_full((1, 1), label_smoothing - 1).expand_as(labels)
            )
            grad_features[rows] = multiply(grad_logits, weight.t())
            grad_weight += multiply(grad_logits.t(), chunk.t())
            if grad_bias is not None:
                grad_bias += grad_logits.sum(0)
        ctx.gradients = grad_features, grad_weight, grad_bias
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if g is None else g.mul_(grad_output) for g in ctx.gradients), None, None
