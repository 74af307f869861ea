"""Matrices whose cells know how far off they may be.

A cell has a value (`mid`), the range it may lie in (`lo`, `hi`) and whether it was computed from a
number that is wrong (`off`). The formulas of a problem are written once, on these: with exact
inputs they give the solution, with somebody's rounded numbers they give what these lead to and how
much of a difference rounding can explain. Ranges allow for floating point's rounding as well.
Somebody may claim an infinity or divide by zero: that ends in a range without ends, and not in
a warning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

_ROUNDOFF = 2.0**-49  # of the size of what is added up
_MAX_ENUMERATED_TERMS = 4_096  # of a product of matrices: so many are looked at one by one


@dataclass(frozen=True, slots=True, eq=False)
class IntervalMatrix:
    """A matrix `[rows, columns]` of values with their ranges."""

    mid: Floats
    lo: Floats
    hi: Floats
    tainted: Bools

    @classmethod
    def exact(cls, values: ArrayLike) -> "IntervalMatrix":
        """Take values as they are."""
        mid = np.atleast_2d(np.asarray(values, dtype=np.float64))
        return cls(mid, mid, mid, np.zeros(mid.shape, dtype=np.bool_))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, columns."""
        rows, columns = self.mid.shape
        return rows, columns

    @property
    def point(self) -> "IntervalMatrix":
        """The values alone, as if there were no doubt about them."""
        return IntervalMatrix(self.mid, self.mid, self.mid, self.tainted)

    @property
    def T(self) -> "IntervalMatrix":
        """The transpose."""
        return self.rearrange(lambda a: a.T)

    def rearrange(
        self, move: Callable[[NDArray[np.generic]], NDArray[np.generic]]
    ) -> "IntervalMatrix":
        """Rearrange the cells without computing: a transpose, a slice."""
        return IntervalMatrix(*(move(a) for a in (self.mid, self.lo, self.hi, self.tainted)))  # type: ignore[arg-type]

    def slice_columns(self, start: int, stop: int) -> "IntervalMatrix":
        """Take some columns."""
        return self.rearrange(lambda a: a[:, start:stop])

    def slice_row(self, index: int) -> "IntervalMatrix":
        """Take one row."""
        return self.rearrange(lambda a: a[index : index + 1])

    @np.errstate(all="ignore")
    def __add__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        size = np.abs(self.mid) + np.abs(other.mid)
        mid, lo, hi = self.mid + other.mid, self.lo + other.lo, self.hi + other.hi
        return _widen_range(mid, lo, hi, self.tainted | other.tainted, size)

    def __neg__(self) -> "IntervalMatrix":
        return IntervalMatrix(-self.mid, -self.hi, -self.lo, self.tainted)

    def __sub__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        return self + -other

    @np.errstate(all="ignore")
    def __mul__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        lo, hi = _combine_endpoints(np.multiply, self, other)
        mid = self.mid * other.mid
        # Zero times anything is zero, whatever went wrong with the other.
        off = (self.tainted & ~_is_exact_zero(other)) | (other.tainted & ~_is_exact_zero(self))
        return _widen_range(mid, lo, hi, off, np.abs(mid))

    @np.errstate(all="ignore")
    def __truediv__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        mid = self.mid / other.mid
        lo, hi = _combine_endpoints(np.divide, self, other)
        crosses = (other.lo <= 0) & (other.hi >= 0)
        lo, hi = np.where(crosses, -np.inf, lo), np.where(crosses, np.inf, hi)
        off = self.tainted | (other.tainted & ~_is_exact_zero(self))
        return _widen_range(mid, lo, hi, off, np.abs(mid))

    @np.errstate(all="ignore")
    def __matmul__(self, other: "IntervalMatrix") -> "IntervalMatrix":
        mid = self.mid @ other.mid
        size = np.abs(self.mid) @ np.abs(other.mid)
        lo = hi = mid
        if not (self.lo is self.hi and other.lo is other.hi):
            lo, hi, radius = _product_range(self, other)
            size = size + radius
        return _widen_range(mid, lo, hi, _propagate_taint(self, other), size * self.shape[1])

    def mean(self) -> "IntervalMatrix":
        """Average each row: `[rows, 1]`."""
        ones = IntervalMatrix.exact(np.full((self.shape[1], 1), 1 / self.shape[1]))
        return self @ ones

    @np.errstate(all="ignore")
    def apply_monotonic(self, function: Callable[[Floats], Floats]) -> "IntervalMatrix":
        """Apply a function that never falls, cell by cell."""
        mid, lo, hi = function(self.mid), function(self.lo), function(self.hi)
        return _widen_range(mid, lo, hi, self.tainted, np.abs(mid))

    @np.errstate(all="ignore")
    def apply_piecewise_monotonic(
        self, function: Callable[[Floats], Floats], *extrema: Floats | float
    ) -> "IntervalMatrix":
        """Apply a function that rises or falls except where it turns, cell by cell.

        `turns` are the points where it does; those outside a cell's range do not matter.
        """
        mid = function(self.mid)
        points = [np.clip(turn, self.lo, self.hi) for turn in extrema]
        ends = np.stack([function(point) for point in (self.lo, self.hi, *points)])
        size = np.abs(mid) + np.abs(self.mid)
        return _widen_range(mid, ends.min(0), ends.max(0), self.tainted, size)

    @np.errstate(all="ignore")
    def variance(self, mean: "IntervalMatrix") -> "IntervalMatrix":
        """Average each row's squared distance from a mean `[rows, 1]`: `[rows, 1]`.

        The distances of a row share the mean: where it moves, some grow and some shrink. So the
        range is that of `Σ (g + δ)² = Σ g² + 2 Σ g δ + Σ δ²`, with g the distance and δ what it may
        be off, and not that of squares on their own.
        """
        gap, width = self.mid - mean.mid, self.shape[1]
        own, shared = (np.maximum(c.hi - c.mid, c.mid - c.lo) for c in (self, mean))
        mid = np.square(gap).sum(1, keepdims=True)
        moved = (np.abs(gap) * own).sum(1, keepdims=True)
        moved = 2 * (moved + np.abs(gap.sum(1, keepdims=True)) * shared)
        further = np.square(own + shared).sum(1, keepdims=True)
        lo, hi = np.maximum(mid - moved, 0), mid + moved + further
        off = self.tainted.any(1, keepdims=True) | mean.tainted
        return _widen_range(mid / width, lo / width, hi / width, off, mid + further)

    @np.errstate(all="ignore")
    def apply_sinusoid(
        self, function: Callable[[Floats], Floats], extremum: float
    ) -> "IntervalMatrix":
        """Take the sine or cosine of each cell; it turns at `crest` and every π from there."""
        turn = extremum + np.pi * np.ceil((self.lo - extremum) / np.pi)
        return self.apply_piecewise_monotonic(function, turn, turn + np.pi)

    @np.errstate(all="ignore")
    def softmax(self) -> "IntervalMatrix":
        """Normalise each row by its exponentials; −∞ has no weight, nor a row of nothing else."""
        hidden = np.isneginf(self.mid)
        mid, lo, hi = (
            _softmax_share(cell, rivals)
            for cell, rivals in ((self.mid, self.mid), (self.lo, self.hi), (self.hi, self.lo))
        )
        off = self.tainted.any(1, keepdims=True) & ~(hidden & ~self.tainted)
        spread = _widen_range(mid, lo, hi, off, mid * self.shape[1])
        return RowStochasticMatrix(spread.mid, spread.lo, spread.hi, spread.tainted)

    def sigmoid(self) -> "IntervalMatrix":
        """Squash each cell on its own; −∞ has no weight."""
        return self.apply_monotonic(lambda x: np.exp(-np.logaddexp(0, -x)))

    @np.errstate(all="ignore")
    def normalize_by_sum(self) -> "IntervalMatrix":
        """Divide each row by its sum; −∞ counts as nothing, and so does a row of nothing else."""
        hidden = np.isneginf(self.mid)
        own, low, high = (np.where(hidden, 0, a) for a in (self.mid, self.lo, self.hi))
        mid = np.where(hidden, 0, own / own.sum(1, keepdims=True))
        rests = [end.sum(1, keepdims=True) - end for end in (low, high)]
        ends = np.stack([x / (x + rest) for x in (low, high) for rest in rests])
        crosses = (low.sum(1, keepdims=True) <= 0) & (high.sum(1, keepdims=True) >= 0)
        lo = np.where(hidden, 0, np.where(crosses, -np.inf, ends.min(0)))
        hi = np.where(hidden, 0, np.where(crosses, np.inf, ends.max(0)))
        off = self.tainted.any(1, keepdims=True) & ~(hidden & ~self.tainted)
        return _widen_range(mid, lo, hi, off, np.abs(mid) * self.shape[1])

    def where(self, allowed: Bools, fill_value: float) -> "IntervalMatrix":
        """Keep the allowed cells and put a number in the place of the others."""
        mid, lo, hi = (np.where(allowed, a, fill_value) for a in (self.mid, self.lo, self.hi))
        return IntervalMatrix(mid, lo, hi, self.tainted & allowed)


class RowStochasticMatrix(IntervalMatrix):
    """Weights whose rows each add up to one (or to nothing), whatever they are."""

    __slots__ = ()

    @np.errstate(all="ignore")
    def __matmul__(self, other: IntervalMatrix) -> IntervalMatrix:
        """Mix rows: where one counts for more, others count for less.

        `Σ w v = c + Σ w (v − c)` for every c, as the weights add up to one; near the result, c
        leaves little of the values for the weights' ranges to act on.
        """
        mixed = IntervalMatrix.__matmul__(self, other)
        if _is_large_product(self, other) or not np.isfinite(mixed.mid).all():
            return mixed
        centre = mixed.mid[:, None, :]  # [row, 1, column]
        terms = _combine_term_endpoints(self, other, centre)
        some = (self.hi > 0).any(1, keepdims=True)
        lo = np.where(some, np.maximum(mixed.lo, mixed.mid + terms.min(0).sum(1)), mixed.lo)
        hi = np.where(some, np.minimum(mixed.hi, mixed.mid + terms.max(0).sum(1)), mixed.hi)
        return _widen_range(mixed.mid, lo, hi, mixed.tainted, np.abs(mixed.mid) * self.shape[1])


def concatenate_columns(parts: list[IntervalMatrix]) -> IntervalMatrix:
    """Put matrices side by side."""
    return IntervalMatrix(
        *(np.concatenate([getattr(p, a) for p in parts], axis=1) for a in IntervalMatrix.__slots__)
    )


def select_cells(where: Bools, if_true: IntervalMatrix, if_false: IntervalMatrix) -> IntervalMatrix:
    """Take some cells from one matrix and the rest from another."""
    return IntervalMatrix(
        *(
            np.where(where, getattr(if_true, a), getattr(if_false, a))
            for a in IntervalMatrix.__slots__
        )
    )


def _widen_range(
    mid: Floats, lo: Floats, hi: Floats, tainted: Bools, magnitude: Floats
) -> IntervalMatrix:
    """Widen a range by what floating point may have lost; what is not a number may be any."""
    noise = _ROUNDOFF * np.where(np.isfinite(magnitude), magnitude, 0)
    lo, hi = np.minimum(lo, mid) - noise, np.maximum(hi, mid) + noise
    lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
    return IntervalMatrix(
        mid, lo, hi, tainted if tainted.shape == mid.shape else np.broadcast_to(tainted, mid.shape)
    )


def _combine_endpoints(
    operation: Callable[..., Floats], a: IntervalMatrix, b: IntervalMatrix
) -> tuple[Floats, Floats]:
    ends = np.stack([operation(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)])
    return ends.min(0), ends.max(0)


def _product_range(a: IntervalMatrix, b: IntervalMatrix) -> tuple[Floats, Floats, Floats]:
    """The ranges of a product's cells, and how large what was added up may be."""
    if _is_large_product(a, b):
        # Centres and radii: four products and little memory, and wider than need be only where
        # both factors are in doubt, to second order.
        x, y = (a.lo + a.hi) / 2, (b.lo + b.hi) / 2
        rx, ry = (a.hi - a.lo) / 2, (b.hi - b.lo) / 2
        radius, centre = np.abs(x) @ ry + rx @ (np.abs(y) + ry), x @ y
        return centre - radius, centre + radius, radius
    terms = _combine_term_endpoints(a, b)
    lo, hi = terms.min(0).sum(1), terms.max(0).sum(1)
    return lo, hi, hi - lo


def _is_large_product(a: IntervalMatrix, b: IntervalMatrix) -> bool:
    return a.mid.size * b.shape[1] > _MAX_ENUMERATED_TERMS


def _combine_term_endpoints(
    a: IntervalMatrix, b: IntervalMatrix, offset: Floats | float = 0.0
) -> Floats:
    """What each term of the product `a (b − less)` may come to: `[corner, row, inner, column]`."""
    ends = [end[None, :, :] - offset for end in (b.lo, b.hi)]
    return np.stack([x[:, :, None] * y for x in (a.lo, a.hi) for y in ends])


def _is_exact_zero(cells: IntervalMatrix) -> Bools:
    """Cells that are exactly zero, without doubt."""
    zero: Bools = (cells.lo == 0) & (cells.hi == 0) & ~cells.tainted
    return zero


def _propagate_taint(a: IntervalMatrix, b: IntervalMatrix) -> Bools:
    """Say which cells of the product `a b` come from something wrong; times zero, nothing does."""
    if not (a.tainted.any() or b.tainted.any()):
        return np.zeros((a.shape[0], b.shape[1]), dtype=np.bool_)
    # Counted in floats: whole numbers are not multiplied by the fast routines.
    counts = a.tainted.astype(float) @ ~_is_exact_zero(b) + ~_is_exact_zero(a) @ b.tainted.astype(
        float
    )
    reached: Bools = counts > 0
    return reached


def _softmax_share(cell: Floats, others: Floats) -> Floats:
    """`e^cell / (e^cell + Σ e^rival)`, the cell's own place left out of the sum.

    The others are added up from both ends, in logarithms: in memory linear in the row, and without
    a large number that is added first and subtracted again.
    """
    top = others.max(1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    row = np.pad(others - top, ((0, 0), (1, 1)), constant_values=-np.inf)
    before = np.logaddexp.accumulate(row[:, :-2], axis=1)
    after = np.logaddexp.accumulate(row[:, :1:-1], axis=1)[:, ::-1]
    odds = np.exp(np.logaddexp(before, after) - (cell - top))
    return np.where(np.isneginf(cell), 0.0, 1 / (1 + odds))
