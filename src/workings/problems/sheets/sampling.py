"""Draw the matrices of problems from a seeded generator, with numbers that suit work by hand."""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from workings.problems.intervals import Bools, Floats
from workings.problems.notation import Real

INPUT_VALUES = (-1, 0, 0, 1, 1, 2, 2, 3)  # repeated values are drawn more often
SMALL_INPUT_VALUES = (-1, 0, 0, 0, 1, 1, 2)  # for long sums
WEIGHT_VALUES = (-1, 1, 1, 2)  # of the nonzero weights
GATE_WEIGHT_VALUES = (
    *(-0.8, -0.6, -0.5, -0.3, -0.2, 0.1, 0.2),
    *(0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0),
)
BIAS_VALUES = (-1.0, -0.5, 0.0, 0.5, 1.0)
TANH_WEIGHT_VALUES = (-1.0, -0.5, 0.5, 0.5, 1.0)  # small, so that tanh does not saturate


class SamplingError(Exception):
    """No acceptable matrix was drawn in many tries."""


def draw_until(
    draw: Callable[[], Floats], accept: Callable[[Floats], bool], max_tries: int = 200
) -> Floats:
    """Draw until a matrix is accepted."""
    for _ in range(max_tries):
        matrix = draw()
        if accept(matrix):
            return matrix
    raise SamplingError


def hill_climb(
    rng: Random,
    start: Floats,
    penalty: Callable[[Floats], float],
    values: Sequence[Real] = (*WEIGHT_VALUES, 0, 0),
    steps: int = 300,
) -> Floats:
    """Change random cells, keeping changes that do not increase the penalty, until it is 0.

    With many tokens, drawing entire matrices until one is accepted takes too long.
    """
    best, best_penalty = start, penalty(start)
    for _ in range(steps):
        if best_penalty == 0:
            return best
        candidate = best.copy()
        candidate[rng.randrange(len(best)), rng.randrange(len(best[0]))] = rng.choice(values)
        candidate_penalty = penalty(candidate)
        if candidate_penalty <= best_penalty:
            best, best_penalty = candidate, candidate_penalty
    raise SamplingError


def draw_inputs(
    rng: Random, rows: int, columns: int, values: Sequence[Real] = INPUT_VALUES
) -> Floats:
    """Draw distinct input vectors: none is zero or constant, and no column is zero."""

    def accept(x: Floats) -> bool:
        is_varied = (x != x[:, :1]).any(1).all() and x.any(0).all()
        return _has_distinct_rows(x) and bool(is_varied)

    return draw_until(lambda: _draw_matrix(rng, rows, columns, values), accept)


def draw_weight(
    rng: Random,
    rows: int,
    columns: int,
    values: Sequence[Real] = WEIGHT_VALUES,
    density: float = 0.0,
) -> Floats:
    """Draw a sparse weight without zero rows or columns that is not symmetric.

    `density`: the share of nonzero cells; by default about two per column, so that products stay
    small for wide inputs.
    """
    density = density or min(0.75, 2 / rows)

    def draw() -> Floats:
        w = np.array(
            [
                [rng.choice(values) if rng.random() < density else 0 for _ in range(columns)]
                for _ in range(rows)
            ],
            dtype=np.float64,
        )
        for i in np.flatnonzero(~w.any(1)):
            w[i, rng.randrange(columns)] = rng.choice(values)
        for j in np.flatnonzero(~w.any(0)):
            w[rng.randrange(rows), j] = rng.choice(values)
        return w

    return draw_until(draw, is_useful_weight)


def is_useful_weight(w: Floats) -> bool:
    """Return True if a weight has no zero row or column and is not symmetric."""
    is_symmetric = w.shape[0] == w.shape[1] and bool((w == w.T).all())
    return bool(w.any(0).all() and w.any(1).all()) and not is_symmetric


def draw_vector(rng: Random, width: int, values: Sequence[Real]) -> Floats:
    """Draw a single row that is neither zero nor constant."""
    return draw_until(
        lambda: _draw_matrix(rng, 1, width, values),
        lambda v: bool(v.any()) and (width == 1 or bool((v != v[0, 0]).any())),
    )


def is_small(matrix: Floats, max_abs: float) -> bool:
    """Return True if a result has small numbers and distinct rows, none of them zero."""
    return bool((np.abs(matrix) <= max_abs).all()) and _has_distinct_rows(matrix)


def _has_distinct_rows(x: Floats) -> bool:
    return bool(x.any(1).all()) and len({tuple(row) for row in x.tolist()}) == len(x)


def _draw_matrix(rng: Random, rows: int, columns: int, values: Sequence[Real]) -> Floats:
    return np.array(
        [[rng.choice(values) for _ in range(columns)] for _ in range(rows)], dtype=np.float64
    )


MIN_WEIGHT = 0.03  # of each visible token; so no weight exceeds 0.97
MAX_PREACTIVATION = 2.2  # beyond it, tanh and sigmoid saturate
_MIN_SPREAD = 0.05  # within the weights of a row, and between rows


def softmax_penalty(scores: Floats, allowed: Bools) -> float:
    """Return how far the softmaxes are from being instructive; 0 is fine.

    Saturated and uniform rows are penalized, and so are more than a few queries with equal weights.
    """
    has_choice = allowed.sum(1) > 1
    visible = np.where(allowed, scores, -np.inf)[has_choice]
    top = visible.max(1, keepdims=True)
    log_weights = visible - top - np.log(np.exp(visible - top).sum(1, keepdims=True))
    smallest = np.where(allowed[has_choice], log_weights, np.inf).min(1)
    weights = np.exp(log_weights)
    saturated = np.maximum(np.log(MIN_WEIGHT) - smallest, 0).sum()
    uniform = (weights.max(1) - np.exp(smallest) < _MIN_SPREAD).sum()
    distances = np.abs(weights[:, None] - weights[None]).max(-1)  # [query, query]
    equal_pairs = ((distances < _MIN_SPREAD).sum() - len(distances)) // 2
    return float(saturated + uniform + max(equal_pairs - max(len(distances) - 2, 0), 0))


def is_unsaturated(preactivation: Floats) -> bool:
    """Return True if tanh and sigmoid of these numbers are not close to their limits."""
    return bool((np.abs(preactivation) <= MAX_PREACTIVATION).all() and preactivation.any())


def sigmoid(x: Floats) -> Floats:
    """Return the logistic function of each number."""
    return 1 / (1 + np.exp(-x))
