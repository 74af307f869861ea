"""Things to look at outside of the page: the component of each, and what that is told."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any, Protocol, runtime_checkable

import numpy as np

from workings.problems import Problem, Report, Solution
from workings.views import html, maps
from workings.views.derived import Derived
from workings.views.worked import Worked
from workings.web import told
from workings.web.judged import judged
from workings.web.laid import MOST_SIDE, worked
from workings.web.mapped import palette, weights_map
from workings.web.written_out import Workings, Write

MOST_MAPPED = 300_000  # cells of all maps together: somewhat more than a megabyte


@dataclass(frozen=True)
class Part:
    """A component by its name, what it is told, and the same as HTML for where nothing runs."""

    shown: str
    title: str
    note: str
    told: dict[str, Any]
    static: str
    steps: Sequence[str] = ()  # whose cells it may ask about
    workings: Workings | None = None


@runtime_checkable
class _OfProblem(Protocol):
    """A solution, a report; a head of a model is a worked problem like any other."""

    problem: Problem

    def worked(self, *, notes: bool = False) -> Worked: ...


def part(thing: object) -> Part | None:
    """Find a thing's component; None: it has none, or is too large to be looked at so."""
    if isinstance(thing, Problem):
        return part(thing.solve())
    if isinstance(thing, _OfProblem):
        return _of_problem(thing)
    return _of_maps(thing) if isinstance(thing, maps.Told) else None


def _of_problem(thing: _OfProblem) -> Part | None:
    problem = thing.problem
    keys = Solution(problem).keys()
    if any(max(problem.exact[key].shape) > MOST_SIDE for key in keys):
        return None
    laid = thing.worked()
    if isinstance(thing, Report):
        report = judged(thing, laid.decimals)
        shown, tells, note = "report", asdict(report), ""  # its verdict says more than a note
        keys = list(dict.fromkeys(one.exact.key for one in report.steps))
    else:
        solved = worked(problem, laid.decimals, laid)
        solved.given = [matrix for matrix in solved.given if _fits(matrix)]
        shown, tells, note = "solution", asdict(solved), laid.summary
    return Part(
        shown,
        laid.title or "Worked problem",
        note,
        tells,
        html.body(replace(laid, title="")),
        keys,
        Workings(problem, laid.decimals, _writer(thing)),
    )


def _writer(thing: _OfProblem) -> Write | None:
    """A head's sums are long: it has a way of its own to write its cells out."""
    derive: Callable[[str, int, int], Derived] | None = getattr(thing, "cell", None)
    if derive is None or isinstance(thing, Solution):
        return None
    return lambda key, row, column: derive(key, row, column).working


def _fits(matrix: told.Matrix) -> bool:
    return max(len(matrix.row_names), len(matrix.column_names)) <= MOST_SIDE


def _of_maps(thing: maps.Told) -> Part | None:
    if len(thing.rows) * len(thing.columns) * len(thing.maps) > MOST_MAPPED:
        return None
    rows, columns = ([maps.label(token) for token in some] for some in (thing.rows, thing.columns))
    weights = [np.array([list(row) for row in one.weights]) for one in thing.maps]
    causal = len(rows) == len(columns) > 1 and not any(np.triu(one, 1).any() for one in weights)
    drawn = [
        asdict(weights_map(one.name, one.name, rows, columns, numbers, causal))
        for one, numbers in zip(thing.maps, weights, strict=True)
    ]
    for one in drawn:  # all have the same colours
        del one["light"], one["dark"]
    colours = {theme: asdict(palette(theme)) for theme in ("light", "dark")}
    tells = {"maps": drawn, "across": _across([one.name for one in thing.maps]), **colours}
    note = f"{maps.how_to_read(thing)}."
    return Part("maps", maps.heading(thing), note, tells, maps.body(thing))


def _across(names: Sequence[str]) -> int:
    """How many of the first maps are of one layer: so many stand in a row.

    >>> _across(["layer 1, head 1", "layer 1, head 2", "layer 2, head 1"])
    2
    """
    layer = names[0].partition(",")[0]
    return sum(1 for _ in takewhile(lambda name: name.partition(",")[0] == layer, names))
