"""Match the names that students write with the problems and steps of a sheet."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from workings.errors import UserError, did_you_mean
from workings.problems.documents.formulas import (
    ATTENTION_ROLES,
    infer_step,
    normalize_name,
    parse_formula,
)
from workings.problems.documents.words import find_caption_role
from workings.problems.grading.marking import SheetProblem, iterate_leaves
from workings.problems.numbers import read_number
from workings.problems.problem_file import format_claim_path, set_nested
from workings.problems.solution import format_step_title

_TABLE_NAMES = {
    "claim": ("claim", "claims", "answer", "answers", "solution"),
    "found": ("found", "find", "mistake"),
}
_NUMBERED = re.compile(
    r"(?:problem|prob|exercise|ex|question|q|p|task|aufgabe|probleme|exercice|bài|题|題|问题)"
    r"[\s_\-.]*0*(\d{1,3})(?!\d)",
    re.IGNORECASE,
)
_LONE_NUMBER = re.compile(r"(?:^|[\s_\-(])0*(\d{1,3})(?:$|[\s_\-.)])")
_COPY = re.compile(r"\s*(?:\(\d+\)|- ?copy(?: ?\(\d+\))?|- ?kopie|copy of )\s*", re.IGNORECASE)
_MAX_NAME_WORDS = 6
_FINDING_KEYS = ("step", "cell", "row", "column", "mistake", "should")


def find_problem_name(text: str, problems: Sequence[str]) -> str | None:
    """Return the problem that a file or heading names; None if it names none.

    >>> find_problem_name("Problem-1 (2)", ["problem-01", "problem-02"])
    'problem-01'
    """
    text = _COPY.sub(" ", text).strip()
    if text in problems:
        return text
    match = _NUMBERED.search(text) or _LONE_NUMBER.search(text)
    if match is None:
        return None
    names = {int(name.rpartition("-")[2]): name for name in problems}
    return names.get(int(match[1]))


def names_unknown_problem(text: str, problems: Sequence[str]) -> bool:
    """Return True if a file is named like a problem that the sheet does not have: problem-99."""
    match = re.fullmatch(r"problem[\s_\-]*(\d{1,3})", _COPY.sub(" ", text).strip(), re.IGNORECASE)
    return match is not None and find_problem_name(text, problems) is None


def _flatten(name: str) -> str:
    """Return a name for comparison, without case and punctuation."""
    return re.sub(r"[\W_]", "", name).casefold()


class StepNames:
    """The names under which the steps of a problem are found."""

    def __init__(self, problem: SheetProblem) -> None:
        kind = problem.problem.kind
        self._has_usual_names = kind.name == "attention"
        self._paths: dict[str, tuple[str, ...]] = {}
        self._shapes: dict[tuple[str, ...], tuple[int, int]] = {}
        for step in problem.problem.asked_steps:
            path = tuple(format_claim_path(kind, step.key).split("."))
            matrix = problem.problem.exact_matrices[step.key].mid
            self._shapes[path] = problem.problem.orient(matrix).shape
            title = format_step_title(step, problem.problem)
            for name in ("".join(path), step.key, title):
                self._paths.setdefault(_flatten(name), path)

    def find_path(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step in a claim: `("head", "2", "scores")` for `scores.2`."""
        path = self._paths.get(_flatten(name))
        return path if path or not self._has_usual_names else self._find_usual_name(name)

    def _find_usual_name(self, name: str) -> tuple[str, ...] | None:
        """Return the path of a step of attention under another name: A, QK^T, Attention weights."""
        if len(name.split()) > _MAX_NAME_WORDS:
            return None
        role = ATTENTION_ROLES.get(normalize_name(name).lower())
        role = role or infer_step(parse_formula(name[:80]))
        role = role or find_caption_role(name.replace("_", " ")) or ""
        if role == "output" and role not in self._paths:
            role = "mixed"
        return self._paths.get(_flatten(role))

    def get_shape(self, path: tuple[str, ...]) -> tuple[int, int]:
        """Return the rows and columns of a step, in the problem's convention."""
        return self._shapes[path]

    def find_shape(self, path: tuple[str, ...]) -> tuple[int, int] | None:
        """Return the rows and columns of a step; None if there is no such step."""
        return self._shapes.get(path)


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
    for path, value in iterate_leaves(content):
        if path[0] != "again":
            # A step's own name comes before another usual name.
            matrices.setdefault(names.find_path(".".join(path)) or path, _mark_blanks(value))
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
    cells = value[0] if isinstance(value, list) and _measure(value) == (1, len(value[0])) else value
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
    if size[1] == shape[1] + 1 and _is_counting([row[0] for row in rows]):
        rows = [row[1:] for row in rows]
    return rows if _measure(rows) == shape else value


def _is_counting(cells: Sequence[Any]) -> bool:
    return [str(cell).strip() for cell in cells] == [str(k + 1) for k in range(len(cells))]


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
            numbers = _list_numbers(value, names.find_shape(path))
            is_complete &= numbers is not None
            count += numbers or 0
    return count, is_complete


def _list_numbers(value: Any, shape: tuple[int, int] | None) -> int | None:
    """Return how many numbers a matrix has; None if it does not fit or has words."""
    if shape is None or not isinstance(value, list):
        return None
    rows = value if all(isinstance(row, list) for row in value) else [value]
    if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
        return None
    try:
        return sum(read_number(cell, "") is not None for row in rows for cell in row)
    except UserError:
        return None


def _measure(value: Any) -> tuple[int, int] | None:
    """Return the rows and columns of a list of rows; None if it is none."""
    if not isinstance(value, list) or not value:
        return None
    widths = {len(row) if isinstance(row, list) else -1 for row in value}
    width = widths.pop()
    return None if widths or width < 1 else (len(value), width)


def _mark_blanks(value: Any) -> Any:
    """Return a matrix with "?" for cells that are empty or only a line to write on."""
    if isinstance(value, list):
        return [_mark_blanks(cell) for cell in value]
    is_blank = isinstance(value, str) and not value.strip(" _.…-□?")
    return "?" if is_blank or value is None else value


def _is_step(key: str, value: Any, names: StepNames, problem: SheetProblem) -> bool:
    part_name = problem.problem.kind.part_name
    return names.find_path(key) is not None or (
        isinstance(value, Mapping) and key in (part_name, *problem.problem.kind.prefixes)
    )


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
