"""Read the answers in the sheet's own notebook; its code is parsed and never executed.

Assignments to `claim_1["Q"]` and to `step, row, column, mistake` are read if their values are
written out: lists of numbers and strings, `np.array(…)`, `float("-inf")`, `1/2`, arithmetic on such
values, or a name that was assigned one before. What stands in Markdown cells is read as a document,
and so is a notebook of the student's own, with what its cells printed.
"""

import ast
import copy
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from workings.errors import UserError, truncate
from workings.plain_text import to_one_line
from workings.problems.grading.answer_tables import normalize_answer
from workings.problems.grading.answer_text import FileAnswers, normalize_text, quote_cells
from workings.problems.grading.marking import SheetProblem
from workings.problems.grading.written_values import ComputedValueError, Evaluator
from workings.problems.problem_file import set_nested

_CLAIM = re.compile(r"claim_(\d{1,3})")
_ASSIGNMENT = re.compile(r"^(claim_\d{1,3}(?:\[[^\]\n]+\])*)\s*=\s*", re.MULTILINE)
_FINDING_NAMES = ("step", "row", "column", "mistake", "should")


def parse_notebook(text: str, problems: Sequence[SheetProblem]) -> FileAnswers:
    """Read the answers of a notebook (nbformat 3 or 4)."""
    reader = _CellReader(len(problems))
    for number, cell in enumerate(_read_cells(text), start=1):
        if cell.get("cell_type") == "code":
            reader.read(number, normalize_text(_get_source(cell)))
    answers = FileAnswers(errors=reader.errors)
    for number, problem in enumerate(problems, start=1):
        content = reader.findings if problem.answer_table == "found" else reader.claims
        if number in content:
            table = normalize_answer({problem.answer_table: content[number]}, problem)
            if table:
                answers.tables[problem.name] = table
    return answers


def format_notebook(text: str) -> str:
    """Return a notebook as a text: its Markdown and, if it is no sheet's, its code and outputs.

    In the sheet's own notebook, cells print what is right.
    """
    cells = _read_cells(text)
    is_own = any(_CLAIM.search(_get_source(cell)) for cell in cells)
    parts: list[str] = []
    for cell in cells:
        is_code = cell.get("cell_type") == "code"
        if not is_code or not is_own:
            parts.append(_get_source(cell))
        if is_code and not is_own:
            parts += [_get_output(output) for output in cell.get("outputs", [])]
    return "\n\n".join(parts)


def _read_cells(text: str) -> list[dict[str, Any]]:
    try:
        notebook = json.loads(text)
        cells = notebook.get("cells") or notebook["worksheets"][0]["cells"]
        for cell in cells:
            _get_source(cell)
            for output in cell.get("outputs", []):
                _get_output(output)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise UserError("not a Jupyter notebook: it does not parse as JSON with cells") from None
    return list(cells)


def _get_source(cell: Any) -> str:
    return "".join(cell.get("source", cell.get("input", "")))


def _get_output(output: Any) -> str:
    """Return the text that a cell printed, or that of its value."""
    text = output.get("text", output.get("data", {}).get("text/plain", ""))
    return "".join(text)


class _CellReader:
    """Collects the claims and findings of the code cells."""

    def __init__(self, num_problems: int) -> None:
        self.num_problems = num_problems
        self.claims: dict[int, dict[str, Any]] = {}
        self.findings: dict[int, dict[str, Any]] = {}
        self.errors: list[str] = []
        self._names: dict[str, Any] = {}
        self._current = 1  # the problem whose givens or claim were seen last

    def read(self, number: int, source: str) -> None:
        """Read one code cell."""
        source = re.sub(r"^[ \t]*[%!?].*$", "", source, flags=re.MULTILINE)  # magics
        for part, first_line in _split_readable(source):
            try:
                tree = ast.parse(part)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                line = first_line + (getattr(error, "lineno", None) or 1) - 1
                reason = getattr(error, "msg", None) or "too deeply nested"
                self.errors.append(f"cell {number}, line {line}: not Python: {reason}")
                continue
            for statement in tree.body:
                self._read_statement(
                    f"cell {number}, line {first_line - 1 + statement.lineno}: ",
                    statement,
                    Evaluator(self._names, part),
                )

    def _read_statement(self, place: str, statement: ast.stmt, evaluator: Evaluator) -> None:
        assignment = _get_assignment(statement)
        if assignment is None:
            self._append(statement, evaluator)
            return
        target, value = assignment
        try:
            if isinstance(target, ast.Tuple):
                self._read_finding(target, value, evaluator)
                return
            name, path = _get_target(target)
        except ComputedValueError:
            return
        given = re.fullmatch(r"given_(\d{1,3})", name)
        if given is not None:
            self._current = int(given[1])
        claim = _CLAIM.fullmatch(name)
        try:
            self._assign(name, path, evaluator.evaluate(value))
        except ComputedValueError as error:
            if claim is not None:
                where = truncate(to_one_line(ast.unparse(target)), 50)
                self.errors.append(
                    f"{place}{where}: {error}: write out the numbers (the notebook is not run)"
                )
        except (TypeError, AttributeError, IndexError, KeyError):
            if claim is not None:
                self.errors.append(f"{place}{name}: used as a table and as a value")

    def _append(self, statement: ast.stmt, evaluator: Evaluator) -> None:
        """Add a row to a list that was assigned before: rows.append([1, 2])."""
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [value], [])) if (
                isinstance(self._names.get(name), list)
            ):
                with suppress(ComputedValueError):
                    self._names[name].append(evaluator.evaluate(value))

    def _assign(self, name: str, path: tuple[str | int, ...], value: Any) -> None:
        """Set a name, an entry of a claim or a cell of a matrix."""
        value = copy.deepcopy(value)
        claim = _CLAIM.fullmatch(name)
        if claim is None:
            if not path:
                self._names[name] = value
            else:
                _set_cell(self._names[name], path, value)
            return
        self._current = int(claim[1])
        table = self._names[name] = self.claims.setdefault(self._current, {})
        keys = [key for key in path if isinstance(key, str)]
        if not path:
            if isinstance(value, dict):
                table.update(value)
        elif len(keys) == len(path):
            set_nested(table, keys, value)
        else:
            _set_cell(table, path, value)

    def _read_finding(self, target: ast.Tuple, value: ast.expr, evaluator: Evaluator) -> None:
        names = [element.id for element in target.elts if isinstance(element, ast.Name)]
        values = evaluator.evaluate(value)
        if not set(names) <= set(_FINDING_NAMES) or len(values) != len(names):
            return
        finding = {k: v for k, v in zip(names, values, strict=True) if v != "?"}
        if finding:
            self.findings[self._current] = finding


def _get_assignment(statement: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """Return target and value of `x = …`, `x: list = …` or `x.update(…)`."""
    if isinstance(statement, ast.Assign):
        return statement.targets[0], statement.value
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return statement.target, statement.value
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or getattr(call.func, "attr", "") != "update":
        return None
    assert isinstance(call.func, ast.Attribute)
    table = ast.Call(ast.Name("dict"), [], call.keywords)
    return call.func.value, call.args[0] if call.args else table


def _set_cell(matrix: Any, path: Sequence[str | int], value: Any) -> None:
    """Set a cell or row: claim["Q"][0][1] = 2."""
    *indices, last = path
    for index in indices:
        matrix = matrix[index]
    matrix[last] = value


def _get_target(node: ast.expr) -> tuple[str, tuple[str | int, ...]]:
    """Return the name and the keys of an assignment: claim_1["head"]["1"]["scores"], Z[0, 1]."""
    path: list[str | int] = []
    while isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        keys = [part.value for part in parts if isinstance(part, ast.Constant)]
        if len(keys) < len(parts) or not all(isinstance(key, str | int) for key in keys):
            raise ComputedValueError("a key that is computed")
        path += [key if isinstance(key, int) else str(key) for key in reversed(keys)]
        node = node.value
    if not isinstance(node, ast.Name):
        raise ComputedValueError("not a name")
    return node.id, tuple(reversed(path))


def _split_readable(source: str) -> Iterator[tuple[str, int]]:
    """Yield the cell or, if it is not Python, each claim in it with quotes around bare cells."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        assignments = list(_ASSIGNMENT.finditer(source))
        for match in assignments:
            value = source[match.end() :]
            end = _find_closing_bracket(value)
            line = source.count("\n", 0, match.start()) + 1
            yield f"{match[1]} = {quote_cells(value[:end])}", line
        if not assignments:
            yield source, 1
    else:
        yield source, 1


def _find_closing_bracket(text: str) -> int:
    """Return the end of the list at the start of a text."""
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if not depth and char in "]\n":
            return index + 1
    return len(text)
