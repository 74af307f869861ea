"""Drawing attention problems: whole numbers up to the scores, and weights that are no certainty."""

from random import Random

import numpy as np

from workings.problems.cells import Bools, Floats
from workings.problems.make.draw import (
    SMALL,
    SMALLER,
    Given,
    improve,
    inputs,
    small,
    until,
    useful,
    weight,
)
from workings.problems.make.plan import Plan

LEAST_WEIGHT = 0.03  # of what may be looked at; so none has more than 0.97
_LEAST_SPREAD = 0.05  # between the weights of a row, and between rows
_LARGEST_PROJECTED, _LARGEST_SCORE = 6.0, 25.0


def draw_attention(rng: Random, plan: Plan) -> Given:
    """Draw X (and the context) and the weights, each to suit what was drawn before it."""
    n, d, width = plan.tokens, plan.width, plan.heads * plan.d_k
    numbers = SMALL if n * d < 13 else SMALLER
    given = {"X": inputs(rng, n, d, numbers)}
    asked = given["X"]
    if plan.context:
        asked = given["context"] = inputs(rng, plan.context, d, numbers)
    allowed = allowed_by(plan)

    given["W_Q"], given["W_K"] = _queries_and_keys(rng, plan, given["X"], asked, allowed)
    given["W_V"] = until(
        lambda: weight(rng, d, width), lambda w: small(asked @ w, _LARGEST_PROJECTED)
    )
    if plan.heads > 1 or plan.kind == "block":
        given["W_O"] = weight(rng, width, d)
    return given


def allowed_by(plan: Plan) -> Bools:
    """Which token may look at which."""
    allowed = np.ones((plan.tokens, plan.context or plan.tokens), dtype=np.bool_)
    return np.tril(allowed) if plan.masked else allowed


def _queries_and_keys(
    rng: Random, plan: Plan, asking: Floats, asked: Floats, allowed: Bools
) -> tuple[Floats, Floats]:
    """Draw W_Q and W_K together, to suit their scores; no head's depend on another's."""
    heads = []
    for _ in range(plan.heads):

        def fault(both: Floats) -> float:
            w_q, w_k = np.split(both, 2, axis=1)
            queries, keys = asking @ w_q, asked @ w_k
            scores = queries @ keys.T
            useless = (not useful(w_q)) + (not useful(w_k))
            large = (not small(queries, _LARGEST_PROJECTED)) + (not small(keys, _LARGEST_PROJECTED))
            too_large = np.maximum(np.abs(scores) - _LARGEST_SCORE, 0).sum()
            return float(useless + large + too_large + dullness(scores / plan.scale, allowed))

        drawn = [weight(rng, plan.width, plan.d_k) for _ in range(2)]
        heads.append(np.split(improve(rng, np.concatenate(drawn, axis=1), fault), 2, axis=1))
    w_q, w_k = (np.concatenate(blocks, axis=1) for blocks in zip(*heads, strict=True))
    return w_q, w_k


def dullness(scores: Floats, allowed: Bools) -> float:
    """Measure how far softmaxes are from being worth working out; 0 is as it should be.

    None may be decided beforehand or have nothing to decide, and most queries get different ones.
    """
    several = allowed.sum(1) > 1
    seen = np.where(allowed, scores, -np.inf)[several]
    top = seen.max(1, keepdims=True)
    log_weights = seen - top - np.log(np.exp(seen - top).sum(1, keepdims=True))
    weights, least = np.exp(log_weights), np.where(allowed[several], log_weights, np.inf).min(1)
    saturated = np.maximum(np.log(LEAST_WEIGHT) - least, 0).sum()
    undecided = (weights.max(1) - np.exp(least) < _LEAST_SPREAD).sum()
    gaps = np.abs(weights[:, None] - weights[None]).max(-1)  # between each two queries
    alike = ((gaps < _LEAST_SPREAD).sum() - len(gaps)) // 2
    return float(saturated + undecided + max(alike - max(len(gaps) - 2, 0), 0))
