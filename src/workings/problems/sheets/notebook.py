"""A Jupyter notebook (format 4.5) out of its cells."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from workings.problems.kinds import Step
from workings.problems.notation import LatexNotation
from workings.problems.problem import Problem
from workings.problems.sheets.printed_sheet import PrintedProblem, PrintedSheet
from workings.problems.sheets.rounded_solution import list_asked_steps, nest_claims
from workings.problems.sheets.sheet import Exercise, Sheet

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#|$~])")


@dataclass(frozen=True)
class MarkdownCell:
    """A cell of Markdown."""

    text: str


@dataclass(frozen=True)
class CodeCell:
    """A cell of Python."""

    text: str


def escape_markdown(text: str) -> str:
    r"""Write text so that Markdown, HTML and formulas leave it alone.

    >>> escape_markdown("<b> $x_1$")
    '&lt;b&gt; \\$x\\_1\\$'
    """
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escape(text, quote=False))


def render_notebook(cells: list[MarkdownCell | CodeCell]) -> str:
    """Write the notebook's file; the same cells give the same bytes."""
    written = [_cell_json(cell, number) for number, cell in enumerate(cells, 1)]
    notebook = {
        "cells": written,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell_json(cell: MarkdownCell | CodeCell, number: int) -> dict[str, object]:
    source = cell.text.splitlines(keepends=True)
    common = {"id": f"cell-{number}", "metadata": {}, "source": source}
    if isinstance(cell, MarkdownCell):
        return {"cell_type": "markdown", **common}
    return {"cell_type": "code", "execution_count": None, "outputs": [], **common}


_FILL_IN_INSTRUCTIONS = """\
Put numbers in the place of the `"?"` and run the cell: it tells what is right, what is rounded, \
what follows from an earlier mistake, and what is wrong. A fraction or a number with a last zero \
goes in quotes: `"1/2"`, `"0.50"`; minus infinity is `"-inf"`.

The checks need the package: `pip install workings`."""
_FIND_INSTRUCTIONS = """\
Put the step, the row and the column (counted from 1) of the first wrong number in the place of \
the `"?"`, and the mistake's name; then run the cell. A head's step is called `"scores.1"`.

The checks need the package: `pip install workings`."""


def make_cells(sheet: Sheet, printed_sheet: PrintedSheet) -> list[MarkdownCell | CodeCell]:
    """Write a sheet's cells."""
    tell = "\n\n".join(escape_markdown(rule) for rule in printed_sheet.instructions)
    intro = f"# {escape_markdown(printed_sheet.title)}\n\n{escape_markdown(printed_sheet.subtitle)}\n\n{tell}\n\n"
    cells: list[MarkdownCell | CodeCell] = [
        MarkdownCell(intro + (_FIND_INSTRUCTIONS if sheet.mistakes else _FILL_IN_INSTRUCTIONS)),
        CodeCell("from workings import Problem"),
    ]
    if sheet.mistakes:
        names = "\n".join(f"- `{name}`" for name in printed_sheet.choices)
        cells.append(MarkdownCell(f"Mistakes to choose from:\n\n{names}"))
    for exercise, task in zip(sheet.exercises, printed_sheet.problems, strict=True):
        cells += _make_exercise_cells(exercise, task)
    return cells


def _make_exercise_cells(
    exercise: Exercise, printed_problem: PrintedProblem
) -> Iterator[MarkdownCell | CodeCell]:
    words = f": *{escape_markdown(printed_problem.heading)}*" if printed_problem.heading else ""
    tell = escape_markdown(" ".join(printed_problem.instructions))
    yield MarkdownCell(f"## Problem {printed_problem.number}{words}\n\n{tell}")
    yield CodeCell(_format_givens(exercise))
    if exercise.planted_mistake is not None:
        yield MarkdownCell("Somebody's work:\n\n" + "\n\n".join(_format_formulas(printed_problem)))
        claim = _format_literal(nest_claims(exercise.problem, exercise.planted_mistake.claims), 0)
        yield CodeCell(f"claim_{printed_problem.number} = {claim}")
        yield CodeCell(_format_search_cell(printed_problem.number))
        return
    for step, formula in zip(
        list_asked_steps(exercise.problem), _format_formulas(printed_problem), strict=True
    ):
        yield MarkdownCell(formula)
        yield CodeCell(_format_blank_step(exercise, step))


def _format_formulas(printed_problem: PrintedProblem) -> list[str]:
    notation = LatexNotation()
    return [
        f"${step.panel.formula(notation).strip()}$"
        for step in printed_problem.steps
        if step.panel.formula
    ]


def _format_givens(exercise: Exercise) -> str:
    """Write the givens as matrices, and gather them under a name."""
    given: dict[str, Any] = exercise.table["given"]
    lines = [
        f"{name} = {_format_rows(value, len(name) + 3) if isinstance(value, list) else repr(value)}"
        for name, value in given.items()
    ]
    settings = {k: v for k, v in exercise.table.items() if k not in ("given", "title")}
    if exercise.problem.kind.matrices:
        passed = [f"{name}={name}" for name in given]
    else:
        passed = [f"given=dict({', '.join(f'{name}={name}' for name in given)})"]
    said = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]
    body = "".join(f"    {one},\n" for one in [*said, *passed])
    return "\n".join(
        [*lines, f"given_{exercise.number} = dict(\n{body})", _format_empty_claim(exercise)]
    )


def _format_empty_claim(exercise: Exercise) -> str:
    """Start a claim, with the tables for heads, times or parts ready."""
    table = nest_claims(exercise.problem, {s.key: [] for s in list_asked_steps(exercise.problem)})
    return f"claim_{exercise.number} = {json.dumps(_keep_tables(table))}"


def _keep_tables(table: dict[str, Any]) -> dict[str, Any]:
    return {k: _keep_tables(v) for k, v in table.items() if isinstance(v, dict)}


def _format_blank_step(exercise: Exercise, step: Step) -> str:
    problem, number = exercise.problem, exercise.number
    height, width = problem.orient(problem.exact_matrices[step.key].mid).shape
    place = _format_claim_index(problem, step)
    blank = _format_rows([["?"] * width for _ in range(height)], len(f"claim_{number}{place} = "))
    return (
        f"claim_{number}{place} = {blank}\nProblem(**given_{number}, claim=claim_{number}).check()"
    )


def _format_claim_index(problem: Problem, step: Step) -> str:
    """Write where a step goes in a claim: `["head"]["1"]["scores"]`."""
    place, levels = nest_claims(problem, {step.key: []}), []
    while isinstance(place, dict):
        (level, place), *_ = place.items()
        levels.append(level)
    return "".join(f'["{level}"]' for level in levels)


def _format_search_cell(number: int) -> str:
    return f"""\
step, row, column, mistake = "?", "?", "?", "?"

first = Problem(**given_{number}, claim=claim_{number}).check().first
found = (step, row, column) == (first.key, first.cell[0] + 1, first.cell[1] + 1)
named = mistake in [cause.name for cause in first.causes]
print("the number:", "found" if found else "not yet")
print("the mistake:", "named" if named else "not yet")"""


def _format_rows(matrix: list[list[Any]], indent: int) -> str:
    """Write a matrix as Python, a line a row."""
    rows = [f"[{', '.join(_format_number(cell) for cell in row)}]" for row in matrix]
    return "[" + f",\n{' ' * (indent + 1)}".join(rows) + "]"


def _format_number(cell: Any) -> str:
    return f'"{cell}"' if isinstance(cell, str) else repr(cell)


def _format_literal(table: dict[str, Any], indent: int) -> str:
    """Write claims as Python; their numbers stay strings, which keep the zeros at their ends."""
    pad = " " * (indent + 4)
    lines = []
    for name, value in table.items():
        if isinstance(value, dict):
            written = _format_literal(value, indent + 4)
        else:
            written = _format_rows(value, len(pad) + len(name) + 4)
        lines.append(f'{pad}"{name}": {written},\n')
    return "{\n" + "".join(lines) + " " * indent + "}"
