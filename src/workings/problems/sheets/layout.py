"""Convert a sheet to its printed form: givens, steps to compute, conventions and answers."""

import math
from random import Random
from typing import Any

import numpy as np

from workings.languages import gettext, ngettext
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.problem import Problem
from workings.problems.sheets.expected_answers import list_expected_mistakes
from workings.problems.sheets.mistake_planter import PlantedMistake
from workings.problems.sheets.printed_sheet import (
    PrintedMistake,
    PrintedProblem,
    PrintedSheet,
    PrintedStep,
)
from workings.problems.sheets.rounded_solution import (
    format_shortest,
    format_step,
    solve_rounded,
)
from workings.problems.sheets.sheet import Exercise, Sheet, format_size
from workings.problems.solution import (
    format_step_title,
    get_axis_labels,
    make_given_panels,
    make_panel,
    make_step_formula,
)
from workings.problems.worked_problem import Cell, Panel

_NUM_SOLVERS = 12  # simulated solutions with random rounding


def make_printed_sheet(sheet: Sheet) -> PrintedSheet:
    """Return the printed form of a sheet."""
    sizes = ", ".join(dict.fromkeys(format_size(plan) for plan in sheet.plans))
    origin = (
        gettext("code {code}", code=sheet.code)
        if sheet.code
        else gettext("seed {seed}", seed=str(sheet.seed))
    )
    return PrintedSheet(
        sheet.title,
        f"{sizes} · {_format_count(sheet)} · {origin}",
        _make_instructions(sheet),
        [_make_printed_problem(exercise, sheet) for exercise in sheet.exercises],
        sorted(sheet.mistake_names),
        sheet.decimals,
        sheet.questions.has_points,
        sheet.hides_formulas,
    )


def _format_count(sheet: Sheet) -> str:
    return ngettext("{count} problem", "{count} problems", len(sheet.exercises))


def _make_instructions(sheet: Sheet) -> list[str]:
    places = ngettext("{count} decimal", "{count} decimals", sheet.decimals)
    if sheet.mistakes:
        return [
            gettext(
                "These solutions have one mistake each. Everything after it was computed correctly"
                " from the wrong numbers, rounded to {places} at every step.",
                places=places,
            ),
            gettext(
                "Find the first wrong number of each problem, state the correct number and name the"
                " mistake."
            ),
        ]
    task = (
        gettext("Compute the steps that are asked for.")
        if sheet.questions.steps
        else gettext("Compute every step.")
    )
    rounding = gettext(
        "Round to {places} if a number has more, and continue with the rounded numbers.",
        places=places,
    )
    fewer = [gettext("One decimal fewer is accepted.")] if sheet.decimals > 1 else []
    return [
        " ".join([task, rounding, *fewer]),
        gettext(
            "A step that is computed correctly from an earlier wrong number gets full marks, so"
            " write down every step."
        ),
    ]


def _make_printed_problem(exercise: Exercise, sheet: Sheet) -> PrintedProblem:
    problem, planted, plan = exercise.problem, exercise.planted_mistake, exercise.plan
    heading = " ".join(problem.tokens or []) if plan.kind.sentence == "heading" else ""
    if len(sheet.plans) > 1:
        title = gettext(plan.kind.title)
        heading = f"{title}: {heading}" if heading else title
    return PrintedProblem(
        exercise.number,
        heading,
        plan.kind.describe(plan, problem),
        _make_given_panels(problem, exercise.table["given"]),
        _make_printed_steps(exercise, sheet),
        None if planted is None else _make_printed_mistake(problem, plan.decimals, planted),
    )


def _make_given_panels(problem: Problem, given: dict[str, Any]) -> list[Panel]:
    """Return the given matrices of the file and the mask to display."""
    givens = make_given_panels(problem, given)
    if problem.setting.mask is not None:
        mask = IntervalMatrix.exact(np.where(problem.setting.mask, 0.0, -np.inf))
        givens.append(make_panel(problem, "M", None, mask, "tokens", "context", 1))
    return givens


def _make_printed_steps(exercise: Exercise, sheet: Sheet) -> list[PrintedStep]:
    """Return the steps: blank, or with the numbers of a solution with a mistake."""
    problem, planted, decimals = exercise.problem, exercise.planted_mistake, sheet.decimals
    tolerances = estimate_tolerances(problem, decimals)
    asked_steps, solution = sheet.get_asked_steps(exercise), problem.solve(decimals)
    # Messages on mistakes would state the formulas, or the planted mistake.
    has_messages = planted is None and not sheet.hides_formulas
    mistakes = list_expected_mistakes(
        problem, asked_steps if has_messages else (), tolerances, decimals
    )
    steps = []
    for step in problem.asked_steps:
        texts = None
        if planted is not None:
            claim = planted.claims[step.key]
            claimed = np.array([[float(text) for text in row] for row in claim])
            texts = format_step(step, claimed, decimals, format_shortest)
        panel = _make_step_panel(problem, step, texts)
        exact = problem.orient(problem.exact_matrices[step.key].mid)
        height, width = exact.shape
        cells = [(i + 1, j + 1) for i in range(height) for j in range(width)]
        steps.append(
            PrintedStep(
                step.key,
                panel,
                format_step(step, exact, decimals, format_shortest),
                tolerances[step.key],
                [solution.cell_formula(step.key, row, column) for row, column in cells],
                step.key in asked_steps,
                sheet.questions.get_points(step.key),
                mistakes.get(step.key, []),
            )
        )
    return steps


def _make_step_panel(problem: Problem, step: Step, texts: list[list[str]] | None) -> Panel:
    """Return the table of a step: blank, or with the claimed numbers."""
    rows, columns = step.row_axis, step.column_axis
    if problem.column_vectors:
        rows, columns = columns, rows
    height, width = problem.orient(problem.exact_matrices[step.key].mid).shape
    return Panel(
        format_step_title(step, problem),
        make_step_formula(step, problem),
        [[Cell(texts[i][j] if texts else "", None) for j in range(width)] for i in range(height)],
        get_axis_labels(problem, rows, height),
        get_axis_labels(problem, columns, width),
    )


def _make_printed_mistake(
    problem: Problem, decimals: int, planted_mistake: PlantedMistake
) -> PrintedMistake:
    row, column = planted_mistake.cell
    step = problem.get_step(planted_mistake.key)
    matrix = problem.orient(problem.exact_matrices[step.key].mid)
    exact = format_step(step, matrix, decimals, format_shortest)
    return PrintedMistake(
        planted_mistake.key,
        planted_mistake.step_title,
        row + 1,
        column + 1,
        planted_mistake.claimed,
        exact[row][column],
        (planted_mistake.name, *planted_mistake.equivalent_names),
        planted_mistake.description[:1].upper() + planted_mistake.description[1:],
        10.0**-decimals,
    )


def estimate_tolerances(problem: Problem, decimals: int) -> dict[str, list[list[float]]]:
    """Estimate how far a solution that rounds or truncates at every step may be from the key.

    The estimate is from simulations: interval bounds over a chain of steps are far too wide.
    """
    # The seed determines the tolerances of sheets already handed out: never reword it.
    rng = Random("somebody who rounds as it comes")  # noqa: S311
    exact = problem.exact_matrices
    errors = {step.key: np.zeros(exact[step.key].shape) for step in problem.asked_steps}
    for _ in range(_NUM_SOLVERS):
        env = solve_rounded(problem, decimals, rounding_rng=rng)
        for key, largest in errors.items():
            with np.errstate(invalid="ignore"):  # −∞ minus −∞
                error = np.nan_to_num(np.abs(env[key].mid - exact[key].mid), nan=0.0)
            errors[key] = np.maximum(largest, error)
    unit = 10.0**-decimals
    # A margin of 50 % for other roundings, and half a unit for the rounding of the key itself.
    tolerances = {key: np.where(e > 1e-9, 1.5 * e + unit / 2, 0) for key, e in errors.items()}
    return {
        key: [[_round_up(v, decimals) for v in row] for row in problem.orient(tolerance).tolist()]
        for key, tolerance in tolerances.items()
    }


def _round_up(value: float, decimals: int) -> float:
    steps = 10.0**decimals
    return round(math.ceil(value * steps - 1e-6) / steps, decimals)
