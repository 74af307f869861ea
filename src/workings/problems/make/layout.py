"""Laying a sheet out to look at: what is given, what is asked, and what a reader must be told."""

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from workings.problems.cells import Cells
from workings.problems.kinds import Step
from workings.problems.make.by_hand import asked, short, worked
from workings.problems.make.plan import ATTENTION, Plan
from workings.problems.make.plant import Planted
from workings.problems.make.sheet import Exercise, Sheet
from workings.problems.problem import Problem
from workings.problems.solve import axis_names, formula_of, given_axes, panel, title_of
from workings.views.exercises import Asked, Fault, Page, Task
from workings.views.worked import Cell, Panel

_SOLVERS = 12


def page_of(sheet: Sheet) -> Page:
    """Lay out a sheet."""
    plan = sheet.plan
    size = f"{plan.tokens} tokens of width {plan.width}"
    return Page(
        sheet.title,
        f"{size} · {len(sheet.exercises)} problems · seed {sheet.seed}",
        _rules(sheet),
        [_task(exercise, plan) for exercise in sheet.exercises],
        sorted(sheet.names),
        plan.decimals,
    )


def _rules(sheet: Sheet) -> list[str]:
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


def _task(exercise: Exercise, plan: Plan) -> Task:
    problem, planted = exercise.problem, exercise.planted
    words = problem.tokens or []
    heading = " ".join(words) if plan.kind in (*ATTENTION, "block", "additive") else ""
    return Task(
        exercise.number,
        heading,
        told(plan, problem),
        _givens(problem, exercise.table["given"]),
        _steps(problem, plan.decimals, planted),
        None if planted is None else _fault(problem, plan.decimals, planted),
    )


def told(plan: Plan, problem: Problem) -> list[str]:
    """Say what the matrices and formulas leave open."""
    vector, across = ("column", "rows") if plan.columns else ("row", "columns")
    tell = [] if plan.kind == "positions" else [f"Each token is a {vector}."]
    if plan.attends:
        tell += _told_of_attention(plan, across)
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
            f"The gates lie side by side in W_x, W_h and b: {_shares(across, plan.hidden, gates)};"
            " W_xi is the first of these parts, and so on."
        )
    return tell


def _told_of_attention(plan: Plan, across: str) -> list[str]:
    tell = []
    if plan.masked:
        tell.append("M hides the future: a token looks at itself and at those before it.")
    if plan.context:
        tell.append("Queries come from X, keys and values from the context.")
    if plan.heads > 1:
        heads = [f"to head {head + 1}" for head in range(plan.heads)]
        tell.append(f"Q, K and V are shared out: {_shares(across, plan.d_k, heads)}.")
    if plan.scaled:
        whose = " of a head" if plan.heads > 1 else ""
        tell.append(f"A query{whose} has d_k\u00a0=\u00a0{plan.d_k} numbers.")
    return tell


def _shares(across: str, width: int, names: Sequence[str]) -> str:
    """Write who gets which columns: `columns 1–2 to head 1, 3–4 to head 2`."""
    parts = [f"{k * width + 1}–{k * width + width} {name}" for k, name in enumerate(names)]
    return f"{across} {', '.join(parts)}"


def _givens(problem: Problem, written: dict[str, Any]) -> list[Panel]:
    givens = [
        panel(problem, name, None, cells, *given_axes(problem, name), 1)
        for name, cells in problem.given.items()
        if name in problem.kind.matrices and name in written
    ]
    if problem.setting.mask is not None:
        mask = Cells.exact(np.where(problem.setting.mask, 0.0, -np.inf))
        givens.append(panel(problem, "M", None, mask, "tokens", "context", 1))
    return givens


def _steps(problem: Problem, decimals: int, planted: Planted | None) -> list[Asked]:
    margins = tolerances(problem, decimals)
    laid = []
    for step in asked(problem):
        exact = problem.exact[step.key]
        texts = None
        if planted is not None:
            claimed = np.array([[float(t) for t in row] for row in planted.claims[step.key]])
            texts = short(claimed, decimals)
        laid.append(
            Asked(
                step.key,
                _panel(problem, step, texts),
                short(problem.turn(exact.mid), decimals),
                margins[step.key],
            )
        )
    return laid


def _panel(problem: Problem, step: Step, texts: list[list[str]] | None) -> Panel:
    """A step's table: empty, or with what is claimed."""
    rows, columns = (step.columns, step.rows) if problem.columns else (step.rows, step.columns)
    height, width = problem.turn(problem.exact[step.key].mid).shape
    return Panel(
        title_of(step, problem),
        formula_of(step, problem),
        [[Cell(texts[i][j] if texts else "", None) for j in range(width)] for i in range(height)],
        axis_names(problem, rows, height),
        axis_names(problem, columns, width),
    )


def _fault(problem: Problem, decimals: int, planted: Planted) -> Fault:
    row, column = planted.cell
    exact = short(problem.turn(problem.exact[planted.key].mid), decimals)
    return Fault(
        planted.key,
        planted.where,
        row + 1,
        column + 1,
        planted.claimed,
        exact[row][column],
        (planted.name, *planted.also),
        planted.says[:1].upper() + planted.says[1:],
    )


def tolerances(problem: Problem, decimals: int) -> dict[str, list[list[float]]]:
    """Say how far from the key a solver may be who rounds or truncates at every step.

    Tried out, and not bounded: bounds on a chain of steps grow far beyond what can happen.
    """
    rng = Random("somebody who rounds as it comes")  # noqa: S311
    off = {step.key: np.zeros(problem.exact[step.key].shape) for step in asked(problem)}
    for _ in range(_SOLVERS):
        env = worked(problem, decimals, loosely=rng)
        for key, furthest in off.items():
            with np.errstate(invalid="ignore"):  # −∞ less −∞
                now = np.nan_to_num(np.abs(env[key].mid - problem.exact[key].mid), nan=0.0)
            off[key] = np.maximum(furthest, now)
    unit = 10.0**-decimals
    # Half as far again for whoever was not tried out; half a unit, by which the key is rounded.
    margins = {key: np.where(far > 1e-9, 1.5 * far + unit / 2, 0) for key, far in off.items()}
    return {
        key: [[_up(v, decimals) for v in row] for row in problem.turn(far).tolist()]
        for key, far in margins.items()
    }


def _up(value: float, decimals: int) -> float:
    steps = 10.0**decimals
    return round(math.ceil(value * steps - 1e-6) / steps, decimals)
