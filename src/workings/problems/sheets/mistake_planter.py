"""Plant one mistake in a correct solution, for sheets on which students find it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from workings.problems.check import Report
from workings.problems.intervals import Floats
from workings.problems.kinds import Step
from workings.problems.ops import Env
from workings.problems.problem import Problem
from workings.problems.sheets.mistake_space import list_step_mistakes
from workings.problems.sheets.rounded_solution import (
    CellTexts,
    format_fixed,
    format_matrix,
    is_integer_matrix,
    make_answer_key,
    nest_claims,
    solve_rounded,
)
from workings.problems.slips import list_term_slips
from workings.problems.solution import format_step_title

SINGLE_CELL_MISTAKES = (
    "arithmetic-slip",
    "sign-lost",
    "digits-swapped",
    "decimal-point-moved",
    "copied-from-neighbour",
)
_MAX_VALUE = 1000  # a larger number would be conspicuous, unless the right one is as large
_MAX_TRIES = 6  # variants of one mistake to try before the next mistake


@dataclass(frozen=True)
class PlantedMistake:
    """A planted mistake; the cell is counted from 0 in the problem's convention.

    `equivalent_names`: other mistakes that lead to the same numbers and count as correct, too.
    """

    name: str
    key: str
    step_title: str
    cell: tuple[int, int]
    claimed: str
    correct: str
    description: str
    equivalent_names: tuple[str, ...]
    claims: dict[str, CellTexts]


class MistakePlanter:
    """Plants a mistake in the solution of one problem."""

    def __init__(self, problem: Problem, table: dict[str, Any], decimals: int) -> None:
        self.problem, self.table, self.decimals = problem, table, decimals

    @cached_property
    def correct_matrices(self) -> Env:
        """Every matrix without a mistake, rounded at every step."""
        return solve_rounded(self.problem, self.decimals)

    def plant(self, rng: Random, names: list[str]) -> PlantedMistake | None:
        """Plant the first of these mistakes that is possible and that the checker finds."""
        for name in names:
            variants = list(self._list_variants(rng, name))
            rng.shuffle(variants)
            for step, matrix in variants[:_MAX_TRIES]:
                planted = self._complete_solution(name, step, matrix)
                if planted is not None:
                    return planted
        return None

    def _list_variants(self, rng: Random, name: str) -> Iterator[tuple[Step, Floats]]:
        """Yield the variants of a mistake: the step and its wrong matrix."""
        if name not in SINGLE_CELL_MISTAKES:
            for mistake in list_step_mistakes(self.problem):
                if mistake.name == name:
                    step = self.problem.get_step(mistake.key)
                    yield step, mistake.op.compute(self.correct_matrices).mid
            return
        for step in self.problem.asked_steps:
            for wrong in self._corrupt_cell(rng, step, name):
                yield step, wrong

    def _corrupt_cell(self, rng: Random, step: Step, name: str) -> Iterator[Floats]:
        """Yield a step with a random cell corrupted in each way that changes its text."""
        matrix = self.correct_matrices[step.key].mid
        places = 0 if is_integer_matrix(matrix) else self.decimals
        i, j = (rng.randrange(side) for side in matrix.shape)
        value = float(matrix[i, j])
        if not np.isfinite(value):
            return
        if name == "arithmetic-slip":
            terms = step.op.terms(self.correct_matrices, i, j)
            slips = [] if terms is None else [number for number, _ in list_term_slips(terms)]
            numbers = [rng.choice(slips)] if slips else []
        else:
            numbers = list(_corrupt_number(name, value, places, _get_neighbors(matrix, i, j)))
        if step.labels:  # only another of the words
            numbers = [number for number in numbers if number in range(1, len(step.labels) + 1)]
        for number in numbers:
            if format_fixed(number, places) != format_fixed(value, places):
                wrong = matrix.copy()
                wrong[i, j] = number
                yield wrong

    def _complete_solution(self, name: str, step: Step, matrix: Floats) -> PlantedMistake | None:
        """Complete the solution from a wrong step; None if the checker finds another mistake."""
        claims = self._make_claims(step, matrix)
        if claims is None:
            return None
        report = Problem(**{**self.table, "claim": nest_claims(self.problem, claims)}).check()
        first = report.first
        if first is None or first.key != step.key or not _is_only_wrong_step(report, step):
            return None
        if name not in [cause.name for cause in first.causes]:
            return None
        correct = self.problem.orient(self.correct_matrices[step.key].mid)
        texts = format_matrix(correct, self.decimals)
        if first.cell != _find_first_difference(claims[step.key], texts):
            return None
        row, column = first.cell
        return PlantedMistake(
            name,
            step.key,
            format_step_title(step, self.problem),
            first.cell,
            first.claimed,
            make_answer_key(self.problem, self.decimals)[step.key][row][column],
            next(cause.description for cause in first.causes if cause.name == name),
            tuple(cause.name for cause in first.causes if cause.name != name),
            claims,
        )

    def _get_exact(self, step: Step) -> Floats:
        return np.nan_to_num(self.problem.exact_matrices[step.key].mid, neginf=0.0)

    def _make_claims(self, step: Step, matrix: Floats) -> dict[str, CellTexts] | None:
        """Return all steps computed from a wrong step; None if a number is infinite or large."""

        def override(other: Step, env: Env) -> Floats | None:  # noqa: ARG001
            return matrix if other.key == step.key else None

        with np.errstate(all="ignore"):
            env = solve_rounded(self.problem, self.decimals, override)
        claims = {}
        for asked_step in self.problem.asked_steps:
            mid = env[asked_step.key].mid
            finite = mid[~np.isneginf(mid)]
            largest = max(_MAX_VALUE, 4 * float(np.abs(self._get_exact(asked_step)).max()))
            if not (np.isfinite(finite).all() and (np.abs(finite) <= largest).all()):
                return None
            claims[asked_step.key] = format_matrix(self.problem.orient(mid), self.decimals)
        return claims


def _is_only_wrong_step(report: Report, step: Step) -> bool:
    """Return True if no other step has wrong cells; cells that follow from it may differ."""
    wrong = [checked.step.key for checked in report.steps if checked.verdict == "wrong"]
    return all(key == step.key for key in wrong)


def _find_first_difference(claimed: CellTexts, correct: CellTexts) -> tuple[int, int] | None:
    for i, (row, other) in enumerate(zip(claimed, correct, strict=True)):
        for j, (a, b) in enumerate(zip(row, other, strict=True)):
            if float(a) != float(b):
                return i, j
    return None


def _corrupt_number(
    name: str, value: float, places: int, neighbors: list[float]
) -> Iterator[float]:
    """Yield the numbers that a slip in writing may turn a value into."""
    if name == "sign-lost":
        yield -value
    elif name == "digits-swapped":
        text = format_fixed(value, places)
        positions = [k for k, c in enumerate(text) if c.isdigit()]
        for a, b in pairwise(positions):
            yield float(text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :])
    elif name == "decimal-point-moved":
        yield value * 10
    else:
        yield from neighbors  # copied-from-neighbour


def _get_neighbors(matrix: Floats, i: int, j: int) -> list[float]:
    """Return the finite numbers left, right, above and below."""
    adjacent = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
    rows, columns = matrix.shape
    values = [float(matrix[a, b]) for a, b in adjacent if 0 <= a < rows and 0 <= b < columns]
    return [value for value in values if np.isfinite(value)]
