"""Sheets on recurrent networks: an Elman RNN and an LSTM, unrolled over time."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, Floats
from workings.problems.notation import Real
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
    hill_climb,
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

_MIN_PREACTIVATION, _MIN_CELL = 0.4, 0.45  # smaller ones hide which function was used
_MIN_DISTANCE = 0.01  # from a whole number
_GATE_NAMES = (
    gettext_noop("input (i)"),
    gettext_noop("forget (f)"),
    gettext_noop("cell (g)"),
    gettext_noop("output (o)"),
)


def draw_rnn(rng: Random, plan: SheetPlan) -> Givens:
    """Draw a network with an initial state of zero whose tanh never saturates."""
    x = draw_inputs(rng, plan.tokens, plan.width, SMALL_INPUT_VALUES)
    return {"X": x, **draw_rnn_weights(rng, x, plan.hidden_size)}


def draw_rnn_weights(
    rng: Random, x: Floats, hidden: int, values: Sequence[Real] = TANH_WEIGHT_VALUES
) -> Givens:
    """Draw the weights of a network that reads x."""
    for _ in range(200):
        w_x, w_h = (
            draw_weight(rng, x.shape[1], hidden, values),
            draw_weight(rng, hidden, hidden, values, 0.8),
        )
        b = draw_vector(rng, hidden, BIAS_VALUES)
        h, stays_unsaturated = np.zeros((1, hidden)), True
        for row in x:
            total = row @ w_x + h @ w_h + b
            stays_unsaturated = stays_unsaturated and is_unsaturated(total)
            h = np.tanh(total)
        if stays_unsaturated:
            return {"W_xh": w_x, "W_hh": w_h, "b": b}
    raise SamplingError


def draw_lstm(rng: Random, plan: SheetPlan) -> Givens:
    """Draw an LSTM whose gates, side by side in the weights, never saturate."""
    x = draw_inputs(rng, plan.tokens, plan.width, SMALL_INPUT_VALUES)
    return {"X": x, **draw_lstm_weights(rng, x, plan.hidden_size)}


def draw_lstm_weights(rng: Random, x: Floats, hidden: int) -> Givens:
    """Draw the weights of an LSTM that reads x.

    They are multiples of 0.1: with multiples of 0.5, several would have equal products with an
    input. Each gate has sums of both signs, so that its ReLU is not just the sums.
    """
    w_x, w_h, b = draw_gates(rng, x, hidden, 4, _run_lstm)
    return {"W_x": w_x, "W_h": w_h, "b": b}


def draw_gates(
    rng: Random,
    x: Floats,
    hidden: int,
    count: int,
    run: Callable[[Floats, Floats, Floats, Floats], tuple[Floats, Bools]],
) -> tuple[Floats, Floats, Floats]:
    """Draw the weights of several gates, side by side, that never saturate.

    `run(x, w_x, w_h, b)` returns the sums inside the gates, a row for each time, and at which times
    the state is too small to show a mistake.
    Each gate has sums of both signs, so that its ReLU is neither the sums themselves nor zero, and
    one that is clearly not zero, so that the gate differs from its sums.
    """
    d = x.shape[1]
    b = np.concatenate([_draw_mixed_bias(rng, hidden) for _ in range(count)], axis=1)

    def penalty(weights: Floats) -> float:
        totals, is_idle = run(x, weights[:d], weights[d:], b)
        excess = np.maximum(np.abs(totals) - MAX_PREACTIVATION, 0).sum()
        gates = totals.reshape(len(x), count, hidden)
        largest, smallest = gates.max(2), gates.min(2)
        one_sided = (largest <= 0) | (smallest >= 0)
        # A ReLU of whole numbers looks like rounded numbers.
        near_integer = (totals > 0) & (np.abs(totals - np.round(totals)) < _MIN_DISTANCE)
        small = (largest < _MIN_PREACTIVATION) & (smallest > -_MIN_PREACTIVATION)
        bad = sum(map(np.count_nonzero, (one_sided, near_integer, small, is_idle)))
        # A change is in one of the two: the other is not counted again.
        useless = sum(
            _count_useless_gates(w.tobytes(), w.shape, count) for w in (weights[:d], weights[d:])
        )
        return float(excess + bad + useless)

    start = [
        np.concatenate(
            [draw_weight(rng, rows, hidden, GATE_WEIGHT_VALUES, share) for _ in range(count)],
            axis=1,
        )
        for rows, share in ((d, 0.0), (hidden, 0.8))
    ]
    weights = hill_climb(rng, np.concatenate(start), penalty, GATE_WEIGHT_VALUES)
    return weights[:d], weights[d:], b


@lru_cache(maxsize=64)
def _count_useless_gates(cells: bytes, shape: tuple[int, int], count: int) -> int:
    """Count the gates whose part has a zero row or column or is symmetric."""
    weights = np.frombuffer(cells).reshape(shape)
    parts = weights.reshape(len(weights), count, -1).swapaxes(0, 1)  # [gate, row, column]
    sizes: Floats = np.abs(parts)
    is_useless = (sizes.max(1).min(1) == 0) | (sizes.max(2).min(1) == 0)
    if parts.shape[1] == parts.shape[2]:
        differences: Floats = np.abs(parts - parts.swapaxes(1, 2))
        is_useless |= differences.max((1, 2)) == 0
    return int(is_useless.sum())


def _draw_mixed_bias(rng: Random, hidden: int) -> Floats:
    """Draw the bias of a gate with numbers of both signs, or next to zero."""
    return draw_until(
        lambda: draw_vector(rng, hidden, BIAS_VALUES), lambda b: bool(b.min() <= 0 <= b.max())
    )


def _run_lstm(x: Floats, w_x: Floats, w_h: Floats, b: Floats) -> tuple[Floats, Bools]:
    """Return the sums inside the gates, side by side, and whether each cell is about its tanh."""
    hidden, totals = len(w_h), x @ w_x + b
    cells = np.empty((len(x), hidden))
    h = c = np.zeros(hidden)
    for total, cell in zip(totals, cells, strict=True):  # rows, filled in place
        total += h @ w_h
        i, f, _, o = sigmoid(total).reshape(4, hidden)
        c = cell[:] = f * c + i * np.tanh(total[2 * hidden : 3 * hidden])
        h = o * np.tanh(c)
    return totals, np.abs(cells).max(1) < _MIN_CELL


def _describe_rnn(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        _describe_time(plan, gettext("h0 is zero")),
    ]


def _describe_time(plan: SheetPlan, start: str) -> str:
    return gettext("x₁, x₂, … are the {vectors} of X; {start}.", start=start, vectors=plan.vectors)


def _describe_lstm(plan: SheetPlan, problem: Problem) -> list[str]:  # noqa: ARG001
    return [
        gettext("Each token is a {vector}.", vector=plan.vector),
        _describe_time(plan, gettext("h0 and c0 are zero")),
        describe_gates(plan),
    ]


def describe_gates(plan: SheetPlan) -> str:
    """Return the sentence on which columns of an LSTM's weights belong to which gate."""
    shares = format_shares(plan.feature_axis, plan.hidden_size, _GATE_NAMES)
    return gettext(
        "The gates are side by side in W_x, W_h and b: {shares}; W_xi is the first of these parts,"
        " and so on.",
        shares=shares,
    )


RECURRENT_SHEETS = (
    SheetKind(
        name="rnn",
        title=gettext_noop("A recurrent network"),
        problem_kind="rnn",
        picture=gettext_noop("h₀ → h₁ → h₂ → …, h_t = tanh(x_t W_xh + h_(t−1) W_hh + b)"),
        draw=draw_rnn,
        describe=_describe_rnn,
        sizes=((2, 2), (3, 2), (4, 3)),
        options={"hidden_size": SizeOption(lambda _, width: min(width, 3))},
        sentence="labels",
    ),
    SheetKind(
        name="lstm",
        title=gettext_noop("An LSTM"),
        problem_kind="lstm",
        picture=gettext_noop(
            "x_t, h_(t−1) → gates i, f, g, o → c_t = f c_(t−1) + i g → h_t = o tanh(c_t)"
        ),
        draw=draw_lstm,
        describe=_describe_lstm,
        sizes=((2, 2), (2, 3), (3, 3)),
        options={"hidden_size": SizeOption(lambda _, width: min(width, 2))},
        sentence="labels",
    ),
)
