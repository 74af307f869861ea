"""Compare claimed numbers with the exact values and with the values that earlier claims lead to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.problems.intervals import Bools, Floats, IntervalMatrix, select_cells
from workings.problems.numbers import Number

Verdict: TypeAlias = Literal["right", "rounded", "follows", "wrong", "blank"]
Verdicts: TypeAlias = NDArray[Any]  # an array of strings
WORST_FIRST: tuple[Verdict, ...] = ("wrong", "follows", "rounded", "right", "blank")

MINUS_INFINITY_THRESHOLD = -10_000.0  # a claim at or below it counts as −∞
_MAX_SIGNIFICANT_DIGITS = 15  # the precision of a 64-bit float
_MIN_NUMBERS_FOR_STYLE = 3  # fewer do not show a style of rounding
_MIN_SHARE_OF_STYLE = 0.7  # the others may have dropped a zero at the end


def find_significant_digits(numbers: Iterable[Number]) -> int | None:
    """Return to how many significant digits a sheet is rounded; None if it has fixed decimals.

    The decimals then differ with the size of the numbers, and larger integers end in zeros.

    >>> from workings.problems.numbers import read_number
    >>> texts = [["12.3", "0.0123", "1230", "4.56"], ["12.3", "0.0", "1230.0", "4.5"]]
    >>> [find_significant_digits(read_number(t, "") for t in row) for row in texts]
    [3, None]
    """
    nonzero = [n for n in numbers if n.value != 0 and n.places is not None and not n.has_exponent]
    decimals, integers = [n for n in nonzero if n.places], [n for n in nonzero if not n.places]
    digits = [_count_digits(n) for n in decimals]
    most = max(digits or [len(str(int(abs(n.value))).rstrip("0")) for n in integers], default=0)
    if not 2 <= most <= _MAX_SIGNIFICANT_DIGITS:
        return None
    # Integers that are longer end in zeros, and decimals are as long, but for a zero at the end.
    longer = [n for n in integers if abs(n.value) >= 10**most]
    if any(n.value % 10 ** (len(str(int(abs(n.value)))) - most) for n in longer):
        return None
    if digits.count(most) < _MIN_SHARE_OF_STYLE * len(digits):
        return None
    has_decimals = len(decimals) >= _MIN_NUMBERS_FOR_STYLE and len({n.places for n in decimals}) > 1
    # Numbers without decimals are just those that need none.
    has_both = bool(decimals) and len(integers) > 1 and len(nonzero) >= 2 * _MIN_NUMBERS_FOR_STYLE
    has_both &= set(digits) == {most} and all(abs(n.value) >= 10 ** (most - 1) for n in integers)
    return most if has_decimals or has_both or len(longer) >= _MIN_NUMBERS_FOR_STYLE else None


def _count_digits(number: Number) -> int:
    """Return the number of significant digits as written: 3 for −0.0120."""
    return sum(c.isdigit() for c in number.text.lstrip("+-−0.,"))


@dataclass(frozen=True)
class ClaimedMatrix:
    """The values of a claim (NaN if blank) and the unit in the last place of each.

    `is_integer` marks the cells of a matrix that is written without decimals. They are exact if the
    true value is an integer; otherwise they may be rounded to a multiple of `integer_unit`, but not
    truncated; 1650 may be 1647.2 to three digits. The unit is 0.1 for an accuracy and for attention
    weights, where a row of zeros and a one is their argmax, not their rounding.
    """

    values: Floats
    units: Floats
    is_integer: Bools
    integer_unit: float = 1.0

    @classmethod
    def from_numbers(
        cls,
        numbers: list[list[Number | None]],
        significant_digits: int | None = None,
        integer_unit: float = 1.0,
    ) -> "ClaimedMatrix":
        """Return the values of a claim with the precision that each is written with.

        `significant_digits` is given for a sheet that is rounded to so many: 1230 has the unit 10
        if there are 3.
        """
        flat = [n for row in numbers for n in row if n is not None]
        places = [n.places for n in flat if n.places and not n.has_exponent]
        written_unit = 10.0 ** -min(places, default=0)  # of integers among decimals

        def unit(n: Number | None) -> float:
            if n is None or n.places is None:
                return 0.0
            if not n.is_integer:
                return 10.0**-n.places
            if significant_digits is None or n.value == 0:
                return written_unit
            magnitude = math.floor(math.log10(abs(n.value)))
            return float(max(written_unit, 10.0 ** (magnitude + 1 - significant_digits)))

        def is_integer(n: Number | None) -> bool:
            is_alone = not places or significant_digits is not None
            return n is not None and n.is_integer and is_alone and unit(n) <= 1

        return cls(
            np.array([[np.nan if n is None else n.value for n in row] for row in numbers]),
            np.array([[unit(n) for n in row] for row in numbers]),
            np.array([[is_integer(n) for n in row] for row in numbers]),
            integer_unit,
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
            value, unit, is_integer = value.T, unit.T, is_integer.T
        return ClaimedMatrix(value, unit, is_integer, self.integer_unit)

    @np.errstate(invalid="ignore", over="ignore")
    def matches(self, intervals: IntervalMatrix) -> Bools:
        """Return which cells are a value of the range, rounded or truncated as written."""
        value, unit, lo, hi = self.values, self.units, intervals.lo, intervals.hi
        if self.is_integer.any():
            integer_units = np.minimum(unit, self.integer_unit) * _find_rounding_units(value)
            integer_units = np.where(_contains_integer(intervals), 0.0, integer_units)
            unit = np.where(self.is_integer, integer_units, unit)
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
        is_close |= np.isposinf(value) & np.isposinf(intervals.mid)  # −ln of a 0.00
        return np.where(np.isneginf(intervals.mid), is_infinite, is_close)

    @np.errstate(invalid="ignore", over="ignore")
    def is_near(self, center: Floats, tolerance: float) -> Bools:
        """Return which cells are within `tolerance` units of a value."""
        slack = 1e-9 * self.units + 1e-12 * np.abs(self.values)
        close = np.abs(self.values - center) <= tolerance * self.units + slack
        return close & np.isfinite(self.values)

    def assign_verdicts(
        self, exact: IntervalMatrix, carried_matrix: IntervalMatrix, *, sums_to_one: bool = False
    ) -> Verdicts:
        """Return the verdict of each cell; `sums_to_one`: the exact rows do."""
        right = self.matches(exact)
        verdicts = np.where(right, "right", "wrong").astype("<U7")
        if not (right | self.is_blank).all():
            in_range = self.matches(carried_matrix)
            rounded = in_range | (self.is_near(exact.mid, 1.0) & ~self.is_integer)
            verdicts[~right & ~carried_matrix.tainted & rounded] = "rounded"
            verdicts[~right & carried_matrix.tainted & in_range] = "follows"
            if sums_to_one:
                verdicts[self._is_adjusted(exact, verdicts == "wrong")] = "rounded"
        verdicts[self.is_blank] = "blank"
        return verdicts

    @np.errstate(invalid="ignore")
    def _is_adjusted(self, exact: IntervalMatrix, is_wrong: Bools) -> Bools:
        """Return cells that were changed by a few units so that their row sums to one."""
        num_columns = self.values.shape[1]
        is_row_adjusted: Bools = np.abs(self.values.sum(1, keepdims=True) - 1) < 1e-9
        is_row_adjusted &= is_wrong.sum(1, keepdims=True) == 1
        is_adjusted: Bools = is_wrong & is_row_adjusted & self.is_near(exact.mid, num_columns / 2)
        return is_adjusted

    @np.errstate(invalid="ignore", over="ignore")
    def to_intervals(
        self,
        exact: IntervalMatrix,
        carried_matrix: IntervalMatrix,
        verdicts: Verdicts,
        unclaimed: IntervalMatrix,
        *,
        allows_minus_infinity: bool,
    ) -> IntervalMatrix:
        """Return the input for later steps: claimed cells, and `unclaimed` for blank cells.

        A claimed infinity makes all numbers after it possible, so it is replaced as well; only a −∞
        that a softmax may get (`allows_minus_infinity`) stays.
        """
        value, tainted = self.values, (verdicts == "wrong") | (verdicts == "follows")
        value = np.where(
            np.isneginf(exact.mid) & (value <= MINUS_INFINITY_THRESHOLD), -np.inf, value
        )
        units = np.where(self._is_exact(exact, carried_matrix), 0.0, self.units)
        lo, hi = value - units, value + units
        if self.is_integer.any():
            low, high = _find_rounding_range(value, exact, carried_matrix)
            lo, hi = np.where(self.is_integer, low, lo), np.where(self.is_integer, high, hi)
        is_usable = np.isfinite(value) | (np.isneginf(value) & allows_minus_infinity)
        unclaimed = replace(unclaimed, tainted=unclaimed.tainted | (tainted & ~is_usable))
        return select_cells(is_usable, IntervalMatrix(value, lo, hi, tainted), unclaimed)

    def _is_exact(self, exact: IntervalMatrix, carried_matrix: IntervalMatrix) -> Bools:
        """Return which cells are the exact and the carried value in all digits: not rounded.

        A weight of e⁻⁵⁰ that is written as 0.00 counts as exact, too.
        """
        noise = (exact.hi - exact.lo) + 1e-12 * np.abs(self.values) + 1e-6 * self.units
        is_exact: Bools = np.ones(self.values.shape, dtype=np.bool_)
        for matrix in (exact, carried_matrix):
            is_exact &= np.abs(self.values - matrix.mid) <= noise
        return is_exact


@np.errstate(invalid="ignore")
def _find_rounding_range(
    value: Floats, exact: IntervalMatrix, carried_matrix: IntervalMatrix
) -> tuple[Floats, Floats]:
    """Return the range of values that claimed integers may be rounded from.

    That is the exact or the carried value if it rounds to the claim, otherwise any that does.
    """
    is_known_integer = _contains_integer(exact)
    lo, hi, is_known = value, value, is_known_integer
    for matrix in (exact, carried_matrix):
        close = (np.abs(matrix.mid - value) <= _find_rounding_units(value) / 2) & ~is_known_integer
        lo = np.where(close, np.minimum(lo, matrix.mid), lo)
        hi = np.where(close, np.maximum(hi, matrix.mid), hi)
        is_known = is_known | close
    return np.where(is_known, lo, value - 0.5), np.where(is_known, hi, value + 0.5)


@np.errstate(invalid="ignore")
def _find_rounding_units(integers: Floats) -> Floats:
    """Return to what each integer may be rounded: its zeros at the end, beyond three digits.

    >>> _find_rounding_units(np.array([140.0, 1400.0, 1650.0, 1651.0, 120_000.0])).tolist()
    [1.0, 10.0, 10.0, 1.0, 1000.0]
    """
    units = np.ones(integers.shape)
    while True:
        has_zero = (np.abs(integers) >= 1_000 * units) & (integers % (10 * units) == 0)
        if not has_zero.any():
            return units
        units = np.where(has_zero, 10 * units, units)


@np.errstate(invalid="ignore")
def _contains_integer(matrix: IntervalMatrix) -> Bools:
    """Return which ranges are narrow and contain an integer: the value is that integer."""
    is_narrow = matrix.hi - matrix.lo < 1e-6 + 1e-13 * np.abs(matrix.mid)
    return (np.floor(matrix.hi) >= np.ceil(matrix.lo)) & is_narrow
