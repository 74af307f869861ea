"""A solution: every step of a problem, worked out."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from workings.errors import UserError
from workings.problems.cells import Cells, Floats
from workings.problems.kinds import Step
from workings.problems.ops import Copy, Op
from workings.problems.problem import Problem
from workings.views.notation import Notation, Text, decimal
from workings.views.shown import Shown
from workings.views.worked import Cell, Panel, Worked

AS_GIVEN = 12  # decimals: more than anybody writes
NOTED = 256  # cells: of larger matrices nobody reads the working of every cell


class Solution(Shown):
    """The steps of a problem with their numbers, in the problem's own convention."""

    def __init__(self, problem: Problem, decimals: int = 3) -> None:
        if not 0 <= decimals <= 15:
            raise UserError(f"decimals = {decimals}: from 0 to 15")
        self.problem, self.decimals = problem, decimals

    def __getitem__(self, key: str | tuple[str, int]) -> Floats:
        """A step's matrix: `solution["weights"]`; of head or time 2, `solution["weights", 2]`."""
        key = key if isinstance(key, str) else f"{key[0]}.{key[1]}"
        self.problem.step(key)
        matrix: Floats = self.problem.turn(self.problem.exact[key].mid)
        return matrix

    def __repr__(self) -> str:
        return f"<Solution of {self.problem.title or self.problem.kind.name!r}: {self.keys()}>"

    def keys(self) -> list[str]:
        """The steps that the problem has, in order."""
        return [step.key for step in self.problem.steps if step.shown and step.claimable]

    def cell(self, key: str, row: int, column: int, notation: Notation | None = None) -> str:
        """Write one cell out, counted from 1 in the problem's convention.

        >>> Problem(X=[[1, 2], [3, 1]], scale="none").solve().cell("scores", 1, 2)
        'scores[1,2] = 1·3 + 2·1 = 5'
        """
        step, n = self.problem.step(key), notation or Text(self.decimals)
        i, j = self.place(key, row, column)
        written = step.op.cell(n, self.problem.exact, i, j)
        result = n.number(float(self.problem.exact[key].mid[i, j]))
        name = cell_name(n, step, row, column)
        return n.equals(name, written) if written == result else n.equals(name, written, result)

    def place(self, key: str, row: int, column: int) -> tuple[int, int]:
        """Find a cell, counted from 1 in the problem's convention, among rows, counted from 0."""
        rows, columns = self[key].shape
        if not (1 <= row <= rows and 1 <= column <= columns):
            raise UserError(f"{key} is {rows}×{columns}: it has no cell {row},{column}")
        return (column - 1, row - 1) if self.problem.columns else (row - 1, column - 1)

    def worked(self, *, notes: bool = False) -> Worked:
        """Lay the solution out to look at; `notes`: each cell's working, where it can be read."""
        problem = self.problem
        givens = [
            panel(problem, name, None, cells, *given_axes(problem, name), AS_GIVEN)
            for name, cells in problem.given.items()
            if name in problem.kind.matrices
        ]
        steps = [
            panel(
                problem,
                title_of(step, problem),
                formula_of(step, problem),
                problem.exact[step.key],
                step.rows,
                step.columns,
                self.decimals,
            )
            for step in problem.steps
            if step.shown and step.claimable
        ]
        if notes:
            steps = [
                self._with_workings(key, laid) for key, laid in zip(self.keys(), steps, strict=True)
            ]
        return Worked(problem.title, givens, steps, decimals=self.decimals)

    def _with_workings(self, key: str, laid: Panel) -> Panel:
        """Note at each cell how it comes about."""
        height, width = laid.shape
        if height * width > NOTED:
            return laid
        cells = [
            [replace(cell, note=self.cell(key, i + 1, j + 1)) for j, cell in enumerate(row)]
            for i, row in enumerate(laid.cells)
        ]
        return replace(laid, cells=cells)

    def json(self) -> str:
        """Write the numbers as JSON, exact; −∞ is the string "-inf"."""
        steps = [
            {"step": step.name, **place_of(step, self.problem), "cells": plain(self[step.key])}
            for step in self.problem.steps
            if step.shown and step.claimable
        ]
        return json.dumps({"version": 1, "title": self.problem.title, "steps": steps})


def cell_name(n: Notation, step: Step, row: int, column: int) -> str:
    """Name a cell: `scores[2,3]` on a line, with an index below it elsewhere."""
    if isinstance(n, Text):
        return f"{step.key}[{row},{column}]"
    index = f"{row},{column}" if step.part is None else f"{step.part};{row},{column}"
    return n.symbol(f"{step.name.rpartition('.')[2]}_{index}")


def plain(matrix: Floats) -> list[list[float | str]]:
    """Make a matrix fit for JSON."""
    return [[v if v != float("-inf") else "-inf" for v in row] for row in matrix.tolist()]


def place_of(step: Step, problem: Problem) -> dict[str, int | None]:
    """Which head a step belongs to, or which time."""
    if problem.kind.parts == "t":
        return {"head": None, "t": step.part}
    return {"head": step.part}


def title_of(step: Step, problem: Problem) -> str:
    """Name a step: `scores, head 2`."""
    if step.part is None:
        return step.name
    return f"{step.name}, {'head' if problem.kind.parts == 'head' else 'time'} {step.part}"


def formula_of(step: Step, problem: Problem) -> Callable[[Notation], str]:
    """State a step in any notation: `scores = Q Kᵀ`."""

    def formula(n: Notation) -> str:
        name = step.name.rsplit(".", 1)[-1]
        left = n.symbol(name if step.part is None else f"{name}_{step.part}")
        return n.equals(left, spelled(step.op, problem).formula(n, problem.columns))

    return formula


def spelled(op: Op, problem: Problem) -> Op:
    """Make a formula speak of steps that are shown: softmax(scaled) where there is no mask."""
    alias: dict[str, str] = {}
    for step in problem.steps:
        # What a block's part puts out goes by the part's name, shown or not.
        if not step.shown and isinstance(step.op, Copy) and not step.key.endswith(".output"):
            alias[step.key] = alias.get(step.op.x, step.op.x)

    def renamed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renamed(v) for v in value)
        if isinstance(value, str):
            plain = value.removesuffix("ᵀ")
            return alias.get(plain, plain) + value[len(plain) :]
        return value

    names = [field.name for field in fields(op)]  # type: ignore[arg-type]
    return replace(op, **{n: renamed(getattr(op, n)) for n in names})  # type: ignore[type-var]


def given_axes(problem: Problem, name: str) -> tuple[str, str]:
    """What a given's rows and columns stand for."""
    axis = {"n": "tokens", "m": "context"}
    rows, columns = problem.kind.matrices[name]
    return axis.get(rows, ""), axis.get(columns, "")


def axis_names(problem: Problem, axis: str, count: int) -> list[str]:
    """The headers of rows or columns: tokens where they have names, else numbers from 1."""
    names = problem.tokens if axis == "tokens" or "m" not in problem.sizes.sizes else None
    if axis == "context":
        names = problem.context_tokens
        if names is None and "context" not in problem.given and "K" not in problem.given:
            names = problem.tokens
    if not axis or names is None or len(names) != count:
        return [str(k + 1) for k in range(count)]
    return names


def panel(
    problem: Problem,
    name: str,
    formula: Callable[[Notation], str] | None,
    cells: Cells,
    rows: str,
    columns: str,
    decimals: int,
) -> Panel:
    """Lay a matrix out in the problem's convention."""
    if problem.columns:
        rows, columns = columns, rows
    matrix = problem.turn(cells.mid)
    shown = [
        [Cell(decimal(v, decimals), v, mark="masked" if v == float("-inf") else "") for v in row]
        for row in matrix.tolist()
    ]
    height, width = matrix.shape
    return Panel(
        name,
        formula,
        shown,
        axis_names(problem, rows, height),
        axis_names(problem, columns, width),
    )
