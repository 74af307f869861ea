"""Drawing the problems without dot-product attention: norms, layers, recurrent networks."""

from random import Random

import numpy as np

from workings.errors import UserError
from workings.problems.cells import Floats
from workings.problems.make.draw import (
    HALVES,
    SMALLER,
    TENTHS,
    Given,
    NoLuckError,
    inputs,
    small,
    until,
    vector,
    weight,
)
from workings.problems.make.plan import Plan

RATIOS = (10, 100, 4, 5, 20, 2, 50, 25, 8, 40)  # of neighbouring wavelengths
_CALM = 2.2  # the largest argument of a tanh or sigmoid that is not nearly ±1
_HALF_STEPS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def base_of(plan: Plan, seed: int, number: int) -> int:
    """Choose the base of a problem about positions, so that the angles are short numbers."""
    ratios = list(RATIOS)
    Random(f"positions {seed}").shuffle(ratios)  # noqa: S311
    if number > len(ratios):
        raise UserError(
            f"--count: positions of one size differ in their base only: at most {len(ratios)}"
        )
    return int(ratios[number - 1] ** (plan.width // 2))


def draw_layer_norm(rng: Random, plan: Plan) -> Given:
    """Draw X with short means and variances; their roots are short wherever that is possible."""
    n, d = plan.tokens, plan.width
    rows: list[Floats] = []
    while len(rows) < n:
        row = until(lambda: inputs(rng, 1, d, range(-2, 8)), lambda x: _short_spread(x[0]), 4000)
        if not any((row == other).all() for other in rows):
            rows.append(row)
    return {
        "X": np.concatenate(rows),
        "gamma": vector(rng, d, (-1, 0.5, 1, 2, 2, 3)),
        "beta": vector(rng, d, (-1, 0, 1, 2)),
    }


def _short_spread(row: Floats) -> bool:
    """Say whether mean, variance and (but for width 3, where it never is) its root are short."""
    variance = row.var()
    if not _multiple(row.mean(), 0.5) or not _multiple(variance, 0.25) or variance < 1:
        return False
    return len(row) == 3 or _multiple(np.sqrt(variance), 0.5)


def _multiple(value: float, of: float) -> bool:
    return abs(value / of - round(value / of)) < 1e-9


def draw_feed_forward(rng: Random, plan: Plan, x: Floats | None = None) -> Given:
    """Draw a layer whose ReLU has something to cut, and something to leave, in every column."""
    n, d, hidden = plan.tokens, plan.width, plan.hidden
    x = inputs(rng, n, d) if x is None else x
    for _ in range(200):
        w, b = weight(rng, d, hidden), vector(rng, hidden, (-2, -1, 0, 1))
        before = x @ w + b
        cut = (before < 0).any(1) & (before > 0).any(1)
        if small(before, 8.0) and cut.all() and (before > 0).any(0).all():
            back = weight(rng, hidden, d)
            return {"X": x, "W_1": w, "b_1": b, "W_2": back, "b_2": vector(rng, d, (-1, 0, 1, 2))}
    raise NoLuckError


def draw_additive(rng: Random, plan: Plan) -> Given:
    """Draw a query, states and the small network that compares them."""
    d, hidden = plan.width, plan.hidden
    states = inputs(rng, plan.tokens, d, SMALLER)
    query = vector(rng, d, SMALLER)
    for _ in range(200):
        w_s, w_h = (weight(rng, d, hidden, HALVES) for _ in range(2))
        before = query @ w_s + states @ w_h
        if small(before, _CALM):
            v = vector(rng, hidden, (-2, -1, 1, 2, 3))
            return {"s": query, "H": states, "W_s": w_s, "W_h": w_h, "v": v}
    raise NoLuckError


def draw_rnn(rng: Random, plan: Plan) -> Given:
    """Draw a network that starts at zero and nowhere runs into the ends of its tanh."""
    d, hidden = plan.width, plan.hidden
    x = inputs(rng, plan.tokens, d, SMALLER)
    for _ in range(200):
        w_x, w_h = weight(rng, d, hidden, HALVES), weight(rng, hidden, hidden, HALVES, 0.8)
        b = vector(rng, hidden, _HALF_STEPS)
        h, calm = np.zeros((1, hidden)), True
        for row in x:
            total = row @ w_x + h @ w_h + b
            calm = calm and _calm(total)
            h = np.tanh(total)
        if calm:
            return {"X": x, "W_xh": w_x, "W_hh": w_h, "b": b}
    raise NoLuckError


def draw_lstm(rng: Random, plan: Plan) -> Given:
    """Draw four gates, side by side, none of them shut or open altogether.

    Eight small weights are easily alike, or alike when multiplied with an input: tenths tell them
    apart where halves would not.
    """
    d, hidden = plan.width, plan.hidden
    x = inputs(rng, plan.tokens, d, SMALLER)

    def gate() -> Floats:
        return until(
            lambda: weight(rng, d, hidden, TENTHS),
            lambda w: bool((np.abs(x @ w) <= _CALM - 0.7).all()),
            400,
        )

    for _ in range(200):
        w_x = np.concatenate([gate() for _ in range(4)], axis=1)
        w_h = np.concatenate([weight(rng, hidden, hidden, TENTHS, 0.8) for _ in range(4)], axis=1)
        b = vector(rng, 4 * hidden, _HALF_STEPS)
        h = c = np.zeros((1, hidden))
        calm = True
        for row in x:
            total = row @ w_x + h @ w_h + b
            calm = calm and _calm(total)
            i, f, g, o = np.split(total, 4, axis=1)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
        if calm:
            return {"X": x, "W_x": w_x, "W_h": w_h, "b": b}
    raise NoLuckError


def _calm(total: Floats) -> bool:
    return bool((np.abs(total) <= _CALM).all() and total.any())


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))
