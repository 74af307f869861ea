"""Sheets on a GRU, and on a recurrent network with outputs, softmax and loss."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, Floats
from workings.problems.ops import Activation, Linear, Normalization
from workings.problems.problem import Problem
from workings.problems.sheets.recurrent_sheets import draw_gates
from workings.problems.sheets.sampling import (
    BIAS_VALUES,
    MAX_PREACTIVATION,
    SMALL_INPUT_VALUES,
    TANH_WEIGHT_VALUES,
    SamplingError,
    draw_inputs,
    draw_vector,
    draw_weight,
    sigmoid,
)
from workings.problems.sheets.sheet_kind import (
    Givens,
    SheetKind,
    SheetPlan,
    SizeOption,
)

_SQUASHING = ("tanh", "sigmoid")
_MAX_TRIES = 600
_MIN_PREACTIVATION = 0.1  # tanh(0) is 0, and so is the ReLU of it
_MIN_PROBABILITY = 0.03
_MIN_STATE = 0.1  # smaller ones hide mistakes with the previous state
_NUM_CLASSES = 3


def _draw_unsaturated(plan: SheetPlan, draw: Callable[[], Givens]) -> Givens:
    """Draw networks until no gate, tanh or softmax is near its limits."""
    for _ in range(_MAX_TRIES):
        givens = draw()
        problem = Problem(kind=plan.kind.problem_kind, given=givens)
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
        if not is_instructive(total.mid):
            return False
    return True


def is_instructive(preactivation: Floats) -> bool:
    """Return True if tanh and sigmoid neither saturate nor hide that another function was used."""
    size = np.abs(preactivation)
    return bool(size.max() <= MAX_PREACTIVATION and size.min() >= _MIN_PREACTIVATION)


GRU_SETTINGS = {"update": "candidate", "reset": "before", "concat": "h,x", "gates": "zrn"}


GRU_SENTENCE = gettext_noop(
    "The reset gate multiplies the state before U_n does; the update gate z multiplies the"
    " candidate n, and 1 − z the previous state."
)


def draw_gru(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a GRU with one matrix per gate whose gates never saturate."""
    x = draw_inputs(rng, plan.tokens, plan.width, SMALL_INPUT_VALUES)
    return {"X": x, **draw_gru_weights(rng, x, plan.hidden_size)}


def draw_gru_weights(rng: Random, x: Floats, hidden: int) -> Givens:
    """Draw the weights of a GRU that reads x, one matrix per gate."""
    matrices = draw_gates(rng, x, hidden, 3, _run_gru)
    split = [np.split(matrix, 3, axis=1) for matrix in matrices]
    return {
        f"{letter}_{gate}": part
        for k, gate in enumerate("zrn")
        for letter, part in zip("WUb", (parts[k] for parts in split), strict=True)
    }


def _run_gru(x: Floats, w: Floats, u: Floats, b: Floats) -> tuple[Floats, Bools]:
    """Return the sums inside the gates, side by side, and whether each state is nearly zero."""
    hidden, totals, states = len(u), [], []
    h = np.zeros((1, hidden))
    for own in (x @ w + b)[:, None]:
        gates = own[:, : 2 * hidden] + h @ u[:, : 2 * hidden]
        z, r = sigmoid(gates[:, :hidden]), sigmoid(gates[:, hidden:])
        candidate = own[:, 2 * hidden :] + (r * h) @ u[:, 2 * hidden :]
        h = (1 - z) * h + z * np.tanh(candidate)
        totals.append(np.concatenate([gates, candidate], axis=1))
        states.append(np.abs(h).max())
    return np.concatenate(totals), np.array(states) < _MIN_STATE


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
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        gettext("x₁, x₂, … are the {vectors} of X; {start}.", start=start, vectors=plan.vectors),
    ]


def _describe_gru(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [*_describe_inputs(plan, gettext("h0 is zero")), gettext(GRU_SENTENCE)]


def _describe_output(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        *_describe_inputs(plan, gettext("h0 is zero")),
        gettext(
            "targets has the class of each output, counted from 1; the loss of a time is "
            "−ln p of its class, and the loss is the mean over all times."
        ),
    ]


_HIDDEN = {"hidden_size": SizeOption(lambda _, width: min(width, 2), maximum=4)}
NETWORK_SHEETS = (
    SheetKind(
        name="gru",
        title=gettext_noop("A GRU"),
        problem_kind="gru",
        picture=gettext_noop(
            "x_t, h_(t−1) → gates z, r → candidate n → h_t = (1 − z) h_(t−1) + z n"
        ),
        draw=draw_gru,
        describe=_describe_gru,
        make_settings=lambda _: GRU_SETTINGS,
        sizes=((2, 2), (2, 3), (3, 3)),
        max_size=(6, 4),
        options=_HIDDEN,
        sentence="labels",
    ),
    SheetKind(
        name="rnn_output",
        title=gettext_noop("A recurrent network with outputs"),
        problem_kind="rnn",
        picture=gettext_noop("h_t → y_t = h_t W_hy + b_y → softmax → −ln p of the target"),
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
