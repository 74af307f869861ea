"""The solution of a problem: every step computed, and panels to display it."""

import json
import math
from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.kinds.base import Axis
from workings.problems.labels import get_label
from workings.problems.notation import Formula, Notation, TextNotation, format_decimal
from workings.problems.ops import Copy, Env, Op
from workings.problems.problem import Problem
from workings.problems.worked_problem import Cell, Panel, WorkedProblem, WorkedResult

GIVEN_DECIMALS = 12  # more than anyone writes, so that givens are shown as they are
MAX_NOTED_CELLS = 256  # larger matrices get no note per cell


class Solution(WorkedResult):
    """The computed steps of a problem, in the problem's own convention."""

    def __init__(self, problem: Problem, decimals: int = 3) -> None:
        if not 0 <= decimals <= 15:
            raise UserError(f"decimals = {decimals}: it must be from 0 to 15")
        self.problem, self.decimals = problem, decimals

    def __getitem__(self, key: str | tuple[str, int]) -> Floats:
        """Return a step's matrix: `solution["weights"]`, or `["weights", 2]` of head or time 2."""
        key = key if isinstance(key, str) else f"{key[0]}.{key[1]}"
        self.problem.get_step(key)
        matrix: Floats = self.problem.orient(self.problem.exact_matrices[key].mid)
        return matrix

    def __repr__(self) -> str:
        return f"<Solution of {self.problem.title or self.problem.kind.name!r}: {self.keys()}>"

    def keys(self) -> list[str]:
        """Return the keys of the asked steps in order."""
        return [step.key for step in self.problem.asked_steps]

    def cell(self, key: str, row: int, column: int, notation: Notation | None = None) -> str:
        """Format the arithmetic of one cell, counted from 1 in the problem's convention.

        >>> Problem(X=[[1, 2], [3, 1]], scale="none").solve().cell("scores", 1, 2)
        'scores[1,2] = 1·3 + 2·1 = 5'
        """
        self.locate_cell(key, row, column)
        n = notation or TextNotation(self.decimals)
        return format_cell_working(self.problem, self.problem.exact_matrices, key, row, column, n)

    def cell_formula(self, key: str, row: int, column: int) -> Formula:
        """Return a function that formats the arithmetic of one cell, counted from 1."""
        return lambda n: self.cell(key, row, column, n)

    def locate_cell(self, key: str, row: int, column: int) -> tuple[int, int]:
        """Convert a cell from the problem's convention, from 1, to vectors as rows, from 0."""
        rows, columns = self[key].shape
        if not (1 <= row <= rows and 1 <= column <= columns):
            raise UserError(f"{key} is {rows}×{columns}: it has no cell {row},{column}")
        return (column - 1, row - 1) if self.problem.column_vectors else (row - 1, column - 1)

    def to_worked_problem(self, *, notes: bool = False) -> WorkedProblem:
        """Return the solution to display; `notes` adds the arithmetic of each cell."""
        steps = [
            make_panel(
                self.problem,
                format_step_title(step, self.problem),
                make_step_formula(step, self.problem),
                self.problem.exact_matrices[step.key],
                step.row_axis,
                step.column_axis,
                self.decimals,
                step.labels,
            )
            for step in self.problem.asked_steps
        ]
        if notes:
            panels = zip(self.keys(), steps, strict=True)
            steps = [self._add_cell_notes(key, panel) for key, panel in panels]
        givens = make_given_panels(self.problem)
        return WorkedProblem(self.problem.title, givens, steps, decimals=self.decimals)

    def _add_cell_notes(self, key: str, panel: Panel) -> Panel:
        """Add the arithmetic of each cell as its note."""
        height, width = panel.shape
        if height * width > MAX_NOTED_CELLS:
            return panel
        cells = [
            [replace(cell, note=self.cell(key, i + 1, j + 1)) for j, cell in enumerate(row)]
            for i, row in enumerate(panel.cells)
        ]
        return replace(panel, cells=cells)

    def to_json(self) -> str:
        """Return the exact numbers as JSON; −∞ is the string "-inf"."""
        steps = [
            {
                "step": step.name,
                **describe_part(step, self.problem),
                "cells": to_json_matrix(self[step.key], step.labels),
            }
            for step in self.problem.asked_steps
        ]
        return json.dumps({"version": 1, "title": self.problem.title, "steps": steps})


def format_cell_working(
    problem: Problem, env: Env, key: str, row: int, column: int, n: Notation
) -> str:
    """Format the arithmetic of one cell, counted from 1, with the matrices of `env`."""
    step = problem.get_step(key)
    i, j = (column - 1, row - 1) if problem.column_vectors else (row - 1, column - 1)
    value = float(step.op.compute(env).clear_noise().mid[i, j])
    sources = (key for key in step.op.sources() if key in env)
    env = {**env, **{key: env[key].clear_noise() for key in sources}}
    result = n.word(get_label(value, step.labels)) if step.labels else n.number(value)
    working = step.op.cell(n, env, i, j)
    name = format_cell_name(n, step, row, column)
    return n.equals(name, working) if working == result else n.equals(name, working, result)


def format_cell_name(n: Notation, step: Step, row: int, column: int) -> str:
    """Format the name of a cell: `scores[2,3]` in text, with a subscript elsewhere."""
    if isinstance(n, TextNotation):
        return f"{step.key}[{row},{column}]"
    index = f"{row},{column}" if step.part_index is None else f"{step.part_index};{row},{column}"
    return n.symbol(f"{step.name.rpartition('.')[2]}_{index}")


def format_value(value: float, decimals: int, labels: tuple[str, ...] = ()) -> str:
    """Format the value of a cell: a number or, if the step has labels, the label."""
    return get_label(value, labels) if labels else format_decimal(value, decimals)


def to_json_matrix(matrix: Floats, labels: tuple[str, ...] = ()) -> list[list[float | str]]:
    """Convert a matrix to lists for JSON; −∞ becomes "-inf", and a label is its word."""
    if labels:
        return [[get_label(v, labels) for v in row] for row in matrix.tolist()]
    return [[v if v != float("-inf") else "-inf" for v in row] for row in matrix.tolist()]


def describe_part(step: Step, problem: Problem) -> dict[str, int | None]:
    """Return the JSON fields for the head or time step of a step."""
    name = problem.kind.part_name
    return (
        {"head": step.part_index}
        if name in (None, "head")
        else {"head": None, name: step.part_index}
    )


def format_step_title(step: Step, problem: Problem) -> str:
    """Format the title of a step: `scores, head 2`."""
    if step.part_index is None:
        return step.name
    name = problem.kind.part_name
    if name == "t":
        return gettext("{step}, time {number}", step=step.name, number=step.part_index)
    if name == "head":
        return gettext("{step}, head {number}", step=step.name, number=step.part_index)
    return f"{step.name}, {name} {step.part_index}"


def make_step_formula(step: Step, problem: Problem) -> Formula:
    """Return a function that formats the equation of a step: `scores = Q Kᵀ`."""

    def formula(n: Notation) -> str:
        name = step.name.rsplit(".", 1)[-1]
        left = n.symbol(name if step.part_index is None else f"{name}_{step.part_index}")
        return n.equals(left, resolve_aliases(step.op, problem).formula(n, problem.column_vectors))

    return formula


def resolve_aliases(op: Op, problem: Problem) -> Op:
    """Replace steps that the problem lacks: softmax(masked) is softmax(scaled) without a mask."""
    alias: dict[str, str] = {}
    for step in problem.steps:
        # The output of a part of a block is named after the part, whether it is shown or not.
        if not step.is_shown and isinstance(step.op, Copy) and not step.key.endswith(".output"):
            alias[step.key] = alias.get(step.op.x, step.op.x)

    def resolve(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(resolve(v) for v in value)
        if isinstance(value, str):
            plain = value.removesuffix("ᵀ")
            return alias.get(plain, plain) + value[len(plain) :]
        return value

    names = [field.name for field in fields(op)]  # type: ignore[arg-type]
    return replace(op, **{n: resolve(getattr(op, n)) for n in names})  # type: ignore[type-var]


def get_given_axes(problem: Problem, name: str) -> tuple[Axis, Axis]:
    """Return the axes of a given's rows and columns: tokens, context, "" or their names."""

    def get_axis(size: str) -> Axis:
        names = problem.kind.label_size(size, problem.sizes, problem.setting)
        return names or {"n": "tokens", "m": "context"}.get(size, "")

    rows, columns = problem.kind.matrices[name]
    return get_axis(rows), get_axis(columns)


def make_given_panels(problem: Problem, names: Collection[str] | None = None) -> list[Panel]:
    """Return the givens to display; `names` restricts them, by default all are."""
    read = {key for step in problem.steps for key in step.op.sources()}
    matrices = [
        make_panel(problem, name, None, matrix, *get_given_axes(problem, name), GIVEN_DECIMALS)
        for name, matrix in problem.given.items()
        if name in problem.kind.matrices and (names is None or name in names)
        if name in problem.sizes.given or name in read  # a state that nothing uses is not shown
    ]
    options = [
        _make_option_panel(name, problem.setting.options[name])
        for name, option in problem.kind.options.items()
        if option.is_given
        and problem.setting.options[name] != option.default
        and (names is None or name in names)
    ]
    return [*matrices, *options]


def _make_option_panel(name: str, value: Any) -> Panel:
    """Return a given text or number to display: words in a row, other texts below each other."""
    if not isinstance(value, tuple):
        return Panel(name, None, [[Cell(str(value), None)]], ["1"], ["1"])
    texts = [" ".join(item) if isinstance(item, tuple) else str(item) for item in value]
    numbers = [str(k + 1) for k in range(len(texts))]
    if all(isinstance(item, str) for item in value):
        return Panel(name, None, [[Cell(text, None) for text in texts]], ["1"], numbers)
    return Panel(name, None, [[Cell(text, None)] for text in texts], numbers, ["1"])


def get_axis_labels(problem: Problem, axis: Axis, count: int) -> list[str]:
    """Return the headers of rows or columns: their names, or numbers from 1."""
    if not isinstance(axis, str):
        return list(axis)
    names = problem.tokens if axis == "tokens" or "m" not in problem.sizes.sizes else None
    if axis == "context":
        names = problem.context_tokens
        if names is None and "context" not in problem.given and "K" not in problem.given:
            names = problem.tokens
    if not axis or names is None or len(names) != count:
        return [str(k + 1) for k in range(count)]
    return names


def make_panel(
    problem: Problem,
    name: str,
    formula: Formula | None,
    intervals: IntervalMatrix,
    row_axis: Axis,
    column_axis: Axis,
    decimals: int,
    labels: tuple[str, ...] = (),
) -> Panel:
    """Return a matrix to display, in the problem's convention."""
    if problem.column_vectors:
        row_axis, column_axis = column_axis, row_axis
    matrix = problem.orient(intervals.clear_noise().mid)
    cells = [
        [
            Cell(format_value(v, decimals, labels), v, mark="masked" if v == -math.inf else "")
            for v in row
        ]
        for row in matrix.tolist()
    ]
    height, width = matrix.shape
    return Panel(
        name,
        formula,
        cells,
        get_axis_labels(problem, row_axis, height),
        get_axis_labels(problem, column_axis, width),
    )
