"""The numbers of a matrix, ready to be set in columns: as many decimals each, points in line."""

import re

from workings.views.notation import typeset
from workings.views.plain import one_line
from workings.views.worked import Cell, Panel

_PLAIN = re.compile(r"([+-]?\d+)(?:([.,])(\d*))?")
_POINT = re.compile(r"([−+]?\d*)([.,·]\d.*)?")
_WRITTEN = 6  # decimals of a number that somebody has written down
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d{1,6})?|[+-]?inf")

SIGNS = {"wrong": "✗", "follows": "↳", "rounded": "≈", "blank": "?"}
"""What stands beside a cell that was judged; one that is right needs no sign."""

MEANINGS = {
    "wrong": "wrong",
    "follows": "follows from a wrong number before it",
    "rounded": "off by no more than rounding",
    "blank": "left blank",
}

VERDICTS = {**SIGNS, "right": "✓"}
"""What stands beside a verdict on a whole step, or on everything."""


def is_number(text: str) -> bool:
    """Is it a number, or ±infinity, as problem files write them?

    >>> is_number("7.9e-32"), is_number("0,5"), is_number("1/2")
    (True, True, False)
    """
    return bool(_NUMBER.fullmatch(text.replace("−", "-").replace("∞", "inf")))


def texts(panel: Panel, decimals: int) -> list[list[str]]:
    """Write every cell out, on one line, as a program would write it (`-inf`, `7.9e-32`).

    Numbers that somebody claimed stay as they were written. Numbers that were worked out, and
    rounded to `decimals`, all get as many decimals as the longest of them; numbers that were given,
    as many as the longest that is no fraction.
    """
    written = [[one_line(cell.text) for cell in row] for row in panel.cells]
    if panel.judged or any(_claimed(cell) for row in panel.cells for cell in row):
        return written
    matches = [_PLAIN.fullmatch(text) for row in written for text in row]
    lengths = [len(m[3] or "") for m in matches if m]
    places = max(lengths, default=0)
    if panel.formula is not None:
        places = min(places, decimals)
    elif lengths and min(lengths) <= _WRITTEN < places:  # given as a fraction, among plain numbers
        places = max(length for length in lengths if length <= _WRITTEN)
    return [[_lengthened(text, places) for text in row] for row in written]


def split(text: str) -> tuple[str, str] | None:
    """Split a number where it should meet the others, before its decimal point; None: nowhere.

    >>> split("-3.25"), split("12"), split("1e-5"), split("-inf")
    (('−3', '.25'), ('12', ''), ('1', '·10⁻⁵'), None)
    """
    match = _POINT.fullmatch(typeset(text))
    return (match[1], match[2] or "") if match else None


def named(names: list[str]) -> bool:
    """Do rows or columns have names, or are they only counted?

    >>> named(["the", "cat"]), named(["1", "2"])
    (True, False)
    """
    return names != [str(k + 1) for k in range(len(names))]


def largest(panel: Panel) -> float:
    """Find the largest finite size among the values: what full colour stands for."""
    sizes = (abs(cell.value) for row in panel.cells for cell in row if cell.value is not None)
    return max((size for size in sizes if size < float("inf")), default=0.0)


def marks(panels: list[Panel]) -> list[str]:
    """List the marks that occur, worst first: what a legend has to explain."""
    used = {cell.mark for panel in panels for row in panel.cells for cell in row}
    return [mark for mark in SIGNS if mark in used]


def _claimed(cell: Cell) -> bool:
    return cell.mark not in ("", "masked")


def _lengthened(text: str, places: int) -> str:
    match = _PLAIN.fullmatch(text)
    if not match or len(match[3] or "") >= places:
        return text
    return f"{match[1]}{match[2] or '.'}{(match[3] or '').ljust(places, '0')}"
