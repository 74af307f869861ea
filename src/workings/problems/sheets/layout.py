"""Laying a sheet out to look at: what is given, what is asked, and what a reader must be told."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.problem import Problem
from workings.problems.sheets.mistake_planter import PlantedMistake
from workings.problems.sheets.plan import ATTENTION_KINDS, SheetPlan
from workings.problems.sheets.printed_sheet import (
    PrintedMistake,
    PrintedProblem,
    PrintedSheet,
    PrintedStep,
)
from workings.problems.sheets.rounded_solution import (
    format_shortest,
    list_asked_steps,
    solve_rounded,
)
from workings.problems.sheets.sheet import Exercise, Sheet
from workings.problems.solution import (
    format_step_title,
    get_axis_labels,
    get_given_axes,
    make_panel,
    make_step_formula,
)
from workings.problems.worked_problem import Cell, Panel

_NUM_SOLVERS = 12


def make_printed_sheet(sheet: Sheet) -> PrintedSheet:
    """Lay out a sheet."""
    plan = sheet.plan
    size = f"{plan.tokens} tokens of width {plan.width}"
    return PrintedSheet(
        sheet.title,
        f"{size} · {len(sheet.exercises)} problems · seed {sheet.seed}",
        _make_instructions(sheet),
        [_make_printed_problem(exercise, plan) for exercise in sheet.exercises],
        sorted(sheet.mistake_names),
        plan.decimals,
    )


def _make_instructions(sheet: Sheet) -> list[str]:
    places = f"{sheet.plan.decimals} decimal{'s' if sheet.plan.decimals > 1 else ''}"
    if sheet.mistakes:
        return [
            "Somebody worked these problems and made one mistake in each. Everything after it was"
            f" carried on without another one, rounded to {places} at every step.",
            "Find the first wrong number of each problem, say what it should be, and name the"
            " mistake.",
        ]
    return [
        f"Work every step out. Round to {places} where a number does not end sooner, and go on"
        " with the rounded numbers.",
        "A step worked correctly from a wrong number before it counts in full: write every step"
        " down.",
    ]


def _make_printed_problem(exercise: Exercise, plan: SheetPlan) -> PrintedProblem:
    problem, planted = exercise.problem, exercise.planted_mistake
    words = problem.tokens or []
    heading = " ".join(words) if plan.kind in (*ATTENTION_KINDS, "block", "additive") else ""
    return PrintedProblem(
        exercise.number,
        heading,
        describe_conventions(plan, problem),
        _make_given_panels(problem, exercise.table["given"]),
        _make_printed_steps(problem, plan.decimals, planted),
        None if planted is None else _make_printed_mistake(problem, plan.decimals, planted),
    )


def describe_conventions(plan: SheetPlan, problem: Problem) -> list[str]:
    """Say what the matrices and formulas leave open."""
    vector, across = ("column", "rows") if plan.column_vectors else ("row", "columns")
    tell = [] if plan.kind == "positions" else [f"Each token is a {vector}."]
    if plan.has_attention:
        tell += _describe_attention(plan, across)
    if plan.kind in ("layer_norm", "block"):
        tell.append(f"The variance is divided by the width, {plan.width}, and ε = 0.")
    if plan.kind == "additive":
        tell.append(f"The query's part is added to every {vector}.")
    if plan.kind == "positions":
        tell.append(
            f"Positions 0 to {plan.tokens - 1}, width {plan.width}, base"
            f" {problem.setting.base:.0f}. {across.capitalize()} 1 and 2 have i = 0, 3 and 4 have"
            " i = 1, and so on: the first of a pair holds the angle’s sine, the second its cosine."
        )
    if plan.kind in ("rnn", "lstm"):
        start = "h0 and c0 are zero" if plan.kind == "lstm" else "h0 is zero"
        tell.append(f"x₁, x₂, … are the {vector}s of X; {start}.")
    if plan.kind == "lstm":
        gates = ("input (i)", "forget (f)", "cell (g)", "output (o)")
        tell.append(
            f"The gates lie side by side in W_x, W_h and b: {_format_shares(across, plan.hidden, gates)};"
            " W_xi is the first of these parts, and so on."
        )
    return tell


def _describe_attention(plan: SheetPlan, across: str) -> list[str]:
    tell = []
    if plan.is_masked:
        tell.append("M hides the future: a token looks at itself and at those before it.")
    if plan.context:
        tell.append("Queries come from X, keys and values from the context.")
    if plan.heads > 1:
        heads = [f"to head {head + 1}" for head in range(plan.heads)]
        tell.append(f"Q, K and V are shared out: {_format_shares(across, plan.d_k, heads)}.")
    if plan.is_scaled:
        whose = " of a head" if plan.heads > 1 else ""
        tell.append(f"A query{whose} has d_k\u00a0=\u00a0{plan.d_k} numbers.")
    return tell


def _format_shares(across: str, width: int, names: Sequence[str]) -> str:
    """Write who gets which columns: `columns 1–2 to head 1, 3–4 to head 2`."""
    parts = [f"{k * width + 1}–{k * width + width} {name}" for k, name in enumerate(names)]
    return f"{across} {', '.join(parts)}"


def _make_given_panels(problem: Problem, given: dict[str, Any]) -> list[Panel]:
    givens = [
        make_panel(problem, name, None, cells, *get_given_axes(problem, name), 1)
        for name, cells in problem.given.items()
        if name in problem.kind.matrices and name in given
    ]
    if problem.setting.mask is not None:
        mask = IntervalMatrix.exact(np.where(problem.setting.mask, 0.0, -np.inf))
        givens.append(make_panel(problem, "M", None, mask, "tokens", "context", 1))
    return givens


def _make_printed_steps(
    problem: Problem, decimals: int, planted_mistake: PlantedMistake | None
) -> list[PrintedStep]:
    margins = estimate_tolerances(problem, decimals)
    laid = []
    for step in list_asked_steps(problem):
        exact = problem.exact_matrices[step.key]
        texts = None
        if planted_mistake is not None:
            claimed = np.array(
                [[float(t) for t in row] for row in planted_mistake.claims[step.key]]
            )
            texts = format_shortest(claimed, decimals)
        laid.append(
            PrintedStep(
                step.key,
                _make_step_panel(problem, step, texts),
                format_shortest(problem.orient(exact.mid), decimals),
                margins[step.key],
            )
        )
    return laid


def _make_step_panel(problem: Problem, step: Step, texts: list[list[str]] | None) -> Panel:
    """A step's table: empty, or with what is claimed."""
    rows, columns = (
        (step.column_axis, step.row_axis)
        if problem.column_vectors
        else (step.row_axis, step.column_axis)
    )
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
    exact = format_shortest(
        problem.orient(problem.exact_matrices[planted_mistake.key].mid), decimals
    )
    return PrintedMistake(
        planted_mistake.key,
        planted_mistake.step_title,
        row + 1,
        column + 1,
        planted_mistake.claimed,
        exact[row][column],
        (planted_mistake.name, *planted_mistake.equivalent_names),
        planted_mistake.description[:1].upper() + planted_mistake.description[1:],
    )


def estimate_tolerances(problem: Problem, decimals: int) -> dict[str, list[list[float]]]:
    """Say how far from the key a solver may be who rounds or truncates at every step.

    Tried out, and not bounded: bounds on a chain of steps grow far beyond what can happen.
    """
    rng = Random("somebody who rounds as it comes")  # noqa: S311
    off = {
        step.key: np.zeros(problem.exact_matrices[step.key].shape)
        for step in list_asked_steps(problem)
    }
    for _ in range(_NUM_SOLVERS):
        env = solve_rounded(problem, decimals, rounding_rng=rng)
        for key, furthest in off.items():
            with np.errstate(invalid="ignore"):  # −∞ less −∞
                now = np.nan_to_num(np.abs(env[key].mid - problem.exact_matrices[key].mid), nan=0.0)
            off[key] = np.maximum(furthest, now)
    unit = 10.0**-decimals
    # Half as far again for whoever was not tried out; half a unit, by which the key is rounded.
    margins = {key: np.where(far > 1e-9, 1.5 * far + unit / 2, 0) for key, far in off.items()}
    return {
        key: [[_round_up(v, decimals) for v in row] for row in problem.orient(far).tolist()]
        for key, far in margins.items()
    }


def _round_up(value: float, decimals: int) -> float:
    steps = 10.0**decimals
    return round(math.ceil(value * steps - 1e-6) / steps, decimals)
