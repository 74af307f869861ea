"""The numbers of a matrix, ready to be set in columns: as many decimals each, points in line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from workings.plain_text import display_width, pad_left, pad_right, to_one_line, truncate_to_columns
from workings.problems.notation import typeset
from workings.problems.worked_problem import Cell, Panel

_DECIMAL = re.compile(r"([+-]?\d+)(?:([.,])(\d*))?")
_AROUND_POINT = re.compile(r"([−+]?\d*)([.,·]\d.*)?")
_MAX_TYPED_DECIMALS = 6  # decimals of a number that somebody has written down
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d{1,6})?|[+-]?inf")

MARK_SYMBOLS = {"wrong": "✗", "follows": "↳", "rounded": "≈", "blank": "?"}
"""What stands beside a cell that was judged; one that is right needs no sign."""

MARK_MEANINGS = {
    "wrong": "wrong",
    "follows": "follows from a wrong number before it",
    "rounded": "off by no more than rounding",
    "blank": "left blank",
}

VERDICT_SYMBOLS = {**MARK_SYMBOLS, "right": "✓"}
"""What stands beside a verdict on a whole step, or on everything."""


def is_number(text: str) -> bool:
    """Is it a number, or ±infinity, as problem files write them?

    >>> is_number("7.9e-32"), is_number("0,5"), is_number("1/2")
    (True, True, False)
    """
    return bool(_NUMBER.fullmatch(text.replace("−", "-").replace("∞", "inf")))


def format_cells(panel: Panel, decimals: int) -> list[list[str]]:
    """Write every cell out, on one line, as a program would write it (`-inf`, `7.9e-32`).

    Numbers that somebody claimed stay as they were written. Numbers that were worked out, and
    rounded to `decimals`, all get as many decimals as the longest of them; numbers that were given,
    as many as the longest that is no fraction.
    """
    written = [[to_one_line(cell.text) for cell in row] for row in panel.cells]
    if panel.verdict or any(_is_claimed(cell) for row in panel.cells for cell in row):
        return written
    matches = [_DECIMAL.fullmatch(text) for row in written for text in row]
    lengths = [len(m[3] or "") for m in matches if m]
    places = max(lengths, default=0)
    if panel.formula is not None:
        places = min(places, decimals)
    elif (
        lengths and min(lengths) <= _MAX_TYPED_DECIMALS < places
    ):  # given as a fraction, among plain numbers
        places = max(length for length in lengths if length <= _MAX_TYPED_DECIMALS)
    return [[_pad_decimals(text, places) for text in row] for row in written]


def split_at_point(text: str) -> tuple[str, str] | None:
    """Split a number where it should meet the others, before its decimal point; None: nowhere.

    >>> split_at_point("-3.25"), split_at_point("12"), split_at_point("1e-5"), split_at_point("-inf")
    (('−3', '.25'), ('12', ''), ('1', '·10⁻⁵'), None)
    """
    match = _AROUND_POINT.fullmatch(typeset(text))
    return (match[1], match[2] or "") if match else None


def has_names(names: list[str]) -> bool:
    """Do rows or columns have names, or are they only counted?

    >>> has_names(["the", "cat"]), has_names(["1", "2"])
    (True, False)
    """
    return names != [str(k + 1) for k in range(len(names))]


def max_abs_cell(panel: Panel) -> float:
    """Find the largest finite size among the values: what full colour stands for."""
    sizes = (abs(cell.value) for row in panel.cells for cell in row if cell.value is not None)
    return max((size for size in sizes if size < float("inf")), default=0.0)


def used_marks(panels: list[Panel]) -> list[str]:
    """List the marks that occur, worst first: what a legend has to explain."""
    used = {cell.mark for panel in panels for row in panel.cells for cell in row}
    return [mark for mark in MARK_SYMBOLS if mark in used]


def _is_claimed(cell: Cell) -> bool:
    return cell.mark not in ("", "masked")


def _pad_decimals(text: str, decimals: int) -> str:
    match = _DECIMAL.fullmatch(text)
    if not match or len(match[3] or "") >= decimals:
        return text
    return f"{match[1]}{match[2] or '.'}{(match[3] or '').ljust(decimals, '0')}"


def visible_indices(count: int, focus: int | None, max_count: int) -> list[int | None]:
    """Choose which of so many rows to show; None stands for those left out.

    >>> visible_indices(4, None, max_count=5), visible_indices(9, 5, max_count=5)
    ([0, 1, 2, 3], [0, 1, None, 5, None, 7, 8])
    """
    if count <= max_count:
        return list(range(count))
    tail = (max_count - 1) // 2
    shown = sorted(
        {*range(max_count - tail - 1), *range(count - tail, count), 0 if focus is None else focus}
    )
    chosen: list[int | None] = []
    for before, k in zip([-1, *shown], shown, strict=False):
        chosen += [k] if k == before + 1 else [None, k]
    return chosen


def truncate_matrix(panel: Panel, max_rows: int, max_columns: int) -> Panel:
    """Leave out the middle of a matrix with more rows or columns than that, and put dots there."""
    row, column = panel.first_wrong or (None, None)
    down, across = (
        visible_indices(panel.shape[0], row, max_rows),
        visible_indices(panel.shape[1], column, max_columns),
    )
    if None not in down and None not in across:
        return panel

    def cell(i: int | None, j: int | None) -> Cell:
        if i is not None and j is not None:
            return panel.cells[i][j]
        return Cell("⋱" if i is None and j is None else "⋮" if i is None else "⋯", None)

    return replace(
        panel,
        cells=[[cell(i, j) for j in across] for i in down],
        row_names=["⋮" if i is None else panel.row_names[i] for i in down],
        column_names=["⋯" if j is None else panel.column_names[j] for j in across],
        first_wrong=None
        if row is None or column is None
        else (down.index(row), across.index(column)),
    )


_T = TypeVar("_T")

MAX_MATRIX_SIDE = 12  # rows or columns; of more, the middle is left out
_ANSI = re.compile(r"\x1b\[[\d;]*m")
_STYLES = {
    "strong": "1", "dim": "2", "masked": "2", "blank": "2", "wrong": "31", "first": "1;7;31",
    "follows": "33", "rounded": "36", "found right": "32",
}  # fmt: skip


@dataclass(frozen=True)
class AnsiStyler:
    """Writes in colour, or does not."""

    color: bool = False

    def __call__(self, text: str, style: str) -> str:
        if not self.color or style not in _STYLES or not text.strip():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def visible_width(line: str) -> int:
    """Count the columns of a line that a pen wrote."""
    return display_width(_ANSI.sub("", line))


@dataclass(frozen=True)
class _Column:
    """A column of characters: its head, and its cells, each as wide as the column."""

    index: int | None
    header: str
    cells: list[str]  # plain
    styles: list[str]

    @property
    def width(self) -> int:
        return max(map(display_width, self.cells))


def draw_matrix(panel: Panel, columns: int, styler: AnsiStyler, decimals: int) -> list[str]:
    """Draw a matrix in at most so many columns of the terminal, if it can be done at all."""
    first = panel.first_wrong or (None, None)
    rows = visible_indices(panel.shape[0], first[0], MAX_MATRIX_SIDE)
    chosen = visible_indices(panel.shape[1], first[1], MAX_MATRIX_SIDE)
    elided = None in rows or None in chosen
    names = _headers(panel.row_names, rows, elided or has_names(panel.row_names))
    names = [truncate_to_columns(name, max(8, columns // 4), tail=2) for name in names]
    margin = max(map(display_width, names)) + (1 if any(names) else 0)
    heads = _headers(panel.column_names, chosen, elided or has_names(panel.column_names))
    cells = [_select(row, chosen) for row in _select(panel.cells, rows)]
    room = max(columns - margin - 4, 4)
    numbers = [
        align_decimal_points(column, room - 2)
        for column in zip(*format_cells(replace(panel, cells=cells), decimals), strict=True)
    ]
    written = [
        _ellipsis_column(rows)
        if j is None
        else _format_column(panel, j, head, rows, numbers.pop(0))
        for j, head in zip(chosen, heads, strict=True)
    ]
    for longest, gap in ((24, 2), (12, 2), (12, 1), (8, 1), (6, 1)):
        clipped = [_fit_column(column, longest) for column in written]
        if _total_width(clipped, gap) <= room:
            return _draw_block(names, clipped, gap, styler, margin)
    lines: list[str] = []
    for part in _split_evenly(clipped, room):
        shown = [column.index + 1 for column in part if column.index is not None]
        label = f"columns {shown[0]} to {shown[-1]}:" if len(shown) > 1 else f"column {shown[0]}:"
        lines += [styler(label, "dim"), *_draw_block(names, part, 1, styler, margin)]
    return lines


def _headers(names: list[str], indices: list[int | None], visible: bool) -> list[str]:
    if not visible:
        return [""] * len(indices)
    return ["" if k is None else to_one_line(names[k]) for k in indices]


def _ellipsis_column(rows: list[int | None]) -> _Column:
    return _Column(None, "", ["⋯" for _ in rows], ["dim" for _ in rows])


def _format_column(
    panel: Panel, index: int, header: str, rows: list[int | None], numbers: list[str]
) -> _Column:
    """Write one column: the sign for the first wrong one, the number, the sign of its mark."""
    marks = [row[index].mark for row in _select(panel.cells, rows)]
    pointed = panel.first_wrong is not None and panel.first_wrong[1] == index
    signed = any(mark in MARK_SYMBOLS and mark != "blank" for mark in marks)
    cells, styles = [], []
    for i in rows:
        if i is None:
            cells.append(" " * pointed + pad_left("⋮", display_width(numbers[0])) + " " * signed)
            styles.append("dim")
            continue
        number, mark = numbers.pop(0), marks.pop(0)
        sign = MARK_SYMBOLS[mark] if mark in MARK_SYMBOLS and mark != "blank" else " "
        if panel.first_wrong == (i, index):  # the pointer stands right before the number
            bare = number.lstrip()
            cells.append(pad_left("▸" + bare, 1 + display_width(number)) + sign)
            styles.append("first")
        else:
            cells.append(" " * pointed + number + sign * signed)
            styles.append(mark)
    return _Column(index, header, cells, styles)


def _select(items: list[_T], indices: list[int | None]) -> list[_T]:
    return [items[i] for i in indices if i is not None]


def align_decimal_points(numbers: Sequence[str], max_width: int) -> list[str]:
    """Bring numbers to one width, their points in line; what has no point stands at the right."""
    parts = [split_at_point(text) for text in numbers]
    before = max((display_width(part[0]) for part in parts if part), default=0)
    after = max((display_width(part[1]) for part in parts if part), default=0)
    whole = [
        typeset(text) if part is None else pad_left(part[0], before) + pad_right(part[1], after)
        for text, part in zip(numbers, parts, strict=True)
    ]
    whole = [truncate_to_columns(number, max_width) for number in whole]
    return [pad_left(number, max(map(display_width, whole))) for number in whole]


def _fit_column(column: _Column, max_width: int) -> _Column:
    """Bring a column and its head to one width."""
    head = truncate_to_columns(column.header, max(max_width, column.width), tail=2)
    wide = max(column.width, display_width(head))
    cells = [pad_left(cell, wide) for cell in column.cells]
    return _Column(column.index, pad_left(head, wide), cells, column.styles)


def _total_width(columns: list[_Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _split_columns(columns: list[_Column], max_width: int) -> list[list[_Column]]:
    """Split a matrix that is too wide into parts that are not."""
    parts: list[list[_Column]] = [[]]
    for column in columns:
        if parts[-1] and _total_width([*parts[-1], column], 1) > max_width:
            parts.append([])
        if parts[-1] or column.index is not None:
            parts[-1].append(column)
    return parts


def _split_evenly(columns: list[_Column], max_width: int) -> list[list[_Column]]:
    """Split into as few parts as there is room for, of about one width."""
    parts = _split_columns(columns, max_width)
    while max_width > 1 and len(
        narrower := _split_columns(columns, max_width := max_width - 1)
    ) == len(parts):
        parts = narrower
    return parts


def _draw_block(
    names: list[str], columns: list[_Column], gap: int, styler: AnsiStyler, margin: int
) -> list[str]:
    lines = []
    space = " " * gap
    if any(column.header.strip() for column in columns):
        heads = space.join(column.header for column in columns)
        lines.append(" " * (margin + 2) + styler(heads, "dim"))
    last = len(names) - 1
    for i, name in enumerate(names):
        opening, closing = _brackets(i, last)
        cells = space.join(
            _style_cell(column.cells[i], column.styles[i], styler) for column in columns
        )
        label = styler(pad_left(name, margin - 1), "dim") + " " if margin else ""
        lines.append(f"{label}{opening} {cells} {closing}")
    return lines


def _style_cell(cell: str, style: str, styler: AnsiStyler) -> str:
    """Colour a cell, not the spaces before it."""
    inside = cell.lstrip()
    return " " * (len(cell) - len(inside)) + styler(inside, style)


def _brackets(row: int, last: int) -> tuple[str, str]:
    if last == 0:
        return "[", "]"
    return ("⎡", "⎤") if row == 0 else ("⎣", "⎦") if row == last else ("⎢", "⎥")
