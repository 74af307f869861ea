"""The content of a solution or report to display, independent of text, LaTeX or HTML."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workings.display import Renderable
from workings.problems.notation import Formula

if TYPE_CHECKING:
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix: its text, its value (for the color) and its verdict.

    `mark`: "" (not checked), right, rounded, follows, wrong, blank, or masked for a −∞ by a mask.
    `note`: a remark, such as the exact value.
    """

    text: str
    value: float | None
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """A matrix with its formula; `first_wrong` is the report's first wrong cell, from 0."""

    name: str
    formula: Formula | None
    cells: list[list[Cell]]
    row_names: list[str]
    column_names: list[str]
    verdict: str = ""  # of the step, in a report
    first_wrong: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.cells), len(self.cells[0])


NO_KNOWN_CAUSE = "no known mistake explains this"


@dataclass(frozen=True)
class CauseSummary:
    """A possible cause; `partner` is the other mistake if two were made together."""

    name: str
    explained_share: str  # of the wrong cells: "2/3"; "" if the cause is not known
    description: str
    partner: str | None = None


@dataclass(frozen=True)
class MistakeSummary:
    """The first wrong number of a step and its possible causes."""

    location: str
    claimed: str
    expected: str
    working: Formula | None
    causes: list[CauseSummary]

    def format_causes(self) -> str:
        """Format the names of the causes: `not-scaled or copied-from-another-step`."""
        groups: dict[frozenset[str | None], str] = {}
        for cause in self.causes:
            name = cause.name if cause.explained_share else NO_KNOWN_CAUSE
            name = name if cause.partner is None else f"{name} and {cause.partner}"
            groups.setdefault(frozenset((cause.name, cause.partner)), name)
        return " or ".join(groups.values())

    def format_as_further(self, number: int) -> str:
        """Format a mistake after the first in one line: `second mistake: scaled, row 1, …`."""
        ordinal = _ORDINALS[number] if number < len(_ORDINALS) else f"{number}th"
        shares = sorted({cause.explained_share for cause in self.causes if cause.explained_share})
        explained = f", {shares[0].replace('/', ' of ')}" if shares else ""
        claim = f"{self.claimed}, but it is {self.expected}"
        return f"{ordinal} mistake: {self.location}: {claim}: {self.format_causes()}{explained}"


_ORDINALS = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True)
class WorkedProblem(Renderable):
    """The givens and steps of a solution or report, with the verdict of a report.

    `assumption` is the condition of the verdict, `notes` what it does not cover: reprints, steps
    that are not judged.
    """

    title: str
    givens: list[Panel]
    steps: list[Panel]
    verdict: str = ""
    summary: str = ""
    mistakes: list[MistakeSummary] = field(default_factory=list)  # one per wrong step, in order
    decimals: int = 3
    assumption: str = ""
    notes: tuple[str, ...] = ()

    @property
    def mistake(self) -> MistakeSummary | None:
        """The first mistake."""
        return self.mistakes[0] if self.mistakes else None


class WorkedResult(Renderable, ABC):
    """A result that is displayed as a worked problem: a solution, a report, a head of a model."""

    problem: "Problem"

    @abstractmethod
    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Return the content to display; `notes` adds a note to each cell."""

    @abstractmethod
    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return a function that formats the arithmetic of one cell, counted from 1."""
