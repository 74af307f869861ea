"""Read the answers in the sheet's own notebook; its code is parsed and never executed.

Assignments to `claim_1["Q"]` and to `step, row, column, mistake` are read if their values are
written out: lists of numbers and strings, `np.array(…)`, `float("-inf")`, `1/2`, or a name that was
assigned such a value before.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from workings.errors import UserError, truncate
from workings.plain_text import to_one_line
from workings.problems.grading.answer_names import normalize_answer
from workings.problems.grading.answer_text import FileAnswers, normalize_text, quote_cells
from workings.problems.grading.marking import SheetProblem
from workings.problems.problem_file import set_nested

_CLAIM = re.compile(r"claim_(\d{1,3})")
_ASSIGNMENT = re.compile(r"^(claim_\d{1,3}(?:\[[^\]\n]+\])*)\s*=\s*", re.MULTILINE)
_MAX_DEPTH = 60
_ARRAY_FUNCTIONS = ("array", "asarray", "tensor", "list", "Matrix")
_FINDING_NAMES = ("step", "row", "column", "mistake", "should")


class _ComputedValueError(ValueError):
    """A value that would have to be computed."""


def parse_notebook(text: str, problems: Sequence[SheetProblem]) -> FileAnswers:
    """Read the answers of a notebook (nbformat 3 or 4)."""
    try:
        notebook = json.loads(text)
        cells = notebook.get("cells") or notebook["worksheets"][0]["cells"]
        sources = [_get_source(cell) for cell in cells]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise UserError("not a Jupyter notebook: it does not parse as JSON with cells") from None
    reader = _CellReader(len(problems))
    for number, source in enumerate(sources, start=1):
        if source is not None:
            reader.read(number, normalize_text(source))
    answers = FileAnswers(errors=reader.errors)
    for number, problem in enumerate(problems, start=1):
        content = reader.findings if problem.answer_table == "found" else reader.claims
        if number in content:
            table = normalize_answer({problem.answer_table: content[number]}, problem)
            if table:
                answers.tables[problem.name] = table
    return answers


def _get_source(cell: Any) -> str | None:
    if cell.get("cell_type") != "code":
        return None
    source = cell.get("source", cell.get("input", ""))
    return source if isinstance(source, str) else "".join(source)


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
                if isinstance(statement, ast.Assign):
                    self._read_assignment(number, first_line, statement, part)

    def _read_assignment(
        self, number: int, first_line: int, statement: ast.Assign, source: str
    ) -> None:
        target = statement.targets[0]
        try:
            if isinstance(target, ast.Tuple):
                self._read_finding(target, statement.value, source)
                return
            name, path = _get_target(target)
        except _ComputedValueError:
            return
        given = re.fullmatch(r"given_(\d{1,3})", name)
        if given is not None:
            self._current = int(given[1])
        claim = _CLAIM.fullmatch(name)
        try:
            value = self._evaluate(statement.value, source)
        except _ComputedValueError as error:
            if claim is not None:
                line = first_line + statement.lineno - 1
                self.errors.append(
                    f"cell {number}, line {line}: {truncate(to_one_line(ast.unparse(target)), 50)}:"
                    f" {error}: write out the numbers (the notebook is not run)"
                )
            return
        if claim is None:
            if not path:
                self._names[name] = value
            return
        self._current = int(claim[1])
        if not path:
            if isinstance(value, dict):
                self.claims.setdefault(self._current, {}).update(value)
            return
        try:
            set_nested(self.claims.setdefault(self._current, {}), path, value)
        except (TypeError, AttributeError):
            self.errors.append(f"cell {number}: {name}: used as a table and as a value")

    def _read_finding(self, target: ast.Tuple, value: ast.expr, source: str) -> None:
        names = [element.id for element in target.elts if isinstance(element, ast.Name)]
        values = self._evaluate(value, source)
        if not set(names) <= set(_FINDING_NAMES) or len(values) != len(names):
            return
        finding = {k: v for k, v in zip(names, values, strict=True) if v != "?"}
        if finding:
            self.findings[self._current] = finding

    def _evaluate(self, node: ast.expr, source: str, depth: int = 0) -> Any:
        """Return a value that is written out; numbers keep the text they are written with."""
        if depth > _MAX_DEPTH:
            raise _ComputedValueError("too deeply nested")
        if isinstance(node, ast.Constant):
            if isinstance(node.value, float):
                return ast.get_source_segment(source, node) or repr(node.value)
            if node.value is None:
                return "?"
            if isinstance(node.value, str | int) and not isinstance(node.value, bool):
                return node.value
            raise _ComputedValueError("not a number")
        if isinstance(node, ast.List | ast.Tuple):
            return [self._evaluate(element, source, depth + 1) for element in node.elts]
        if isinstance(node, ast.Dict):
            keys = [self._evaluate(k, source, depth + 1) for k in node.keys if k is not None]
            values = [self._evaluate(v, source, depth + 1) for v in node.values]
            return {str(k): v for k, v in zip(keys, values, strict=False)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            sign = "-" if isinstance(node.op, ast.USub) else ""
            return _negate(self._evaluate(node.operand, source, depth + 1), sign)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [self._evaluate(n, source, depth + 1) for n in (node.left, node.right)]
            if all(re.fullmatch(r"-?\d{1,9}", str(part)) for part in parts):
                return f"{parts[0]}/{parts[1]}"
        if isinstance(node, ast.Name) and node.id in self._names:
            return self._names[node.id]
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name.lower() in ("inf", "infty", "infinity"):
                return "inf"
        if isinstance(node, ast.Call) and node.args:
            return self._evaluate_call(node, source, depth)
        raise _ComputedValueError(f"{truncate(to_one_line(ast.unparse(node)), 40)!r} is computed")

    def _evaluate_call(self, node: ast.Call, source: str, depth: int) -> Any:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        function = node.func.id if isinstance(node.func, ast.Name) else function
        if function in (*_ARRAY_FUNCTIONS, "float", "str"):
            return self._evaluate(node.args[0], source, depth + 1)
        raise _ComputedValueError(f"{truncate(to_one_line(ast.unparse(node)), 40)!r} is computed")


def _negate(value: Any, sign: str) -> Any:
    if isinstance(value, int):
        return -value if sign else value
    if isinstance(value, str):
        return f"{sign}{value}"
    raise _ComputedValueError("a sign before a list")


def _get_target(node: ast.expr) -> tuple[str, tuple[str, ...]]:
    """Return the name and the keys of an assignment: claim_1["head"]["1"]["scores"]."""
    path: list[str] = []
    while isinstance(node, ast.Subscript):
        if not isinstance(node.slice, ast.Constant):
            raise _ComputedValueError("a key that is computed")
        path.append(str(node.slice.value))
        node = node.value
    if not isinstance(node, ast.Name):
        raise _ComputedValueError("not a name")
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
