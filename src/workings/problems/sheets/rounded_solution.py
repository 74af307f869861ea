"""Solve a problem as by hand: round at every step and continue with the rounded numbers."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.labels import get_label
from workings.problems.ops import Env
from workings.problems.problem import Problem
from workings.problems.problem_file import format_claim_path, set_nested

CellTexts: TypeAlias = list[list[str]]  # a matrix as written, in the problem's convention


def format_fixed(value: float, decimals: int) -> str:
    """Format a number with a fixed number of decimals; zero has no sign.

    >>> format_fixed(0.46838, 3), format_fixed(-0.0001, 3), format_fixed(float("-inf"), 3)
    ('0.468', '0.000', '-inf')
    """
    if np.isneginf(value):
        return "-inf"
    text = f"{value:.{decimals}f}"
    return text if any(digit in text for digit in "123456789") else text.removeprefix("-")


def format_matrix(matrix: Floats, decimals: int) -> CellTexts:
    """Format a matrix: as integers if all cells are, otherwise all with decimals."""
    places = 0 if is_integer_matrix(matrix) else decimals
    return [[format_fixed(float(value), places) for value in row] for row in matrix]


def is_integer_matrix(matrix: Floats) -> bool:
    """Return True if all finite cells are integers."""
    finite = matrix[np.isfinite(matrix)]
    return bool((np.abs(finite - np.rint(finite)) < 1e-9).all())


def format_shortest(matrix: Floats, decimals: int) -> CellTexts:
    """Format a matrix with the fewest decimals that represent it exactly, at most `decimals`.

    >>> format_shortest(np.array([[0.5, 1.0]]), 3), format_shortest(np.array([[1 / 3, 1.0]]), 3)
    ([['0.5', '1.0']], [['0.333', '1.000']])
    """
    for places in range(decimals):
        if is_integer_matrix(matrix * 10**places):
            return [[format_fixed(float(value), places) for value in row] for row in matrix]
    return [[format_fixed(float(value), decimals) for value in row] for row in matrix]


def make_answer_key(problem: Problem, decimals: int) -> dict[str, CellTexts]:
    """Return every asked step as text, computed exactly and rounded only for display."""
    return {
        step.key: format_step(
            step, problem.orient(problem.exact_matrices[step.key].mid), decimals, format_matrix
        )
        for step in problem.asked_steps
    }


def format_step(
    step: Step,
    matrix: Floats,
    decimals: int,
    format_numbers: Callable[[Floats, int], CellTexts],
) -> CellTexts:
    """Format the matrix of a step: its numbers, or the words that they stand for."""
    if step.labels:
        return [[get_label(float(value), step.labels) for value in row] for row in matrix]
    return format_numbers(matrix, decimals)


def solve_rounded(
    problem: Problem,
    decimals: int,
    override: Callable[[Step, Env], Floats | None] | None = None,
    rounding_rng: Random | None = None,
) -> dict[str, IntervalMatrix]:
    """Solve a problem with rounding at every step; the ranges include the rounding errors.

    `override` may return a wrong matrix for a step; later steps are computed from it. With a
    `rounding_rng` every number is rounded up or down at random.
    """
    env = dict(problem.given)
    asked_keys = {step.key for step in problem.asked_steps}
    for step in problem.steps:
        wrong = override(step, env) if override is not None else None
        matrix = step.op.compute(env) if wrong is None else IntervalMatrix.exact(wrong)
        if step.key in asked_keys:
            matrix = round_matrix(matrix.mid, decimals, rounding_rng)
        env[step.key] = matrix
    return env


def round_matrix(
    matrix: Floats, decimals: int, rounding_rng: Random | None = None
) -> IntervalMatrix:
    """Return a matrix as it would be written, with a range of one unit around each cell."""
    unit = 0.0 if is_integer_matrix(matrix) else 10.0**-decimals
    if rounding_rng is not None and unit:
        rounds_up = np.array([[rounding_rng.random() < 0.5 for _ in row] for row in matrix])
        multiples = np.round(matrix / unit, 6)  # exact multiples are not rounded
        matrix = np.where(rounds_up, np.ceil(multiples), np.floor(multiples)) * unit
    value = np.array([[float(text) for text in row] for row in format_matrix(matrix, decimals)])
    return IntervalMatrix(value, value - unit, value + unit, np.zeros(value.shape, dtype=np.bool_))


def nest_claims(problem: Problem, claims: Mapping[str, CellTexts]) -> dict[str, Any]:
    """Return claims by key (`scores.2`, `norm_1.mean`) as the nested tables of a problem file."""
    table: dict[str, Any] = {}
    for step in problem.asked_steps:
        if step.key in claims:
            path = format_claim_path(problem.kind, step.key).split(".")
            set_nested(table, path, claims[step.key])
    return table
