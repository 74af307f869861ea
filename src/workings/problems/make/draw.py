"""Drawing small numbers: matrices that a person can work with, from a generator with a seed."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import numpy as np

from workings.problems.cells import Floats
from workings.views.notation import Real

Given: TypeAlias = dict[str, Floats]

SMALL = (-1, 0, 0, 1, 1, 2, 2, 3)  # inputs; repeated: drawn more often
SMALLER = (-1, 0, 0, 0, 1, 1, 2)  # inputs, where many are added up
SIGNS = (-1, 1, 1, 2)  # weights, where they are not zero
TENTHS = (-0.8, -0.6, -0.5, -0.3, -0.2, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9, 1.0)  # of a gate
HALVES = (-1.0, -0.5, 0.5, 0.5, 1.0)  # weights in front of a tanh, which soon has enough


class NoLuckError(Exception):
    """Nothing suitable was drawn in many tries: start again with other numbers."""


def until(draw: Callable[[], Floats], suits: Callable[[Floats], bool], tries: int = 200) -> Floats:
    """Draw until it suits."""
    for _ in range(tries):
        drawn = draw()
        if suits(drawn):
            return drawn
    raise NoLuckError


def improve(
    rng: Random,
    start: Floats,
    fault: Callable[[Floats], float],
    numbers: Sequence[Real] = (*SIGNS, 0, 0),
    steps: int = 300,
) -> Floats:
    """Change one cell after the other for the better until there is no fault left.

    Waiting for whole matrices to suit by chance takes too long where they have to suit many tokens.
    """
    best, least = start, fault(start)
    for _ in range(steps):
        if least == 0:
            return best
        changed = best.copy()
        changed[rng.randrange(len(best)), rng.randrange(len(best[0]))] = rng.choice(numbers)
        now = fault(changed)
        if now <= least:
            best, least = changed, now
    raise NoLuckError


def inputs(rng: Random, rows: int, columns: int, numbers: Sequence[Real] = SMALL) -> Floats:
    """Draw input vectors: no two alike, none of them zero or constant, no column without use."""
    return until(
        lambda: _matrix(rng, rows, columns, numbers),
        lambda x: _varied(x) and bool((x != x[:, :1]).any(1).all()) and bool(x.any(0).all()),
    )


def weight(
    rng: Random, rows: int, columns: int, numbers: Sequence[Real] = SIGNS, filled: float = 0.0
) -> Floats:
    """Draw a weight with some zeros: no empty row or column, and not its own transpose.

    `filled`: the share of cells that are not zero; unless told, about two in each column, so that
    products stay small however wide the input is.
    """
    share = filled or min(0.75, 2 / rows)

    def draw() -> Floats:
        w = np.array(
            [
                [rng.choice(numbers) if rng.random() < share else 0 for _ in range(columns)]
                for _ in range(rows)
            ],
            dtype=np.float64,
        )
        for i in np.flatnonzero(~w.any(1)):
            w[i, rng.randrange(columns)] = rng.choice(numbers)
        for j in np.flatnonzero(~w.any(0)):
            w[rng.randrange(rows), j] = rng.choice(numbers)
        return w

    return until(draw, useful)


def useful(w: Floats) -> bool:
    """Say whether a weight has no empty row or column and is not its own transpose."""
    symmetric = w.shape[0] == w.shape[1] and bool((w == w.T).all())
    return bool(w.any(0).all() and w.any(1).all()) and not symmetric


def vector(rng: Random, width: int, numbers: Sequence[Real]) -> Floats:
    """Draw a single row, not zero and not constant."""
    return until(
        lambda: _matrix(rng, 1, width, numbers),
        lambda v: bool(v.any()) and (width == 1 or bool((v != v[0, 0]).any())),
    )


def small(matrix: Floats, largest: float) -> bool:
    """Say whether a result is still easy to go on with: small, no row zero, no two rows alike."""
    return bool((np.abs(matrix) <= largest).all()) and _varied(matrix)


def _varied(x: Floats) -> bool:
    return bool(x.any(1).all()) and len({tuple(row) for row in x.tolist()}) == len(x)


def _matrix(rng: Random, rows: int, columns: int, numbers: Sequence[Real]) -> Floats:
    return np.array(
        [[rng.choice(numbers) for _ in range(columns)] for _ in range(rows)], dtype=np.float64
    )
