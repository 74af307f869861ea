"""Layer norm, and batch norm over sequences: the one looks along a vector, the other across the batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from workings.trace import tap, wanted


class LayerNorm(nn.Module):
    """`γ (x − μ)/σ + β` over the features of each vector; the notes' form has `eps=0`.

    Taps: mean, variance, normalised.
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalise each vector on its own."""
        if not wanted("mean", "variance", "normalised"):
            return F.layer_norm(x, (self.width,), self.gamma, self.beta, self.eps)
        mean = tap("mean", x.mean(-1, keepdim=True))
        variance = tap("variance", (x - mean).square().mean(-1, keepdim=True))
        normalised = tap("normalised", (x - mean) / torch.sqrt(variance + self.eps))
        return self.gamma * normalised + self.beta


class SequenceBatchNorm(nn.Module):
    """Batch norm of each feature over all real positions of the batch: padding does not count.

    While training it uses (and keeps running means of) the batch's own mean and variance, so that
    what a sentence becomes depends on its neighbours in the batch; layer norm has no such tie.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, width: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_variance", torch.ones(width))

    def forward(
        self, x: Float[Tensor, "batch time width"], real: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Normalise; `real` is false at padding, which comes out as zeros."""
        vectors = x.flatten(0, 1) if real is None else x[real]  # [positions, width]
        normalised = F.batch_norm(
            vectors,
            self.running_mean,
            self.running_variance,
            self.gamma,
            self.beta,
            self.training,
            self.momentum,
            self.eps,
        )
        if real is None:
            return normalised.view_as(x)
        return torch.zeros_like(x).masked_scatter(real.unsqueeze(-1), normalised)
