"""Sheets on recurrent networks: an Elman RNN and an LSTM, unrolled over time."""

from random import Random

import numpy as np

from workings.problems.intervals import Floats
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import (
    BIAS_VALUES,
    GATE_WEIGHT_VALUES,
    MAX_PREACTIVATION,
    SMALL_INPUT_VALUES,
    TANH_WEIGHT_VALUES,
    SamplingError,
    draw_inputs,
    draw_until,
    draw_vector,
    draw_weight,
    is_unsaturated,
    sigmoid,
)
from workings.problems.sheets.sheet_kind import (
    Givens,
    SheetKind,
    SheetPlan,
    SizeOption,
    format_shares,
)

_GATE_NAMES = ("input (i)", "forget (f)", "cell (g)", "output (o)")


def draw_rnn(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network with an initial state of zero whose tanh never saturates."""
    d, hidden = plan.width, plan.hidden_size
    x = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)
    for _ in range(200):
        w_x, w_h = (
            draw_weight(rng, d, hidden, TANH_WEIGHT_VALUES),
            draw_weight(rng, hidden, hidden, TANH_WEIGHT_VALUES, 0.8),
        )
        b = draw_vector(rng, hidden, BIAS_VALUES)
        h, stays_unsaturated = np.zeros((1, hidden)), True
        for row in x:
            total = row @ w_x + h @ w_h + b
            stays_unsaturated = stays_unsaturated and is_unsaturated(total)
            h = np.tanh(total)
        if stays_unsaturated:
            return {"X": x, "W_xh": w_x, "W_hh": w_h, "b": b}
    raise SamplingError


def draw_lstm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw an LSTM whose gates, side by side in the weights, never saturate.

    The eight weights are multiples of 0.1: with multiples of 0.5, several would have equal products
    with an input.
    """
    d, hidden = plan.width, plan.hidden_size
    x = draw_inputs(rng, plan.tokens, d, SMALL_INPUT_VALUES)

    def gate() -> Floats:
        return draw_until(
            lambda: draw_weight(rng, d, hidden, GATE_WEIGHT_VALUES),
            lambda w: bool((np.abs(x @ w) <= MAX_PREACTIVATION - 0.7).all()),
            400,
        )

    for _ in range(200):
        w_x = np.concatenate([gate() for _ in range(4)], axis=1)
        w_h = np.concatenate(
            [draw_weight(rng, hidden, hidden, GATE_WEIGHT_VALUES, 0.8) for _ in range(4)], axis=1
        )
        b = draw_vector(rng, 4 * hidden, BIAS_VALUES)
        h = c = np.zeros((1, hidden))
        stays_unsaturated = True
        for row in x:
            total = row @ w_x + h @ w_h + b
            stays_unsaturated = stays_unsaturated and is_unsaturated(total)
            i, f, g, o = np.split(total, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        if stays_unsaturated:
            return {"X": x, "W_x": w_x, "W_h": w_h, "b": b}
    raise SamplingError


def _describe_rnn(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [f"Each token is a {plan.vector}.", _describe_time(plan, "h0 is zero")]


def _describe_time(plan: SheetPlan, start: str) -> str:
    return f"x₁, x₂, … are the {plan.vector}s of X; {start}."


def _describe_lstm(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    shares = format_shares(plan.feature_axis, plan.hidden_size, _GATE_NAMES)
    return [
        f"Each token is a {plan.vector}.",
        _describe_time(plan, "h0 and c0 are zero"),
        f"The gates are side by side in W_x, W_h and b: {shares};"
        " W_xi is the first of these parts, and so on.",
    ]


RECURRENT_SHEETS = (
    SheetKind(
        name="rnn",
        title="A recurrent network",
        problem_kind="rnn",
        picture="h₀ → h₁ → h₂ → …, h_t = tanh(x_t W_xh + h_(t−1) W_hh + b)",
        draw=draw_rnn,
        describe=_describe_rnn,
        sizes=((2, 2), (3, 2), (4, 3)),
        options={"hidden_size": SizeOption(lambda _, width: min(width, 3))},
        sentence="labels",
    ),
    SheetKind(
        name="lstm",
        title="An LSTM",
        problem_kind="lstm",
        picture="x_t, h_(t−1) → gates i, f, g, o → c_t = f c_(t−1) + i g → h_t = o tanh(c_t)",
        draw=draw_lstm,
        describe=_describe_lstm,
        sizes=((2, 2), (2, 3), (3, 3)),
        options={"hidden_size": SizeOption(lambda _, width: min(width, 2))},
        sentence="labels",
    ),
)
