"""Things to look at outside of the page: the component of each, and what that is told."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

from workings.errors import UserError
from workings.problems import Problem, Report, Solution
from workings.views import html
from workings.views.worked import Worked
from workings.web import told
from workings.web.judged import judged
from workings.web.laid import MOST_SIDE, worked, working, workings


@dataclass(frozen=True)
class Part:
    """A component's name and what it is told, and the steps whose cells it may ask about."""

    shown: str
    told: dict[str, Any]
    laid: Worked
    problem: Problem
    keys: list[str]

    @property
    def title(self) -> str:
        return self.laid.title

    @property
    def note(self) -> str:
        """What is to be said before anything is looked at; a verdict says it better."""
        return "" if self.laid.verdict else self.laid.summary

    @property
    def static(self) -> str:
        """The same as HTML, for where nothing runs; its title is somebody else's to write."""
        return html.body(replace(self.laid, title=""))

    @property
    def cells(self) -> int:
        """How many cells have a working."""
        return sum(self.problem.exact[key].mid.size for key in self.keys)

    def working(self, key: str, row: int, column: int) -> dict[str, Any]:
        """Write a cell out, counted from 0; whatever is no such cell is a `UserError`."""
        if key not in self.keys:
            raise UserError(f"{key}: no step that is shown")
        return asdict(working(self.problem, key, row, column, self.laid.decimals))

    def workings(self) -> dict[str, list[list[dict[str, Any]]]]:
        """Write every cell out."""
        decimals = self.laid.decimals
        return {
            key: [[asdict(cell) for cell in row] for row in workings(self.problem, key, decimals)]
            for key in self.keys
        }


@runtime_checkable
class _OfProblem(Protocol):
    """A solution, a report; a head of a model is a worked problem like any other."""

    problem: Problem

    def worked(self, *, notes: bool = False) -> Worked: ...


def part(thing: object) -> Part | None:
    """Find a thing's component; None: it has none, or is too large to be looked at so."""
    thing = thing.solve() if isinstance(thing, Problem) else thing
    if not isinstance(thing, _OfProblem):
        return None
    laid, problem = thing.worked(), thing.problem
    if isinstance(thing, Report):
        report = judged(thing, laid.decimals)
        matrices = [one.exact for one in report.steps]
        found = Part("report", asdict(report), laid, problem, [one.key for one in matrices])
    else:
        shown = worked(problem, laid.decimals)
        shown.given = [matrix for matrix in shown.given if _fits(matrix)]
        matrices = shown.steps
        found = Part("solution", asdict(shown), laid, problem, Solution(problem).keys())
    return found if all(map(_fits, matrices)) else None


def _fits(matrix: told.Matrix) -> bool:
    return max(len(matrix.row_names), len(matrix.column_names)) <= MOST_SIDE
