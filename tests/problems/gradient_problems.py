"""Random problems on losses and gradients, with the loss that torch differentiates."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rounded_claims import Rng, draw_matrix
from torch import Tensor
from torch.nn import functional as F

Tensors = dict[str, Tensor]


@dataclass
class GradientProblem:
    """The fields of a problem, and its loss with the tensors on the way to it, by step."""

    fields: dict[str, Any]
    compute_loss: Callable[[Tensors], tuple[Tensor, Tensors]]

    @property
    def leaves(self) -> Tensors:
        """The given matrices as tensors that require gradients."""
        matrices = {k: v for k, v in self.fields.items() if isinstance(v, np.ndarray)}
        return {k: torch.tensor(v, requires_grad=True) for k, v in matrices.items()}


def draw_cross_entropy(rng: Rng) -> GradientProblem:
    n, c = (int(k) for k in rng.integers((1, 2), (5, 5)))
    smoothing, reduction = float(rng.choice([0.0, 0.1, 0.2])), str(rng.choice(["mean", "sum"]))
    classes = rng.integers(0, c, n)
    fields: dict[str, Any] = {"kind": "cross_entropy", "logits": draw_matrix(rng, n, c, 3)}
    fields |= {"label_smoothing": smoothing, "reduction": reduction}
    if rng.random() < 0.5:
        fields["targets"] = classes.tolist()
    else:
        fields["Y"] = np.eye(c)[classes]

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        logits, targets = given["logits"], torch.tensor(classes)
        options = {"label_smoothing": smoothing}
        loss = F.cross_entropy(logits, targets, reduction=reduction, **options)
        losses = F.cross_entropy(logits, targets, reduction="none", **options)
        hits = (logits.argmax(1) == targets).double()
        return loss, {
            "probabilities": logits.softmax(1),
            "losses": losses[:, None],
            "loss": loss[None, None],
            "perplexity": losses.mean().exp()[None, None],
            "predictions": logits.argmax(1).double()[:, None],
            "accuracy": hits.mean()[None, None],
        }

    return GradientProblem(fields, compute_loss)


def draw_softmax_jacobian(rng: Rng) -> GradientProblem:
    c = int(rng.integers(2, 5))
    fields = {
        "kind": "softmax_jacobian",
        "logits": draw_matrix(rng, 1, c, 2),
        "dprobabilities": draw_matrix(rng, 1, c),
    }

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        logits = given["logits"]
        jacobian = torch.autograd.functional.jacobian(lambda z: z.softmax(1)[0], logits)
        probabilities = logits.softmax(1)
        loss = (probabilities * given["dprobabilities"]).sum()
        return loss, {"probabilities": probabilities, "jacobian": jacobian[:, 0]}

    return GradientProblem(fields, compute_loss)


DRAWS: dict[str, Callable[[Rng], GradientProblem]] = {
    "cross_entropy": draw_cross_entropy,
    "softmax_jacobian": draw_softmax_jacobian,
}
