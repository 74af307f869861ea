"""A problem sheet: problems drawn until they are pleasant to work and tell mistakes apart."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems.problem import Problem
from workings.problems.sheets.mistake_planter import (
    SINGLE_CELL_MISTAKES,
    MistakePlanter,
    PlantedMistake,
)
from workings.problems.sheets.mistake_space import MistakeSpace, find_confusions
from workings.problems.sheets.plan import MAX_PROBLEMS, TITLES, SheetPlan, make_plan
from workings.problems.sheets.sampling import SamplingError, draw_problem_table, is_well_conditioned

_MAX_DRAWS = 400  # before giving up on a size
_MAX_CANDIDATES = 30  # pleasant problems, before settling for the one that confuses least
_GIVE_UP_AFTER = 6  # of them, where each confuses more than so many
_MAX_CONFUSIONS = 100


@dataclass(frozen=True)
class Exercise:
    """One problem of a sheet: as the file has it, what is right, and what was planted."""

    number: int
    table: dict[str, Any]
    problem: Problem
    planted_mistake: PlantedMistake | None = None
    confusions: tuple[str, ...] = ()  # what it cannot tell apart, if it could not be helped

    @property
    def name(self) -> str:
        """Its file's name, without the ending."""
        return f"problem-{self.number:02d}"


@dataclass(frozen=True)
class Sheet:
    """Problems of one kind and size, with all that is needed to make them again."""

    title: str
    plan: SheetPlan
    seed: int
    mistakes: bool
    exercises: tuple[Exercise, ...]
    mistake_names: tuple[str, ...]  # of the mistakes that these problems have room for

    @property
    def notes(self) -> list[str]:
        """What a teacher should know about the sheet."""
        confused = [exercise for exercise in self.exercises if exercise.confusions]
        if not confused:
            return list(self.plan.notes)
        some = confused[0]
        return [
            *self.plan.notes,
            f"{len(confused)} of {len(self.exercises)} problems cannot tell all mistakes apart"
            f" (in {some.name}, {some.confusions[0]}): take more --decimals, or another --size",
        ]


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
    plan = make_plan(kind, size, **options)
    if not 1 <= count <= MAX_PROBLEMS:
        raise UserError(f"--count {count}: from 1 to {MAX_PROBLEMS}")
    maker = _SheetMaker(plan, seed, mistakes)
    exercises = tuple(maker.make_exercise(number) for number in range(1, count + 1))
    names = [
        *(maker.mistake_space.names if maker.mistake_space else []),
        *(SINGLE_CELL_MISTAKES if mistakes else []),
    ]
    title = to_one_line(title.strip()) or TITLES[kind]
    return Sheet(title, plan, seed, mistakes, exercises, tuple(names))


class _SheetMaker:
    """Draws one problem after the other; no two with the same numbers."""

    def __init__(self, plan: SheetPlan, seed: int, mistakes: bool) -> None:
        self.plan, self.seed, self.mistakes = plan, seed, mistakes
        # Rows or columns, and to how many decimals, makes no other problem of it.
        self._sizes = [plan.kind, plan.tokens, plan.width, plan.heads, plan.d_k]
        self._sizes += [plan.context, plan.hidden, plan.is_scaled]
        self.mistake_space: MistakeSpace | None = None
        self._seen: set[str] = set()
        self._mistake_counts: Counter[str] = Counter()

    def make_exercise(self, number: int) -> Exercise:
        """Draw until a problem tells all mistakes apart, or settle for the best of many."""
        rng = Random(f"{self.seed} {self._sizes} {number}")  # noqa: S311
        best: Exercise | None = None
        candidates = 0
        for _ in range(_MAX_DRAWS):
            drawn = self._draw_problem(rng, number)
            if drawn is None:
                continue
            candidates += 1
            if self.mistake_space is None:
                self.mistake_space = MistakeSpace(drawn[0])
            most = (
                _MAX_CONFUSIONS if best is None else len(best.confusions)
            )  # more is no use: stop counting
            found = tuple(
                islice(find_confusions(drawn[1], self.plan.decimals, self.mistake_space), most)
            )
            if best is None or len(found) < most:
                best = self._plant_mistake(rng, Exercise(number, *drawn, confusions=found)) or best
            hopeless = candidates >= _GIVE_UP_AFTER and most > _GIVE_UP_AFTER
            if best is not None and (
                not best.confusions or hopeless or candidates >= _MAX_CANDIDATES
            ):
                break
        if best is None:
            raise UserError(
                f"found no pleasant {self.plan.kind} problem of {self.plan.tokens} tokens of width"
                f" {self.plan.width}: take another --size"
            )
        self._seen.add(str(best.table["given"]))
        self._mistake_counts.update([best.planted_mistake.name] if best.planted_mistake else [])
        return best

    def _draw_problem(self, rng: Random, number: int) -> tuple[dict[str, Any], Problem] | None:
        """Draw a problem; None where it is not one to work by hand."""
        try:
            table = draw_problem_table(self.plan, rng, self.seed, number)
        except SamplingError:
            return None
        try:
            problem = Problem(**table)
            new = str(table["given"]) not in self._seen
            return (table, problem) if new and is_well_conditioned(problem) else None
        except UserError:  # a norm of equal numbers: nothing to divide by
            return None

    def _plant_mistake(self, rng: Random, exercise: Exercise) -> Exercise | None:
        """Plant a mistake, if this is a sheet for finding them; None where none will grow."""
        if not self.mistakes:
            return exercise
        bed = MistakePlanter(exercise.problem, exercise.table, self.plan.decimals)
        planted = bed.plant(rng, self._order_mistake_names())
        return None if planted is None else replace(exercise, planted_mistake=planted)

    def _order_mistake_names(self) -> list[str]:
        """Order the mistakes for the next problem: each has its turn before one comes again."""
        assert self.mistake_space is not None
        names = [*self.mistake_space.names, *SINGLE_CELL_MISTAKES]
        Random(f"mistakes {self.seed}").shuffle(names)  # noqa: S311
        return sorted(names, key=lambda name: self._mistake_counts[name])
