"""Make a sheet: problems are drawn until they suit work by hand and distinguish mistakes."""

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

_MAX_DRAWS = 400  # per problem
_MAX_CANDIDATES = 30  # suitable problems, of which the one with the fewest confusions is taken
_GIVE_UP_AFTER = 6  # candidates, if each has more than so many confusions
_MAX_CONFUSIONS = 100  # counting stops here


@dataclass(frozen=True)
class Exercise:
    """One problem of a sheet: the table of its file, the problem and the planted mistake."""

    number: int
    table: dict[str, Any]
    problem: Problem
    planted_mistake: PlantedMistake | None = None
    confusions: tuple[str, ...] = ()  # mistakes that it cannot distinguish

    @property
    def name(self) -> str:
        """Name of its file, without the suffix."""
        return f"problem-{self.number:02d}"


@dataclass(frozen=True)
class Sheet:
    """Problems of one kind and size, with the plan and seed that reproduce them."""

    title: str
    plan: SheetPlan
    seed: int
    mistakes: bool
    exercises: tuple[Exercise, ...]
    mistake_names: tuple[str, ...]  # of the mistakes that are possible in these problems

    @property
    def notes(self) -> list[str]:
        """Remarks for the teacher."""
        ambiguous = [exercise for exercise in self.exercises if exercise.confusions]
        if not ambiguous:
            return list(self.plan.notes)
        example = ambiguous[0]
        return [
            *self.plan.notes,
            f"{len(ambiguous)} of {len(self.exercises)} problems cannot distinguish all mistakes"
            f" (in {example.name}, {example.confusions[0]}): use more --decimals or another --size",
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
    """Make a sheet; the same seed gives the same problems, whatever their count.

    Options: decimals, vectors, heads, d_k, context, hidden_size, scale (see `make_plan`).

    >>> sheet = make_sheet("masked", "3x3", count=1, seed=7)
    >>> sheet.exercises[0].problem.solve().keys()
    ['Q', 'K', 'V', 'scores', 'scaled', 'masked', 'weights', 'mixed']
    """
    plan = make_plan(kind, size, **options)
    if not 1 <= count <= MAX_PROBLEMS:
        raise UserError(f"--count {count}: it must be from 1 to {MAX_PROBLEMS}")
    maker = _SheetMaker(plan, seed, mistakes)
    exercises = tuple(maker.make_exercise(number) for number in range(1, count + 1))
    names = [
        *(maker.mistake_space.names if maker.mistake_space else []),
        *(SINGLE_CELL_MISTAKES if mistakes else []),
    ]
    title = to_one_line(title.strip()) or TITLES[kind]
    return Sheet(title, plan, seed, mistakes, exercises, tuple(names))


class _SheetMaker:
    """Draws the problems of a sheet, no two with the same numbers."""

    def __init__(self, plan: SheetPlan, seed: int, mistakes: bool) -> None:
        self.plan, self.seed, self.mistakes = plan, seed, mistakes
        # The seed of a problem; vectors and decimals are left out, since they keep the numbers.
        self._sizes = [plan.kind, plan.tokens, plan.width, plan.heads, plan.d_k]
        self._sizes += [plan.context, plan.hidden_size, plan.is_scaled]
        self.mistake_space: MistakeSpace | None = None
        self._seen: set[str] = set()
        self._mistake_counts: Counter[str] = Counter()

    def make_exercise(self, number: int) -> Exercise:
        """Draw until a problem distinguishes all mistakes, or take the best of many."""
        rng = Random(f"{self.seed} {self._sizes} {number}")  # noqa: S311
        best: Exercise | None = None
        num_candidates = 0
        for _ in range(_MAX_DRAWS):
            candidate = self._draw_problem(rng, number)
            if candidate is None:
                continue
            num_candidates += 1
            table, problem = candidate
            if self.mistake_space is None or self.plan.kind == "positions":
                # Which bases are wrong depends on the base of the problem.
                self.mistake_space = MistakeSpace(table)
            # More confusions than the best so far need not be counted.
            limit = _MAX_CONFUSIONS if best is None else len(best.confusions)
            confusions = find_confusions(problem, self.plan.decimals, self.mistake_space)
            counted = tuple(islice(confusions, limit))
            if best is None or len(counted) < limit:
                exercise = Exercise(number, table, problem, confusions=counted)
                best = self._plant_mistake(rng, exercise) or best
            is_hopeless = num_candidates >= _GIVE_UP_AFTER and limit > _GIVE_UP_AFTER
            is_exhausted = is_hopeless or num_candidates >= _MAX_CANDIDATES
            is_exhausted |= self.plan.kind == "positions"  # nothing is drawn at random
            if best is not None and (not best.confusions or is_exhausted):
                break
        if best is None:
            raise UserError(
                f"no suitable {self.plan.kind} problem with {self.plan.tokens} tokens of width"
                f" {self.plan.width} was found: use another --size"
            )
        self._seen.add(str(best.table["given"]))
        self._mistake_counts.update([best.planted_mistake.name] if best.planted_mistake else [])
        return best

    def _draw_problem(self, rng: Random, number: int) -> tuple[dict[str, Any], Problem] | None:
        """Draw a problem; None if it is not suitable."""
        try:
            table = draw_problem_table(self.plan, rng, self.seed, number)
        except SamplingError:
            return None
        try:
            problem = Problem(**table)
            is_new = str(table["given"]) not in self._seen
            return (table, problem) if is_new and is_well_conditioned(problem) else None
        except UserError:  # the variance of a norm is zero
            return None

    def _plant_mistake(self, rng: Random, exercise: Exercise) -> Exercise | None:
        """Plant a mistake if the sheet is to have them; None if none can be planted."""
        if not self.mistakes:
            return exercise
        planter = MistakePlanter(exercise.problem, exercise.table, self.plan.decimals)
        planted_mistake = planter.plant(rng, self._order_mistake_names())
        if planted_mistake is None:
            return None
        return replace(exercise, planted_mistake=planted_mistake)

    def _order_mistake_names(self) -> list[str]:
        """Return the mistakes to try next, the least used first."""
        assert self.mistake_space is not None
        names = [*self.mistake_space.names, *SINGLE_CELL_MISTAKES]
        Random(f"mistakes {self.seed}").shuffle(names)  # noqa: S311
        return sorted(names, key=lambda name: self._mistake_counts[name])
