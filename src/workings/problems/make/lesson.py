"""A sheet as a notebook: matrices to fill in, and cells that check them step by step."""

import json
from collections.abc import Iterator
from typing import Any

from workings.problems.kinds import Step
from workings.problems.make.by_hand import asked, nested
from workings.problems.make.sheet import Exercise, Sheet
from workings.problems.problem import Problem
from workings.views.exercises import Page, Task
from workings.views.notation import Latex
from workings.views.notebook import Code, Note, markdown_text

_HOW = """\
Put numbers in the place of the `"?"` and run the cell: it tells what is right, what is rounded, \
what follows from an earlier mistake, and what is wrong. A fraction or a number with a last zero \
goes in quotes: `"1/2"`, `"0.50"`; minus infinity is `"-inf"`.

The checks need the package: `pip install workings`."""
_FIND = """\
Put the step, the row and the column (counted from 1) of the first wrong number in the place of \
the `"?"`, and the mistake's name; then run the cell. A head's step is called `"scores.1"`.

The checks need the package: `pip install workings`."""


def cells_of(sheet: Sheet, page: Page) -> list[Note | Code]:
    """Write a sheet's cells."""
    tell = "\n\n".join(markdown_text(rule) for rule in page.tell)
    intro = f"# {markdown_text(page.title)}\n\n{markdown_text(page.subtitle)}\n\n{tell}\n\n"
    cells: list[Note | Code] = [
        Note(intro + (_FIND if sheet.mistakes else _HOW)),
        Code("from workings import Problem"),
    ]
    if sheet.mistakes:
        names = "\n".join(f"- `{name}`" for name in page.choices)
        cells.append(Note(f"Mistakes to choose from:\n\n{names}"))
    for exercise, task in zip(sheet.exercises, page.tasks, strict=True):
        cells += _exercise(exercise, task)
    return cells


def _exercise(exercise: Exercise, task: Task) -> Iterator[Note | Code]:
    words = f": *{markdown_text(task.heading)}*" if task.heading else ""
    tell = markdown_text(" ".join(task.tell))
    yield Note(f"## Problem {task.number}{words}\n\n{tell}")
    yield Code(_given(exercise))
    if exercise.planted is not None:
        yield Note("Somebody's work:\n\n" + "\n\n".join(_formulas(task)))
        claim = _literal(nested(exercise.problem, exercise.planted.claims), 0)
        yield Code(f"claim_{task.number} = {claim}")
        yield Code(_search(task.number))
        return
    for step, formula in zip(asked(exercise.problem), _formulas(task), strict=True):
        yield Note(formula)
        yield Code(_blanks(exercise, step))


def _formulas(task: Task) -> list[str]:
    notation = Latex()
    return [
        f"${step.panel.formula(notation).strip()}$" for step in task.steps if step.panel.formula
    ]


def _given(exercise: Exercise) -> str:
    """Write the givens as matrices, and gather them under a name."""
    given: dict[str, Any] = exercise.table["given"]
    lines = [
        f"{name} = {_rows(value, len(name) + 3) if isinstance(value, list) else repr(value)}"
        for name, value in given.items()
    ]
    settings = {k: v for k, v in exercise.table.items() if k not in ("given", "title")}
    if exercise.problem.kind.matrices:
        passed = [f"{name}={name}" for name in given]
    else:
        passed = [f"given=dict({', '.join(f'{name}={name}' for name in given)})"]
    said = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in settings.items()]
    body = "".join(f"    {one},\n" for one in [*said, *passed])
    return "\n".join([*lines, f"given_{exercise.number} = dict(\n{body})", _empty(exercise)])


def _empty(exercise: Exercise) -> str:
    """Start a claim, with the tables for heads, times or parts ready."""
    table = nested(exercise.problem, {s.key: [] for s in asked(exercise.problem)})
    return f"claim_{exercise.number} = {json.dumps(_tables(table))}"


def _tables(table: dict[str, Any]) -> dict[str, Any]:
    return {k: _tables(v) for k, v in table.items() if isinstance(v, dict)}


def _blanks(exercise: Exercise, step: Step) -> str:
    problem, number = exercise.problem, exercise.number
    height, width = problem.turn(problem.exact[step.key].mid).shape
    place = _place(problem, step)
    blank = _rows([["?"] * width for _ in range(height)], len(f"claim_{number}{place} = "))
    return (
        f"claim_{number}{place} = {blank}\nProblem(**given_{number}, claim=claim_{number}).check()"
    )


def _place(problem: Problem, step: Step) -> str:
    """Write where a step goes in a claim: `["head"]["1"]["scores"]`."""
    place, levels = nested(problem, {step.key: []}), []
    while isinstance(place, dict):
        (level, place), *_ = place.items()
        levels.append(level)
    return "".join(f'["{level}"]' for level in levels)


def _search(number: int) -> str:
    return f"""\
step, row, column, mistake = "?", "?", "?", "?"

first = Problem(**given_{number}, claim=claim_{number}).check().first
found = (step, row, column) == (first.key, first.cell[0] + 1, first.cell[1] + 1)
named = mistake in [cause.name for cause in first.causes]
print("the number:", "found" if found else "not yet")
print("the mistake:", "named" if named else "not yet")"""


def _rows(matrix: list[list[Any]], indent: int) -> str:
    """Write a matrix as Python, a line a row."""
    rows = [f"[{', '.join(_number(cell) for cell in row)}]" for row in matrix]
    return "[" + f",\n{' ' * (indent + 1)}".join(rows) + "]"


def _number(cell: Any) -> str:
    return f'"{cell}"' if isinstance(cell, str) else repr(cell)


def _literal(table: dict[str, Any], indent: int) -> str:
    """Write claims as Python; their numbers stay strings, which keep the zeros at their ends."""
    pad = " " * (indent + 4)
    lines = []
    for name, value in table.items():
        if isinstance(value, dict):
            written = _literal(value, indent + 4)
        else:
            written = _rows(value, len(pad) + len(name) + 4)
        lines.append(f'{pad}"{name}": {written},\n')
    return "{\n" + "".join(lines) + " " * indent + "}"
