"""Build the responses of the screen Check: claimed and exact steps, findings, hints."""

from dataclasses import replace
from typing import Any

from workings.languages import gettext
from workings.problems import Problem, Report, Solution
from workings.problems.check import WrongCell
from workings.problems.derivation import find_error_links
from workings.problems.diagnosis import UNKNOWN, Cause
from workings.problems.judging import CheckedStep
from workings.problems.notation import format_decimal, typeset
from workings.problems.solution import (
    format_step_title,
    format_value,
    make_panel,
    make_step_formula,
)
from workings.problems.worked_problem import Panel
from workings.render.colors import color_step
from workings.web import responses
from workings.web.markup import build_formula
from workings.web.problem_views import (
    build_given_views,
    build_matrix_view,
    build_substitution,
    list_head_counts,
    step_axes,
)


def build_report_view(report: Report, decimals: int) -> responses.ReportView:
    """Return a report with its steps, findings and the links between errors."""
    problem, layout = report.problem, report.to_worked_problem()
    claimed = {checked.step.key for checked in report.steps}
    keys = problem.solve().keys()
    return responses.ReportView(
        title=problem.title,
        verdict=report.verdict,
        assumption=report.assumption,
        notes=report.source_notes,
        counts=report.counts,
        summary=layout.summary,
        steps=[
            _build_step(problem, checked, panel, decimals)
            for checked, panel in zip(report.steps, layout.steps, strict=True)
        ],
        findings=[_build_finding(report, cell, decimals) for cell in report.wrong_cells],
        links=find_error_links(report),
        given=build_given_views(problem, layout.givens),
        open_steps=[_build_open_step(problem, key) for key in keys if key not in claimed],
        read_as=_list_conventions(problem),
        heads=list_head_counts(problem),
    )


def _list_conventions(problem: Problem) -> dict[str, str]:
    """Return the conventions of a problem by the names of its settings."""
    setting, names = problem.setting, problem.kind.settings
    conventions = {
        "scale": str(setting.scale),
        "mask": "causal" if setting.causal else "none" if setting.mask is None else "own",
        "normalizer": setting.normalizer,
        "heads": str(setting.heads),
    }
    vectors = "columns" if problem.column_vectors else "rows"
    return {"vectors": vectors} | {name: conventions[name] for name in conventions if name in names}


def build_hint(problem: Problem, key: str, level: int, decimals: int) -> responses.CellWorking:
    """Return a hint for a step: its formula, the computation of a cell, or the cell's number."""
    step = problem.get_step(key)
    row, column = _find_cell_to_hint(problem.check(), key)
    if level == 1:
        hint = build_formula(make_step_formula(step, problem), decimals)
    elif level == 2:
        hint = build_substitution(problem, key, row, column, decimals)
    else:
        solution = Solution(problem, decimals)
        hint = build_formula(lambda n: solution.cell(key, row + 1, column + 1, n), decimals)
    return responses.CellWorking(
        key=key,
        row=row,
        column=column,
        name=f"{key}[{row + 1},{column + 1}]",
        working=hint,
        value="",
        reads=[],
    )


def _find_cell_to_hint(report: Report, key: str) -> tuple[int, int]:
    """Return the row and column of the first wrong cell, or else of the first blank one."""
    verdicts: list[list[str]] = []
    if any(checked.step.key == key for checked in report.steps):
        verdicts = report[key]
    for verdict in ("wrong", "blank"):
        for row, line in enumerate(verdicts):
            if verdict in line:
                return row, line.index(verdict)
    return 0, 0


def _build_step(
    problem: Problem, checked_step: CheckedStep, claim_panel: Panel, decimals: int
) -> responses.CheckedStepView:
    step, axes = checked_step.step, step_axes(problem, checked_step.step)
    return responses.CheckedStepView(
        reprint=checked_step.claim.reprint,
        verdict=checked_step.verdict,
        claimed=build_matrix_view(problem, step.key, claim_panel, decimals, axes, step),
        exact=build_matrix_view(
            problem, step.key, _exact_panel(problem, step.key, decimals), decimals, axes, step
        ),
        notes=[[cell.note for cell in row] for row in claim_panel.cells],
    )


def _exact_panel(problem: Problem, key: str, decimals: int) -> Panel:
    step = problem.get_step(key)
    name, formula = format_step_title(step, problem), make_step_formula(step, problem)
    return make_panel(
        problem,
        name,
        formula,
        problem.exact_matrices[key],
        step.row_axis,
        step.column_axis,
        decimals,
        step.labels,
    )


def _build_open_step(problem: Problem, key: str) -> responses.MatrixView:
    """Return a step that is not claimed yet: its shape and names, without numbers."""
    step = problem.get_step(key)
    view = build_matrix_view(
        problem, key, _exact_panel(problem, key, 1), 1, step_axes(problem, step), step
    )
    blank = [["?" for _ in row] for row in view.texts]
    empty = [["" for _ in row] for row in view.texts]
    return replace(view, texts=blank, values=empty, colors=empty, marks=empty, largest="")


def _build_finding(report: Report, finding: WrongCell, decimals: int) -> responses.FindingView:
    problem, (row, column) = report.problem, finding.cell
    title = format_step_title(problem.get_step(finding.key), problem)
    shown_decimals = finding.distinguishing_decimals(6)
    return responses.FindingView(
        key=finding.key,
        reprint=finding.reprint,
        location=gettext(
            "{step}, row {row}, column {column}", step=title, row=row + 1, column=column + 1
        ),
        row=row,
        column=column,
        claimed=typeset(finding.claimed),
        expected=typeset(format_value(finding.expected, shown_decimals, finding.labels)),
        follow_through=None
        if finding.carried_value is None
        else typeset(format_value(finding.carried_value, shown_decimals, finding.labels)),
        working=build_formula(report.working_formula(finding), decimals),
        causes=[_build_cause(problem, cause, decimals) for cause in finding.causes],
    )


def _build_cause(problem: Problem, cause: Cause, decimals: int) -> responses.CauseView:
    numbers: list[list[Any]] = []
    if cause.result is not None:
        numbers = problem.orient(cause.result).tolist()
    max_abs = max((abs(v) for row in numbers for v in row if abs(v) < float("inf")), default=0.0)
    return responses.CauseView(
        name=cause.name,
        explained_share="" if cause.name == UNKNOWN else cause.reproduced_share,
        description=cause.description,
        resulting_cells=[[typeset(format_decimal(v, decimals)) for v in row] for row in numbers]
        or None,
        colors=[[color_step(v, max_abs) for v in row] for row in numbers] or None,
    )
