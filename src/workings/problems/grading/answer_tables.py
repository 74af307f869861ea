"""Arrange the tables of answers by the problems and steps of a sheet, whatever their shape."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from workings.errors import did_you_mean
from workings.problems.grading.answer_names import StepNames, find_problem_name
from workings.problems.grading.marking import SheetProblem, iterate_leaves
from workings.problems.problem_file import set_nested

_TABLE_NAMES = {
    "claim": ("claim", "claims", "answer", "answers", "solution"),
    "found": ("found", "find", "mistake"),
}
_ALL_DIGITS = re.compile(
    r"\s*[+-]?(?=\d*\.)(?=(?:\.?\d){15,30}(?:e|\s*$))[\d.]+(?:e[+-]?\d{1,3})?\s*", re.I
)
_MAX_WRAPPERS = 3  # objects around the answers
_ENTRY_NAMES = ("problem", "exercise", "question", "task", "id", "number", "nr", "title", "name")
_STEP_NAMES = ("step", "part", "matrix_name")
_VALUE_NAMES = ("value", "values", "matrix", "answer", "rows", "result")
_FINDING_KEYS = ("step", "cell", "row", "column", "mistake", "should")


def normalize_answer(table: Mapping[str, Any], problem: SheetProblem) -> dict[str, Any]:
    """Return the table of an answer with the names that the sheet uses.

    A file without [claim] whose keys are steps is a claim; so are other spellings of the names.
    """
    wanted = problem.answer_table
    content: Any = None
    for name in _TABLE_NAMES[wanted]:
        match = next((value for key, value in table.items() if key.casefold() == name), None)
        if isinstance(match, Mapping) or (match is not None and name == wanted):
            content = match
            break
    if wanted == "found":
        if content is None and any(key in table for key in _FINDING_KEYS):
            content = {key: value for key, value in table.items() if key in _FINDING_KEYS}
        if isinstance(content, Mapping):  # a "?" of the file to fill in is no answer
            content = {key: value for key, value in content.items() if value != "?"}
        return {"found": content} if content else {}
    names = StepNames(problem)
    if content is None:
        loose = {k: v for k, v in table.items() if _is_step(k, v, names, problem)}
        content = loose or None
    if not isinstance(content, Mapping):
        return {} if content is None else {"claim": content}
    matrices: dict[tuple[str, ...], Any] = {}
    leaves = [(path, value) for path, value in iterate_leaves(content) if path[0] != "again"]
    # A step's own name comes before another usual name.
    for path, value in sorted(
        leaves, key=lambda leaf: not names.find_exact_path(".".join(leaf[0]))
    ):
        step, cells = names.find_path(".".join(path)) or path, _clean_cells(value)
        if step not in matrices or is_blank(matrices[step]):
            matrices[step] = cells
    claim: dict[str, Any] = {}
    for path, value in _fit_shapes(matrices, names).items():
        set_nested(claim, path, value)
    return {"claim": claim} if claim else {}


def _fit_shapes(
    matrices: Mapping[tuple[str, ...], Any], names: StepNames
) -> dict[tuple[str, ...], Any]:
    """Arrange matrices that were written as one row, or all with rows and columns exchanged."""
    fitted = {
        path: _remove_labels(_split_rows(value, shape), shape)
        for path, value in matrices.items()
        for shape in [names.find_shape(path)]
    }
    shapes = {path: _measure(value) for path, value in fitted.items()}
    expected = {path: names.find_shape(path) for path in fitted}
    is_turned = shapes != expected and all(
        shape is not None and shape[::-1] == expected[path] for path, shape in shapes.items()
    )
    if not is_turned:
        return fitted
    return {path: [list(row) for row in zip(*v, strict=True)] for path, v in fitted.items()}


def transpose_squares(claim: Any) -> dict[str, Any] | None:
    """Return a claim with rows and columns exchanged; None if not all matrices are square."""
    exchanged: dict[str, Any] = {}
    for path, value in iterate_leaves(claim) if isinstance(claim, Mapping) else ():
        shape = _measure(value)
        if shape is None or shape[0] != shape[1]:
            return None
        set_nested(exchanged, path, [list(row) for row in zip(*value, strict=True)])
    return exchanged or None


def _split_rows(value: Any, shape: tuple[int, int] | None) -> Any:
    """Return rows of the right length if all cells of a matrix stand in one list."""
    size = _measure(value)
    cells = value[0] if size is not None and size[0] == 1 else value
    is_flat = isinstance(cells, list) and not any(isinstance(cell, list) for cell in cells)
    if shape is None or not is_flat or shape[0] == 1 or len(cells) != shape[0] * shape[1]:
        return value
    return [cells[k : k + shape[1]] for k in range(0, len(cells), shape[1])]


def _remove_labels(value: Any, shape: tuple[int, int] | None) -> Any:
    """Return a matrix without a first row and a first column that number the others."""
    size = _measure(value)
    if shape is None or size is None or not all(isinstance(row, list) for row in value):
        return value
    rows = value
    if size[0] == shape[0] + 1 and _is_counting(rows[0][-shape[1] :]):
        rows = rows[1:]
    if size[1] == shape[1] + 1 and len(rows) > 1 and _is_counting([row[0] for row in rows]):
        rows = [row[1:] for row in rows]
    return rows if _measure(rows) == shape else value


def _is_counting(cells: Sequence[Any]) -> bool:
    """Return True for 1, 2, 3 and, as pandas prints them, for 0, 1, 2."""
    texts = [str(cell).strip() for cell in cells]
    return any(texts == [str(k + first) for k in range(len(cells))] for first in (0, 1))


def is_blank(value: Any) -> bool:
    """Return True if a matrix has no cell that is filled in."""
    cells = value if isinstance(value, list) else [value]
    return all(is_blank(cell) if isinstance(cell, list) else cell == "?" for cell in cells)


def count_numbers(
    tables: Mapping[str, Mapping[str, Any]], problems: Sequence[SheetProblem]
) -> tuple[int, bool]:
    """Return how many numbers of answers fit the sheet, and whether there is nothing else."""
    count, is_complete = 0, any(tables.values())
    for problem in problems:
        table = tables.get(problem.name, {})
        if problem.answer_table == "found":
            count += len(table.get("found", ()))
            continue
        names, claim = StepNames(problem), table.get("claim")
        for path, value in iterate_leaves(claim) if isinstance(claim, Mapping) else ():
            numbers = names.count_cells(path, value)
            is_complete &= numbers is not None
            count += numbers or 0
    return count, is_complete


def _measure(value: Any) -> tuple[int, int] | None:
    """Return the rows and columns of a list of rows; None if it is none."""
    if not isinstance(value, list) or not value:
        return None
    widths = {len(row) if isinstance(row, list) else -1 for row in value}
    width = widths.pop()
    return None if widths or width < 1 else (len(value), width)


def _clean_cells(value: Any) -> Any:
    """Return a matrix with "?" for cells that are empty or only a line to write on.

    A number that a program printed with all digits of a 64-bit float is rounded to fewer.
    """
    if isinstance(value, list):
        return [_clean_cells(cell) for cell in value]
    is_blank = isinstance(value, str) and not value.strip(" _.…-□?")
    if is_blank or value is None:
        return "?"
    return f"{float(value):.14g}" if _ALL_DIGITS.fullmatch(str(value)) else value


def _is_step(key: str, value: Any, names: StepNames, problem: SheetProblem) -> bool:
    part_name = problem.problem.kind.part_name
    return names.find_path(key) is not None or (
        isinstance(value, Mapping) and key in (part_name, *problem.problem.kind.prefixes)
    )


def arrange_cells(cells: Mapping[tuple[int, int], str], shape: tuple[int, int]) -> list[list[str]]:
    """Return a matrix of cells by row and column, which count from 0 if one of them is 0."""
    first = 0 if any(0 in index for index in cells) else 1
    height, width = shape
    return [[cells.get((i + first, j + first), "?") for j in range(width)] for i in range(height)]


def add_missing_steps(
    tables: dict[str, dict[str, Any]],
    others: Mapping[str, Mapping[str, Any]],
    problems: Sequence[SheetProblem],
    *,
    prefers_others: bool = False,
) -> None:
    """Add the steps of another reading that have no matrix of the right size.

    `prefers_others`: also those with cells left out, if the other reading has as many.
    """
    for problem in problems:
        claim = others.get(problem.name, {}).get("claim")
        if problem.answer_table != "claim" or not claim:
            continue
        names, table = StepNames(problem), tables.setdefault(problem.name, {})
        own = table.get("claim", {})
        values = dict(iterate_leaves(own) if isinstance(own, Mapping) else ())
        counts = {path: names.count_cells(path, value) or 0 for path, value in values.items()}
        for path, value in iterate_leaves(claim):
            count = names.count_cells(path, value) or 0
            is_placed = prefers_others and any("?" in row for row in values.get(path, ()))
            if count > counts.get(path, 0) or (count and is_placed and count == counts[path]):
                set_nested(table, ("claim", *path), value)


def unwrap_answers(table: dict[str, Any], problems: Sequence[SheetProblem]) -> dict[str, Any]:
    """Return the table by problem or step that an object such as {"answers": …} wraps.

    A list of objects is sorted by the problem, and by the step, that each one names.
    """
    for _ in range(_MAX_WRAPPERS):
        if _has_names(table, problems):
            return table
        inner = [v for v in table.values() if isinstance(v, dict | list) and v]
        if len(inner) != 1:
            return table
        (content,) = inner
        if isinstance(content, list):
            if not all(isinstance(entry, dict) for entry in content):
                return table
            return _sort_entries(content)
        table = content
    return table


def _has_names(table: Mapping[str, Any], problems: Sequence[SheetProblem]) -> bool:
    names = [problem.name for problem in problems]
    wanted = {name for table_names in _TABLE_NAMES.values() for name in table_names}
    return any(
        find_problem_name(key, names)
        or any(_is_step(key, value, StepNames(problem), problem) for problem in problems)
        or (key.casefold() in wanted and isinstance(value, Mapping) and len(problems) == 1)
        for key, value in table.items()
    )


def _sort_entries(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the tables of a list of objects by problem; an object may be one step."""
    tables: dict[str, Any] = {}
    for number, entry in enumerate(entries, start=1):
        fields = {key.casefold(): key for key in entry}
        label = next((entry[fields[key]] for key in _ENTRY_NAMES if key in fields), number)
        step = next((entry[fields[key]] for key in _STEP_NAMES if key in fields), None)
        value = next((entry[fields[key]] for key in _VALUE_NAMES if key in fields), None)
        table = tables.setdefault(f"problem {label}" if isinstance(label, int) else str(label), {})
        if isinstance(step, str) and value is not None:
            table[step] = value
        else:
            others = {k: v for k, v in entry.items() if k.casefold() not in _ENTRY_NAMES}
            for key, content in others.items():
                table.update(_read_step_list(content) or {key: content})
    return tables


def _read_step_list(content: Any) -> dict[str, Any]:
    """Return the matrices of a list of steps by name: [{"name": "Q", "matrix": …}, …]."""
    matrices = {}
    for entry in content if isinstance(content, list) else ():
        fields = entry if isinstance(entry, Mapping) else {}
        name = next((fields[key] for key in (*_STEP_NAMES, "name") if key in fields), None)
        value = next((fields[key] for key in _VALUE_NAMES if key in fields), None)
        if isinstance(name, str) and value is not None:
            matrices[name] = value
    return matrices


def split_by_problem(
    table: Mapping[str, Any], problems: Sequence[SheetProblem]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the tables of a file for several problems, and errors for names that are unknown.

    A sheet with one problem needs no name.
    """
    names = [problem.name for problem in problems]
    if len(problems) == 1 and not any(find_problem_name(key, names) for key in table):
        return {names[0]: normalize_answer(table, problems[0])}, []
    tables: dict[str, dict[str, Any]] = {}
    errors = []
    for key, value in table.items():
        name = find_problem_name(key, names)
        if name is None and key in ("title", "student", "name", "id"):
            continue
        if name is None:
            errors.append(f"{key}: the sheet has no such problem: {did_you_mean(key, names)}")
        elif not isinstance(value, Mapping):
            errors.append(f"{key}: expected a table: [{name}.claim]")
        else:
            problem = problems[names.index(name)]
            tables[name] = normalize_answer(value, problem)
    return tables, errors
