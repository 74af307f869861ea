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


ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


def draw_linear_gradient(rng: Rng) -> GradientProblem:
    n, d, o = (int(k) for k in rng.integers(2, 4, 3))
    activation = str(rng.choice(["none", *ACTIVATIONS]))
    fields: dict[str, Any] = {"kind": "linear_gradient", "activation": activation}
    fields |= {"X": draw_matrix(rng, n, d), "W": draw_matrix(rng, d, o, 0.9)}
    fields |= {"b": draw_matrix(rng, 1, o), "dY": draw_matrix(rng, n, o)}
    # The slope of the ReLU jumps at zero, where differences have no limit.
    fields["b"] += 0.05

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        z = given["X"] @ given["W"] + given["b"]
        y = ACTIVATIONS.get(activation, lambda x: x)(z)
        steps = {} if activation == "none" else {"Z": z, "Y": y}
        return (y * given["dY"]).sum(), steps

    return GradientProblem(fields, compute_loss)


def draw_layer_norm_gradient(rng: Rng) -> GradientProblem:
    n, d = (int(k) for k in rng.integers((1, 3), (4, 5)))
    eps, has_gamma = float(rng.choice([0.0, 0.1])), bool(rng.random() < 0.8)
    fields: dict[str, Any] = {"kind": "layer_norm_gradient", "eps": eps}
    fields |= {"X": draw_matrix(rng, n, d, 3), "dY": draw_matrix(rng, n, d)}
    if has_gamma:
        fields |= {"gamma": draw_matrix(rng, 1, d), "beta": draw_matrix(rng, 1, d)}

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        x = given["X"]
        mean, variance = x.mean(1, keepdim=True), x.var(1, keepdim=True, correction=0)
        normalised = (x - mean) / (variance + eps).sqrt()
        output = normalised * given["gamma"] + given["beta"] if has_gamma else normalised
        loss = (output * given["dY"]).sum()
        return loss, {"mean": mean, "variance": variance, "normalised": normalised}

    return GradientProblem(fields, compute_loss)


def draw_attention_gradient(rng: Rng) -> GradientProblem:
    n, m, d, k, v = (int(size) for size in rng.integers(2, 4, 5))
    m = n if rng.random() < 0.6 else m
    is_cross, scale = bool(m != n or rng.random() < 0.3), str(rng.choice(["sqrt(d_k)", "none"]))
    fields: dict[str, Any] = {"kind": "attention_gradient", "scale": scale}
    fields["mask"] = "causal" if n == m and rng.random() < 0.4 else "none"
    fields |= {"X": draw_matrix(rng, n, d), "W_Q": draw_matrix(rng, d, k, 0.9)}
    fields |= {"W_K": draw_matrix(rng, d, k, 0.9), "W_V": draw_matrix(rng, d, v, 0.9)}
    if is_cross:
        fields["context"] = draw_matrix(rng, m, d)
    if rng.random() < 0.5:
        fields["W_O"] = draw_matrix(rng, v, v, 0.9)
    fields["doutput"] = draw_matrix(rng, n, v)

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        context = given["context"] if is_cross else given["X"]
        q, keys, values = given["X"] @ given["W_Q"], context @ given["W_K"], context @ given["W_V"]
        scores = q @ keys.T
        scaled = scores / k**0.5 if scale == "sqrt(d_k)" else scores * 1.0
        allowed = torch.ones(n, m, dtype=torch.bool)
        allowed = allowed.tril() if fields["mask"] == "causal" else allowed
        weights = scaled.masked_fill(~allowed, float("-inf")).softmax(1)
        mixed = weights @ values
        output = mixed @ given["W_O"] if "W_O" in given else mixed
        steps = {"Q": q, "K": keys, "V": values, "scores": scores, "scaled": scaled}
        loss = (output * given["doutput"]).sum()
        return loss, steps | {"weights": weights, "mixed": mixed}

    return GradientProblem(fields, compute_loss)


DRAWS: dict[str, Callable[[Rng], GradientProblem]] = {
    "cross_entropy": draw_cross_entropy,
    "softmax_jacobian": draw_softmax_jacobian,
    "linear_gradient": draw_linear_gradient,
    "layer_norm_gradient": draw_layer_norm_gradient,
    "attention_gradient": draw_attention_gradient,
}
