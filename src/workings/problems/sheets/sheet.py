"""Make a sheet: problems are drawn until they suit work by hand and distinguish mistakes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any

from workings.errors import UserError
from workings.languages import gettext, lower_first
from workings.plain_text import to_one_line
from workings.problems.problem import Problem
from workings.problems.sheets.mistake_planter import (
    SINGLE_CELL_MISTAKES,
    MistakePlanter,
    PlantedMistake,
)
from workings.problems.sheets.mistake_space import MistakeSpace, find_confusions
from workings.problems.sheets.plan import LEVELS, MAX_PROBLEMS, make_plans
from workings.problems.sheets.problem_tables import draw_problem_table, is_well_conditioned
from workings.problems.sheets.questions import Questions, check_questions, parse_questions
from workings.problems.sheets.sampling import SamplingError
from workings.problems.sheets.sheet_kind import SheetPlan, Size

_MAX_DRAWS = 400  # per problem
_MAX_CANDIDATES = 30  # suitable problems, of which the one with the fewest confusions is taken
_GIVE_UP_AFTER = 6  # candidates, if each has more than so many confusions
_MAX_CONFUSIONS = 100  # counting stops here
_NUM_COMPARED = 5  # drawn problems that show which mistakes are always indistinguishable
_SIZES_IN_SEED = ("heads", "d_k", "context", "hidden_size")


@dataclass(frozen=True)
class Exercise:
    """One problem of a sheet: the table of its file, the problem and the planted mistake."""

    number: int
    plan: SheetPlan
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
    """Problems of one or several kinds, with the plans and the seed that reproduce them."""

    title: str
    plans: tuple[SheetPlan, ...]  # one per kind
    seed: int
    mistakes: bool
    exercises: tuple[Exercise, ...]
    mistake_names: tuple[str, ...]  # of the mistakes that are possible in these problems
    questions: Questions
    hides_formulas: bool = False
    code: str = ""  # printed instead of the seed, if that must stay secret

    @property
    def decimals(self) -> int:
        """Decimals that students round to."""
        return self.plans[0].decimals

    @property
    def notes(self) -> list[str]:
        """Remarks for the teacher."""
        notes = list(dict.fromkeys(note for plan in self.plans for note in plan.notes))
        ambiguous = [exercise for exercise in self.exercises if exercise.confusions]
        if not ambiguous:
            return notes
        example = ambiguous[0]
        return [
            *notes,
            f"{len(ambiguous)} of {len(self.exercises)} problems cannot distinguish all mistakes"
            f" (in {example.name}, {example.confusions[0]}): use more --decimals or another --size",
        ]

    def get_asked_steps(self, exercise: Exercise) -> tuple[str, ...]:
        """Return the keys of the steps that students compute."""
        return self.questions.select_steps(exercise.problem)


def make_sheet(
    kind: str,
    size: str | Size | None = None,
    count: int = 10,
    seed: int = 1,
    *,
    mistakes: bool = False,
    title: str = "",
    steps: str | Sequence[str] | None = None,
    points: str | None = None,
    hide_formulas: bool = False,
    level: int = 2,
    **options: Any,
) -> Sheet:
    """Make a sheet; the same seed gives the same problems, whatever their count.

    `kind` may name several kinds, separated by commas, which take turns. `steps` are those that
    students compute (all by default), `points` what each is worth (`weights=2,mixed=3`). A `level`
    (1 to 3) chooses the size; level 3 also hides the formulas. Other options: decimals, vectors,
    scale and the sizes of the kind, such as heads (see `make_plan`).

    >>> sheet = make_sheet("masked", "3x3", count=1, seed=7)
    >>> sheet.exercises[0].problem.solve().keys()
    ['Q', 'K', 'V', 'scores', 'scaled', 'masked', 'weights', 'mixed']
    """
    plans = make_plans(kind, size, level=level, **options)
    if not 1 <= count <= MAX_PROBLEMS:
        raise UserError(f"--count {count}: it must be from 1 to {MAX_PROBLEMS}")
    if count < len(plans):
        raise UserError(f"--count {count}: {len(plans)} kinds need at least {len(plans)} problems")
    if mistakes and (steps is not None or points is not None):
        flag = "--steps" if steps is not None else "--points"
        raise UserError(f"{flag} is for problems to compute, not for --mistakes to find")
    questions = parse_questions(steps, points)
    makers = [_SheetMaker(plan, seed, mistakes) for plan in plans]
    exercises = []
    for number in range(1, count + 1):
        exercises.append(makers[(number - 1) % len(makers)].make_exercise(number))
        if number == len(makers):
            check_questions(questions, [exercise.problem for exercise in exercises])
    names = {name for maker in makers for name in maker.mistake_space_names}
    return Sheet(
        to_one_line(title.strip()) or _join_titles(plans),
        tuple(plans),
        seed,
        mistakes,
        tuple(exercises),
        (*sorted(names), *(SINGLE_CELL_MISTAKES if mistakes else ())),
        questions,
        hide_formulas or level == LEVELS[-1],
    )


def _join_titles(plans: Sequence[SheetPlan]) -> str:
    first, *others = (gettext(plan.kind.title) for plan in plans)
    return ", ".join([first, *map(lower_first, others)])


def format_size(plan: SheetPlan) -> str:
    """Format the size of a plan's problems: `3 tokens of width 4`."""
    return gettext(plan.kind.size_text, tokens=plan.tokens, width=plan.width)


def _format_seed(plan: SheetPlan) -> str:
    """Return what a problem's numbers depend on, beside the seed and its number.

    Vectors and decimals are left out, since they keep the numbers. Never reword it: it determines
    the sheets that were handed out.
    """
    parts = [plan.kind.name, plan.tokens, plan.width, plan.heads, plan.d_k, plan.context]
    parts += [plan.hidden_size, plan.is_scaled]
    others = {k: v for k, v in plan.sizes.items() if k not in _SIZES_IN_SEED}
    return str([*parts, *others.items()])


class _SheetMaker:
    """Draws the problems of a sheet, no two with the same numbers."""

    def __init__(self, plan: SheetPlan, seed: int, mistakes: bool) -> None:
        self.plan, self.seed, self.mistakes = plan, seed, mistakes
        self._seed_text = _format_seed(plan)
        self.mistake_space: MistakeSpace | None = None
        self._seen: set[str] = set()
        self._mistake_counts: Counter[str] = Counter()

    def make_exercise(self, number: int) -> Exercise:
        """Draw until a problem distinguishes all mistakes, or take the best of many."""
        rng = Random(f"{self.seed} {self._seed_text} {number}")  # noqa: S311
        best: Exercise | None = None
        num_candidates = 0
        for _ in range(_MAX_DRAWS):
            candidate = self._draw_problem(rng, number)
            if candidate is None:
                continue
            num_candidates += 1
            table, problem = candidate
            if self.mistake_space is None or self._is_listed:
                # Which mistakes are possible may depend on a setting, such as the base of angles.
                self.mistake_space = self._make_mistake_space(table, number)
            # More confusions than the best so far need not be counted.
            limit = _MAX_CONFUSIONS if best is None else len(best.confusions)
            confusions = find_confusions(problem, self.plan.decimals, self.mistake_space)
            counted = tuple(islice(confusions, limit))
            if best is None or len(counted) < limit:
                exercise = Exercise(number, self.plan, table, problem, confusions=counted)
                best = self._plant_mistake(rng, exercise) or best
            is_hopeless = num_candidates >= _GIVE_UP_AFTER and limit > _GIVE_UP_AFTER
            is_exhausted = is_hopeless or num_candidates >= _MAX_CANDIDATES
            is_exhausted |= self._is_listed
            if best is not None and (not best.confusions or is_exhausted):
                break
        if best is None:
            raise UserError(
                f"no suitable {self.plan.kind.name} problem with"
                f" {format_size(self.plan)} was found: use another --size"
            )
        self._seen.add(str(best.table["given"]))
        self._mistake_counts.update([best.planted_mistake.name] if best.planted_mistake else [])
        return best

    @property
    def mistake_space_names(self) -> list[str]:
        """The names of the mistakes that are possible in the problems made so far."""
        return self.mistake_space.names if self.mistake_space else []

    @property
    def _is_listed(self) -> bool:
        """True if the problems of the kind are listed instead of drawn at random."""
        return self.plan.kind.list_fields is not None

    def _make_mistake_space(self, table: dict[str, Any], number: int) -> MistakeSpace:
        if self.plan.kind.takes_any_numbers:
            return MistakeSpace.of_arbitrary_numbers(table)
        rng = Random(f"mistakes of {self._seed_text}")  # noqa: S311
        candidates = (self._draw_problem(rng, number) for _ in range(_MAX_DRAWS))
        problems = (candidate[1] for candidate in candidates if candidate is not None)
        return MistakeSpace(list(islice(problems, _NUM_COMPARED)) or [Problem(**table)])

    def _draw_problem(self, rng: Random, number: int) -> tuple[dict[str, Any], Problem] | None:
        """Draw a problem; None if it is not suitable."""
        if self._is_listed:  # of several kinds that take turns, only one uses up its list
            number = len(self._seen) + 1
        try:
            table = draw_problem_table(self.plan, rng, self.seed, number)
        except SamplingError:
            return None
        try:
            problem = Problem(**table)
            is_new = str(table["given"]) not in self._seen
            is_suitable = is_well_conditioned(problem) and self.plan.kind.is_suitable(problem)
            return (table, problem) if is_new and is_suitable else None
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
