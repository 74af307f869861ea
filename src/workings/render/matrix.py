"""The cells of a matrix: formatted, aligned at the decimal point, truncated, drawn as text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from workings.languages import gettext, gettext_noop
from workings.plain_text import (
    AnsiStyler,
    display_width,
    pad_left,
    pad_right,
    to_one_line,
    truncate_to_columns,
)
from workings.problems.notation import typeset
from workings.problems.worked_problem import Cell, Panel

MAX_MATRIX_SIDE = 12  # rows or columns drawn as text; the middle of a larger matrix is left out
_DECIMAL = re.compile(r"([+-]?\d+)(?:([.,])(\d*))?")
_AROUND_POINT = re.compile(r"([−+]?\d*)([.,·]\d.*)?")
_MAX_TYPED_DECIMALS = 6  # a given with more decimals is taken for a fraction
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d{1,6})?|[+-]?inf")
_T = TypeVar("_T")

MARK_SYMBOLS = {"wrong": "✗", "follows": "↳", "rounded": "≈", "blank": "?"}
"""The symbol beside a checked cell; a right one has none."""

MARK_MEANINGS = {
    "wrong": gettext_noop("wrong"),
    "follows": gettext_noop("follows from an earlier mistake"),
    "rounded": gettext_noop("off by no more than rounding"),
    "blank": gettext_noop("left blank"),
}

VERDICT_SYMBOLS = {**MARK_SYMBOLS, "right": "✓"}
"""The symbol beside the verdict on a step or on a report."""


def is_number(text: str) -> bool:
    """Return True for a number or ±infinity as problem files write them.

    >>> is_number("7.9e-32"), is_number("0,5"), is_number("1/2")
    (True, True, False)
    """
    return bool(_NUMBER.fullmatch(text.replace("−", "-").replace("∞", "inf")))


def format_cells(panel: Panel, decimals: int) -> list[list[str]]:
    """Return the text of every cell, as a program writes numbers (`-inf`, `7.9e-32`).

    Claimed numbers stay as they were typed. Computed numbers, rounded to `decimals`, get as many
    decimals as the longest of them; given numbers, as many as the longest that is no fraction.
    """
    texts = [[to_one_line(cell.text) for cell in row] for row in panel.cells]
    if panel.verdict or any(_is_claimed(cell) for row in panel.cells for cell in row):
        return texts
    matches = [_DECIMAL.fullmatch(text) for row in texts for text in row]
    lengths = [len(m[3] or "") for m in matches if m]
    decimal_places = max(lengths, default=0)
    if panel.formula is not None:
        decimal_places = min(decimal_places, decimals)
    elif (
        lengths and min(lengths) <= _MAX_TYPED_DECIMALS < decimal_places
    ):  # fractions among the numbers
        decimal_places = max(length for length in lengths if length <= _MAX_TYPED_DECIMALS)
    return [[_pad_decimals(text, decimal_places) for text in row] for row in texts]


def split_at_point(text: str) -> tuple[str, str] | None:
    """Split a typeset number before its decimal point, for alignment; None: not a number.

    >>> [split_at_point(text) for text in ("-3.25", "12", "1e-5", "-inf")]
    [('−3', '.25'), ('12', ''), ('1', '·10⁻⁵'), None]
    """
    match = _AROUND_POINT.fullmatch(typeset(text))
    return (match[1], match[2] or "") if match else None


def has_names(names: list[str]) -> bool:
    """Return True if rows or columns have names, False if they are only numbered.

    >>> has_names(["the", "cat"]), has_names(["1", "2"])
    (True, False)
    """
    return names != [str(k + 1) for k in range(len(names))]


def max_abs_cell(panel: Panel) -> float:
    """Return the largest finite absolute value: the value of the full color."""
    values = (abs(cell.value) for row in panel.cells for cell in row if cell.value is not None)
    return max((value for value in values if value < float("inf")), default=0.0)


def used_marks(panels: list[Panel]) -> list[str]:
    """Return the marks that occur, worst first, for the legend."""
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
    """Return the rows or columns to show, at most `max_count` and `focus`; None marks a gap.

    >>> visible_indices(4, None, max_count=5), visible_indices(9, 5, max_count=5)
    ([0, 1, 2, 3], [0, 1, None, 5, None, 7, 8])
    """
    if count <= max_count:
        return list(range(count))
    tail = (max_count - 1) // 2
    visible = sorted(
        {*range(max_count - tail - 1), *range(count - tail, count), 0 if focus is None else focus}
    )
    indices: list[int | None] = []
    for previous, k in zip([-1, *visible], visible, strict=False):
        indices += [k] if k == previous + 1 else [None, k]
    return indices


def truncate_matrix(panel: Panel, max_rows: int, max_columns: int) -> Panel:
    """Replace the middle of a matrix that is too large by dots; keep the first wrong cell."""
    row, column = panel.first_wrong or (None, None)
    rows = visible_indices(panel.shape[0], row, max_rows)
    columns = visible_indices(panel.shape[1], column, max_columns)
    if None not in rows and None not in columns:
        return panel

    def cell(i: int | None, j: int | None) -> Cell:
        if i is not None and j is not None:
            return panel.cells[i][j]
        return Cell("⋱" if i is None and j is None else "⋮" if i is None else "⋯", None)

    return replace(
        panel,
        cells=[[cell(i, j) for j in columns] for i in rows],
        row_names=["⋮" if i is None else panel.row_names[i] for i in rows],
        column_names=["⋯" if j is None else panel.column_names[j] for j in columns],
        first_wrong=None
        if row is None or column is None
        else (rows.index(row), columns.index(column)),
    )


@dataclass(frozen=True)
class _Column:
    """A column of text cells, all of one width, and its header."""

    index: int | None  # in the matrix; None: the dots of columns left out
    header: str
    cells: list[str]  # without ANSI codes
    styles: list[str]

    @property
    def width(self) -> int:
        return max(map(display_width, self.cells))


def draw_matrix(panel: Panel, columns: int, styler: AnsiStyler, decimals: int) -> list[str]:
    """Return the lines of a matrix, at most `columns` wide; too many columns are drawn in parts."""
    first_row, first_column = panel.first_wrong or (None, None)
    rows = visible_indices(panel.shape[0], first_row, MAX_MATRIX_SIDE)
    visible = visible_indices(panel.shape[1], first_column, MAX_MATRIX_SIDE)
    has_gaps = None in rows or None in visible
    names = _headers(panel.row_names, rows, has_gaps or has_names(panel.row_names))
    names = [truncate_to_columns(name, max(8, columns // 4), tail=2) for name in names]
    margin = max(map(display_width, names)) + (1 if any(names) else 0)
    headers = _headers(panel.column_names, visible, has_gaps or has_names(panel.column_names))
    cells = [_select(row, visible) for row in _select(panel.cells, rows)]
    width = max(columns - margin - 4, 4)
    numbers = [
        align_decimal_points(column, width - 2)
        for column in zip(*format_cells(replace(panel, cells=cells), decimals), strict=True)
    ]
    formatted = [
        _ellipsis_column(rows)
        if j is None
        else _format_column(panel, j, header, rows, numbers.pop(0))
        for j, header in zip(visible, headers, strict=True)
    ]
    for max_header, gap in ((24, 2), (12, 2), (12, 1), (8, 1), (6, 1)):
        fitted = [_fit_column(column, max_header) for column in formatted]
        if _total_width(fitted, gap) <= width:
            return _draw_block(names, fitted, gap, styler, margin)
    lines: list[str] = []
    for part in _split_evenly(fitted, width):
        indices = [column.index + 1 for column in part if column.index is not None]
        first, last = indices[0], indices[-1]
        label = (
            gettext("column {first}:", first=first)
            if first == last
            else gettext("columns {first} to {last}:", first=first, last=last)
        )
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
    """Format one column: a pointer at the first wrong cell, the number, the symbol of its mark."""
    marks = [row[index].mark for row in _select(panel.cells, rows)]
    has_pointer = panel.first_wrong is not None and panel.first_wrong[1] == index
    has_symbols = any(mark in MARK_SYMBOLS and mark != "blank" for mark in marks)
    cells, styles = [], []
    for i in rows:
        if i is None:
            dots = pad_left("⋮", display_width(numbers[0]))
            cells.append(" " * has_pointer + dots + " " * has_symbols)
            styles.append("dim")
            continue
        number, mark = numbers.pop(0), marks.pop(0)
        symbol = MARK_SYMBOLS[mark] if mark in MARK_SYMBOLS and mark != "blank" else " "
        if panel.first_wrong == (i, index):  # the pointer stands right before the number
            cells.append(pad_left("▸" + number.lstrip(), 1 + display_width(number)) + symbol)
            styles.append("first")
        else:
            cells.append(" " * has_pointer + number + symbol * has_symbols)
            styles.append(mark)
    return _Column(index, header, cells, styles)


def _select(items: list[_T], indices: list[int | None]) -> list[_T]:
    return [items[i] for i in indices if i is not None]


def align_decimal_points(numbers: Sequence[str], max_width: int) -> list[str]:
    """Pad numbers to one width with their decimal points aligned; other texts align right."""
    parts = [split_at_point(text) for text in numbers]
    before = max((display_width(part[0]) for part in parts if part), default=0)
    after = max((display_width(part[1]) for part in parts if part), default=0)
    aligned = [
        typeset(text) if part is None else pad_left(part[0], before) + pad_right(part[1], after)
        for text, part in zip(numbers, parts, strict=True)
    ]
    aligned = [truncate_to_columns(number, max_width) for number in aligned]
    return [pad_left(number, max(map(display_width, aligned))) for number in aligned]


def _fit_column(column: _Column, max_header: int) -> _Column:
    """Pad a column and its header, truncated if need be, to one width."""
    header = truncate_to_columns(column.header, max(max_header, column.width), tail=2)
    width = max(column.width, display_width(header))
    cells = [pad_left(cell, width) for cell in column.cells]
    return _Column(column.index, pad_left(header, width), cells, column.styles)


def _total_width(columns: list[_Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _split_columns(columns: list[_Column], max_width: int) -> list[list[_Column]]:
    """Split columns greedily into parts of at most `max_width`."""
    parts: list[list[_Column]] = [[]]
    for column in columns:
        if parts[-1] and _total_width([*parts[-1], column], 1) > max_width:
            parts.append([])
        if parts[-1] or column.index is not None:
            parts[-1].append(column)
    return parts


def _split_evenly(columns: list[_Column], max_width: int) -> list[list[_Column]]:
    """Split columns into as few parts as possible, of about one width."""
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
        headers = space.join(column.header for column in columns)
        lines.append(" " * (margin + 2) + styler(headers, "dim"))
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
    """Style a cell, but not the spaces before it."""
    content = cell.lstrip()
    return " " * (len(cell) - len(content)) + styler(content, style)


def _brackets(row: int, last: int) -> tuple[str, str]:
    if last == 0:
        return "[", "]"
    return ("⎡", "⎤") if row == 0 else ("⎣", "⎦") if row == last else ("⎢", "⎥")
