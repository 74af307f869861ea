"""One cell, derived: its largest terms, what the others come to, and the same number elsewhere."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workings.views import plain
from workings.views.drawing import Pen, in_line
from workings.views.notation import Notation, Text, decimal, typeset
from workings.views.plain import clip, one_line, wrap
from workings.views.table import text_table

_NARROWEST = 24
_INDENT = "   "
_LONGEST = 24  # columns of a number

Formula = Callable[[Notation], str]


@dataclass(frozen=True)
class Line:
    """A line of the sum: numbers below the heads, None where there is nothing to write."""

    name: str
    numbers: Sequence[float | None]
    marked: bool = False  # it is the one that was asked about


@dataclass(frozen=True)
class Elsewhere:
    """The same number as somebody else has it, and how far that is from the one written out."""

    what: str
    value: float
    difference: float


@dataclass(frozen=True)
class Derived:
    """A cell and how it comes about.

    `before`: the same cell in the steps that lead here. `head` and `lines`: the sum, its largest
    terms first, where it is one.
    """

    title: str
    name: str
    says: str
    formula: Formula
    before: Sequence[Formula]
    head: Sequence[str]
    lines: Sequence[Line]
    working: Formula
    value: float
    elsewhere: Sequence[Elsewhere] = ()
    notes: Sequence[str] = ()
    decimals: int = 4

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Write it for a terminal."""
        return text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import derived_html

        return derived_html.page(self)

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold; −∞ is the string "-inf"."""
        n = Text(self.decimals)
        return {
            "title": self.title,
            "cell": self.name,
            "says": self.says,
            "formula": self.formula(n),
            "working": self.working(n),
            "value": _plain(self.value),
            "head": list(self.head),
            "lines": [
                {"name": line.name, "numbers": [_plain(x) for x in line.numbers]}
                for line in self.lines
            ],
            "elsewhere": [
                {"what": one.what, "value": _plain(one.value), "difference": one.difference}
                for one in self.elsewhere
            ],
            "notes": list(self.notes),
        }


def _plain(number: float | None) -> float | str | None:
    return "-inf" if number == float("-inf") else number


def text(told: Derived, *, width: int | None = None, color: bool = False) -> str:
    """Write it for a terminal of so many columns; None: as wide as this one (80 without one)."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen, n = max(columns, _NARROWEST), Pen(color), Text(told.decimals)
    room = columns - len(_INDENT)

    def indented(written: str) -> list[str]:
        return [_INDENT + line for line in wrap(written, room, hang="    ")]

    asked = f"{told.name}: {one_line(told.says)}" if told.says else told.name
    blocks = [
        [
            *(pen(line, "dim") for line in wrap(one_line(told.title), columns)),
            *(pen(line, "strong") for line in wrap(asked, columns)),
        ],
        wrap(told.formula(n), columns),
        [line for before in told.before for line in indented(before(n))],
        _sum(told, columns, pen),
        indented(told.working(n)),
        _elsewhere(told, columns),
        [pen(line, "dim") for note in told.notes for line in wrap(one_line(note), columns)],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def numbers(told: Derived) -> list[list[str]]:
    """Write the numbers of the sum, points in line, line by line."""
    columns = []
    for column in zip(*(line.numbers for line in told.lines), strict=True):
        written = [decimal(x, told.decimals) for x in column if x is not None]
        aligned = iter(in_line(written, _LONGEST))
        columns.append(["" if x is None else next(aligned) for x in column])
    return [list(line) for line in zip(*columns, strict=True)]


def differences(told: Derived) -> list[tuple[str, str, str]]:
    """Write the number as it is here and elsewhere, with more digits, and the differences."""
    values = [told.value, *(one.value for one in told.elsewhere)]
    written = in_line([decimal(value, told.decimals + 4) for value in values], _LONGEST)
    names = ["written out here, in 64 bits", *(one_line(one.what) for one in told.elsewhere)]
    apart = [f"differs by {typeset(f'{one.difference:.1e}')}" for one in told.elsewhere]
    apart = [
        said if one.difference else "the same"
        for said, one in zip(apart, told.elsewhere, strict=True)
    ]
    return list(zip(names, written, ["", *apart], strict=True))


def _sum(told: Derived, columns: int, pen: Pen) -> list[str]:
    if not told.lines:
        return []
    written = numbers(told)
    widths = [max(map(plain.width, cells)) for cells in zip(told.head[1:], *written, strict=True)]
    room = max(columns - sum(widths) - 2 * len(widths) - 3, 8)
    names = [clip(one_line(line.name), room) for line in told.lines]
    rows = [
        [f"{'▸ ' if line.marked else '  '}{name}", *row]
        for line, name, row in zip(told.lines, names, written, strict=True)
    ]
    head, rule, *drawn = text_table([f"  {told.head[0]}", *told.head[1:]], rows).splitlines()
    styles = ["strong" if line.marked else "" for line in told.lines]
    drawn = [pen(line, style) for line, style in zip(drawn, styles, strict=True)]
    return [f" {line}" for line in (head, rule, *drawn)]


def _elsewhere(told: Derived, columns: int) -> list[str]:
    if not told.elsewhere:
        return []
    rows = differences(told)
    widths = [max(map(plain.width, column)) for column in zip(*rows, strict=True)]
    lines = (
        f"{plain.left(what, widths[0])}  {plain.right(value, widths[1])}  {apart}"
        for what, value, apart in rows
    )
    room = columns - len(_INDENT)
    return [_INDENT + part for line in lines for part in wrap(line, room, hang="  ")]
