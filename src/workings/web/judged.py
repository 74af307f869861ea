"""Reports laid out for the page: claimed beside exact, causes, errors carried on, hints."""

from dataclasses import replace
from typing import Any

from workings.problems import Problem, Report, Solution
from workings.problems.causes import Cause
from workings.problems.check import First, Judged
from workings.problems.reads import carried_on
from workings.problems.solve import formula_of, panel, title_of
from workings.views.colours import step as colour_of
from workings.views.notation import decimal, typeset
from workings.views.worked import Panel
from workings.web import told
from workings.web.formulas import formula
from workings.web.laid import givens, matrix, step_axes, substitution


def judged(report: Report, decimals: int) -> told.Report:
    """Lay a report out."""
    problem, laid = report.problem, report.worked()
    claimed = {one.step.key for one in report.steps}
    keys = problem.solve().keys()
    return told.Report(
        title=problem.title,
        verdict=report.verdict,
        counts=report.counts,
        steps=[
            _step(problem, one, panel, decimals)
            for one, panel in zip(report.steps, laid.steps, strict=True)
        ],
        findings=[_first(problem, first, decimals) for first in report.findings],
        links=[
            told.Link(
                source=link.source,
                cell=link.cell,
                target=link.target,
                first=link.first,
                count=link.count,
            )
            for link in carried_on(report)
        ],
        given=givens(problem, laid.givens),
        open=[_open(problem, key) for key in keys if key not in claimed],
    )


def hint(problem: Problem, key: str, level: int, decimals: int) -> told.Hint:
    """Help with a step: its formula, then a cell's working, then the cell's number."""
    step = problem.step(key)
    row, column = _needed(problem.check(), key)
    if level == 1:
        said = formula(formula_of(step, problem), decimals)
    elif level == 2:
        said = substitution(problem, key, row, column, decimals)
    else:
        solution = Solution(problem, decimals)
        said = formula(lambda n: solution.cell(key, row + 1, column + 1, n), decimals)
    return told.Hint(row=row, column=column, help=said)


def _needed(report: Report, key: str) -> tuple[int, int]:
    """Find the cell to help with: the first wrong one, or else the first that is blank."""
    verdicts: list[list[str]] = []
    if any(one.step.key == key for one in report.steps):
        verdicts = report[key]
    for wanted in ("wrong", "blank"):
        for row, line in enumerate(verdicts):
            if wanted in line:
                return row, line.index(wanted)
    return 0, 0


def _step(problem: Problem, one: Judged, laid: Panel, decimals: int) -> told.Judged:
    step, axes = one.step, step_axes(problem, one.step)
    return told.Judged(
        again=one.claim.again,
        verdict=one.verdict,
        claimed=matrix(problem, step.key, laid, decimals, axes, step),
        exact=matrix(problem, step.key, _exact(problem, step.key, decimals), decimals, axes, step),
        notes=[[cell.note for cell in row] for row in laid.cells],
    )


def _exact(problem: Problem, key: str, decimals: int) -> Panel:
    step = problem.step(key)
    name, stated = title_of(step, problem), formula_of(step, problem)
    return panel(problem, name, stated, problem.exact[key], step.rows, step.columns, decimals)


def _open(problem: Problem, key: str) -> told.Matrix:
    """A step that nobody has worked out yet: its shape and names, and no number."""
    step = problem.step(key)
    laid = matrix(problem, key, _exact(problem, key, 1), 1, step_axes(problem, step), step)
    blank = [["?" for _ in row] for row in laid.texts]
    none = [["" for _ in row] for row in laid.texts]
    return replace(laid, texts=blank, values=none, colours=none, marks=none, largest="")


def _first(problem: Problem, first: First, decimals: int) -> told.First:
    row, column = first.cell
    solution = Solution(problem, decimals)
    where = f"{title_of(problem.step(first.key), problem)}, row {row + 1}, column {column + 1}"
    return told.First(
        key=first.key,
        again=first.again,
        where=where,
        row=row,
        column=column,
        claimed=typeset(first.claimed),
        expected=typeset(decimal(first.expected, 6)),
        carried=None if first.carried is None else typeset(decimal(first.carried, 6)),
        working=formula(lambda n: solution.cell(first.key, row + 1, column + 1, n), decimals),
        causes=[_cause(problem, cause, decimals) for cause in first.causes],
    )


def _cause(problem: Problem, cause: Cause, decimals: int) -> told.Cause:
    gives: list[list[Any]] | None = None
    if cause.gives is not None:
        gives = problem.turn(cause.gives).tolist()
    full = max((abs(v) for row in gives or [] for v in row if abs(v) < float("inf")), default=0.0)
    return told.Cause(
        name=cause.name,
        reproduces=cause.reproduces,
        says=cause.says,
        gives=gives and [[typeset(decimal(v, decimals)) for v in row] for row in gives],
        colours=gives and [[colour_of(v, full) for v in row] for row in gives],
    )
