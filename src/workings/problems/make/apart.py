"""Whether a problem discriminates: do its mistakes lead to different numbers, as they are written?

A mistake that leads to the right number is never found out, and two that lead to the same numbers
cannot be told apart. Some of this lies in the sizes, whatever the numbers (÷ d_k and ÷ √d_model,
with 2 and 4); a problem of the same sizes with numbers that nobody chose shows it. The rest lies in
the numbers, and other numbers can be drawn.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any, TypeAlias

import numpy as np

from workings.problems.cells import Cells, Floats
from workings.problems.make.by_hand import is_whole, rounded, worked
from workings.problems.make.catalogue import Wrong, wrong_ways
from workings.problems.problem import Problem

Id: TypeAlias = tuple[str, str, str]  # step, name, what it says
Pair: TypeAlias = tuple[Id, Id]


class Room:
    """Which mistakes problems of one size have room for, and which of them can never be told apart.

    `table`: any problem of that size, as the file has it.
    """

    def __init__(self, table: dict[str, Any]) -> None:
        rng = Random("numbers that nobody chose")  # noqa: S311
        given = {
            name: _unlikely(rng, value) if isinstance(value, list) else value
            for name, value in table.get("given", {}).items()
        }
        problem = Problem(**{**table, "given": given})
        results = {_id(m): m.op.compute(problem.exact).mid for m in wrong_ways(problem)}
        self.mistakes = frozenset(results)
        self.never_apart = frozenset(
            (a, b)
            for a, b in combinations(results, 2)
            if a[0] == b[0] and a[1] != b[1] and _same(results[a], results[b])
        )

    @property
    def names(self) -> list[str]:
        """The mistakes' names, each once."""
        return sorted({name for _, name, _ in self.mistakes})


def confused(problem: Problem, decimals: int, room: Room) -> Iterator[str]:
    """Say what this problem does not tell apart though others of its size do; nothing, if it does.

    A solver rounds at every step: whatever rounding can explain does not count as different.
    """
    env = worked(problem, decimals)
    results: dict[str, list[tuple[Wrong, Cells, Floats]]] = defaultdict(list)
    for mistake in wrong_ways(problem):
        result = mistake.op.compute(env)
        results[mistake.key].append((mistake, result, rounded(result.mid, decimals).mid))
    missing = room.mistakes - {_id(m) for many in results.values() for m, _, _ in many}
    yield from (f"{name} leads to the right {key}" for key, name, _ in sorted(missing))
    unit = 10.0**-decimals
    for key, many in results.items():
        right = problem.step(key).op.compute(env)
        for mistake, _, value in many:
            if not _outside(value, right, unit):
                yield f"{mistake.name} leads to the right {key}"
        for (a, wide_a, value_a), (b, wide_b, value_b) in combinations(many, 2):
            if a.name == b.name or {(_id(a), _id(b)), (_id(b), _id(a))} & room.never_apart:
                continue
            if not (_outside(value_a, wide_b, unit) and _outside(value_b, wide_a, unit)):
                yield f"{a.name} and {b.name} lead to the same {key}"


def _outside(value: Floats, cells: Cells, unit: float) -> bool:
    """Say whether some cell is further off than a unit beyond what rounding explains.

    Whole numbers alone may have been rounded to whole ones: they tell less than they seem to.
    """
    unit = 0.5 if is_whole(value) and not is_whole(cells.mid) else unit
    with np.errstate(invalid="ignore"):
        off = (value < cells.lo - 1.001 * unit) | (value > cells.hi + 1.001 * unit)
    unlike = np.isfinite(value) != np.isfinite(cells.mid)
    return bool((off | unlike).any())


def _id(mistake: Wrong) -> Id:
    return mistake.key, mistake.name, mistake.says


def _unlikely(rng: Random, matrix: list[list[float]]) -> list[list[float]]:
    return [[rng.uniform(0.2, 1.2) * rng.choice((-1, 1)) for _ in row] for row in matrix]


def _same(a: Floats, b: Floats) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-9, equal_nan=True))
