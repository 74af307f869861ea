"""The mistakes that are possible in a problem, and which of them lead to the same numbers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, combinations
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.mistakes import list_mistakes
from workings.problems.ops import Env, Op
from workings.problems.points import PointMatrix
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


class Effect(Enum):
    """What a mistake in a step leads to, given correct inputs."""

    NONE = auto()  # the correct numbers, or a shape that no one would write down
    CONSPICUOUS = auto()  # only zeros: it shows, but not which mistake it was
    VISIBLE = auto()  # other numbers


def list_step_mistakes(problem: Problem) -> list[StepMistake]:
    """Return the mistakes in a single step that change its result, given correct inputs."""
    mistakes = chain.from_iterable(
        _list_single_step_mistakes(problem, step.key) for step in problem.asked_steps
    )
    effects = _find_effects(_get_points(problem), mistakes)
    return [mistake for mistake, effect in effects if effect is Effect.VISIBLE]


def _get_points(problem: Problem) -> Env:
    return {key: PointMatrix.of(matrix.mid) for key, matrix in problem.exact_matrices.items()}


def _list_single_step_mistakes(problem: Problem, key: str) -> Iterator[StepMistake]:
    for mistake in list_mistakes(problem, [key]):
        yield StepMistake(mistake.name, key, mistake.ops[key], mistake.description)


@np.errstate(all="ignore")
def _find_effects(points: Env, mistakes: Iterable[StepMistake]) -> list[tuple[StepMistake, Effect]]:
    return [(mistake, _find_effect(points, mistake)) for mistake in mistakes]


def _find_effect(points: Env, mistake: StepMistake) -> Effect:
    try:
        result, correct = mistake.op.compute(points).mid, points[mistake.key].mid
    except (ValueError, KeyError):  # shapes that do not fit, or a missing matrix
        return Effect.NONE
    if result.shape != correct.shape:
        return Effect.NONE
    distance = np.where(result == correct, 0.0, np.abs(result - correct))
    if (distance <= 1e-12).all():
        return Effect.NONE
    if not result.any():
        return Effect.CONSPICUOUS
    if not (distance <= 0.5).all():
        return Effect.VISIBLE
    # Integers instead of decimals look like rounded numbers.
    looks_rounded = is_integer_matrix(result) and not is_integer_matrix(correct)
    return Effect.NONE if looks_rounded else Effect.VISIBLE


MistakeId: TypeAlias = tuple[str, str, str]  # step, name, description
MistakePair: TypeAlias = tuple[MistakeId, MistakeId]


class MistakeSpace:
    """The mistakes possible in problems of one size, and the pairs that are indistinguishable.

    Mistakes count as possible, and pairs as indistinguishable, if they are so in all `problems`.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        results = [_compute_mistakes(problem) for problem in problems]
        self.mistakes = frozenset[MistakeId].intersection(*map(frozenset, results))
        by_step: dict[str, set[MistakeId]] = defaultdict(set)
        for mistake in chain(*results):
            by_step[mistake[0]].add(mistake)
        self.indistinguishable = frozenset(
            (a, b)
            for mistakes in by_step.values()
            for a, b in combinations(mistakes, 2)
            if a[1] != b[1] and _are_always_equal(a, b, results)
        )

    @classmethod
    def of_arbitrary_numbers(cls, table: dict[str, Any]) -> "MistakeSpace":
        """Return the space of problems like this one, with other numbers in its matrices."""
        # The seed influences every sheet: never reword it.
        rng = Random("numbers that nobody chose")  # noqa: S311
        given = {
            name: _draw_generic_matrix(rng, value) if isinstance(value, list) else value
            for name, value in table.get("given", {}).items()
        }
        return cls([Problem(**{**table, "given": given})])

    @property
    def names(self) -> list[str]:
        """The names of the mistakes, without duplicates."""
        return sorted({name for _, name, _ in self.mistakes})


def _compute_mistakes(problem: Problem) -> dict[MistakeId, Floats]:
    """Return the result of each mistake in a single step."""
    return {
        _make_mistake_id(mistake): mistake.op.compute(problem.exact_matrices).mid
        for mistake in list_step_mistakes(problem)
    }


def find_confusions(problem: Problem, decimals: int, space: MistakeSpace) -> Iterator[str]:
    """Yield mistakes that this problem cannot distinguish although others of its size can.

    A student rounds at every step, so results within the rounding error count as equal. The steps
    are compared one after another: who needs only the first confusion does not pay for the others.
    """
    env, points = solve_rounded(problem, decimals), _get_points(problem)
    for step in problem.asked_steps:
        effects = _find_effects(points, _list_single_step_mistakes(problem, step.key))
        changes = {_make_mistake_id(m) for m, effect in effects if effect is not Effect.NONE}
        missing = {mistake for mistake in space.mistakes if mistake[0] == step.key} - changes
        yield from (f"{name} leads to the correct {key}" for key, name, _ in sorted(missing))
        mistakes = [mistake for mistake, effect in effects if effect is Effect.VISIBLE]
        yield from _find_confusions_of_step(step, mistakes, env, decimals, space)


def _find_confusions_of_step(
    step: Step, mistakes: list[StepMistake], env: Env, decimals: int, space: MistakeSpace
) -> Iterator[str]:
    """Yield which mistakes in a step lead to the correct numbers or to those of another mistake."""
    results = [op.compute(env) for op in (step.op, *(mistake.op for mistake in mistakes))]
    is_outside = _compare_results(results, decimals)
    for k, mistake in enumerate(mistakes, start=1):
        if not is_outside[k, 0]:
            yield f"{mistake.name} leads to the correct {step.key}"
    is_distinct = is_outside & is_outside.T
    for (i, a), (j, b) in combinations(enumerate(mistakes, start=1), 2):
        if is_distinct[i, j] or a.name == b.name:
            continue
        ids = _make_mistake_id(a), _make_mistake_id(b)
        if not {ids, ids[::-1]} & space.indistinguishable:
            yield f"{a.name} and {b.name} lead to the same {step.key}"


@np.errstate(invalid="ignore")
def _compare_results(results: list[IntervalMatrix], decimals: int) -> Bools:
    """Return for each result, as written, and each other one whether it is outside of its range.

    That is, a cell is more than a unit outside. Integers may have been rounded to integers, so they
    are compared with a unit of 0.5.
    """
    values = np.stack([round_matrix(result.mid, decimals).mid for result in results])
    mid, low, high = (np.stack([getattr(r, name) for r in results]) for name in ("mid", "lo", "hi"))
    is_integer, is_decimal = _are_integers(values), ~_are_integers(mid)
    unit = np.where(is_integer[:, None] & is_decimal[None], 0.5, 10.0**-decimals)  # [value, range]
    margin = 1.001 * unit[:, :, None, None]
    value = values[:, None]
    is_far = (value < low[None] - margin) | (value > high[None] + margin)
    is_infinite = np.isfinite(value) != np.isfinite(mid[None])
    outside: Bools = (is_far | is_infinite).any((2, 3))
    return outside


def _are_integers(matrices: Floats) -> Bools:
    """Return of which matrices all finite cells are integers."""
    distance = np.abs(matrices - np.rint(matrices))
    has_fractions: Bools = np.any(distance >= 1e-9, axis=(1, 2))  # of an infinity, it is NaN
    return ~has_fractions


def _make_mistake_id(mistake: StepMistake) -> MistakeId:
    return mistake.key, mistake.name, mistake.description


def _draw_generic_matrix(rng: Random, matrix: list[list[float]]) -> list[list[float]]:
    """Draw a matrix of the same shape in which no two products agree by chance."""
    return [[rng.uniform(0.2, 1.2) * rng.choice((-1, 1)) for _ in row] for row in matrix]


def _are_always_equal(a: MistakeId, b: MistakeId, results: list[dict[MistakeId, Floats]]) -> bool:
    """Return True if two mistakes lead to the same numbers wherever both are possible."""
    pairs = [(result[a], result[b]) for result in results if a in result and b in result]
    return bool(pairs) and all(
        np.allclose(x, y, rtol=0, atol=1e-9, equal_nan=True) for x, y in pairs
    )
