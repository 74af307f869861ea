"""Working a problem as a hand does: rounding at every step, and going on with what is rounded."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.problem import Problem

CellTexts: TypeAlias = list[list[str]]  # a matrix as it is written, in the problem's convention
Env: TypeAlias = dict[str, IntervalMatrix]


def format_fixed(value: float, decimals: int) -> str:
    """Write a number with so many decimals.

    >>> format_fixed(0.46838, 3), format_fixed(-0.0001, 3), format_fixed(float("-inf"), 3)
    ('0.468', '0.000', '-inf')
    """
    if np.isneginf(value):
        return "-inf"
    text = f"{value:.{decimals}f}"
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def format_matrix(matrix: Floats, decimals: int) -> CellTexts:
    """Write a matrix: as whole numbers where all of it is whole, else everywhere with decimals."""
    places = 0 if is_integer_matrix(matrix) else decimals
    return [[format_fixed(float(value), places) for value in row] for row in matrix]


def is_integer_matrix(matrix: Floats) -> bool:
    """Say whether there is nothing to round."""
    finite = matrix[np.isfinite(matrix)]
    return bool((np.abs(finite - np.round(finite)) < 1e-9).all())


def format_shortest(matrix: Floats, decimals: int) -> CellTexts:
    """Write a matrix with no more decimals than it needs, up to so many.

    >>> format_shortest(np.array([[0.5, 1.0]]), 3), format_shortest(np.array([[1 / 3, 1.0]]), 3)
    ([['0.5', '1.0']], [['0.333', '1.000']])
    """
    for places in range(decimals):
        if is_integer_matrix(matrix * 10**places):
            return [[format_fixed(float(value), places) for value in row] for row in matrix]
    return [[format_fixed(float(value), decimals) for value in row] for row in matrix]


def list_asked_steps(problem: Problem) -> list[Step]:
    """List the steps that are asked for: those that the problem has."""
    return [step for step in problem.steps if step.is_shown and step.is_claimable]


def make_answer_key(problem: Problem, decimals: int) -> dict[str, CellTexts]:
    """Write every step, exact but for its own rounding: what belongs in a key."""
    return {
        step.key: format_matrix(problem.orient(problem.exact_matrices[step.key].mid), decimals)
        for step in list_asked_steps(problem)
    }


def solve_rounded(
    problem: Problem,
    decimals: int,
    override: Callable[[Step, Env], Floats | None] | None = None,
    rounding_rng: Random | None = None,
) -> Env:
    """Work a problem with rounding at every step; cells carry how far rounding may take them off.

    `spoil` may put a wrong matrix in the place of a step; the rest goes on from it. With `loosely`
    every number is rounded up or down, as that has it.
    """
    env = dict(problem.given)
    steps = {step.key for step in list_asked_steps(problem)}
    for step in problem.steps:
        wrong = override(step, env) if override is not None else None
        cells = step.op.compute(env) if wrong is None else IntervalMatrix.exact(wrong)
        if step.key in steps:
            cells = round_matrix(cells.mid, decimals, rounding_rng)
        env[step.key] = cells
    return env


def round_matrix(
    matrix: Floats, decimals: int, rounding_rng: Random | None = None
) -> IntervalMatrix:
    """Take a matrix as it would be written, each cell perhaps one unit off."""
    unit = 0.0 if is_integer_matrix(matrix) else 10.0**-decimals
    if rounding_rng is not None and unit:
        ups = np.array([[rounding_rng.random() < 0.5 for _ in row] for row in matrix])
        steps = np.round(matrix / unit, 6)  # what is exact stays as it is
        matrix = np.where(ups, np.ceil(steps), np.floor(steps)) * unit
    value = np.array([[float(text) for text in row] for row in format_matrix(matrix, decimals)])
    return IntervalMatrix(value, value - unit, value + unit, np.zeros(value.shape, dtype=np.bool_))


def nest_claims(problem: Problem, flat: dict[str, CellTexts]) -> dict[str, Any]:
    """Put claims by key (`scores.2`, `norm_1.mean`) under the tables that a file has for them."""
    table: dict[str, Any] = {}
    for step in list_asked_steps(problem):
        if step.key in flat:
            *prefix, name = step.name.split(".")
            part = (
                []
                if step.part_index is None
                else [str(problem.kind.part_name), str(step.part_index)]
            )
            place = table
            for level in (*prefix, *part):
                place = place.setdefault(level, {})
            place[name] = flat[step.key]
    return table
