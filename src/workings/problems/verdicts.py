"""Judging a claimed number against the exact value and against what the claims before lead to."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.problems.cells import Bools, Cells, Floats, merge
from workings.problems.numbers import Number

Verdict: TypeAlias = Literal["right", "rounded", "follows", "wrong", "blank"]
Verdicts: TypeAlias = NDArray[Any]  # of words; their dtype depends on the longest
WORST_FIRST: tuple[Verdict, ...] = ("wrong", "follows", "rounded", "right", "blank")

MINUS_INFINITY = -10_000.0  # a claim at or below counts as −∞ where −∞ is right


@dataclass(frozen=True)
class Written:
    """A matrix as somebody wrote it: values (NaN where blank) and one in each last digit.

    `whole`: cells of a matrix without decimals. Where the value they stand for is whole they are
    exact, otherwise they may be rounded to one, but not truncated.
    """

    value: Floats
    unit: Floats
    whole: Bools

    @classmethod
    def of(cls, numbers: list[list[Number | None]]) -> "Written":
        """Work out how precisely each cell was written."""
        flat = [n for row in numbers for n in row if n is not None]
        places = [n.places for n in flat if n.places and not n.exponent]
        least = min(places, default=None)

        def unit(n: Number | None) -> float:
            if n is None or n.places is None:
                return 0.0
            if n.whole:
                return 1.0 if least is None else 10.0**-least
            return 10.0**-n.places

        return cls(
            np.array([[np.nan if n is None else n.value for n in row] for row in numbers]),
            np.array([[unit(n) for n in row] for row in numbers]),
            np.array(
                [[n is not None and n.whole and least is None for n in row] for row in numbers]
            ),
        )

    @property
    def blank(self) -> Bools:
        """Which cells were left out."""
        return np.isnan(self.value)

    def line(self, index: int, turned: bool = False) -> "Written":
        """Take one row (turned: one column), as a row."""
        keep = (slice(None), [index]) if turned else ([index], slice(None))
        value, unit, whole = self.value[keep], self.unit[keep], self.whole[keep]
        return Written(value.T, unit.T, whole.T) if turned else Written(value, unit, whole)

    @np.errstate(invalid="ignore")
    def stands_for(self, cells: Cells) -> Bools:
        """Say which cells are some value in these ranges, rounded or truncated as written."""
        value, unit, lo, hi = self.value, self.unit, cells.lo, cells.hi
        if self.whole.any():
            unit = np.where(self.whole & _has_whole(cells), 0.0, unit)
        slack = 1e-9 * unit + 1e-12 * np.abs(value)
        rounded = (value >= lo - unit / 2 - slack) & (value <= hi + unit / 2 + slack)
        # Truncated: the value lies between the claim and one unit further from zero, that one
        # not included, however near it comes: 0.9999999999 is 0.9 to one digit.
        end = unit - 1e-13 * np.maximum(np.abs(value), unit)
        above = (value >= 0) & (hi >= value - slack) & (lo < value + end)
        below = (value <= 0) & (lo <= value + slack) & (hi > value - end)
        truncated = (above | below) & ~self.whole & (unit > 0)
        hidden = np.isneginf(cells.mid)
        return np.where(hidden, value <= MINUS_INFINITY, np.isfinite(value) & (rounded | truncated))

    @np.errstate(invalid="ignore")
    def near(self, middle: Floats, units: float) -> Bools:
        """Say which cells are within so many units of a value."""
        slack = 1e-9 * self.unit + 1e-12 * np.abs(self.value)
        close = np.abs(self.value - middle) <= units * self.unit + slack
        return close & np.isfinite(self.value)

    def judge(self, exact: Cells, carried: Cells) -> Verdicts:
        """Give each cell its verdict."""
        right = self.stands_for(exact)
        verdicts = np.where(right, "right", "wrong").astype("<U7")
        if not (right | self.blank).all():
            in_range = self.stands_for(carried)
            rounded = in_range | (self.near(exact.mid, 1.0) & ~self.whole)
            verdicts[~right & ~carried.off & rounded] = "rounded"
            follows = in_range | self.near(carried.mid, 0.5)
            verdicts[~right & carried.off & follows] = "follows"
        verdicts[self.blank] = "blank"
        return verdicts

    @np.errstate(invalid="ignore")
    def carried_on(self, exact: Cells, carried: Cells, verdicts: Verdicts) -> Cells:
        """What the next steps are computed from: the claimed cells, and the blanks as carried."""
        value, off = self.value, (verdicts == "wrong") | (verdicts == "follows")
        value = np.where(np.isneginf(exact.mid) & (value <= MINUS_INFINITY), -np.inf, value)
        lo, hi = value - self.unit, value + self.unit
        if self.whole.any():
            low, high = _rounded_away(value, exact, carried)
            lo, hi = np.where(self.whole, low, lo), np.where(self.whole, high, hi)
        return merge(self.blank, carried, Cells(value, lo, hi, off))


@np.errstate(invalid="ignore")
def _rounded_away(value: Floats, exact: Cells, carried: Cells) -> tuple[Floats, Floats]:
    """How far whole numbers are from what they were rounded from, where that was not whole.

    It was the exact value or the carried one, if they round to it, or else anything that does.
    """
    lo, hi, known = value, value, _has_whole(exact)
    for cells in (exact, carried):
        close = (np.abs(cells.mid - value) <= 0.5) & ~_has_whole(exact)
        lo = np.where(close, np.minimum(lo, cells.mid), lo)
        hi = np.where(close, np.maximum(hi, cells.mid), hi)
        known = known | close
    return np.where(known, lo, value - 0.5), np.where(known, hi, value + 0.5)


@np.errstate(invalid="ignore")
def _has_whole(cells: Cells) -> Bools:
    """Say which ranges are narrow and hold a whole number: the value is that number."""
    return (np.floor(cells.hi) >= np.ceil(cells.lo)) & (cells.hi - cells.lo < 1e-6)
