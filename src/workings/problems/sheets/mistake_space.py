"""The mistakes that a problem has room for, step by step: what they lead to differs from the right.

This is the only place where sheets look into the catalogue of mistakes.
"""

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
    Env,
    is_integer_matrix,
    list_asked_steps,
    round_matrix,
    solve_rounded,
)


@dataclass(frozen=True)
class StepMistake:
    """A wrong way to work one step out."""

    name: str
    key: str
    op: Op
    description: str


def list_step_mistakes(problem: Problem) -> list[StepMistake]:
    """List the mistakes that can be made in one step, the steps before it being right."""
    return [
        wrong for wrong in _list_single_step_mistakes(problem) if _changes_result(problem, wrong)
    ]


def _list_single_step_mistakes(problem: Problem) -> Iterator[StepMistake]:
    for mistake in list_mistakes(problem, [step.key for step in list_asked_steps(problem)]):
        if len(mistake.ops) == 1:  # not the same one in several heads or times at once
            ((key, op),) = mistake.ops.items()
            yield StepMistake(mistake.name, key, op, mistake.description)


def _changes_result(problem: Problem, mistake: StepMistake) -> bool:
    """Say whether it can be computed at all, to the right shape but not to the right numbers."""
    exact: Env = problem.exact_matrices
    try:
        with np.errstate(all="ignore"):
            result = mistake.op.compute(exact)
    except (ValueError, KeyError):  # matrices that do not fit together
        return False
    right = exact[mistake.key]
    return result.shape == right.shape and not np.allclose(
        result.mid, right.mid, rtol=0, atol=1e-12
    )


MistakeId: TypeAlias = tuple[str, str, str]  # step, name, what it says
MistakePair: TypeAlias = tuple[MistakeId, MistakeId]


class MistakeSpace:
    """Which mistakes problems of one size have room for, and which of them can never be told apart.

    `table`: any problem of that size, as the file has it.
    """

    def __init__(self, table: dict[str, Any]) -> None:
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
        """The mistakes' names, each once."""
        return sorted({name for _, name, _ in self.mistakes})


def find_confusions(problem: Problem, decimals: int, space: MistakeSpace) -> Iterator[str]:
    """Say what this problem does not tell apart though others of its size do; nothing, if it does.

    A solver rounds at every step: whatever rounding can explain does not count as different.
    """
    env = solve_rounded(problem, decimals)
    results: dict[str, list[tuple[StepMistake, IntervalMatrix, Floats]]] = defaultdict(list)
    for mistake in list_step_mistakes(problem):
        result = mistake.op.compute(env)
        results[mistake.key].append((mistake, result, round_matrix(result.mid, decimals).mid))
    missing = space.mistakes - {
        _make_mistake_id(m) for many in results.values() for m, _, _ in many
    }
    yield from (f"{name} leads to the right {key}" for key, name, _ in sorted(missing))
    unit = 10.0**-decimals
    for key, many in results.items():
        right = problem.get_step(key).op.compute(env)
        for mistake, _, value in many:
            if not _is_outside(value, right, unit):
                yield f"{mistake.name} leads to the right {key}"
        for (a, wide_a, value_a), (b, wide_b, value_b) in combinations(many, 2):
            if (
                a.name == b.name
                or {
                    (_make_mistake_id(a), _make_mistake_id(b)),
                    (_make_mistake_id(b), _make_mistake_id(a)),
                }
                & space.indistinguishable
            ):
                continue
            if not (_is_outside(value_a, wide_b, unit) and _is_outside(value_b, wide_a, unit)):
                yield f"{a.name} and {b.name} lead to the same {key}"


def _is_outside(value: Floats, cells: IntervalMatrix, unit: float) -> bool:
    """Say whether some cell is further off than a unit beyond what rounding explains.

    Whole numbers alone may have been rounded to whole ones: they tell less than they seem to.
    """
    unit = 0.5 if is_integer_matrix(value) and not is_integer_matrix(cells.mid) else unit
    with np.errstate(invalid="ignore"):
        off = (value < cells.lo - 1.001 * unit) | (value > cells.hi + 1.001 * unit)
    unlike = np.isfinite(value) != np.isfinite(cells.mid)
    return bool((off | unlike).any())


def _make_mistake_id(mistake: StepMistake) -> MistakeId:
    return mistake.key, mistake.name, mistake.description


def _draw_generic_matrix(rng: Random, matrix: list[list[float]]) -> list[list[float]]:
    return [[rng.uniform(0.2, 1.2) * rng.choice((-1, 1)) for _ in row] for row in matrix]


def _is_close(a: Floats, b: Floats) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-9, equal_nan=True))
