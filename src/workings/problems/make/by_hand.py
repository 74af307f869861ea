"""Working a problem as a hand does: rounding at every step, and going on with what is rounded."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.problems.cells import Cells, Floats
from workings.problems.kinds import Step
from workings.problems.problem import Problem

Texts: TypeAlias = list[list[str]]  # a matrix as it is written, in the problem's convention
Env: TypeAlias = dict[str, Cells]


def fixed(value: float, decimals: int) -> str:
    """Write a number with so many decimals.

    >>> fixed(0.46838, 3), fixed(-0.0001, 3), fixed(float("-inf"), 3)
    ('0.468', '0.000', '-inf')
    """
    if np.isneginf(value):
        return "-inf"
    text = f"{value:.{decimals}f}"
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def written(matrix: Floats, decimals: int) -> Texts:
    """Write a matrix: as whole numbers where all of it is whole, else everywhere with decimals."""
    places = 0 if is_whole(matrix) else decimals
    return [[fixed(float(value), places) for value in row] for row in matrix]


def is_whole(matrix: Floats) -> bool:
    """Say whether there is nothing to round."""
    finite = matrix[np.isfinite(matrix)]
    return bool((np.abs(finite - np.round(finite)) < 1e-9).all())


def short(matrix: Floats, decimals: int) -> Texts:
    """Write a matrix with no more decimals than it needs, up to so many.

    >>> short(np.array([[0.5, 1.0]]), 3), short(np.array([[1 / 3, 1.0]]), 3)
    ([['0.5', '1.0']], [['0.333', '1.000']])
    """
    for places in range(decimals):
        if is_whole(matrix * 10**places):
            return [[fixed(float(value), places) for value in row] for row in matrix]
    return [[fixed(float(value), decimals) for value in row] for row in matrix]


def asked(problem: Problem) -> list[Step]:
    """List the steps that are asked for: those that the problem has."""
    return [step for step in problem.steps if step.shown and step.claimable]


def right(problem: Problem, decimals: int) -> dict[str, Texts]:
    """Write every step, exact but for its own rounding: what belongs in a key."""
    return {
        step.key: written(problem.turn(problem.exact[step.key].mid), decimals)
        for step in asked(problem)
    }


def worked(
    problem: Problem,
    decimals: int,
    spoil: Callable[[Step, Env], Floats | None] | None = None,
    loosely: Random | None = None,
) -> Env:
    """Work a problem with rounding at every step; cells carry how far rounding may take them off.

    `spoil` may put a wrong matrix in the place of a step; the rest goes on from it. With `loosely`
    every number is rounded up or down, as that has it.
    """
    env = dict(problem.given)
    steps = {step.key for step in asked(problem)}
    for step in problem.steps:
        wrong = spoil(step, env) if spoil is not None else None
        cells = step.op.compute(env) if wrong is None else Cells.exact(wrong)
        if step.key in steps:
            cells = rounded(cells.mid, decimals, loosely)
        env[step.key] = cells
    return env


def rounded(matrix: Floats, decimals: int, loosely: Random | None = None) -> Cells:
    """Take a matrix as it would be written, each cell perhaps one unit off."""
    unit = 0.0 if is_whole(matrix) else 10.0**-decimals
    if loosely is not None and unit:
        ups = np.array([[loosely.random() < 0.5 for _ in row] for row in matrix])
        steps = np.round(matrix / unit, 6)  # what is exact stays as it is
        matrix = np.where(ups, np.ceil(steps), np.floor(steps)) * unit
    value = np.array([[float(text) for text in row] for row in written(matrix, decimals)])
    return Cells(value, value - unit, value + unit, np.zeros(value.shape, dtype=np.bool_))


def nested(problem: Problem, flat: dict[str, Texts]) -> dict[str, Any]:
    """Put claims by key (`scores.2`, `norm_1.mean`) under the tables that a file has for them."""
    table: dict[str, Any] = {}
    for step in asked(problem):
        if step.key in flat:
            *prefix, name = step.name.split(".")
            part = [] if step.part is None else [str(problem.kind.parts), str(step.part)]
            place = table
            for level in (*prefix, *part):
                place = place.setdefault(level, {})
            place[name] = flat[step.key]
    return table
