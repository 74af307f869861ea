"""Matrices whose cells know how far off they may be.

A cell has a value (`mid`), the range it may lie in (`lo`, `hi`) and whether it was computed from a
number that is wrong (`off`). The formulas of a problem are written once, on these: with exact
inputs they give the solution, with somebody's rounded numbers they give what these lead to and how
much of a difference rounding can explain. Ranges allow for floating point's rounding as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

_NOISE = 2.0**-49  # of the size of what is added up


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A matrix `[rows, columns]` of values with their ranges."""

    mid: Floats
    lo: Floats
    hi: Floats
    off: Bools

    @classmethod
    def exact(cls, values: ArrayLike) -> "Cells":
        """Take values as they are."""
        mid = np.atleast_2d(np.asarray(values, dtype=np.float64))
        return cls(mid, mid, mid, np.zeros(mid.shape, dtype=np.bool_))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, columns."""
        rows, columns = self.mid.shape
        return rows, columns

    @property
    def T(self) -> "Cells":
        """The transpose."""
        return self.each(lambda a: a.T)

    def each(self, move: Callable[[NDArray[np.generic]], NDArray[np.generic]]) -> "Cells":
        """Rearrange the cells without computing: a transpose, a slice."""
        return Cells(*(move(a) for a in (self.mid, self.lo, self.hi, self.off)))  # type: ignore[arg-type]

    def columns(self, start: int, stop: int) -> "Cells":
        """Take some columns."""
        return self.each(lambda a: a[:, start:stop])

    def row(self, index: int) -> "Cells":
        """Take one row."""
        return self.each(lambda a: a[index : index + 1])

    def __add__(self, other: "Cells") -> "Cells":
        size = np.abs(self.mid) + np.abs(other.mid)
        return _spread(
            self.mid + other.mid, self.lo + other.lo, self.hi + other.hi, self.off | other.off, size
        )

    def __neg__(self) -> "Cells":
        return Cells(-self.mid, -self.hi, -self.lo, self.off)

    def __sub__(self, other: "Cells") -> "Cells":
        return self + -other

    def __mul__(self, other: "Cells") -> "Cells":
        lo, hi = _corners(np.multiply, self, other)
        mid = self.mid * other.mid
        # Zero times anything is zero, whatever went wrong with the other.
        off = (self.off & ~_nothing(other)) | (other.off & ~_nothing(self))
        return _spread(mid, lo, hi, off, np.abs(mid))

    def __truediv__(self, other: "Cells") -> "Cells":
        with np.errstate(divide="ignore", invalid="ignore"):
            mid = self.mid / other.mid
            lo, hi = _corners(np.divide, self, other)
        crosses = (other.lo <= 0) & (other.hi >= 0)
        lo, hi = np.where(crosses, -np.inf, lo), np.where(crosses, np.inf, hi)
        return _spread(mid, lo, hi, self.off | other.off, np.abs(mid))

    def __matmul__(self, other: "Cells") -> "Cells":
        mid = self.mid @ other.mid
        a, b = (self.lo + self.hi) / 2, (other.lo + other.hi) / 2
        ra, rb = (self.hi - self.lo) / 2, (other.hi - other.lo) / 2
        centre = a @ b
        radius = np.abs(a) @ rb + ra @ np.abs(b) + ra @ rb
        off = (self.off.astype(int) @ (~_nothing(other)).astype(int)) + (
            (~_nothing(self)).astype(int) @ other.off.astype(int)
        )
        size = (np.abs(self.mid) @ np.abs(other.mid)) * self.shape[1]
        return _spread(mid, centre - radius, centre + radius, off > 0, size)

    def mean(self) -> "Cells":
        """Average each row: `[rows, 1]`."""
        ones = Cells.exact(np.full((self.shape[1], 1), 1 / self.shape[1]))
        return self @ ones

    def rising(self, function: Callable[[Floats], Floats]) -> "Cells":
        """Apply a function that never falls, cell by cell."""
        with np.errstate(over="ignore"):
            mid, lo, hi = function(self.mid), function(self.lo), function(self.hi)
        return _spread(mid, lo, hi, self.off, np.abs(mid))

    def square(self) -> "Cells":
        """Multiply each cell by itself."""
        ends = np.stack((self.lo**2, self.hi**2))
        crosses = (self.lo <= 0) & (self.hi >= 0)
        mid = self.mid**2
        return _spread(mid, np.where(crosses, 0, ends.min(0)), ends.max(0), self.off, mid)

    def bounded(self, function: Callable[[Floats], Floats], slope: float) -> "Cells":
        """Apply a function whose slope is nowhere steeper than `slope`, cell by cell."""
        mid = function(self.mid)
        lo = mid - slope * (self.mid - self.lo)
        hi = mid + slope * (self.hi - self.mid)
        return _spread(mid, lo, hi, self.off, 1 + np.abs(self.mid))

    def softmax(self) -> "Cells":
        """Normalise each row by its exponentials; −∞ has no weight, nor a row of nothing else."""

        def share(cell: Floats, rivals: Floats) -> Floats:
            # 1 / (1 + Σ e^(rival − cell)) with the cell's own place left out of the sum: sums come
            # up to it from both sides, so that nothing cancels, relative to the largest rival, or
            # to the second where the largest is the one left out.
            nothing = np.zeros((len(cell), 1))
            top = np.arange(rivals.shape[1]) == rivals.argmax(1)[:, None]
            rest = np.where(top, -np.inf, rivals)
            first, second = rivals.max(1, keepdims=True), rest.max(1, keepdims=True)
            with np.errstate(over="ignore", invalid="ignore"):
                powers = np.exp(np.where(rivals == first, 0, rivals - first))  # ∞ − ∞ is 0 here
                before = np.cumsum(np.hstack([nothing, powers[:, :-1]]), 1)
                after = np.cumsum(np.hstack([nothing, powers[:, :0:-1]]), 1)[:, ::-1]
                odds = (before + after) * np.exp(first - cell)
                powers = np.exp(np.where(rest == second, 0, rest - second))
                without_first = powers.sum(1, keepdims=True) * np.exp(second - cell)
                odds = np.where(top, np.where(np.isneginf(second), 0, without_first), odds)
                odds = np.where(np.isnan(odds), np.inf, odds)
                return np.where(np.isneginf(cell), 0.0, 1 / (1 + odds))

        hidden = np.isneginf(self.mid)
        mid = share(self.mid, self.mid)
        off = self.off.any(1, keepdims=True) & ~(hidden & ~self.off)
        return _spread(mid, share(self.lo, self.hi), share(self.hi, self.lo), off, mid)

    def sigmoid(self) -> "Cells":
        """Squash each cell on its own; −∞ has no weight."""
        return self.rising(lambda x: np.exp(-np.logaddexp(0, -x)))

    def over_sum(self) -> "Cells":
        """Divide each row by its sum; −∞ counts as nothing, and so does a row of nothing else."""
        hidden = np.isneginf(self.mid)
        mid, lo, hi = (np.where(hidden, 0, a) for a in (self.mid, self.lo, self.hi))
        shown = Cells(mid, lo, hi, self.off)
        total = shown.mid.sum(1, keepdims=True)
        rest_lo = shown.lo.sum(1, keepdims=True) - shown.lo
        rest_hi = shown.hi.sum(1, keepdims=True) - shown.hi
        with np.errstate(divide="ignore", invalid="ignore"):
            mid = np.where(hidden, 0, shown.mid / total)
            ends = np.stack(
                [x / (x + rest) for x in (shown.lo, shown.hi) for rest in (rest_lo, rest_hi)]
            )
        low, high = shown.lo + rest_lo, shown.hi + rest_hi
        crosses = (low <= 0) & (high >= 0)
        lo = np.where(hidden, 0, np.where(crosses, -np.inf, ends.min(0)))
        hi = np.where(hidden, 0, np.where(crosses, np.inf, ends.max(0)))
        off = shown.off.any(1, keepdims=True) & ~(hidden & ~self.off)
        return _spread(mid, lo, hi, off, np.abs(mid))

    def where(self, allowed: Bools, otherwise: float) -> "Cells":
        """Keep the allowed cells and put a number in the place of the others."""
        mid, lo, hi = (np.where(allowed, a, otherwise) for a in (self.mid, self.lo, self.hi))
        return Cells(mid, lo, hi, self.off & allowed)


def beside(parts: list[Cells]) -> Cells:
    """Put matrices side by side."""
    return Cells(*(np.concatenate([getattr(p, a) for p in parts], axis=1) for a in Cells.__slots__))


def _spread(mid: Floats, lo: Floats, hi: Floats, off: Bools, size: Floats) -> Cells:
    noise = _NOISE * np.where(np.isfinite(size), size, 0)
    lo, hi = np.minimum(lo, mid) - noise, np.maximum(hi, mid) + noise
    return Cells(mid, lo, hi, np.broadcast_to(off, mid.shape))


def _corners(operation: Callable[..., Floats], a: Cells, b: Cells) -> tuple[Floats, Floats]:
    ends = np.stack([operation(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)])
    return ends.min(0), ends.max(0)


def _nothing(cells: Cells) -> Bools:
    """Cells that are exactly zero, without doubt."""
    zero: Bools = (cells.lo == 0) & (cells.hi == 0) & ~cells.off
    return zero
