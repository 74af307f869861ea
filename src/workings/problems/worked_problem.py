"""The content of a solution or report to display, independent of text, LaTeX or HTML."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workings.display import Renderable
from workings.languages import gettext, gettext_noop
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


NO_KNOWN_CAUSE = gettext_noop("no known mistake explains this")


def format_verdict(verdict: str) -> str:
    """Return a verdict as a word of the current language."""
    words = {
        "right": gettext("right"),
        "wrong": gettext("wrong"),
        "rounded": gettext("rounded"),
        "follows": gettext("follows"),
        "blank": gettext("blank"),
        "nothing to check": gettext("nothing to check"),
    }
    return words.get(verdict, verdict)


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
            name = cause.name if cause.explained_share else gettext(NO_KNOWN_CAUSE)
            name = name if cause.partner is None else name + gettext(" and ") + cause.partner
            groups.setdefault(frozenset((cause.name, cause.partner)), name)
        return gettext(" or ").join(groups.values())

    def format_as_further(self, number: int) -> str:
        """Format a mistake after the first in one line: `second mistake: scaled, row 1, …`."""
        shares = sorted({cause.explained_share for cause in self.causes if cause.explained_share})
        explained, _, wrong = shares[0].partition("/") if shares else ("", "", "")
        line = gettext(
            "{ordinal} mistake: {location}: {claimed}, but it is {expected}: {causes}",
            ordinal=format_ordinal(number),
            location=self.location,
            claimed=self.claimed,
            expected=self.expected,
            causes=self.format_causes(),
        )
        return line + gettext(", {explained} of {wrong}", explained=explained, wrong=wrong) * bool(
            shares
        )


def format_ordinal(number: int) -> str:
    """Format which one of several: second, third."""
    ordinals = (
        gettext("first"),
        gettext("second"),
        gettext("third"),
        gettext("fourth"),
        gettext("fifth"),
        gettext("sixth"),
        gettext("seventh"),
        gettext("eighth"),
    )
    if number <= len(ordinals):
        return ordinals[number - 1]
    return gettext("{number}th", number=number)


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
