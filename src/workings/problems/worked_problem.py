"""The content of a solution or report to display, independent of text, LaTeX or HTML."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
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


@dataclass(frozen=True)
class MistakeSummary:
    """The first wrong number and its possible causes."""

    location: str
    claimed: str
    expected: str
    working: Formula | None
    causes: list[tuple[str, str, str]]  # name, reproduced share, description


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
    mistake: MistakeSummary | None = None
    decimals: int = 3
    assumption: str = ""
    notes: tuple[str, ...] = ()


class WorkedResult(Renderable, ABC):
    """A result that is displayed as a worked problem: a solution, a report, a head of a model."""

    problem: "Problem"

    @abstractmethod
    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Return the content to display; `notes` adds a note to each cell."""

    @abstractmethod
    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return a function that formats the arithmetic of one cell, counted from 1."""
