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
        fields["targets"] = (classes + 1).tolist()
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
            "predictions": logits.argmax(1).double()[:, None] + 1,
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


def draw_rnn(rng: Rng, kind: str) -> dict[str, Any]:
    """Draw the givens of a network with two or three states over two to four time steps."""
    times, d, h = (int(k) for k in rng.integers((2, 2, 2), (5, 4, 4)))
    fields: dict[str, Any] = {"kind": kind, "activation": str(rng.choice(list(ACTIVATIONS)))}
    fields |= {"X": draw_matrix(rng, times, d), "W_xh": draw_matrix(rng, d, h, 0.9)}
    fields |= {"W_hh": draw_matrix(rng, h, h, 0.9), "h0": draw_matrix(rng, 1, h, 0.9)}
    if rng.random() < 0.7:
        fields["b"] = draw_matrix(rng, 1, h) + 0.05
    return fields


def run_rnn(given: Tensors, activation: str) -> Tensors:
    """Return the states of a recurrent network and their arguments, by step."""
    state, steps = given["h0"], {}
    for t, x in enumerate(given["X"], start=1):
        total = x[None] @ given["W_xh"] + state @ given["W_hh"] + given.get("b", torch.zeros(()))
        state = ACTIVATIONS[activation](total)
        steps |= {f"sum.{t}": total, f"h.{t}": state}
    return steps


def draw_rnn_gradient(rng: Rng) -> GradientProblem:
    fields = draw_rnn(rng, "rnn_gradient")
    times, h = len(fields["X"]), len(fields["W_hh"])
    if rng.random() < 0.7:
        fields["dH"] = draw_matrix(rng, times, h)
    else:
        fields["dh"] = draw_matrix(rng, 1, h)

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        steps = run_rnn(given, fields["activation"])
        states = torch.cat([steps[f"h.{t}"] for t in range(1, times + 1)])
        upstream = given["dH"] if "dH" in given else given["dh"]
        return (states[-len(upstream) :] * upstream).sum(), steps

    return GradientProblem(fields, compute_loss)


def draw_rnn_loss_gradient(rng: Rng) -> GradientProblem:
    """Draw a recurrent network with outputs at every time, or at the last, and their loss."""
    fields = draw_rnn(rng, "rnn_gradient")
    times, h, o = len(fields["X"]), len(fields["W_hh"]), int(rng.integers(2, 4))
    outputs, reduction = str(rng.choice(["all", "last"])), str(rng.choice(["mean", "sum"]))
    classes = rng.integers(0, o, times if outputs == "all" else 1)
    fields |= {"W_hy": draw_matrix(rng, h, o, 0.9), "targets": (classes + 1).tolist()}
    fields |= {"outputs": outputs, "reduction": reduction}
    if rng.random() < 0.7:
        fields["b_y"] = draw_matrix(rng, 1, o)

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        steps = run_rnn(given, fields["activation"])
        states = torch.cat([steps[f"h.{t}"] for t in range(1, times + 1)])[-len(classes) :]
        logits = states @ given["W_hy"] + given.get("b_y", torch.zeros(()))
        loss = F.cross_entropy(logits, torch.tensor(classes), reduction=reduction)
        return loss, steps | {f"y.{times}": logits[-1:]}

    return GradientProblem(fields, compute_loss)


def draw_rnn_jacobian(rng: Rng) -> GradientProblem:
    fields = draw_rnn(rng, "rnn_jacobian")

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        steps, activation = run_rnn(given, fields["activation"]), fields["activation"]
        for t in range(1, len(fields["X"]) + 1):
            before = steps[f"h.{t - 1}"] if t > 1 else given["h0"]
            for name, rows, start in (("jacobian", [t - 1], before), ("product", range(t), None)):
                inputs = {**given, "X": given["X"][list(rows)].detach()}

                def run(h0: Tensor, inputs: Tensors = inputs) -> Tensor:
                    return list(run_rnn({**inputs, "h0": h0}, activation).values())[-1][0]

                start = given["h0"] if start is None else start
                jacobian = torch.autograd.functional.jacobian(run, start.detach())[:, 0]
                steps[f"{name}.{t}"] = jacobian.T  # [input, output]: vectors are rows
            steps[f"norm.{t}"] = torch.linalg.norm(steps[f"product.{t}"])[None, None]
        return steps["h.1"].sum(), steps

    return GradientProblem(fields, compute_loss)


def draw_lstm_gradient(rng: Rng) -> GradientProblem:
    d, h = (int(k) for k in rng.integers(1, 4, 2))
    fields: dict[str, Any] = {"kind": "lstm_gradient", "x": draw_matrix(rng, 1, d)}
    fields |= {"W_x": draw_matrix(rng, d, 4 * h, 0.9), "W_h": draw_matrix(rng, h, 4 * h, 0.9)}
    fields |= {"b": draw_matrix(rng, 1, 4 * h), "h0": draw_matrix(rng, 1, h)}
    fields |= {"c0": draw_matrix(rng, 1, h), "dh": draw_matrix(rng, 1, h)}
    if rng.random() < 0.5:
        fields["dc_next"] = draw_matrix(rng, 1, h)

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        z = given["x"] @ given["W_x"] + given["h0"] @ given["W_h"] + given["b"]
        parts = dict(zip("ifgo", z.chunk(4, dim=1), strict=True))
        gates = {k: v.tanh() if k == "g" else v.sigmoid() for k, v in parts.items()}
        cell = gates["f"] * given["c0"] + gates["i"] * gates["g"]
        state = gates["o"] * cell.tanh()
        loss = (state * given["dh"]).sum()
        if "dc_next" in given:
            loss = loss + (cell * given["dc_next"]).sum()
        return loss, {"sum": z, **gates, "c": cell, "h": state}

    return GradientProblem(fields, compute_loss)


def draw_optimizer_step(rng: Rng) -> GradientProblem:
    shape = tuple(int(k) for k in rng.integers(2, 4, 2))
    optimizer, rate = str(rng.choice(["sgd", "momentum", "adam"])), float(rng.choice([0.1, 0.5]))
    fields: dict[str, Any] = {"kind": "optimizer_step", "optimizer": optimizer}
    fields |= {"W": draw_matrix(rng, *shape), "dW": draw_matrix(rng, *shape), "learning_rate": rate}
    time = int(rng.integers(1, 4))
    if optimizer == "momentum":
        fields |= {"velocity0": draw_matrix(rng, *shape), "momentum": 0.9}
    elif optimizer == "adam":
        fields |= {"beta_1": 0.8, "beta_2": 0.9, "eps": 0.01, "t": time}
        fields |= {"m0": draw_matrix(rng, *shape), "v0": np.abs(draw_matrix(rng, *shape))}

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        weight = torch.nn.Parameter(given["W"].detach().clone())
        weight.grad = given["dW"].detach().clone()
        if optimizer == "adam":
            adam = torch.optim.Adam([weight], rate, betas=(0.8, 0.9), eps=0.01)
            adam.state[weight] = {
                "step": torch.tensor(float(time - 1)),
                "exp_avg": given["m0"].detach().clone(),
                "exp_avg_sq": given["v0"].detach().clone(),
            }
            adam.step()
            state = adam.state[weight]
            moments = {"m": state["exp_avg"], "v": state["exp_avg_sq"]}
            return given["W"].sum(), {**moments, "W_new": weight.detach()}
        momentum = 0.9 if optimizer == "momentum" else 0.0
        sgd = torch.optim.SGD([weight], rate, momentum=momentum)
        if optimizer == "momentum":
            sgd.state[weight]["momentum_buffer"] = given["velocity0"].detach().clone()
        sgd.step()
        return given["W"].sum(), {"W_new": weight.detach()}

    return GradientProblem(fields, compute_loss)


def draw_mlp_gradient(rng: Rng) -> GradientProblem:
    n, d, h, c = (int(k) for k in rng.integers(2, 4, 4))
    activation, classes = str(rng.choice(list(ACTIVATIONS))), rng.integers(0, c, n)
    fields: dict[str, Any] = {"kind": "mlp_gradient", "activation": activation}
    fields |= {"X": draw_matrix(rng, n, d), "targets": (classes + 1).tolist()}
    fields |= {"W_1": draw_matrix(rng, d, h, 0.9), "b_1": draw_matrix(rng, 1, h) + 0.05}
    fields |= {"W_2": draw_matrix(rng, h, c), "b_2": draw_matrix(rng, 1, c)}

    def compute_loss(given: Tensors) -> tuple[Tensor, Tensors]:
        hidden = given["X"] @ given["W_1"] + given["b_1"]
        activated = ACTIVATIONS[activation](hidden)
        logits = activated @ given["W_2"] + given["b_2"]
        loss = F.cross_entropy(logits, torch.tensor(classes))
        steps = {"hidden": hidden, "activated": activated, "logits": logits}
        return loss, steps | {"probabilities": logits.softmax(1), "loss": loss[None, None]}

    return GradientProblem(fields, compute_loss)


DRAWS: dict[str, Callable[[Rng], GradientProblem]] = {
    "cross_entropy": draw_cross_entropy,
    "softmax_jacobian": draw_softmax_jacobian,
    "linear_gradient": draw_linear_gradient,
    "mlp_gradient": draw_mlp_gradient,
    "layer_norm_gradient": draw_layer_norm_gradient,
    "attention_gradient": draw_attention_gradient,
    "rnn_gradient": draw_rnn_gradient,
    "rnn_gradient of a loss": draw_rnn_loss_gradient,
    "rnn_jacobian": draw_rnn_jacobian,
    "lstm_gradient": draw_lstm_gradient,
    "optimizer_step": draw_optimizer_step,
}
