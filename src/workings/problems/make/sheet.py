"""A problem sheet: problems drawn until they are pleasant to work and tell mistakes apart."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from workings.errors import UserError
from workings.problems.make.apart import Room, confused
from workings.problems.make.draw import NoLuckError
from workings.problems.make.drawn import is_pleasant, table_of
from workings.problems.make.plan import MOST, TITLES, Plan, plan_of
from workings.problems.make.plant import OF_ONE_CELL, Bed, Planted
from workings.problems.problem import Problem
from workings.views.plain import one_line

_DRAWS = 400  # before giving up on a size
_CANDIDATES = 30  # pleasant problems, before settling for the one that confuses least
_FEW = 6  # of them, where each confuses more than so many
_MANY = 100


@dataclass(frozen=True)
class Exercise:
    """One problem of a sheet: as the file has it, what is right, and what was planted."""

    number: int
    table: dict[str, Any]
    problem: Problem
    planted: Planted | None = None
    confused: tuple[str, ...] = ()  # what it cannot tell apart, if it could not be helped

    @property
    def name(self) -> str:
        """Its file's name, without the ending."""
        return f"problem-{self.number:02d}"


@dataclass(frozen=True)
class Sheet:
    """Problems of one kind and size, with all that is needed to make them again."""

    title: str
    plan: Plan
    seed: int
    mistakes: bool
    exercises: tuple[Exercise, ...]
    names: tuple[str, ...]  # of the mistakes that these problems have room for

    @property
    def notes(self) -> list[str]:
        """What a teacher should know about the sheet."""
        confused = [exercise for exercise in self.exercises if exercise.confused]
        if not confused:
            return list(self.plan.notes)
        some = confused[0]
        return [
            *self.plan.notes,
            f"{len(confused)} of {len(self.exercises)} problems cannot tell all mistakes apart"
            f" (in {some.name}, {some.confused[0]}): take more --decimals, or another --size",
        ]

    def files(self) -> dict[str, str]:
        """Write every file of the sheet, by name."""
        from workings.problems.make.folder import files

        return files(self)

    def write(self, folder: str | Path) -> None:
        """Write the sheet's folder: whole, or not at all."""
        from workings.problems.make.folder import write

        write(self, Path(folder))


def make_sheet(
    kind: str,
    size: str | tuple[int, int],
    count: int = 10,
    seed: int = 1,
    *,
    mistakes: bool = False,
    title: str = "",
    **options: Any,
) -> Sheet:
    """Make a sheet; the same seed gives the same one, and problem k whatever the count.

    Options: decimals, vectors, heads, d_k, context, hidden, scale (see `plan_of`).

    >>> sheet = make_sheet("masked", "3x3", count=1, seed=7)
    >>> sheet.exercises[0].problem.solve().keys()
    ['Q', 'K', 'V', 'scores', 'scaled', 'masked', 'weights', 'mixed']
    """
    plan = plan_of(kind, size, **options)
    if not 1 <= count <= MOST:
        raise UserError(f"--count {count}: from 1 to {MOST}")
    maker = _Maker(plan, seed, mistakes)
    exercises = tuple(maker.exercise(number) for number in range(1, count + 1))
    names = [*(maker.room.names if maker.room else []), *(OF_ONE_CELL if mistakes else [])]
    title = one_line(title.strip()) or TITLES[kind]
    return Sheet(title, plan, seed, mistakes, exercises, tuple(names))


class _Maker:
    """Draws one problem after the other; no two with the same numbers."""

    def __init__(self, plan: Plan, seed: int, mistakes: bool) -> None:
        self.plan, self.seed, self.mistakes = plan, seed, mistakes
        # Rows or columns, and to how many decimals, makes no other problem of it.
        self._sizes = [plan.kind, plan.tokens, plan.width, plan.heads, plan.d_k]
        self._sizes += [plan.context, plan.hidden, plan.scaled]
        self.room: Room | None = None
        self._seen: set[str] = set()
        self._used: Counter[str] = Counter()

    def exercise(self, number: int) -> Exercise:
        """Draw until a problem tells all mistakes apart, or settle for the best of many."""
        rng = Random(f"{self.seed} {self._sizes} {number}")  # noqa: S311
        best: Exercise | None = None
        candidates = 0
        for _ in range(_DRAWS):
            drawn = self._drawn(rng, number)
            if drawn is None:
                continue
            candidates += 1
            if self.room is None:
                self.room = Room(drawn[0])
            most = _MANY if best is None else len(best.confused)  # more is no use: stop counting
            found = tuple(islice(confused(drawn[1], self.plan.decimals, self.room), most))
            if best is None or len(found) < most:
                best = self._with_mistake(rng, Exercise(number, *drawn, confused=found)) or best
            hopeless = candidates >= _FEW and most > _FEW
            if best is not None and (not best.confused or hopeless or candidates >= _CANDIDATES):
                break
        if best is None:
            raise UserError(
                f"found no pleasant {self.plan.kind} problem of {self.plan.tokens} tokens of width"
                f" {self.plan.width}: take another --size"
            )
        self._seen.add(str(best.table["given"]))
        self._used.update([best.planted.name] if best.planted else [])
        return best

    def _drawn(self, rng: Random, number: int) -> tuple[dict[str, Any], Problem] | None:
        """Draw a problem; None where it is not one to work by hand."""
        try:
            table = table_of(self.plan, rng, self.seed, number)
        except NoLuckError:
            return None
        try:
            problem = Problem(**table)
            new = str(table["given"]) not in self._seen
            return (table, problem) if new and is_pleasant(problem) else None
        except UserError:  # a norm of equal numbers: nothing to divide by
            return None

    def _with_mistake(self, rng: Random, exercise: Exercise) -> Exercise | None:
        """Plant a mistake, if this is a sheet for finding them; None where none will grow."""
        if not self.mistakes:
            return exercise
        bed = Bed(exercise.problem, exercise.table, self.plan.decimals)
        planted = bed.plant(rng, self._names())
        return None if planted is None else replace(exercise, planted=planted)

    def _names(self) -> list[str]:
        """Order the mistakes for the next problem: each has its turn before one comes again."""
        assert self.room is not None
        names = [*self.room.names, *OF_ONE_CELL]
        Random(f"mistakes {self.seed}").shuffle(names)  # noqa: S311
        return sorted(names, key=lambda name: self._used[name])
