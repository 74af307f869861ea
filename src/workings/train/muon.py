"""Muon: matrices move along the orthogonal matrix nearest to their momentum; the rest by AdamW.

Jordan et al. (2024); the length of a step is matched to AdamW's, so that one learning rate serves
both (Liu et al., 2025). torch's own Muon computes in bfloat16, which a CPU that lacks it emulates
at a fraction of its speed; here it is float32, and matrices of one shape go together.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workings.crew import parted, whole

# Of the polynomial that drives all singular values of a matrix towards one.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
LONG = 2  # times as long as high: there the products of its rows are cheaper to go by
ALIKE = 0.2  # the root mean square of an AdamW update, as found in practice


def orthogonal(
    matrices: Float[Tensor, "count rows columns"],
) -> Float[Tensor, "count rows columns"]:
    """Bring the singular values of each matrix near to one (within about 0.7 and 1.2)."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp_min(1e-7)
    x = _by_gram(x) if x.shape[2] >= LONG * x.shape[1] else _by_turns(x)
    return x.mT if tall else x


def _by_turns(x: Float[Tensor, "count rows columns"]) -> Float[Tensor, "count rows columns"]:
    """Multiply by the polynomial of what was made so far, again and again."""
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _by_gram(x: Float[Tensor, "count rows columns"]) -> Float[Tensor, "count rows columns"]:
    """The same but for rounding: all rounds with small squares, which commute, then one product.

    It takes 0.55 of the time for matrices four times as long as high. It wants all of 32 bits.
    """
    a, b, c = COEFFICIENTS
    gram = x @ x.mT
    factor: Tensor
    for k in range(ROUNDS):
        turn = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        turn.diagonal(dim1=1, dim2=2).add_(a)
        factor = turn @ factor if k else turn
        if k < ROUNDS - 1:
            gram = turn @ gram @ turn
    return factor @ x


class Muon(torch.optim.AdamW):
    """AdamW, except for the groups that are marked `orthogonal`."""

    def step(self, closure: Any = None) -> Any:
        """Make a step: first the matrices, then, as if these had no gradient, all others."""
        matrices = []
        for group in self.param_groups:
            if group.get("orthogonal"):
                some = [p for p in group["params"] if p.grad is not None]
                self._turn(some, group["lr"], group["weight_decay"], group["betas"][0])
                matrices += [(p, p.grad) for p in some]
        for p, _ in matrices:
            p.grad = None
        try:
            return super().step(closure)
        finally:
            for p, gradient in matrices:
                p.grad = gradient

    @torch.no_grad()
    def _turn(self, weights: list[Tensor], rate: float, decay: float, momentum: float) -> None:
        for alike in _by_shape(weights):
            moved = torch.stack([whole(self._pushed(p, momentum)) for p in alike])
            length = ALIKE * math.sqrt(max(moved.shape[1:]))
            for p, update in zip(alike, orthogonal(moved), strict=True):
                p.mul_(1 - rate * decay).sub_(parted(update, p), alpha=rate * length)

    def _pushed(self, weight: Tensor, momentum: float) -> Tensor:
        """Take the gradient into the momentum, and look one step ahead of it (Nesterov)."""
        gradient = weight.grad
        assert gradient is not None
        state = self.state[weight]
        if not state:
            state["step"] = torch.tensor(0.0)  # AdamW expects one of whatever has a state
            state["momentum"] = torch.zeros_like(gradient)
        state["step"] += 1
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)


def _by_shape(weights: Iterable[Tensor]) -> list[list[Tensor]]:
    found: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        found.setdefault(weight.shape, []).append(weight)
    return list(found.values())
