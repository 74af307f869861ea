"""A matrix drawn in characters: brackets, headers, points in line, signs beside judged cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from workings.views.elide import kept
from workings.views.notation import typeset
from workings.views.numerals import SIGNS, named, split, texts
from workings.views.plain import clip, left, one_line, right, width
from workings.views.worked import Panel

_T = TypeVar("_T")

MOST = 12  # rows or columns; of more, the middle is left out
_ANSI = re.compile(r"\x1b\[[\d;]*m")
_STYLES = {
    "strong": "1", "dim": "2", "masked": "2", "blank": "2", "wrong": "31", "first": "1;7;31",
    "follows": "33", "rounded": "36", "found right": "32",
}  # fmt: skip


@dataclass(frozen=True)
class Pen:
    """Writes in colour, or does not."""

    color: bool = False

    def __call__(self, text: str, style: str) -> str:
        if not self.color or style not in _STYLES or not text.strip():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def visible(line: str) -> int:
    """Count the columns of a line that a pen wrote."""
    return width(_ANSI.sub("", line))


@dataclass(frozen=True)
class _Column:
    """A column of characters: its head, and its cells, each as wide as the column."""

    number: int | None
    head: str
    cells: list[str]  # plain
    styles: list[str]

    @property
    def width(self) -> int:
        return max(map(width, self.cells))


def draw(panel: Panel, columns: int, pen: Pen, decimals: int) -> list[str]:
    """Draw a matrix in at most so many columns of the terminal, if it can be done at all."""
    first = panel.first or (None, None)
    rows = kept(panel.shape[0], first[0], MOST)
    chosen = kept(panel.shape[1], first[1], MOST)
    elided = None in rows or None in chosen
    names = _headers(panel.row_names, rows, elided or named(panel.row_names))
    names = [clip(name, max(8, columns // 4), tail=2) for name in names]
    margin = max(map(width, names)) + (1 if any(names) else 0)
    heads = _headers(panel.column_names, chosen, elided or named(panel.column_names))
    cells = [_chosen(row, chosen) for row in _chosen(panel.cells, rows)]
    room = max(columns - margin - 4, 4)
    numbers = [
        in_line(column, room - 2)
        for column in zip(*texts(replace(panel, cells=cells), decimals), strict=True)
    ]
    written = [
        _dots(rows) if j is None else _column(panel, j, head, rows, numbers.pop(0))
        for j, head in zip(chosen, heads, strict=True)
    ]
    for longest, gap in ((24, 2), (12, 2), (12, 1), (8, 1), (6, 1)):
        clipped = [_clipped(column, longest) for column in written]
        if _total(clipped, gap) <= room:
            return _block(names, clipped, gap, pen, margin)
    lines: list[str] = []
    for part in _evenly(clipped, room):
        shown = [column.number + 1 for column in part if column.number is not None]
        label = f"columns {shown[0]} to {shown[-1]}:" if len(shown) > 1 else f"column {shown[0]}:"
        lines += [pen(label, "dim"), *_block(names, part, 1, pen, margin)]
    return lines


def _headers(names: list[str], chosen: list[int | None], shown: bool) -> list[str]:
    if not shown:
        return [""] * len(chosen)
    return ["" if k is None else one_line(names[k]) for k in chosen]


def _dots(rows: list[int | None]) -> _Column:
    return _Column(None, "", ["⋯" for _ in rows], ["dim" for _ in rows])


def _column(panel: Panel, j: int, head: str, rows: list[int | None], numbers: list[str]) -> _Column:
    """Write one column: the sign for the first wrong one, the number, the sign of its mark."""
    marks = [row[j].mark for row in _chosen(panel.cells, rows)]
    pointed = panel.first is not None and panel.first[1] == j
    signed = any(mark in SIGNS and mark != "blank" for mark in marks)
    cells, styles = [], []
    for i in rows:
        if i is None:
            cells.append(" " * pointed + right("⋮", width(numbers[0])) + " " * signed)
            styles.append("dim")
            continue
        number, mark = numbers.pop(0), marks.pop(0)
        sign = SIGNS[mark] if mark in SIGNS and mark != "blank" else " "
        if panel.first == (i, j):  # the pointer stands right before the number
            bare = number.lstrip()
            cells.append(right("▸" + bare, 1 + width(number)) + sign)
            styles.append("first")
        else:
            cells.append(" " * pointed + number + sign * signed)
            styles.append(mark)
    return _Column(j, head, cells, styles)


def _chosen(items: list[_T], rows: list[int | None]) -> list[_T]:
    return [items[i] for i in rows if i is not None]


def in_line(written: Sequence[str], room: int) -> list[str]:
    """Bring numbers to one width, their points in line; what has no point stands at the right."""
    parts = [split(text) for text in written]
    before = max((width(part[0]) for part in parts if part), default=0)
    after = max((width(part[1]) for part in parts if part), default=0)
    whole = [
        typeset(text) if part is None else right(part[0], before) + left(part[1], after)
        for text, part in zip(written, parts, strict=True)
    ]
    whole = [clip(number, room) for number in whole]
    return [right(number, max(map(width, whole))) for number in whole]


def _clipped(column: _Column, longest: int) -> _Column:
    """Bring a column and its head to one width."""
    head = clip(column.head, max(longest, column.width), tail=2)
    wide = max(column.width, width(head))
    cells = [right(cell, wide) for cell in column.cells]
    return _Column(column.number, right(head, wide), cells, column.styles)


def _total(columns: list[_Column], gap: int) -> int:
    return sum(column.width for column in columns) + gap * (len(columns) - 1)


def _split(columns: list[_Column], room: int) -> list[list[_Column]]:
    """Split a matrix that is too wide into parts that are not."""
    parts: list[list[_Column]] = [[]]
    for column in columns:
        if parts[-1] and _total([*parts[-1], column], 1) > room:
            parts.append([])
        if parts[-1] or column.number is not None:
            parts[-1].append(column)
    return parts


def _evenly(columns: list[_Column], room: int) -> list[list[_Column]]:
    """Split into as few parts as there is room for, of about one width."""
    parts = _split(columns, room)
    while room > 1 and len(narrower := _split(columns, room := room - 1)) == len(parts):
        parts = narrower
    return parts


def _block(names: list[str], columns: list[_Column], gap: int, pen: Pen, margin: int) -> list[str]:
    lines = []
    space = " " * gap
    if any(column.head.strip() for column in columns):
        heads = space.join(column.head for column in columns)
        lines.append(" " * (margin + 2) + pen(heads, "dim"))
    last = len(names) - 1
    for i, name in enumerate(names):
        opening, closing = _brackets(i, last)
        cells = space.join(_styled(column.cells[i], column.styles[i], pen) for column in columns)
        label = pen(right(name, margin - 1), "dim") + " " if margin else ""
        lines.append(f"{label}{opening} {cells} {closing}")
    return lines


def _styled(cell: str, style: str, pen: Pen) -> str:
    """Colour a cell, not the spaces before it."""
    inside = cell.lstrip()
    return " " * (len(cell) - len(inside)) + pen(inside, style)


def _brackets(row: int, last: int) -> tuple[str, str]:
    if last == 0:
        return "[", "]"
    return ("⎡", "⎤") if row == 0 else ("⎣", "⎦") if row == last else ("⎢", "⎥")
