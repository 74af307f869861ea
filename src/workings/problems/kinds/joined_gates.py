"""The gates of an LSTM given one by one, or for [h, x] at once, written side by side."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from workings.errors import UserError
from workings.problems.kinds.gated import read_gate_order
from workings.problems.spellings import find_choice

Rows: TypeAlias = list[list[Any]]

_LETTERS = {"i": "i", "f": "f", "g": "gc", "o": "o"}  # the candidate is g or c̃


def join_gates(given: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the givens of one step of an LSTM with W_x, W_h and b side by side.

    They may be W_i, U_i, b_i, …, or W_i, b_i, … without any U, or W: these multiply [h, x].
    """
    is_column = find_choice(table.get("vectors"), ("rows", "columns")) == "columns"
    order = read_gate_order(table.get("gates", given.get("gates", "ifgo")), "ifgo") or "ifgo"
    parts = {matrix: _find_parts(given, matrix, order) for matrix in "WUb"}
    used = [name for names in parts.values() for name in names]
    if not used and "W" not in given:
        return given
    joined = {name: value for name, value in given.items() if name not in used}
    rivals = [name for name in ("W_x", "W_h") if name in given]
    if rivals:
        first = used[0] if used else "W"
        raise UserError(
            f"given has both {rivals[0]} and {first}: give the gates side by side or one by one"
        )
    if not parts["W"] and "W" not in given:
        raise UserError(f"given.W_{order[0]} is missing: kind lstm_gradient needs it")
    if parts["b"]:
        joined["b"] = [cell for name in parts["b"] for cell in _to_row(given[name])]
    if parts["U"]:
        joined["W_x"] = _put_side_by_side(given, parts["W"], is_column)
        joined["W_h"] = _put_side_by_side(given, parts["U"], is_column)
    else:
        both = joined.pop("W", None)
        if both is None:
            both = _put_side_by_side(given, parts["W"], is_column)
        concat = find_choice(table.get("concat", given.get("concat")), ("h,x", "x,h"))
        x_first = concat == "x,h"
        joined["W_x"], joined["W_h"] = _split_inputs(both, given.get("x"), is_column, x_first)
    return joined


def _find_parts(given: Mapping[str, Any], matrix: str, order: str) -> list[str]:
    """Return the names of the four gates' matrices; none if no gate has one."""
    names = []
    for gate in order:
        own = [f"{matrix}_{letter}" for letter in _LETTERS[gate]]
        names.append(next((name for name in own if name in given), own[0]))
    if not any(name in given for name in names):
        return []
    missing = next((name for name in names if name not in given), None)
    if missing:
        raise UserError(f"given.{missing} is missing: every gate needs its own")
    return names


def _to_row(value: Any) -> list[Any]:
    rows = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(rows, list):
        return [rows]
    return [cell for row in rows for cell in (row if isinstance(row, list) else [row])]


def _to_rows(value: Any, name: str) -> Rows:
    rows = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(rows, int | float | str) and not isinstance(rows, bool):
        return [[rows]]  # one number
    if not isinstance(rows, list) or not rows:
        raise UserError(f"given.{name} must be a matrix: [[1, 0], [0, 2]]")
    if not any(isinstance(row, list) for row in rows):
        return [rows]
    if not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        raise UserError(f"given.{name}: every row must be a list of as many numbers")
    return list(rows)


def _put_side_by_side(given: Mapping[str, Any], names: Sequence[str], is_column: bool) -> Rows:
    matrices = [_to_rows(given[name], name) for name in names]
    for name, matrix in zip(names, matrices, strict=True):
        if (len(matrix), len(matrix[0])) != (len(matrices[0]), len(matrices[0][0])):
            raise UserError(f"given.{name} must have the shape of {names[0]}")
    if is_column:
        return [row for matrix in matrices for row in matrix]
    return [[cell for row in rows for cell in row] for rows in zip(*matrices, strict=True)]


def _split_inputs(both: Any, x: Any, is_column: bool, x_first: bool) -> tuple[Rows, Rows]:
    """Return the parts of W·[h, x] for x and for h."""
    rows = _to_rows(both, "W")
    rows = [list(column) for column in zip(*rows, strict=True)] if is_column else rows
    width = len(_to_row(x)) if x is not None else 0
    if not 0 < width < len(rows):
        side = "columns" if is_column else "rows"
        raise UserError(f"W has {len(rows)} {side}: it must have some for x and some for h")
    for_x, for_h = (rows[:width], rows[width:]) if x_first else (rows[-width:], rows[:-width])
    if is_column:
        for_x, for_h = ([list(c) for c in zip(*part, strict=True)] for part in (for_x, for_h))
    return for_x, for_h
