"""The content of a printed sheet, independent of HTML, LaTeX, notebook or Moodle quiz."""

from dataclasses import dataclass, field

from workings.languages import ngettext
from workings.problems.notation import Formula
from workings.problems.sheets.expected_answers import ExpectedMistake
from workings.problems.worked_problem import Panel


@dataclass(frozen=True)
class PrintedStep:
    """A step to compute, or in which to find a mistake.

    `panel` is the table to print, blank or with claimed numbers. `solution` is the correct text of
    each cell, `tolerance` how far rounding at every step may lead away from it. `working` has the
    arithmetic of each cell, row by row. `mistakes` are the wrong numbers that a quiz has a message
    for, by row and column. A step that is not asked is only in the key.
    """

    key: str
    panel: Panel
    solution: list[list[str]]
    tolerance: list[list[float]]
    working: list[Formula]
    is_asked: bool = True
    points: int = 1
    mistakes: list[list[list[ExpectedMistake]]] = field(default_factory=list)


@dataclass(frozen=True)
class PrintedMistake:
    """A planted mistake; row and column are counted from 1.

    The first of the `names` was planted, the others lead to the same numbers.
    """

    key: str
    step_name: str
    row: int
    column: int
    claimed: str
    expected: str
    names: tuple[str, ...]
    description: str
    tolerance: float  # of the number that should stand there


@dataclass(frozen=True)
class PrintedProblem:
    """One problem of a printed sheet."""

    number: int
    heading: str
    instructions: list[str]
    givens: list[Panel]
    steps: list[PrintedStep]
    mistake: PrintedMistake | None = None

    @property
    def asked_steps(self) -> list[PrintedStep]:
        """The steps that students compute, or search for a mistake."""
        return [step for step in self.steps if step.is_asked]

    @property
    def points(self) -> int:
        """Points of the entire problem; three for a mistake: its step, its cell and its name."""
        return 3 if self.mistake else sum(step.points for step in self.asked_steps)


@dataclass(frozen=True)
class PrintedSheet:
    """The content of a sheet; `choices` are the names of mistakes that students choose from.

    `has_points`: the points of each step are printed. `hides_formulas`: formulas are only in the
    key.
    """

    title: str
    subtitle: str
    instructions: list[str]
    problems: list[PrintedProblem]
    choices: list[str]
    decimals: int
    has_points: bool = False
    hides_formulas: bool = False

    @property
    def points(self) -> int:
        """Points of the entire sheet."""
        return sum(problem.points for problem in self.problems)


def format_points(points: int) -> str:
    """Format points: `1 point`, `2 points`."""
    return ngettext("{count} point", "{count} points", points)


def block_part_prefix(panel: Panel) -> str:
    """Return the part of a block that a step belongs to: `norm 1, ` or "" for other steps."""
    part = panel.name.rpartition(".")[0].replace("_", " ")
    return f"{part}, " if part else ""
