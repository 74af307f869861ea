"""Parts of a trained model as worked problems: a neuron, a norm, a cell, a gradient, a beam step.

Each is a `Problem` of the model's own vectors and weights on a text, solved in float64 and compared
with the numbers of the model. Layers, units, tokens, rows and columns are counted from 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor, nn

from workings.errors import UserError, did_you_mean, truncate
from workings.interpret.attention import to_numpy
from workings.interpret.beam_steps import work_beam_step
from workings.interpret.model_pass import ModelPass, plan_pass
from workings.interpret.model_problem import Matrix, ModelProblem, build_problem
from workings.layers.recurrent import RecurrentLayer
from workings.layers.transformer import FeedForward, LayerNorm, RMSNorm
from workings.problems.ops import ACTIVATIONS
from workings.tasks.base import Task

DEFAULT_BEAMS = 3
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_CELL_TAPS = {
    "lstm": {
        "i": "input",
        "f": "forget",
        "g": "candidate",
        "o": "output",
        "c": "cell",
        "h": "hidden",
    },
    "gru": {"z": "update", "r": "reset", "n": "candidate", "h": "hidden"},
    "rnn": {"h": "hidden"},
}
_GRU_CONVENTIONS = {"gates": "rzn", "update": "state", "reset": "after"}  # of torch


def work_part(
    task: Task,
    text: str,
    at: str,
    *,
    target: str | None = None,
    top: int = 5,
    decimals: int = 4,
) -> ModelProblem:
    """Return the part of a model that `at` names, like `neuron,1,5`, as a worked problem.

    `target` is the label of a classifier or the translation of a translator; by default the model's
    own. `top` is the number of terms in the derivation of a cell.
    """
    name, *arguments = (part.strip() for part in at.split(","))
    if name not in PARTS:
        raise UserError(f"--at {truncate(name)!r}: {did_you_mean(name, PARTS)}")
    work, usage = PARTS[name]
    try:
        problem = work(plan_pass(task, text, target), *arguments)
    except _UsageError:
        raise UserError(f"--at {truncate(at)}: expected {name},{usage}") from None
    return replace(problem, top=top, decimals=decimals)


class _UsageError(Exception):
    """The arguments of a part are not numbers, or too few or too many."""


def _read_numbers(arguments: Sequence[str], count: int, optional: int = 0) -> list[int | None]:
    """Return `count` numbers from 1, the last `optional` of them None if they are absent."""
    if not count - optional <= len(arguments) <= count:
        raise _UsageError
    if not all(text.isdecimal() and int(text) > 0 for text in arguments):
        raise _UsageError
    return [*(int(text) for text in arguments), *[None] * (count - len(arguments))]


def _find_modules(model: nn.Module, kind: type[ModuleT]) -> dict[str, ModuleT]:
    return {path: m for path, m in model.named_modules() if isinstance(m, kind)}


def _choose(modules: Mapping[str, ModuleT], number: int | None, noun: str) -> tuple[str, ModuleT]:
    """Return the path and module of a number from 1."""
    if not modules:
        raise UserError(f"this model has no {noun}")
    assert number is not None
    if number > len(modules):
        raise UserError(f"{noun} {number}: the model has {len(modules)}: {', '.join(modules)}")
    return list(modules.items())[number - 1]


def _check_range(noun: str, number: int | None, count: int) -> int:
    """Return the index from 0 of a number from 1; the last if it is None."""
    number = count if number is None else number
    if number > count:
        raise UserError(f"{noun} {number}: there are {count:,}")
    return number - 1


def _select_position(rows: Matrix, token: int | None, model_pass: ModelPass) -> tuple[Matrix, str]:
    """Return the vector of a token (the last by default) as a single row, and the token's name."""
    index = _check_range("token", token, len(rows))
    names = model_pass.name_positions(len(rows))
    return rows[index : index + 1], names[index] if names else str(index + 1)


def _to_rows(values: Sequence[Tensor]) -> Matrix:
    """Return the vectors of all calls of a module, one per row."""
    return np.concatenate([to_numpy(value.detach().flatten(0, -2)) for value in values])


def _build(
    title: str,
    settings: Mapping[str, Any],
    given: Mapping[str, Matrix],
    model_steps: Mapping[str, Matrix],
    note: str = "",
) -> ModelProblem:
    table = {"title": title, "vectors": "rows", **settings}
    return ModelProblem(build_problem(table, given), table, given, model_steps, note)


def work_neuron(model_pass: ModelPass, *arguments: str) -> ModelProblem:
    """Return a neuron of a feed-forward layer: its input, its activation, what it adds to a token.

    `output` is the neuron's part of the layer's output, which is the sum over all neurons.
    """
    layer, unit, token = _read_numbers(arguments, 3, optional=1)
    path, module = _choose(
        _find_modules(model_pass.model, FeedForward), layer, "feed-forward layer"
    )
    if module.activation not in ACTIVATIONS:
        known = [name for name in ACTIVATIONS if name != "none"]
        raise UserError(
            f"{path} has the activation {module.activation}: expected {', '.join(known)}"
        )
    k = _check_range("neuron", unit, module.inner.out_features)
    recorded = model_pass.record(path, taps=True)
    x, name = _select_position(_to_rows(recorded.inputs), token, model_pass)
    given = {
        "X": x,
        "W_1": to_numpy(module.inner.weight[k : k + 1].T),
        "W_2": to_numpy(module.outer.weight[:, k : k + 1].T),
    }
    if module.inner.bias is not None:
        given["b_1"] = to_numpy(module.inner.bias[k : k + 1].unsqueeze(0))
    taps = ["hidden", "activated"]
    if module.gate is not None:
        taps.append("gate")
        given["W_3"] = to_numpy(module.gate.weight[k : k + 1].T)
        if module.gate.bias is not None:
            given["b_3"] = to_numpy(module.gate.bias[k : k + 1].unsqueeze(0))
    model_steps = {
        step: _select_position(
            _to_rows(recorded.trace.steps(f"{path}.{step}"))[:, k : k + 1], token, model_pass
        )[0]
        for step in taps
    }
    return _build(
        f"Neuron {k + 1} of {path} at “{name}”",
        {"kind": "feed_forward", "activation": module.activation, "tokens": [name]},
        given,
        model_steps,
        "output is what this neuron adds; the layer adds up all neurons and a bias.",
    )


def work_norm(model_pass: ModelPass, *arguments: str) -> ModelProblem:
    """Return a layer norm or an RMSNorm of one token's vector."""
    number, token = _read_numbers(arguments, 2, optional=1)
    norms = {
        path: module
        for path, module in model_pass.model.named_modules()
        if isinstance(module, LayerNorm | RMSNorm)
    }
    path, module = _choose(norms, number, "norm")
    is_centered = isinstance(module, LayerNorm)
    recorded, fused = model_pass.record(path, taps=True), model_pass.record(path)
    x, name = _select_position(_to_rows(recorded.inputs), token, model_pass)
    taps = ("mean", "variance", "normalised") if is_centered else ("mean_square", "normalised")
    matrices = {step: _to_rows(recorded.trace.steps(f"{path}.{step}")) for step in taps}
    matrices["output"] = _to_rows(fused.outputs)
    given = {"X": x, "gamma": to_numpy(module.gamma.unsqueeze(0))}
    if isinstance(module, LayerNorm):
        given["beta"] = to_numpy(module.beta.unsqueeze(0))
    kind = "layer_norm" if is_centered else "rms_norm"
    return _build(
        f"{path} at “{name}”",
        {"kind": kind, "eps": module.eps, "tokens": [name]},
        given,
        {step: _select_position(matrix, token, model_pass)[0] for step, matrix in matrices.items()},
    )


def work_cell(model_pass: ModelPass, *arguments: str) -> ModelProblem:
    """Return the cell of an LSTM, GRU or RNN at one time step, from the states before it."""
    layer, time = _read_numbers(arguments, 2, optional=1)
    cells = {
        path: module
        for path, module in _find_modules(model_pass.model, RecurrentLayer).items()
        if module.cell in _CELL_TAPS and not module.reverse
    }
    path, module = _choose(cells, layer, "recurrent layer")
    recorded, taps = model_pass.record(path, taps=True), _CELL_TAPS[module.cell]
    t = _check_range("time", time, len(recorded.trace.steps(f"{path}.hidden")))
    x, name = _select_position(_to_rows(recorded.inputs), t + 1, model_pass)

    def read(tap: str, step: int) -> Matrix:
        return to_numpy(recorded.trace.steps(f"{path}.{tap}")[step])

    w_x, w_h, b_x, b_h = (
        to_numpy(getattr(module.layer, f"{parameter}_l0"))
        for parameter in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    w_x_name, w_h_name = ("W_xh", "W_hh") if module.cell == "rnn" else ("W_x", "W_h")
    b = b_x.astype(np.float64) + b_h
    given = {"X": x, w_x_name: w_x.T, w_h_name: w_h.T, "b": b[None]}
    if module.cell == "gru":  # the bias of h U_n is inside the reset gate
        own = 2 * module.hidden_size
        given["b"] = np.concatenate([b[:own], b_x[own:]])[None]
        given["b_hn"] = b_h[None, own:]
    if t:
        states = {state: taps[state] for state in ("h", "c") if state in taps}
        given |= {f"{state}0": read(tap, t - 1) for state, tap in states.items()}
    return _build(
        f"{path} at time {t + 1}, “{name}”",
        {
            "kind": module.cell,
            "tokens": [name],
            **(_GRU_CONVENTIONS if module.cell == "gru" else {}),
        },
        given,
        {f"{step}.1": read(tap, t) for step, tap in taps.items()},
        "It starts from the state after the token before." if t else "",
    )


def work_gradient(model_pass: ModelPass, *arguments: str) -> ModelProblem:
    """Return the gradient of the loss with respect to one weight of a linear layer.

    It adds up, over all positions, the layer's input times the gradient at its output.
    """
    if len(arguments) != 3:
        raise _UsageError
    name, *indices = arguments
    row, column = _read_numbers(indices, 2)
    path = name.removesuffix(".weight")
    layers = _find_modules(model_pass.model, nn.Linear)
    if path not in layers:
        raise UserError(
            f"--at gradient,{truncate(name)}: no such linear layer: {did_you_mean(path, layers)}"
        )
    module = layers[path]
    shared = [p for p, m in model_pass.model.named_modules() if _has_weight(m, module.weight)]
    if len(shared) > 1:
        raise UserError(f"{path} shares its weights with {shared[0]}: expected weights of its own")
    i = _check_range("row", row, module.out_features)
    j = _check_range("column", column, module.in_features)
    recorded = model_pass.record(path, gradients=True)
    gradients = [output.grad for output in recorded.outputs if output.grad is not None]
    x, upstream = _to_rows(recorded.inputs), _to_rows(gradients)
    tokens = model_pass.name_positions(len(x))
    assert module.weight.grad is not None
    return _build(
        f"Gradient of the loss with respect to {path}.weight[{i + 1},{j + 1}]",
        {"kind": "linear_gradient", **({"tokens": tokens} if tokens else {})},
        {
            "X": x[:, j : j + 1],
            "W": to_numpy(module.weight[i : i + 1, j : j + 1]),
            "dY": upstream[:, i : i + 1],
        },
        {"dW": to_numpy(module.weight.grad[i : i + 1, j : j + 1])},
        "X is what the weight reads at each position, dY the gradient at the unit that it feeds.",
    )


def work_beam(model_pass: ModelPass, *arguments: str) -> ModelProblem:
    """Return one step of a beam search, with three beams unless another number is given."""
    step, beams = _read_numbers(arguments, 2, optional=1)
    assert step is not None
    return work_beam_step(model_pass, step, DEFAULT_BEAMS if beams is None else beams)


def _has_weight(module: nn.Module, weight: Tensor) -> bool:
    return any(own is weight for own in module.parameters(recurse=False))


PARTS: dict[str, tuple[Callable[..., ModelProblem], str]] = {
    "neuron": (work_neuron, "LAYER,UNIT or LAYER,UNIT,TOKEN"),
    "norm": (work_norm, "NUMBER or NUMBER,TOKEN"),
    "cell": (work_cell, "LAYER or LAYER,TIME"),
    "beam": (work_beam, "STEP or STEP,BEAMS"),
    "gradient": (work_gradient, "LAYER,ROW,COLUMN, with the name of a linear layer like head"),
}
