"""Layer norm looks along a vector; batch norm over sequences looks across the batch."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from workings.errors import UserError, expect_width
from workings.trace import tap, wanted


class LayerNorm(nn.Module):
    """`γ (x − μ)/σ + β` over the features of each vector; the notes' form has `eps=0.0`.

    Taps: mean, variance, normalised.

    >>> LayerNorm(3, eps=0.0)(torch.tensor([1.0, 2.0, 6.0])).detach()
    tensor([-0.9258, -0.4629,  1.3887])
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Normalise each vector on its own."""
        expect_width(x.shape[-1], self.width)
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

    >>> x = torch.tensor([[[1.0], [99.0]], [[3.0], [-7.0]]])
    >>> real = torch.tensor([[True, False], [True, False]])
    >>> SequenceBatchNorm(1)(x, real).squeeze(-1).detach()
    tensor([[-1.0000,  0.0000],
            [ 1.0000,  0.0000]])
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, width: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.width, self.eps, self.momentum = width, eps, momentum
        self.gamma = nn.Parameter(torch.ones(width))
        self.beta = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_variance", torch.ones(width))

    def forward(
        self, x: Float[Tensor, "batch time width"], real: Bool[Tensor, "batch time"] | None = None
    ) -> Float[Tensor, "batch time width"]:
        """Normalise; `real` is false at padding, which comes out as zeros."""
        expect_width(x.shape[-1], self.width)
        vectors = x.flatten(0, 1) if real is None else x[real]  # [positions, width]
        if self.training and len(vectors) < 2:
            raise UserError(f"batch norm trains on 2 real positions or more, got {len(vectors)}")
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
