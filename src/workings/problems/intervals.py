"""Interval arithmetic on matrices.

A cell has a value (`mid`), its range (`lo`, `hi`) and a flag that is set if it was computed from a
wrong number (`tainted`). The formulas of a problem are written once, for these
matrices. Exact inputs give the solution; the rounded numbers of a claimed solution give the values
they lead to, and the range shows how much of a difference rounding can explain. Ranges include the
rounding error of floating point. A claimed infinity or a division by zero gives an unbounded range
and no warning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

_ROUNDOFF = 2.0**-49  # relative to the sum of the absolute terms
_MAX_NOISE = 1e-9  # of a range that is nothing but error of floating point
_MULTIPLE_TOLERANCE = 1e-6  # of a unit; a number so near to a multiple is not rounded
_MAX_ENUMERATED_TERMS = 4_096  # matrix products with more terms use center and radius


@dataclass(frozen=True, slots=True, eq=False)
class IntervalMatrix:
    """A matrix `[rows, columns]` of values, each with its range and taint flag."""

    mid: Floats
    lo: Floats
    hi: Floats
    tainted: Bools

    @classmethod
    def exact(cls, values: ArrayLike) -> "IntervalMatrix":
        """Return a matrix of exact values: ranges of width zero, nothing tainted."""
        mid = np.atleast_2d(np.asarray(values, dtype=np.float64))
        return cls(mid, mid, mid, np.zeros(mid.shape, dtype=np.bool_))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        rows, columns = self.mid.shape
        return rows, columns

    @property
    def point(self) -> "IntervalMatrix":
        """The same values with ranges of width zero."""
        return IntervalMatrix(self.mid, self.mid, self.mid, self.tainted)

    @property
    def T(self) -> "IntervalMatrix":
        """The transpose."""
        return self.rearrange(lambda a: a.T)

    def rearrange(
        self, move: Callable[[NDArray[np.generic]], NDArray[np.generic]]
    ) -> "IntervalMatrix":
        """Apply a transpose, slice or repeat to values, ranges and flags alike."""
        mid = lo = hi = move(self.mid)
        if not self.lo is self.mid is self.hi:  # an exact matrix remains recognizable
            lo, hi = move(self.lo), move(self.hi)
        return IntervalMatrix(mid, lo, hi, move(self.tainted))  # type: ignore[arg-type]

    def slice_columns(self, start: int, stop: int) -> "IntervalMatrix":
        """Return columns `start` to `stop`."""
        return self.rearrange(lambda a: a[:, start:stop])

    def slice_row(self, index: int) -> "IntervalMatrix":
        """Return one row as a matrix."""
        return self.rearrange(lambda a: a[index : index + 1])

    @np.errstate(all="ignore")
    def round_to(self, unit: float) -> "IntervalMatrix":
        """Include in each range the multiples of `unit` that its values round or truncate to.

        >>> third = IntervalMatrix.exact([[1 / 3, 0.25]]).round_to(0.01)
        >>> third.lo.round(6).tolist(), third.hi.round(6).tolist()
        ([[0.33, 0.25]], [[0.333333, 0.25]])
        """
        if unit == 0:
            return self
        # Floating point: a number next to a multiple is that multiple, and ties go both ways.
        low, high, noise = self.lo / unit, self.hi / unit, _MULTIPLE_TOLERANCE
        lo = unit * np.minimum(np.trunc(low + noise), np.ceil(low - 0.5 - noise))
        hi = unit * np.maximum(np.trunc(high - noise), np.floor(high + 0.5 + noise))
        lo, hi = (
            np.where(np.isfinite(end), end, own) for end, own in ((lo, self.lo), (hi, self.hi))
        )
        return IntervalMatrix(
            self.mid, np.minimum(lo, self.lo), np.maximum(hi, self.hi), self.tainted
        )

    @np.errstate(all="ignore")
    def __add__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        magnitude = np.abs(self.mid) + np.abs(other.mid)
        mid, lo, hi = self.mid + other.mid, self.lo + other.lo, self.hi + other.hi
        return _widen_range(mid, lo, hi, self.tainted | other.tainted, magnitude)

    def __neg__(self) -> "IntervalMatrix":
        return IntervalMatrix(-self.mid, -self.hi, -self.lo, self.tainted)

    def __sub__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        return self + -other

    @np.errstate(all="ignore")
    def __mul__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        lo, hi = _combine_endpoints(np.multiply, self, other)
        mid = self.mid * other.mid
        # Zero times anything is zero: the other factor's taint does not matter.
        tainted = (self.tainted & ~_is_exact_zero(other)) | (other.tainted & ~_is_exact_zero(self))
        return _widen_range(mid, lo, hi, tainted, np.abs(mid))

    @np.errstate(all="ignore")
    def __truediv__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        mid = self.mid / other.mid
        lo, hi = _combine_endpoints(np.divide, self, other)
        crosses = (other.lo <= 0) & (other.hi >= 0)
        lo, hi = np.where(crosses, -np.inf, lo), np.where(crosses, np.inf, hi)
        tainted = self.tainted | (other.tainted & ~_is_exact_zero(self))
        return _widen_range(mid, lo, hi, tainted, np.abs(mid))

    @np.errstate(all="ignore")
    def __matmul__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        mid = self.mid @ other.mid
        magnitude = np.abs(self.mid) @ np.abs(other.mid)
        lo = hi = mid
        if not (self.lo is self.hi and other.lo is other.hi):
            lo, hi, radius = _product_range(self, other)
            magnitude = magnitude + radius
        return _widen_range(mid, lo, hi, _propagate_taint(self, other), magnitude * self.shape[1])

    def mean(self) -> "IntervalMatrix":
        """Return the mean of each row: `[rows, 1]`."""
        ones = IntervalMatrix.exact(np.full((self.shape[1], 1), 1 / self.shape[1]))
        return self @ ones

    @np.errstate(all="ignore")
    def apply_monotonic(self, function: Callable[[Floats], Floats]) -> "IntervalMatrix":
        """Apply a non-decreasing function to each cell."""
        mid, lo, hi = function(self.mid), function(self.lo), function(self.hi)
        return _widen_range(mid, lo, hi, self.tainted, np.abs(mid))

    @np.errstate(all="ignore")
    def apply_piecewise_monotonic(
        self, function: Callable[[Floats], Floats], *extrema: Floats | float
    ) -> "IntervalMatrix":
        """Apply a function that is monotonic between its extrema to each cell.

        `extrema` are the points where it has them; those outside a cell's range are ignored.
        """
        mid = function(self.mid)
        points = [np.clip(extremum, self.lo, self.hi) for extremum in extrema]
        ends = np.stack([function(point) for point in (self.lo, self.hi, *points)])
        magnitude = np.abs(mid) + np.abs(self.mid)
        return _widen_range(mid, ends.min(0), ends.max(0), self.tainted, magnitude)

    @np.errstate(all="ignore")
    def variance(self, mean: "IntervalMatrix") -> "IntervalMatrix":
        """Return each row's mean squared distance from a mean `[rows, 1]`: `[rows, 1]`.

        The distances of a row share the mean: when it moves, some grow and others shrink. So the
        range is that of `Σ (g + δ)² = Σ g² + 2 Σ g δ + Σ δ²`, with g the distance and δ its error,
        which is narrower than the sum of the ranges of the squares.
        """
        distance, width = self.mid - mean.mid, self.shape[1]
        own, shared = (np.maximum(c.hi - c.mid, c.mid - c.lo) for c in (self, mean))
        mid = np.square(distance).sum(1, keepdims=True)
        linear = (np.abs(distance) * own).sum(1, keepdims=True)
        linear = 2 * (linear + np.abs(distance.sum(1, keepdims=True)) * shared)
        quadratic = np.square(own + shared).sum(1, keepdims=True)
        lo, hi = np.maximum(mid - linear, 0), mid + linear + quadratic
        tainted = self.tainted.any(1, keepdims=True) | mean.tainted
        return _widen_range(mid / width, lo / width, hi / width, tainted, mid + quadratic)

    @np.errstate(all="ignore")
    def apply_sinusoid(
        self, function: Callable[[Floats], Floats], extremum: float
    ) -> "IntervalMatrix":
        """Apply sine or cosine to each cell; its extrema are at `extremum` plus multiples of π."""
        first = extremum + np.pi * np.ceil((self.lo - extremum) / np.pi)
        return self.apply_piecewise_monotonic(function, first, first + np.pi)

    @np.errstate(all="ignore")
    def softmax(self) -> "IntervalMatrix":
        """Return the softmax of each row; −∞ gives 0, and a row of only −∞ gives zeros."""
        hidden = np.isneginf(self.mid)
        mid, lo, hi = (
            _softmax_share(cell, others)
            for cell, others in ((self.mid, self.mid), (self.lo, self.hi), (self.hi, self.lo))
        )
        tainted = self.tainted.any(1, keepdims=True) & ~(hidden & ~self.tainted)
        wide = _widen_range(mid, lo, hi, tainted, mid * self.shape[1])
        return RowStochasticMatrix(wide.mid, wide.lo, wide.hi, wide.tainted)

    @np.errstate(all="ignore")
    def softmax_of_rounded_powers(self, unit: float) -> "IntervalMatrix":
        """Return the softmax of each row if each e^score is rounded to a unit before dividing.

        The ranges include the exact softmax, and powers of the distance from the largest score.
        """
        exact = self.softmax()
        lo, hi = exact.lo, exact.hi
        largest = self.mid.max(1, keepdims=True)
        for shift in (np.zeros_like(largest), np.where(np.isfinite(largest), largest, 0.0)):
            mid, least, most = (np.exp(end - shift) for end in (self.mid, self.lo, self.hi))
            rounded = IntervalMatrix(mid, least, most, self.tainted).round_to(unit)
            low, high = np.maximum(rounded.lo, 0), rounded.hi
            least = low / (low + high.sum(1, keepdims=True) - high)
            most = high / (high + low.sum(1, keepdims=True) - low)
            # No one rounds powers that would have less than two digits left.
            is_rounded = mid.max(1, keepdims=True) >= 10 * unit
            lo = np.minimum(lo, np.where(is_rounded & np.isfinite(least), least, lo))
            hi = np.maximum(hi, np.where(is_rounded & np.isfinite(most), most, hi))
        return RowStochasticMatrix(exact.mid, lo, hi, exact.tainted)

    @np.errstate(all="ignore")
    def subtract_row_maximum(self) -> "IntervalMatrix":
        """Subtract from each row its maximum; a row of only −∞ stays as it is.

        The largest cell of a row becomes zero whatever its range is: the others bound the result.
        """
        mid, (low, high) = self.mid, (_find_maximum_of_others(end) for end in (self.lo, self.hi))
        top = mid.max(1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        lo = np.minimum(self.lo - np.where(np.isneginf(high), self.lo, high), 0.0)
        hi = np.minimum(self.hi - np.where(np.isneginf(low), self.hi, low), 0.0)
        hidden = np.isneginf(mid)
        is_top_tainted = (self.tainted & (mid == top)).any(1, keepdims=True)
        tainted = self.tainted | (is_top_tainted & ~hidden)
        lo, hi = (np.where(hidden, end, new) for end, new in ((self.lo, lo), (self.hi, hi)))
        return _widen_range(mid - top, lo, hi, tainted, np.abs(mid) + np.abs(top))

    def sigmoid(self) -> "IntervalMatrix":
        """Return the logistic sigmoid of each cell; −∞ gives 0."""
        return self.apply_monotonic(lambda x: np.exp(-np.logaddexp(0, -x)))

    @np.errstate(all="ignore")
    def normalize_by_sum(self) -> "IntervalMatrix":
        """Divide each row by its sum; −∞ counts as 0, and a row of only −∞ gives zeros."""
        hidden = np.isneginf(self.mid)
        own, low, high = (np.where(hidden, 0, a) for a in (self.mid, self.lo, self.hi))
        mid = np.where(hidden, 0, own / own.sum(1, keepdims=True))
        others = [end.sum(1, keepdims=True) - end for end in (low, high)]
        ends = np.stack([x / (x + rest) for x in (low, high) for rest in others])
        crosses = (low.sum(1, keepdims=True) <= 0) & (high.sum(1, keepdims=True) >= 0)
        lo = np.where(hidden, 0, np.where(crosses, -np.inf, ends.min(0)))
        hi = np.where(hidden, 0, np.where(crosses, np.inf, ends.max(0)))
        tainted = self.tainted.any(1, keepdims=True) & ~(hidden & ~self.tainted)
        return _widen_range(mid, lo, hi, tainted, np.abs(mid) * self.shape[1])

    def clear_noise(self) -> "IntervalMatrix":
        """Return the matrix with zeros where only the error of floating point is left.

        1.2 − 1.2 may leave 10⁻¹⁶, which no one should see as a result.
        """
        if not ((self.lo < 0) & (self.hi > 0)).any():
            return self
        size = np.abs(np.where(np.isfinite(self.mid), self.mid, 0.0)).max(initial=1.0)
        limit = _MAX_NOISE * size
        is_noise = (self.lo <= 0) & (self.hi >= 0) & (self.lo > -limit) & (self.hi < limit)
        return self.where(~is_noise, 0.0) if is_noise.any() else self

    def where(self, allowed: Bools, fill_value: float) -> "IntervalMatrix":
        """Keep the allowed cells and set the others to an exact `fill_value`."""
        mid, lo, hi = (np.where(allowed, a, fill_value) for a in (self.mid, self.lo, self.hi))
        return IntervalMatrix(mid, lo, hi, self.tainted & allowed)


class RowStochasticMatrix(IntervalMatrix):
    """Attention weights: each row sums to one, or to zero if everything is masked."""

    __slots__ = ()

    @np.errstate(all="ignore")
    def __matmul__(self, other: IntervalMatrix) -> IntervalMatrix:
        """Return the weighted averages of the rows of `other`, with narrower ranges.

        The weights sum to one, so `Σ w v = c + Σ w (v − c)` for every c. With c near the result the
        differences v − c are small, and the ranges of the weights matter less.
        """
        mixed = IntervalMatrix.__matmul__(self, other)
        if _is_large_product(self, other) or not np.isfinite(mixed.mid).all():
            return mixed
        center = mixed.mid[:, None, :]  # [row, 1, column]
        terms = _combine_term_endpoints(self, other, center)
        has_weight = (self.hi > 0).any(1, keepdims=True)
        lo = np.where(has_weight, np.maximum(mixed.lo, mixed.mid + terms.min(0).sum(1)), mixed.lo)
        hi = np.where(has_weight, np.minimum(mixed.hi, mixed.mid + terms.max(0).sum(1)), mixed.hi)
        return _widen_range(mixed.mid, lo, hi, mixed.tainted, np.abs(mixed.mid) * self.shape[1])


def concatenate_columns(parts: list[IntervalMatrix]) -> IntervalMatrix:
    """Concatenate matrices along the columns."""
    return IntervalMatrix(
        *(np.concatenate([getattr(p, a) for p in parts], axis=1) for a in IntervalMatrix.__slots__)
    )


@np.errstate(all="ignore")
def interpolate(gate: IntervalMatrix, a: IntervalMatrix, b: IntervalMatrix) -> IntervalMatrix:
    """Return `(1 − gate) ∘ a + gate ∘ b`, elementwise.

    It is linear in each of the three, so that its range is that of its eight corners.
    """

    def combine(g: Floats, x: Floats, y: Floats) -> Floats:
        result: Floats = (1 - g) * x + g * y
        return result

    mid = combine(gate.mid, a.mid, b.mid)
    ends = ((m.lo, m.hi) for m in (gate, a, b))
    corners = np.stack([combine(*corner) for corner in product(*ends)])
    tainted = gate.tainted | a.tainted | b.tainted
    magnitude = np.abs(a.mid) + np.abs(b.mid) + np.abs(gate.mid)
    return _widen_range(mid, corners.min(0), corners.max(0), tainted, magnitude)


def select_cells(where: Bools, if_true: IntervalMatrix, if_false: IntervalMatrix) -> IntervalMatrix:
    """Take the cells where the condition holds from one matrix and the rest from another."""
    return IntervalMatrix(
        *(
            np.where(where, getattr(if_true, a), getattr(if_false, a))
            for a in IntervalMatrix.__slots__
        )
    )


def _widen_range(
    mid: Floats, lo: Floats, hi: Floats, tainted: Bools, magnitude: Floats
) -> IntervalMatrix:
    """Widen a range by the rounding error of floating point; NaN bounds become infinite."""
    noise = _ROUNDOFF * np.where(np.isfinite(magnitude), magnitude, 0)
    lo, hi = np.minimum(lo, mid) - noise, np.maximum(hi, mid) + noise
    lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
    return IntervalMatrix(
        mid, lo, hi, tainted if tainted.shape == mid.shape else np.broadcast_to(tainted, mid.shape)
    )


def _combine_endpoints(
    operation: Callable[..., Floats], a: IntervalMatrix, b: IntervalMatrix
) -> tuple[Floats, Floats]:
    """Return the smallest and largest result over the four combinations of endpoints."""
    ends = np.stack([operation(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)])
    return ends.min(0), ends.max(0)


def _product_range(a: IntervalMatrix, b: IntervalMatrix) -> tuple[Floats, Floats, Floats]:
    """Return the lower and upper bounds of a matrix product and the width for rounding error."""
    if _is_large_product(a, b):
        # Center and radius need four products and little memory. The range is wider than necessary
        # only to second order, where both factors are inexact.
        x, y = (a.lo + a.hi) / 2, (b.lo + b.hi) / 2
        rx, ry = (a.hi - a.lo) / 2, (b.hi - b.lo) / 2
        radius, center = np.abs(x) @ ry + rx @ (np.abs(y) + ry), x @ y
        return center - radius, center + radius, radius
    terms = _combine_term_endpoints(a, b)
    lo, hi = terms.min(0).sum(1), terms.max(0).sum(1)
    return lo, hi, hi - lo


def _is_large_product(a: IntervalMatrix, b: IntervalMatrix) -> bool:
    return a.mid.size * b.shape[1] > _MAX_ENUMERATED_TERMS


def _combine_term_endpoints(
    a: IntervalMatrix, b: IntervalMatrix, offset: Floats | float = 0.0
) -> Floats:
    """Return the endpoints of the terms of `a (b − offset)`: `[corner, row, inner, column]`."""
    ends = [end[None, :, :] - offset for end in _list_ends(b)]
    return np.stack([x[:, :, None] * y for x in _list_ends(a) for y in ends])


def _list_ends(matrix: IntervalMatrix) -> tuple[Floats, ...]:
    """Return the ends of the ranges: of an exact matrix, they are one."""
    return (matrix.lo,) if matrix.lo is matrix.hi else (matrix.lo, matrix.hi)


def _is_exact_zero(matrix: IntervalMatrix) -> Bools:
    """Return which cells are zero, exactly and untainted."""
    zero: Bools = (matrix.lo == 0) & (matrix.hi == 0) & ~matrix.tainted
    return zero


def _propagate_taint(a: IntervalMatrix, b: IntervalMatrix) -> Bools:
    """Return which cells of `a @ b` depend on a tainted cell; a factor of zero hides it."""
    if not (a.tainted.any() or b.tainted.any()):
        return np.zeros((a.shape[0], b.shape[1]), dtype=np.bool_)
    # Count in floats: BLAS does not multiply integers.
    counts = a.tainted.astype(float) @ ~_is_exact_zero(b) + ~_is_exact_zero(a) @ b.tainted.astype(
        float
    )
    tainted: Bools = counts > 0
    return tainted


def _find_maximum_of_others(values: Floats) -> Floats:
    """Return the maximum of the other cells of the row for each cell; −∞ if there are none."""
    padded = np.pad(values, ((0, 0), (1, 1)), constant_values=-np.inf)
    before = np.maximum.accumulate(padded[:, :-2], axis=1)
    after = np.maximum.accumulate(padded[:, :1:-1], axis=1)[:, ::-1]
    others: Floats = np.maximum(before, after)
    return others


def _softmax_share(cell: Floats, others: Floats) -> Floats:
    """Return `e^cell / (e^cell + Σ e^other)`; the sum leaves out the cell's own column.

    Log-sums from the left and from the right keep memory linear in the row and avoid adding a large
    number that would have to be subtracted again.
    """
    top = others.max(1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    row = np.pad(others - top, ((0, 0), (1, 1)), constant_values=-np.inf)
    before = np.logaddexp.accumulate(row[:, :-2], axis=1)
    after = np.logaddexp.accumulate(row[:, :1:-1], axis=1)[:, ::-1]
    odds = np.exp(np.logaddexp(before, after) - (cell - top))
    return np.where(np.isneginf(cell), 0.0, 1 / (1 + odds))
