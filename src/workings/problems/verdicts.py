"""Judging a claimed number against the exact value and against what the claims before lead to."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.problems.intervals import Bools, Floats, IntervalMatrix, select_cells
from workings.problems.numbers import Number

Verdict: TypeAlias = Literal["right", "rounded", "follows", "wrong", "blank"]
Verdicts: TypeAlias = NDArray[Any]  # of words; their dtype depends on the longest
WORST_FIRST: tuple[Verdict, ...] = ("wrong", "follows", "rounded", "right", "blank")

MINUS_INFINITY_THRESHOLD = -10_000.0  # a claim at or below counts as −∞ where −∞ is right


@dataclass(frozen=True)
class ClaimedMatrix:
    """A matrix as somebody wrote it: values (NaN where blank) and one in each last digit.

    `whole`: cells of a matrix without decimals. Where the value they stand for is whole they are
    exact, otherwise they may be rounded to one, but not truncated.
    """

    values: Floats
    units: Floats
    is_integer: Bools

    @classmethod
    def from_numbers(cls, numbers: list[list[Number | None]]) -> "ClaimedMatrix":
        """Work out how precisely each cell was written."""
        flat = [n for row in numbers for n in row if n is not None]
        places = [n.places for n in flat if n.places and not n.has_exponent]
        least = min(places, default=None)

        def unit(n: Number | None) -> float:
            if n is None or n.places is None:
                return 0.0
            if n.is_integer:
                return 1.0 if least is None else 10.0**-least
            return 10.0**-n.places

        return cls(
            np.array([[np.nan if n is None else n.value for n in row] for row in numbers]),
            np.array([[unit(n) for n in row] for row in numbers]),
            np.array(
                [[n is not None and n.is_integer and least is None for n in row] for row in numbers]
            ),
        )

    @property
    def is_blank(self) -> Bools:
        """Which cells were left out."""
        return np.isnan(self.values)

    def slice_line(self, index: int, transposed: bool = False) -> "ClaimedMatrix":
        """Take one row (turned: one column), as a row."""
        keep = (slice(None), [index]) if transposed else ([index], slice(None))
        value, unit, whole = self.values[keep], self.units[keep], self.is_integer[keep]
        return (
            ClaimedMatrix(value.T, unit.T, whole.T)
            if transposed
            else ClaimedMatrix(value, unit, whole)
        )

    @np.errstate(invalid="ignore")
    def matches(self, intervals: IntervalMatrix) -> Bools:
        """Say which cells are some value in these ranges, rounded or truncated as written."""
        value, unit, lo, hi = self.values, self.units, intervals.lo, intervals.hi
        if self.is_integer.any():
            unit = np.where(self.is_integer & _contains_integer(intervals), 0.0, unit)
        slack = 1e-9 * unit + 1e-12 * np.abs(value)
        rounded = (value >= lo - unit / 2 - slack) & (value <= hi + unit / 2 + slack)
        # Truncated: the value lies between the claim and one unit further from zero, that one
        # not included, however near it comes: 0.9999999999 is 0.9 to one digit.
        end = unit - 1e-13 * np.maximum(np.abs(value), unit)
        above = (value >= 0) & (hi >= value - slack) & (lo < value + end)
        below = (value <= 0) & (lo <= value + slack) & (hi > value - end)
        truncated = (above | below) & ~self.is_integer & (unit > 0)
        hidden = np.isneginf(intervals.mid)
        return np.where(
            hidden, value <= MINUS_INFINITY_THRESHOLD, np.isfinite(value) & (rounded | truncated)
        )

    @np.errstate(invalid="ignore")
    def is_near(self, center: Floats, tolerance: float) -> Bools:
        """Say which cells are within so many units of a value."""
        slack = 1e-9 * self.units + 1e-12 * np.abs(self.values)
        close = np.abs(self.values - center) <= tolerance * self.units + slack
        return close & np.isfinite(self.values)

    def assign_verdicts(self, exact: IntervalMatrix, carried_matrix: IntervalMatrix) -> Verdicts:
        """Give each cell its verdict."""
        right = self.matches(exact)
        verdicts = np.where(right, "right", "wrong").astype("<U7")
        if not (right | self.is_blank).all():
            in_range = self.matches(carried_matrix)
            rounded = in_range | (self.is_near(exact.mid, 1.0) & ~self.is_integer)
            verdicts[~right & ~carried_matrix.tainted & rounded] = "rounded"
            follows = in_range | self.is_near(carried_matrix.mid, 0.5)
            verdicts[~right & carried_matrix.tainted & follows] = "follows"
        verdicts[self.is_blank] = "blank"
        return verdicts

    @np.errstate(invalid="ignore")
    def to_intervals(
        self, exact: IntervalMatrix, carried_matrix: IntervalMatrix, verdicts: Verdicts
    ) -> IntervalMatrix:
        """What the next steps are computed from: the claimed cells, and the blanks as carried."""
        value, off = self.values, (verdicts == "wrong") | (verdicts == "follows")
        value = np.where(
            np.isneginf(exact.mid) & (value <= MINUS_INFINITY_THRESHOLD), -np.inf, value
        )
        lo, hi = value - self.units, value + self.units
        if self.is_integer.any():
            low, high = _find_rounding_range(value, exact, carried_matrix)
            lo, hi = np.where(self.is_integer, low, lo), np.where(self.is_integer, high, hi)
        return select_cells(self.is_blank, carried_matrix, IntervalMatrix(value, lo, hi, off))


@np.errstate(invalid="ignore")
def _find_rounding_range(
    value: Floats, exact: IntervalMatrix, carried_matrix: IntervalMatrix
) -> tuple[Floats, Floats]:
    """How far whole numbers are from what they were rounded from, where that was not whole.

    It was the exact value or the carried one, if they round to it, or else anything that does.
    """
    lo, hi, known = value, value, _contains_integer(exact)
    for cells in (exact, carried_matrix):
        close = (np.abs(cells.mid - value) <= 0.5) & ~_contains_integer(exact)
        lo = np.where(close, np.minimum(lo, cells.mid), lo)
        hi = np.where(close, np.maximum(hi, cells.mid), hi)
        known = known | close
    return np.where(known, lo, value - 0.5), np.where(known, hi, value + 0.5)


@np.errstate(invalid="ignore")
def _contains_integer(cells: IntervalMatrix) -> Bools:
    """Say which ranges are narrow and hold a whole number: the value is that number."""
    return (np.floor(cells.hi) >= np.ceil(cells.lo)) & (cells.hi - cells.lo < 1e-6)
