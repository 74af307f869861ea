"""What happens to single numbers: a sign, a digit, the decimal point, a wrong place copied from.

Whether a number lost its sign is seen by giving it back: if that would do, it did.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from workings.problems.cells import Bools, Cells
from workings.problems.suspect import Explanation, Suspect
from workings.problems.verdicts import Written
from workings.views.notation import Text

_FEW_DIGITS = 5  # units: with less written, a moved point that loses digits proves nothing
_MANY_DIGITS = 15  # more than a float has, or anybody writes
_MANY = 64  # wrong cells: more are not slips of the pen

_PEN = {
    "sign-lost": "has the sign of {} wrong",
    "digits-swapped": "has two digits of {} in each other's place",
    "decimal-point-moved": "has the decimal point of {} in the wrong place",
}


def slips(suspect: Suspect) -> Iterator[Explanation]:
    """Try what may have happened to single cells, rows or the whole of what was written."""
    if suspect.wrong.sum() <= _MANY:
        yield from _of_the_pen(suspect)
        yield from _from_neighbour(suspect)
    yield from _from_another_step(suspect)


def _of_the_pen(suspect: Suspect) -> Iterator[Explanation]:
    """Undo each slip at each wrong cell, and see whether the number would do."""
    tried = [
        (name, i, j, value, unit)
        for i, j in np.argwhere(suspect.wrong).tolist()
        for name, value, unit in _undone(suspect.written, i, j)
    ]
    if not tried:
        return
    names, rows, columns, values, units = (np.array(part) for part in zip(*tried, strict=True))
    whole = suspect.written.whole[rows, columns]
    undone = Written(values[None], units[None], whole[None])
    right = suspect.right.each(lambda a: a[rows, columns][None])
    fits = (undone.stands_for(right) | undone.near(right.mid, 0.5))[0]
    # What may just as well be nought has no digits to be swapped or moved.
    digits = (right.lo > 0) | (right.hi < 0) | undone.stands_for(right.sharp)
    fits &= (names == "sign-lost") | digits[0]
    for name, says in _PEN.items():
        own = (names == name) & fits
        hits = np.zeros(suspect.wrong.shape, dtype=np.bool_)
        hits[rows[own], columns[own]] = True
        if hits[suspect.first]:
            number = Text(4).number(float(suspect.right.mid[suspect.first]))
            yield Explanation(name, f"{suspect.text} {says.format(number)}", hits)


def _undone(written: Written, i: int, j: int) -> Iterator[tuple[str, float, float]]:
    """Give a number back its sign, its digits their order, its point its place: value and unit."""
    value, unit = float(written.value[i, j]), float(written.unit[i, j])
    if value == 0 or not np.isfinite(value):
        return
    yield "sign-lost", -value, unit
    if unit == 0:
        return
    places = max(round(-np.log10(unit)), 0)
    digits = f"{abs(value):.{places}f}"
    for swapped in _swaps(digits) if len(digits) <= _MANY_DIGITS else ():
        yield "digits-swapped", float(np.copysign(float(swapped), value)), unit
    usual = _usual_unit(written, i, j)
    for power in (1, -1, 2, -2, 3, -3):
        moved = value * 10.0**power
        if abs(value) >= _FEW_DIGITS * unit:
            yield "decimal-point-moved", moved, unit * 10.0**power
        units = abs(moved) / usual
        if 0.5 < units < 10**_MANY_DIGITS and abs(units - round(units)) < 1e-6:
            yield "decimal-point-moved", moved, usual  # written like the numbers around it


def _usual_unit(written: Written, i: int, j: int) -> float:
    """How precisely the other cells are written."""
    others = written.unit > 0
    others[i, j] = False
    return float(written.unit[others].min() if others.any() else written.unit[i, j])


def _swaps(digits: str) -> Iterator[str]:
    """Swap two digits, across the point as well; 1 may have been 01, and that 10."""
    digits = digits if "." in digits else f"0{digits}"
    at = [k for k, c in enumerate(digits) if c.isdigit()]
    for a, b in combinations(at, 2):
        if digits[a] != digits[b]:
            yield digits[:a] + digits[b] + digits[a + 1 : b] + digits[a] + digits[b + 1 :]


def _from_neighbour(suspect: Suspect) -> Iterator[Explanation]:
    """Find the number in the cell beside, above or below, where it is not wrong itself."""
    value = suspect.written.value
    stands = np.where(suspect.wrong, np.nan, value)
    if suspect.wrong.sum() > 1:  # −∞ is not copied over and over: it comes from a mask
        stands = np.where(np.isinf(stands), np.nan, stands)
    around = np.pad(stands, 1, constant_values=np.nan)
    neighbours = (around[1:-1, :-2], around[1:-1, 2:], around[:-2, 1:-1], around[2:, 1:-1])
    hits: Bools = np.any([value == other for other in neighbours], axis=0)
    hits &= suspect.wrong & ~_nought_for_infinity(suspect)
    if hits[suspect.first]:
        says = f"{suspect.text} stands in the cell next to it, too"
        yield Explanation("copied-from-neighbour", says, hits)


def _nought_for_infinity(suspect: Suspect) -> Bools:
    """Cells with 0 where −∞ belongs: that mistake has a name, and noughts are everywhere."""
    nought: Bools = (suspect.written.value == 0) & np.isneginf(suspect.right.mid)
    return nought


def _from_another_step(suspect: Suspect) -> Iterator[Explanation]:
    """Find the numbers in another step on the sheet: all of them, a row, or one in its place."""
    name, wrong, written = "copied-from-another-step", suspect.wrong, suspect.written
    for key, other in suspect.sheet.items():
        same = other.shape == wrong.shape
        fits = written.stands_for(other) if same else np.zeros(wrong.shape, dtype=np.bool_)
        if (fits | written.blank).all():
            yield Explanation(name, f"these are the numbers of {key}", fits & wrong)
        for turned in (False, True):
            yield from _lines(suspect, key, other.T if turned else other, turned)
        if fits[suspect.first]:
            # A single number may look like a rounded one by chance: it must be the very same.
            digits = (written.value == other.mid) | (other.off & (written.value != 0))
            hits = fits & wrong & digits & ~_nought_for_infinity(suspect)
            if hits[suspect.first]:
                yield Explanation(name, f"{suspect.text} stands in the same place of {key}", hits)


def _lines(suspect: Suspect, key: str, other: Cells, turned: bool) -> Iterator[Explanation]:
    """Find the wrong cell's row (turned: its column) in another step."""
    wrong = suspect.wrong.T if turned else suspect.wrong
    line, width = suspect.first[1 if turned else 0], wrong.shape[1]
    if other.shape[1] != width or width == 1:
        return
    written = suspect.written.line(line, turned)
    # Where one number alone is wrong, some row soon has the same ones: only its own counts.
    several = wrong[line].sum() > 1
    for k in range(other.shape[0]) if several else range(line, min(line + 1, other.shape[0])):
        if (written.stands_for(other.row(k)) | written.blank).all():
            hits = np.zeros(wrong.shape, dtype=np.bool_)
            hits[line] = wrong[line]
            # In a problem in columns, what is a row here is a column on paper.
            what = "row" if turned == suspect.problem.columns else "column"
            says = f"this {what} is {what} {k + 1} of {key}"
            yield Explanation("copied-from-another-step", says, hits.T if turned else hits)
