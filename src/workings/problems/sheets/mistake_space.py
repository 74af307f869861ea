"""The mistakes that are possible in a problem, and which of them lead to the same numbers."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.mistakes import list_mistakes
from workings.problems.ops import Op
from workings.problems.problem import Problem
from workings.problems.sheets.rounded_solution import (
    is_integer_matrix,
    round_matrix,
    solve_rounded,
)


@dataclass(frozen=True)
class StepMistake:
    """A mistake in one step: the wrong operation in its place."""

    name: str
    key: str
    op: Op
    description: str


def list_step_mistakes(problem: Problem) -> list[StepMistake]:
    """Return the mistakes in a single step that change its result, given correct inputs."""
    mistakes = _list_single_step_mistakes(problem)
    return [mistake for mistake in mistakes if _changes_result(problem, mistake)]


def _list_single_step_mistakes(problem: Problem) -> Iterator[StepMistake]:
    for mistake in list_mistakes(problem, [step.key for step in problem.asked_steps]):
        if len(mistake.ops) == 1:  # not in several heads or time steps at once
            ((key, op),) = mistake.ops.items()
            yield StepMistake(mistake.name, key, op, mistake.description)


def _changes_result(problem: Problem, mistake: StepMistake) -> bool:
    """Return True if a mistake leads to the correct shape but other numbers."""
    exact = problem.exact_matrices
    try:
        with np.errstate(all="ignore"):
            result = mistake.op.compute(exact)
    except (ValueError, KeyError):  # shapes that do not fit, or a missing matrix
        return False
    correct = exact[mistake.key].mid
    is_same_shape = result.mid.shape == correct.shape
    return is_same_shape and not np.allclose(result.mid, correct, rtol=0, atol=1e-12)


MistakeId: TypeAlias = tuple[str, str, str]  # step, name, description
MistakePair: TypeAlias = tuple[MistakeId, MistakeId]


class MistakeSpace:
    """The mistakes possible in problems of one size, and the pairs that are indistinguishable.

    `table` is any problem of that size, as in a problem file.
    """

    def __init__(self, table: dict[str, Any]) -> None:
        # The seed influences every sheet: never reword it.
        rng = Random("numbers that nobody chose")  # noqa: S311
        given = {
            name: _draw_generic_matrix(rng, value) if isinstance(value, list) else value
            for name, value in table.get("given", {}).items()
        }
        problem = Problem(**{**table, "given": given})
        results = {
            _make_mistake_id(m): m.op.compute(problem.exact_matrices).mid
            for m in list_step_mistakes(problem)
        }
        self.mistakes = frozenset(results)
        self.indistinguishable = frozenset(
            (a, b)
            for a, b in combinations(results, 2)
            if a[0] == b[0] and a[1] != b[1] and _is_close(results[a], results[b])
        )

    @property
    def names(self) -> list[str]:
        """The names of the mistakes, without duplicates."""
        return sorted({name for _, name, _ in self.mistakes})


def find_confusions(problem: Problem, decimals: int, space: MistakeSpace) -> Iterator[str]:
    """Yield mistakes that this problem cannot distinguish although others of its size can.

    A student rounds at every step, so results within the rounding error count as equal.
    """
    env = solve_rounded(problem, decimals)
    results: dict[str, list[tuple[StepMistake, IntervalMatrix, Floats]]] = defaultdict(list)
    for mistake in list_step_mistakes(problem):
        result = mistake.op.compute(env)
        results[mistake.key].append((mistake, result, round_matrix(result.mid, decimals).mid))
    possible = {_make_mistake_id(m) for group in results.values() for m, _, _ in group}
    missing = space.mistakes - possible
    yield from (f"{name} leads to the correct {key}" for key, name, _ in sorted(missing))
    unit = 10.0**-decimals
    for key, group in results.items():
        correct = problem.get_step(key).op.compute(env)
        for mistake, _, value in group:
            if not _is_outside(value, correct, unit):
                yield f"{mistake.name} leads to the correct {key}"
        for (a, range_a, value_a), (b, range_b, value_b) in combinations(group, 2):
            ids = _make_mistake_id(a), _make_mistake_id(b)
            if a.name == b.name or {ids, ids[::-1]} & space.indistinguishable:
                continue
            if not (_is_outside(value_a, range_b, unit) and _is_outside(value_b, range_a, unit)):
                yield f"{a.name} and {b.name} lead to the same {key}"


def _is_outside(value: Floats, matrix: IntervalMatrix, unit: float) -> bool:
    """Return True if a cell is more than a unit outside of its range.

    Integers may have been rounded to integers, so they are compared with a unit of 0.5.
    """
    unit = 0.5 if is_integer_matrix(value) and not is_integer_matrix(matrix.mid) else unit
    with np.errstate(invalid="ignore"):
        is_far = (value < matrix.lo - 1.001 * unit) | (value > matrix.hi + 1.001 * unit)
    is_infinite = np.isfinite(value) != np.isfinite(matrix.mid)
    return bool((is_far | is_infinite).any())


def _make_mistake_id(mistake: StepMistake) -> MistakeId:
    return mistake.key, mistake.name, mistake.description


def _draw_generic_matrix(rng: Random, matrix: list[list[float]]) -> list[list[float]]:
    """Draw a matrix of the same shape in which no two products agree by chance."""
    return [[rng.uniform(0.2, 1.2) * rng.choice((-1, 1)) for _ in row] for row in matrix]


def _is_close(a: Floats, b: Floats) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-9, equal_nan=True))
