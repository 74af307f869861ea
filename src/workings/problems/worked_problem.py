"""The content of a solution or report to display, independent of text, LaTeX or HTML."""

from collections.abc import Callable
from dataclasses import dataclass

from workings.problems.notation import Notation


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
    formula: Callable[[Notation], str] | None
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
    working: Callable[[Notation], str] | None
    causes: list[tuple[str, str, str]]  # name, reproduced share, description


@dataclass(frozen=True)
class WorkedProblem:
    """The givens and steps of a solution or report, with the verdict of a report."""

    title: str
    givens: list[Panel]
    steps: list[Panel]
    verdict: str = ""
    summary: str = ""
    mistake: MistakeSummary | None = None
    decimals: int = 3
