"""Compare claimed numbers with the exact values and with the values that earlier claims lead to."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.problems.intervals import Bools, Floats, IntervalMatrix, select_cells
from workings.problems.numbers import Number

Verdict: TypeAlias = Literal["right", "rounded", "follows", "wrong", "blank"]
Verdicts: TypeAlias = NDArray[Any]  # an array of strings
WORST_FIRST: tuple[Verdict, ...] = ("wrong", "follows", "rounded", "right", "blank")

MINUS_INFINITY_THRESHOLD = -10_000.0  # a claim at or below it counts as −∞


@dataclass(frozen=True)
class ClaimedMatrix:
    """The values of a claim (NaN if blank) and the unit in the last place of each.

    `is_integer` marks the cells of a matrix that is written without decimals. They are exact if the
    true value is an integer; otherwise they may be rounded to an integer, but not truncated.
    """

    values: Floats
    units: Floats
    is_integer: Bools

    @classmethod
    def from_numbers(cls, numbers: list[list[Number | None]]) -> "ClaimedMatrix":
        """Return the values of a claim with the precision that each is written with."""
        flat = [n for row in numbers for n in row if n is not None]
        places = [n.places for n in flat if n.places and not n.has_exponent]
        min_places = min(places, default=None)

        def unit(n: Number | None) -> float:
            if n is None or n.places is None:
                return 0.0
            if n.is_integer:
                return 1.0 if min_places is None else 10.0**-min_places
            return 10.0**-n.places

        def is_integer(n: Number | None) -> bool:
            return n is not None and n.is_integer and min_places is None

        return cls(
            np.array([[np.nan if n is None else n.value for n in row] for row in numbers]),
            np.array([[unit(n) for n in row] for row in numbers]),
            np.array([[is_integer(n) for n in row] for row in numbers]),
        )

    @property
    def is_blank(self) -> Bools:
        """True for cells that are left blank."""
        return np.isnan(self.values)

    def slice_line(self, index: int, transposed: bool = False) -> "ClaimedMatrix":
        """Return one row or, transposed, one column as a row."""
        at = np.s_[:, [index]] if transposed else np.s_[[index], :]
        value, unit, is_integer = self.values[at], self.units[at], self.is_integer[at]
        if transposed:
            return ClaimedMatrix(value.T, unit.T, is_integer.T)
        return ClaimedMatrix(value, unit, is_integer)

    @np.errstate(invalid="ignore")
    def matches(self, intervals: IntervalMatrix) -> Bools:
        """Return which cells are a value of the range, rounded or truncated as written."""
        value, unit, lo, hi = self.values, self.units, intervals.lo, intervals.hi
        if self.is_integer.any():
            unit = np.where(self.is_integer & _contains_integer(intervals), 0.0, unit)
        slack = 1e-9 * unit + 1e-12 * np.abs(value)
        rounded = (value >= lo - unit / 2 - slack) & (value <= hi + unit / 2 + slack)
        # Truncated: the value is between the claim and the next number away from zero, exclusive:
        # 0.9999999999 truncated to one digit is 0.9.
        end = unit - 1e-13 * np.maximum(np.abs(value), unit)
        above = (value >= 0) & (hi >= value - slack) & (lo < value + end)
        below = (value <= 0) & (lo <= value + slack) & (hi > value - end)
        truncated = (above | below) & ~self.is_integer & (unit > 0)
        is_infinite = value <= MINUS_INFINITY_THRESHOLD
        is_close = np.isfinite(value) & (rounded | truncated)
        return np.where(np.isneginf(intervals.mid), is_infinite, is_close)

    @np.errstate(invalid="ignore")
    def is_near(self, center: Floats, tolerance: float) -> Bools:
        """Return which cells are within `tolerance` units of a value."""
        slack = 1e-9 * self.units + 1e-12 * np.abs(self.values)
        close = np.abs(self.values - center) <= tolerance * self.units + slack
        return close & np.isfinite(self.values)

    def assign_verdicts(self, exact: IntervalMatrix, carried_matrix: IntervalMatrix) -> Verdicts:
        """Return the verdict of each cell."""
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
        """Return the input for later steps: claimed cells, and carried values for blank cells."""
        value, tainted = self.values, (verdicts == "wrong") | (verdicts == "follows")
        value = np.where(
            np.isneginf(exact.mid) & (value <= MINUS_INFINITY_THRESHOLD), -np.inf, value
        )
        lo, hi = value - self.units, value + self.units
        if self.is_integer.any():
            low, high = _find_rounding_range(value, exact, carried_matrix)
            lo, hi = np.where(self.is_integer, low, lo), np.where(self.is_integer, high, hi)
        return select_cells(self.is_blank, carried_matrix, IntervalMatrix(value, lo, hi, tainted))


@np.errstate(invalid="ignore")
def _find_rounding_range(
    value: Floats, exact: IntervalMatrix, carried_matrix: IntervalMatrix
) -> tuple[Floats, Floats]:
    """Return the range of values that claimed integers may be rounded from.

    That is the exact or the carried value if it rounds to the claim, otherwise any that does.
    """
    lo, hi, is_known = value, value, _contains_integer(exact)
    for matrix in (exact, carried_matrix):
        close = (np.abs(matrix.mid - value) <= 0.5) & ~_contains_integer(exact)
        lo = np.where(close, np.minimum(lo, matrix.mid), lo)
        hi = np.where(close, np.maximum(hi, matrix.mid), hi)
        is_known = is_known | close
    return np.where(is_known, lo, value - 0.5), np.where(is_known, hi, value + 0.5)


@np.errstate(invalid="ignore")
def _contains_integer(matrix: IntervalMatrix) -> Bools:
    """Return which ranges are narrow and contain an integer: the value is that integer."""
    return (np.floor(matrix.hi) >= np.ceil(matrix.lo)) & (matrix.hi - matrix.lo < 1e-6)
