"""Planting one mistake in a worked solution, so that there is something to find."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from workings.problems.cells import Floats
from workings.problems.check import Report
from workings.problems.kinds import Step
from workings.problems.make.by_hand import (
    Env,
    Texts,
    asked,
    fixed,
    is_whole,
    nested,
    right,
    worked,
    written,
)
from workings.problems.make.catalogue import wrong_ways
from workings.problems.problem import Problem
from workings.problems.solve import title_of

OF_ONE_CELL = (
    "arithmetic-slip",
    "sign-lost",
    "digits-swapped",
    "decimal-point-moved",
    "copied-from-neighbour",
)
_LARGEST = 1000  # a wrong number beyond that gives itself away
_TRIES = 6  # places to plant one name at, before the next name has its turn


@dataclass(frozen=True)
class Planted:
    """What was planted where; the cell is counted from 0 in the problem's own convention.

    `also`: other mistakes that lead to the same numbers; who names one of them is right, too.
    """

    name: str
    key: str
    where: str
    cell: tuple[int, int]
    claimed: str
    instead_of: str
    says: str
    also: tuple[str, ...]
    claims: dict[str, Texts]


class Bed:
    """A problem that a mistake is to be planted in."""

    def __init__(self, problem: Problem, table: dict[str, Any], decimals: int) -> None:
        self.problem, self.table, self.decimals = problem, table, decimals

    @cached_property
    def honest(self) -> Env:
        """Everything as it is without a mistake, rounded at every step."""
        return worked(self.problem, self.decimals)

    def plant(self, rng: Random, names: list[str]) -> Planted | None:
        """Plant the first of these mistakes that fits, and that the check finds where it is."""
        for name in names:
            ways = list(self._ways(rng, name))
            rng.shuffle(ways)
            for step, matrix in ways[:_TRIES]:
                planted = self._carry_on(name, step, matrix)
                if planted is not None:
                    return planted
        return None

    def _ways(self, rng: Random, name: str) -> Iterator[tuple[Step, Floats]]:
        """List the ways to make a mistake: in which step, and what it then is."""
        if name not in OF_ONE_CELL:
            for mistake in wrong_ways(self.problem):
                if mistake.name == name:
                    step = self.problem.step(mistake.key)
                    yield step, mistake.op.compute(self.honest).mid
            return
        for step in asked(self.problem):
            for wrong in self._one_cell(rng, step, name):
                yield step, wrong

    def _one_cell(self, rng: Random, step: Step, name: str) -> Iterator[Floats]:
        """Spoil one cell of a step, somewhere, if it lends itself to that."""
        matrix = self.honest[step.key].mid
        places = 0 if is_whole(matrix) else self.decimals
        i, j = (rng.randrange(side) for side in matrix.shape)
        value = float(matrix[i, j])
        if not np.isfinite(value):
            return
        for spoilt in _spoilt(rng, name, value, places, _beside(matrix, i, j)):
            if fixed(spoilt, places) != fixed(value, places):
                wrong = matrix.copy()
                wrong[i, j] = spoilt
                yield wrong

    def _carry_on(self, name: str, step: Step, matrix: Floats) -> Planted | None:
        """Work the rest out from the spoilt step; None where the check sees it otherwise."""
        claims = self._claims(step, matrix)
        if claims is None:
            return None
        report = Problem(**{**self.table, "claim": nested(self.problem, claims)}).check()
        first = report.first
        if first is None or first.key != step.key or not _only_there(report, step):
            return None
        if name not in [cause.name for cause in first.causes]:
            return None
        honest = written(self.problem.turn(self.honest[step.key].mid), self.decimals)
        if first.cell != _first_difference(claims[step.key], honest):
            return None
        row, column = first.cell
        return Planted(
            name,
            step.key,
            title_of(step, self.problem),
            first.cell,
            first.claimed,
            right(self.problem, self.decimals)[step.key][row][column],
            next(cause.says for cause in first.causes if cause.name == name),
            tuple(cause.name for cause in first.causes if cause.name != name),
            claims,
        )

    def _claims(self, step: Step, matrix: Floats) -> dict[str, Texts] | None:
        def spoil(other: Step, env: Env) -> Floats | None:  # noqa: ARG001
            return matrix if other.key == step.key else None

        with np.errstate(all="ignore"):
            env = worked(self.problem, self.decimals, spoil)
        claims = {}
        for one in asked(self.problem):
            mid = env[one.key].mid
            finite = mid[~np.isneginf(mid)]
            if not (np.isfinite(finite).all() and (np.abs(finite) <= _LARGEST).all()):
                return None
            claims[one.key] = written(self.problem.turn(mid), self.decimals)
        return claims


def _only_there(report: Report, step: Step) -> bool:
    """Say whether all that is wrong is in the one step, and the rest merely follows."""
    return all(one.step.key == step.key or one.verdict != "wrong" for one in report.steps)


def _first_difference(claimed: Texts, honest: Texts) -> tuple[int, int] | None:
    for i, (row, other) in enumerate(zip(claimed, honest, strict=True)):
        for j, (a, b) in enumerate(zip(row, other, strict=True)):
            if float(a) != float(b):
                return i, j
    return None


def _spoilt(
    rng: Random, name: str, value: float, places: int, beside: list[float]
) -> Iterator[float]:
    """List what a number becomes by a mistake that concerns it alone."""
    if name == "sign-lost":
        yield -value
    elif name == "digits-swapped":
        text = fixed(value, places)
        at = [k for k, c in enumerate(text) if c.isdigit()]
        for a, b in pairwise(at):
            yield float(text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :])
    elif name == "decimal-point-moved":
        yield value * 10
    elif name == "copied-from-neighbour":
        yield from beside
    else:
        yield value + rng.choice((-2, -1, 1, 2)) * (1 if places == 0 else 0.1)


def _beside(matrix: Floats, i: int, j: int) -> list[float]:
    near = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
    rows, columns = matrix.shape
    found = [float(matrix[a, b]) for a, b in near if 0 <= a < rows and 0 <= b < columns]
    return [value for value in found if np.isfinite(value)]
