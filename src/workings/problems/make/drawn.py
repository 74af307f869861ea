"""A problem as its file has it, with numbers that were drawn for it."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from workings.problems.cells import Floats
from workings.problems.kinds.layers import Variance
from workings.problems.make.attention import draw_attention, dullness
from workings.problems.make.draw import Given
from workings.problems.make.layers import (
    base_of,
    draw_additive,
    draw_feed_forward,
    draw_layer_norm,
    draw_lstm,
    draw_rnn,
)
from workings.problems.make.plan import ATTENTION, TITLES, Plan
from workings.problems.make.words import sentence
from workings.problems.ops import Normalised
from workings.problems.problem import Problem

_LEAST_VARIANCE = 0.2

_DRAW: dict[str, Callable[[Random, Plan], Given]] = {
    **dict.fromkeys(ATTENTION, draw_attention),
    "layer_norm": draw_layer_norm,
    "feed_forward": draw_feed_forward,
    "additive": draw_additive,
    "rnn": draw_rnn,
    "lstm": draw_lstm,
    "block": lambda rng, plan: {**draw_feed_forward(rng, plan), **draw_attention(rng, plan)},
}


def table_of(plan: Plan, rng: Random, seed: int, number: int) -> dict[str, Any]:
    """Draw a problem as its file has it."""
    table: dict[str, Any] = {"title": f"Problem {number}: {TITLES[plan.kind].lower()}"}
    table["kind"] = "attention" if plan.kind in ATTENTION else plan.kind
    if plan.columns:
        table["vectors"] = "columns"
    table |= _settings(plan)
    if plan.kind == "positions":
        table["tokens"] = [str(position) for position in range(plan.tokens)]
        given = {"count": plan.tokens, "width": plan.width, "base": base_of(plan, seed, number)}
        return {**table, "given": given}
    asks, asked = sentence(seed, number, plan.tokens, plan.context)
    table["tokens"] = asks
    if asked:
        table["context_tokens"] = asked
    drawn = _DRAW[plan.kind](rng, plan)
    return {**table, "given": {name: _plain(m, plan.columns) for name, m in drawn.items()}}


def _settings(plan: Plan) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if plan.attends:
        settings = {"heads": plan.heads} if plan.heads > 1 else {}
        settings["scale"] = "sqrt(d_k)" if plan.scaled else "none"
        settings |= {"mask": "causal"} if plan.masked else {}
    if plan.kind == "feed_forward":
        settings["activation"] = "relu"
    return settings


def _plain(matrix: Floats, columns: bool) -> list[list[int | float]]:
    """Turn a matrix to the file's convention, whole numbers without a point."""
    turned = matrix.T if columns else matrix
    return [[int(v) if v == int(v) else v for v in row] for row in turned.tolist()]


def is_pleasant(problem: Problem) -> bool:
    """Say whether no softmax is decided beforehand and no norm divides by next to nothing."""
    for step in problem.steps:
        if isinstance(step.op, Normalised):
            scores = problem.exact[step.op.x].mid
            if dullness(scores, np.isfinite(scores)) > 0:
                return False
        elif isinstance(step.op, Variance) and problem.exact[step.key].mid.min() < _LEAST_VARIANCE:
            return False
    return True
