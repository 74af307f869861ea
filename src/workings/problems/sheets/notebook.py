"""Write a sheet as a Jupyter notebook (format 4.5) that checks the answers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from workings.errors import install_command
from workings.languages import gettext, gettext_noop
from workings.problems.kinds import Step
from workings.problems.notation import LatexNotation
from workings.problems.problem import Problem
from workings.problems.problem_file import format_claim_path
from workings.problems.sheets.folder import make_student_table
from workings.problems.sheets.printed_sheet import (
    PrintedProblem,
    PrintedSheet,
    PrintedStep,
    format_points,
)
from workings.problems.sheets.rounded_solution import nest_claims
from workings.problems.sheets.sheet import Exercise, Sheet

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]#|$~])")


@dataclass(frozen=True)
class MarkdownCell:
    """A Markdown cell of a notebook."""

    text: str


@dataclass(frozen=True)
class CodeCell:
    """A Python cell of a notebook."""

    text: str


def escape_markdown(text: str) -> str:
    r"""Escape text so that it is not read as Markdown, HTML or math.

    >>> escape_markdown("<b> $x_1$")
    '&lt;b&gt; \\$x\\_1\\$'
    """
    return _MARKDOWN_SPECIAL.sub(r"\\\1", escape(text, quote=False))


def render_notebook(cells: list[MarkdownCell | CodeCell]) -> str:
    """Return the notebook as JSON; the same cells give the same bytes."""
    notebook = {
        "cells": [_cell_json(cell, number) for number, cell in enumerate(cells, 1)],
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


_FILL_IN_INSTRUCTIONS = gettext_noop(
    'Replace the `"?"` with numbers and run the cell: it shows which numbers are right, rounded,'
    " wrong, or follow from an earlier mistake. Put fractions and numbers with trailing zeros in"
    ' quotes: `"1/2"`, `"0.50"`; minus infinity is `"-inf"`.'
)
_FIND_INSTRUCTIONS = gettext_noop(
    'Replace the `"?"` with the step, the row and the column (counted from 1) of the first wrong'
    " number and with the name of the mistake; then run the cell. The scores of head 1 are"
    ' `"scores.1"`.'
)


def make_cells(sheet: Sheet, printed_sheet: PrintedSheet) -> list[MarkdownCell | CodeCell]:
    """Return the cells of a sheet's notebook."""
    texts = (printed_sheet.title, printed_sheet.subtitle, *printed_sheet.instructions)
    title, *intro = (escape_markdown(text) for text in texts)
    how_to = gettext(_FIND_INSTRUCTIONS if sheet.mistakes else _FILL_IN_INSTRUCTIONS)
    install = gettext("The checks need the package: `{command}`.", command=install_command())
    cells: list[MarkdownCell | CodeCell] = [
        MarkdownCell("\n\n".join([f"# {title}", *intro, how_to, install])),
        CodeCell("from workings import Problem"),
    ]
    if sheet.mistakes:
        names = "\n".join(f"- `{name}`" for name in printed_sheet.choices)
        cells.append(MarkdownCell(f"{gettext('Mistakes to choose from:')}\n\n{names}"))
    for exercise, printed_problem in zip(sheet.exercises, printed_sheet.problems, strict=True):
        cells += _make_exercise_cells(sheet, exercise, printed_problem)
    return cells


def _make_exercise_cells(
    sheet: Sheet, exercise: Exercise, printed_problem: PrintedProblem
) -> Iterator[MarkdownCell | CodeCell]:
    heading = f": *{escape_markdown(printed_problem.heading)}*" if printed_problem.heading else ""
    instructions = escape_markdown(" ".join(printed_problem.instructions))
    title = gettext("Problem {number}", number=printed_problem.number)
    yield MarkdownCell(f"## {title}{heading}\n\n{instructions}")
    yield CodeCell(_format_givens(exercise, sheet.hides_formulas))
    formulas = [_format_formula(step, sheet.hides_formulas) for step in printed_problem.asked_steps]
    if exercise.planted_mistake is not None:
        yield MarkdownCell(gettext("The solution:") + "\n\n" + "\n\n".join(formulas))
        claim = _format_literal(nest_claims(exercise.problem, exercise.planted_mistake.claims), 0)
        yield CodeCell(f"claim_{printed_problem.number} = {claim}")
        yield CodeCell(_format_search_cell(printed_problem.number))
        return
    for step, formula in zip(printed_problem.asked_steps, formulas, strict=True):
        points = f" ({format_points(step.points)})" if sheet.questions.has_points else ""
        yield MarkdownCell(formula + points)
        yield CodeCell(_format_blank_step(exercise, exercise.problem.get_step(step.key)))


def _format_formula(step: PrintedStep, hides_formulas: bool) -> str:
    """Format the equation of a step, or only its name."""
    if hides_formulas or step.panel.formula is None:
        return f"**{escape_markdown(step.panel.name)}**"
    return f"${step.panel.formula(LatexNotation()).strip()}$"


def _is_matrix(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], list)


def _format_givens(exercise: Exercise, hides_formulas: bool) -> str:
    """Return Python code that defines the givens, their dictionary and an empty claim."""
    given: dict[str, Any] = exercise.table["given"]
    variables = {name: name.replace(".", "_") for name in given}  # forward.W_xh
    lines = [
        f"{variables[name]} ="
        f" {_format_rows(value, len(name) + 3) if _is_matrix(value) else repr(value)}"
        for name, value in given.items()
    ]
    table = make_student_table(exercise, hides_formulas)
    settings = {k: v for k, v in table.items() if k not in ("given", "title")}
    if list(variables.values()) != list(given):
        matrices = ["given={" + ", ".join(f'"{k}": {v}' for k, v in variables.items()) + "}"]
    elif exercise.problem.kind.matrices:
        matrices = [f"{name}={name}" for name in given]
    else:
        matrices = [f"given=dict({', '.join(f'{name}={name}' for name in given)})"]
    options = [f"{name}={_format_setting(v)}" for name, v in settings.items()]
    body = "".join(f"    {argument},\n" for argument in [*options, *matrices])
    return "\n".join(
        [*lines, f"given_{exercise.number} = dict(\n{body})", _format_empty_claim(exercise)]
    )


def _format_setting(value: Any) -> str:
    """Format a setting as Python code: as JSON, except for true and false."""
    return repr(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _format_empty_claim(exercise: Exercise) -> str:
    """Return Python code for an empty claim with the tables of heads, time steps or parts."""
    table = nest_claims(exercise.problem, {s.key: [] for s in exercise.problem.asked_steps})
    return f"claim_{exercise.number} = {json.dumps(_keep_tables(table))}"


def _keep_tables(table: dict[str, Any]) -> dict[str, Any]:
    return {k: _keep_tables(v) for k, v in table.items() if isinstance(v, dict)}


def _format_blank_step(exercise: Exercise, step: Step) -> str:
    """Return Python code with a blank matrix for a step and the call that checks it."""
    problem, number = exercise.problem, exercise.number
    height, width = problem.orient(problem.exact_matrices[step.key].mid).shape
    target = f"claim_{number}{_format_claim_index(problem, step)}"
    blank = _format_rows([["?"] * width for _ in range(height)], len(f"{target} = "))
    return f"{target} = {blank}\nProblem(**given_{number}, claim=claim_{number}).check()"


def _format_claim_index(problem: Problem, step: Step) -> str:
    """Format the index of a step in a claim: `["head"]["1"]["scores"]`."""
    path = format_claim_path(problem.kind, step.key).split(".")
    return "".join(f'["{name}"]' for name in path)


def _format_search_cell(number: int) -> str:
    the_number, is_found, the_mistake, is_named, not_yet = (
        json.dumps(text, ensure_ascii=False)
        for text in (
            gettext("the number:"),
            gettext("found"),
            gettext("the mistake:"),
            gettext("named"),
            gettext("not yet"),
        )
    )
    return f"""\
step, row, column, mistake = "?", "?", "?", "?"

first = Problem(**given_{number}, claim=claim_{number}).check().first
found = (step, row, column) == (first.key, first.cell[0] + 1, first.cell[1] + 1)
named = mistake in [cause.name for cause in first.causes]
print({the_number}, {is_found} if found else {not_yet})
print({the_mistake}, {is_named} if named else {not_yet})"""


def _format_rows(matrix: list[list[Any]], indent: int) -> str:
    """Format a matrix as Python code, one row per line."""
    rows = [f"[{', '.join(_format_number(cell) for cell in row)}]" for row in matrix]
    return "[" + f",\n{' ' * (indent + 1)}".join(rows) + "]"


def _format_number(cell: Any) -> str:
    return f'"{cell}"' if isinstance(cell, str) else repr(cell)


def _format_literal(table: dict[str, Any], indent: int) -> str:
    """Format claims as Python code; numbers stay strings, to keep trailing zeros."""
    pad = " " * (indent + 4)
    lines = []
    for name, value in table.items():
        if isinstance(value, dict):
            code = _format_literal(value, indent + 4)
        else:
            code = _format_rows(value, len(pad) + len(name) + 4)
        lines.append(f'{pad}"{name}": {code},\n')
    return "{\n" + "".join(lines) + " " * indent + "}"
