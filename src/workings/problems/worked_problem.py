"""What a solution or a report looks like, before anybody decides on text, LaTeX or HTML."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workings.display import Renderable
from workings.problems.notation import Formula

if TYPE_CHECKING:
    from workings.problems.problem import Problem


@dataclass(frozen=True)
class Cell:
    """A cell of a matrix: what is printed, its value for the colour, and how it was judged.

    `mark`: "" (not judged), right, rounded, follows, wrong, blank; or masked, for −∞ by a mask.
    `note`: what to say about it, e.g. what it should be.
    """

    text: str
    value: float | None
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """A matrix with its formula. `first`: the cell to look at first, counted from 0."""

    name: str
    formula: Formula | None
    cells: list[list[Cell]]
    row_names: list[str]
    column_names: list[str]
    verdict: str = ""  # the step's verdict, in a report
    first_wrong: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, columns."""
        return len(self.cells), len(self.cells[0])


@dataclass(frozen=True)
class MistakeSummary:
    """The first wrong number and what may have caused it, each a sentence."""

    location: str
    claimed: str
    expected: str
    working: Formula | None
    causes: list[tuple[str, str, str]]  # name, reproduces, says


@dataclass(frozen=True)
class WorkedProblem(Renderable):
    """A whole page: what was given, the steps, and, for a report, the verdict."""

    title: str
    givens: list[Panel]
    steps: list[Panel]
    verdict: str = ""
    summary: str = ""
    mistake: MistakeSummary | None = None
    decimals: int = 3


class WorkedResult(Renderable, ABC):
    """A result that can be laid out as a worked problem: a solution, a report, a head of a model."""

    problem: "Problem"

    @abstractmethod
    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Lay the result out; `notes`: with a note at each cell."""

    @abstractmethod
    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return the working of one cell, counted from 1 in the problem's convention."""
