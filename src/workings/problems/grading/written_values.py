"""Values that are written out in Python code: numbers, lists, and arithmetic on them.

Nothing is executed. Names stand for values that were assigned before, and sums, products and a few
functions of numpy are computed here from written numbers.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from workings.errors import UserError, truncate
from workings.plain_text import to_one_line
from workings.problems.intervals import Floats
from workings.problems.numbers import MAX_SIDE, read_number

# A number keeps its text, 0.50; a matrix is a list of rows, a table a dictionary.
Value: TypeAlias = Any

_MAX_DEPTH = 60
_MAX_DECIMALS = 12
_COPYING = ("array", "asarray", "tensor", "list", "Matrix", "tolist", "copy", "float", "int", "str")
_ROUNDING = ("round", "around", "round_")
_FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "abs": np.abs,
    "transpose": np.transpose,
    "tril": np.tril,
}
_OPERATIONS: Mapping[type[ast.operator], Callable[[Floats, Floats], Floats]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.MatMult: np.matmul,
}
_PRODUCTS = ("dot", "matmul")
_STACKING: Mapping[str, Callable[[list[Value]], Value]] = {
    "vstack": lambda parts: [row for part in parts for row in _list_rows(part)],
    "stack": list,
    "concatenate": lambda parts: [row for part in parts for row in part],
    "column_stack": lambda parts: [list(row) for row in zip(*parts, strict=True)],
}
_FILLED = {"zeros": "0", "ones": "1", "empty": "?"}


class ComputedValueError(ValueError):
    """A value that only running the code would tell."""


class Evaluator:
    """Evaluates the expressions of one cell; `names` are the values assigned so far."""

    def __init__(self, names: Mapping[str, Value], source: str) -> None:
        self._names, self._source = names, source

    def evaluate(self, node: ast.expr, depth: int = 0) -> Value:
        """Return a value that is written out; numbers keep the text they are written with."""
        if depth > _MAX_DEPTH:
            raise ComputedValueError("too deeply nested")
        depth += 1
        if isinstance(node, ast.Constant):
            return self._read_constant(node)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.evaluate(element, depth) for element in node.elts]
        if isinstance(node, ast.Dict):
            keys = [self.evaluate(k, depth) for k in node.keys if k is not None]
            values = [self.evaluate(v, depth) for v in node.values]
            return {str(k): v for k, v in zip(keys, values, strict=False)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return self._negate(node, depth)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return self._operate(node, depth)
        if isinstance(node, ast.Name) and node.id in self._names:
            return self._names[node.id]
        if isinstance(node, ast.Subscript):
            return self._look_up(node, depth)
        if isinstance(node, ast.ListComp):
            return self._comprehend(node, depth)
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name.lower() in ("inf", "infty", "infinity"):
                return "inf"
            if name == "T" and isinstance(node, ast.Attribute):
                return _to_texts(np.transpose(_to_floats(self.evaluate(node.value, depth))))
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        raise _make_error(node)

    def _read_constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, float):
            return ast.get_source_segment(self._source, node) or repr(node.value)
        if node.value is None:
            return "?"
        if isinstance(node.value, str | int) and not isinstance(node.value, bool):
            return node.value
        raise ComputedValueError("not a number")

    def _negate(self, node: ast.UnaryOp, depth: int) -> Value:
        value = self.evaluate(node.operand, depth)
        is_negative = isinstance(node.op, ast.USub)
        if isinstance(value, int):
            return -value if is_negative else value
        if isinstance(value, str):
            return f"-{value}".replace("--", "") if is_negative else value
        return _to_texts(-_to_floats(value) if is_negative else _to_floats(value))

    def _operate(self, node: ast.BinOp, depth: int) -> Value:
        left, right = self.evaluate(node.left, depth), self.evaluate(node.right, depth)
        parts = [str(part) for part in (left, right)]
        if isinstance(node.op, ast.Div) and all(re.fullmatch(r"-?\d{1,9}", p) for p in parts):
            return f"{parts[0]}/{parts[1]}"
        return _compute(node, _OPERATIONS[type(node.op)], left, right)

    def _look_up(self, node: ast.Subscript, depth: int) -> Value:
        """Return the entry of a table or the row of a list: given_1["X"], X[0]."""
        table = self.evaluate(node.value, depth)
        key: Any = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if isinstance(table, dict | list):
            with suppress(KeyError, IndexError, TypeError):
                return table[key]
        raise _make_error(node)

    def _comprehend(self, node: ast.ListComp, depth: int) -> list[Value]:
        """Return a list like [round(x, 3) for x in row]."""
        (generator, *others), names = node.generators, self._names
        values = self.evaluate(generator.iter, depth)
        is_simple = isinstance(generator.target, ast.Name) and not generator.ifs and not others
        if not is_simple or not isinstance(values, list):
            raise _make_error(node)
        assert isinstance(generator.target, ast.Name), "checked above"
        try:
            elements = []
            for value in values:
                self._names = {**names, generator.target.id: value}
                elements.append(self.evaluate(node.elt, depth))
            return elements
        finally:
            self._names = names

    def _call(self, node: ast.Call, depth: int) -> Value:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        if name == "dict" and not node.args:
            return self._make_table(node, depth)
        arguments = [self.evaluate(argument, depth) for argument in node.args]
        # In x.round(3), x is the first argument; in np.round(x, 3) it is written as one.
        if isinstance(function, ast.Attribute) and not _is_module(function.value, self._names):
            arguments.insert(0, self.evaluate(function.value, depth))
        if not arguments:
            raise _make_error(node)
        first, *others = arguments
        if name in _COPYING:
            return first
        if name in _ROUNDING:
            decimals = [self.evaluate(k.value, depth) for k in node.keywords] or others or [0]
            return _round(first, decimals[0])
        if name in _FUNCTIONS and not others:
            return _compute(node, lambda x, _: _FUNCTIONS[name](x), first, 0)
        if name in _PRODUCTS and len(others) == 1:
            return _compute(node, np.matmul, first, others[0])
        if name == "reshape":
            return _reshape(node, first, others)
        if name in _STACKING and isinstance(first, list) and not others:
            return _stack(node, _STACKING[name], first)
        if name in _FILLED and not others:
            return _fill(node, first, _FILLED[name])
        if name == "Fraction" and all(isinstance(a, int) for a in arguments) and others:
            return f"{first}/{others[0]}"
        raise _make_error(node)

    def _make_table(self, node: ast.Call, depth: int) -> dict[str, Value]:
        """Return the table of dict(Q=…), without what cannot be read."""
        table = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                try:
                    table[keyword.arg] = self.evaluate(keyword.value, depth)
                except ComputedValueError:
                    continue
        return table


def _is_module(node: ast.expr, names: Mapping[str, Value]) -> bool:
    return isinstance(node, ast.Name) and node.id not in names


def _make_error(node: ast.expr) -> ComputedValueError:
    return ComputedValueError(f"{truncate(to_one_line(ast.unparse(node)), 40)!r} is computed")


def _compute(
    node: ast.expr, operation: Callable[[Floats, Floats], Floats], left: Value, right: Value
) -> Value:
    """Compute an operation of numpy on written numbers."""
    try:
        with np.errstate(all="ignore"):
            return _to_texts(np.asarray(operation(_to_floats(left), _to_floats(right))))
    except (ValueError, TypeError, OverflowError):  # such as shapes that do not fit
        raise _make_error(node) from None


def _to_floats(value: Value) -> Floats:
    """Return numbers of a value; a blank or a word is none."""
    if isinstance(value, list):
        rows = [_to_floats(element) for element in value]
        if len({row.shape for row in rows}) != 1:
            raise ComputedValueError("rows of different lengths")
        return np.array(rows)
    try:
        number = read_number(value, "")
    except UserError:
        number = None
    if number is None:
        raise ComputedValueError(f"{truncate(str(value), 20)!r} is no number")
    return np.array(number.value)


def _to_texts(array: Floats) -> Value:
    if array.ndim > 2 or (array.size and max(array.shape, default=0) > MAX_SIDE):
        raise ComputedValueError("too large")
    texts: Value = _map(array.tolist(), _to_text)
    return texts


def _to_text(value: float) -> str:
    if math.isnan(value):
        return "?"
    return repr(round(value, _MAX_DECIMALS)) if math.isfinite(value) else str(value)


def _map(value: Value, change: Callable[[Any], Value]) -> Value:
    return [_map(v, change) for v in value] if isinstance(value, list) else change(value)


def _round(value: Value, decimals: Value) -> Value:
    if not isinstance(decimals, int) or not 0 <= decimals <= _MAX_DECIMALS:
        raise ComputedValueError("rounded to what cannot be read")

    def change(cell: Value) -> Value:
        if isinstance(cell, int):
            return cell
        number = float(_to_floats(cell))
        return f"{number:.{decimals}f}" if math.isfinite(number) else cell

    return _map(value, change)


def _list_rows(value: Value) -> list[Value]:
    """Return the rows of a matrix; a list of numbers is one row."""
    is_matrix = isinstance(value, list) and value and isinstance(value[0], list)
    return value if is_matrix else [value]


def _reshape(node: ast.expr, value: Value, shape: list[Value]) -> Value:
    """Return the numbers of x.reshape(2, 3), row by row."""
    sides = shape[0] if len(shape) == 1 and isinstance(shape[0], list) else shape
    try:
        cells = np.array(value, dtype=object).reshape([int(n) for n in sides])
    except (ValueError, TypeError):  # such as another count of numbers
        raise _make_error(node) from None
    rows: Value = cells.tolist()
    return rows


def _stack(
    node: ast.expr, function: Callable[[list[Value]], Value], parts: list[Value]
) -> list[Value]:
    try:
        rows: list[Value] = function(parts)
    except (ValueError, TypeError):
        raise _make_error(node) from None
    return rows


def _fill(node: ast.expr, shape: Value, text: str) -> Value:
    """Return a matrix of a shape whose cells are assigned later."""
    sides = shape if isinstance(shape, list) else [shape]
    if len(sides) > 2 or not all(isinstance(n, int) and 0 < n <= MAX_SIDE for n in sides):
        raise _make_error(node)
    row = [text] * sides[-1]
    return row if len(sides) == 1 else [list(row) for _ in range(sides[0])]
