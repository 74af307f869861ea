"""Sheets on a GRU, and on a recurrent network with outputs, softmax and loss."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from workings.problems.intervals import Floats
from workings.problems.ops import Activation, Linear, Normalization
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import (
    BIAS_VALUES,
    GATE_WEIGHT_VALUES,
    MAX_PREACTIVATION,
    SMALL_INPUT_VALUES,
    TANH_WEIGHT_VALUES,
    SamplingError,
    draw_inputs,
    draw_vector,
    draw_weight,
)
from workings.problems.sheets.sheet_kind import (
    Fields,
    Givens,
    SheetKind,
    SheetPlan,
    SizeOption,
)

_SQUASHING = ("tanh", "sigmoid")
_MAX_TRIES = 600
_MIN_PREACTIVATION = 0.1  # tanh(0) is 0, and so is the ReLU of it
_MIN_PROBABILITY = 0.03
_NUM_CLASSES = 3


def _draw_unsaturated(
    plan: SheetPlan, draw: Callable[[], Givens], settings: Fields | None = None
) -> Givens:
    """Draw networks until no gate, tanh or softmax is near its limits."""
    for _ in range(_MAX_TRIES):
        givens = draw()
        problem = Problem(kind=plan.kind.problem_kind, given=givens, **(settings or {}))
        if _is_unsaturated(problem):
            return givens
    raise SamplingError


def _is_unsaturated(problem: Problem) -> bool:
    env = problem.exact_matrices
    for step in problem.steps:
        op = step.op
        if isinstance(op, Normalization):
            if env[step.key].mid.min() < _MIN_PROBABILITY:
                return False
            continue
        if isinstance(op, Activation) and op.function in _SQUASHING:
            total = env[op.x]
        elif isinstance(op, Linear) and op.function in _SQUASHING:
            total = replace(op, function="none").compute(env)
        else:
            continue
        if not _is_instructive(total.mid):
            return False
    return True


def _is_instructive(preactivation: Floats) -> bool:
    """Return True if tanh and sigmoid neither saturate nor hide that another function was used."""
    size = np.abs(preactivation)
    return bool(size.max() <= MAX_PREACTIVATION and size.min() >= _MIN_PREACTIVATION)


_GRU_SETTINGS = {"update": "candidate", "reset": "before", "concat": "h,x", "gates": "zrn"}


def draw_gru(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a GRU with one matrix per gate whose gates never saturate."""
    d, hidden = plan.width, plan.hidden_size

    def draw() -> Givens:
        givens: Givens = {"X": draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)}
        for gate in "zrn":
            givens[f"W_{gate}"] = draw_weight(rng, d, hidden, GATE_WEIGHT_VALUES)
            givens[f"U_{gate}"] = draw_weight(rng, hidden, hidden, GATE_WEIGHT_VALUES, 0.8)
            givens[f"b_{gate}"] = draw_vector(rng, hidden, BIAS_VALUES)
        return givens

    return _draw_unsaturated(plan, draw, _GRU_SETTINGS)


def draw_rnn_output(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network with an output, softmax and target at every time."""
    d, hidden = plan.width, plan.hidden_size
    classes = [float(rng.randint(1, _NUM_CLASSES)) for _ in range(plan.tokens)]

    def draw() -> Givens:
        return {
            "X": draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES),
            "W_xh": draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES),
            "W_hh": draw_weight(rng, hidden, hidden, TANH_WEIGHT_VALUES, 0.8),
            "b": draw_vector(rng, hidden, BIAS_VALUES),
            "W_hy": draw_weight(rng, hidden, _NUM_CLASSES, TANH_WEIGHT_VALUES, 0.9),
            "b_y": draw_vector(rng, _NUM_CLASSES, BIAS_VALUES),
            "targets": np.array([classes]),
        }

    return _draw_unsaturated(plan, draw)


def _describe_inputs(plan: SheetPlan, start: str) -> list[str]:
    return [f"Each token is a {plan.vector}.", f"x₁, x₂, … are the {plan.vector}s of X; {start}."]


def _describe_gru(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        *_describe_inputs(plan, "h0 is zero"),
        "The reset gate multiplies the state before U_n does; the update gate z multiplies the"
        " candidate n, and 1 − z the previous state.",
    ]


def _describe_output(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        *_describe_inputs(plan, "h0 is zero"),
        "targets has the class of each output, counted from 1; the loss of a time is −ln p of its"
        " class, and the loss is the mean over all times.",
    ]


_HIDDEN = {"hidden_size": SizeOption(lambda _, width: min(width, 2), maximum=4)}
NETWORK_SHEETS = (
    SheetKind(
        name="gru",
        title="A GRU",
        problem_kind="gru",
        picture="x_t, h_(t−1) → gates z, r → candidate n → h_t = (1 − z) h_(t−1) + z n",
        draw=draw_gru,
        describe=_describe_gru,
        make_settings=lambda _: _GRU_SETTINGS,
        sizes=((2, 2), (2, 3), (3, 3)),
        max_size=(6, 4),
        options=_HIDDEN,
        sentence="labels",
    ),
    SheetKind(
        name="rnn_output",
        title="A recurrent network with outputs",
        problem_kind="rnn",
        picture="h_t → y_t = h_t W_hy + b_y → softmax → −ln p of the target",
        draw=draw_rnn_output,
        describe=_describe_output,
        make_settings=lambda _: {"outputs": "all", "reduction": "mean"},
        takes_any_numbers=False,
        sizes=((2, 2), (2, 3), (3, 3)),
        max_size=(6, 4),
        options=_HIDDEN,
        sentence="labels",
    ),
)
