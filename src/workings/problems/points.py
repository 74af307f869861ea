"""Matrices without ranges: the same operations as interval matrices, for quick trials."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workings.problems.intervals import Bools, Floats, IntervalMatrix


class PointMatrix(IntervalMatrix):
    """A matrix of values whose operations compute no ranges and no taint flags."""

    __slots__ = ()

    @classmethod
    def of(cls, mid: Floats) -> "PointMatrix":
        """Return the matrix of these values."""
        return cls(mid, mid, mid, np.zeros(mid.shape, dtype=np.bool_))

    @property
    def T(self) -> "PointMatrix":
        return PointMatrix.of(self.mid.T)

    def rearrange(
        self, move: Callable[[NDArray[np.generic]], NDArray[np.generic]]
    ) -> "PointMatrix":
        return PointMatrix.of(move(self.mid))  # type: ignore[arg-type]

    def __add__(self, other: IntervalMatrix) -> "PointMatrix":
        return PointMatrix.of(self.mid + other.mid)

    def __neg__(self) -> "PointMatrix":
        return PointMatrix.of(-self.mid)

    def __sub__(self, other: IntervalMatrix) -> "PointMatrix":
        return PointMatrix.of(self.mid - other.mid)

    def __mul__(self, other: IntervalMatrix) -> "PointMatrix":
        return PointMatrix.of(self.mid * other.mid)

    def __truediv__(self, other: IntervalMatrix) -> "PointMatrix":
        return PointMatrix.of(self.mid / other.mid)

    def __matmul__(self, other: IntervalMatrix) -> "PointMatrix":
        return PointMatrix.of(self.mid @ other.mid)

    def mean(self) -> "PointMatrix":
        return PointMatrix.of(self.mid.mean(1, keepdims=True))

    def variance(self, mean: IntervalMatrix) -> "PointMatrix":
        return PointMatrix.of(np.square(self.mid - mean.mid).mean(1, keepdims=True))

    def apply_monotonic(self, function: Callable[[Floats], Floats]) -> "PointMatrix":
        return PointMatrix.of(function(self.mid))

    def apply_piecewise_monotonic(
        self,
        function: Callable[[Floats], Floats],
        *extrema: Floats | float,  # noqa: ARG002
    ) -> "PointMatrix":
        return PointMatrix.of(function(self.mid))

    def apply_sinusoid(
        self,
        function: Callable[[Floats], Floats],
        extremum: float,  # noqa: ARG002
    ) -> "PointMatrix":
        return PointMatrix.of(function(self.mid))

    def softmax(self) -> "PointMatrix":
        top = self.mid.max(1, keepdims=True)
        exponentials = np.exp(self.mid - np.where(np.isfinite(top), top, 0))
        return PointMatrix.of(exponentials / _zero_to_one(exponentials.sum(1, keepdims=True)))

    def subtract_row_maximum(self) -> "PointMatrix":
        top = self.mid.max(1, keepdims=True)
        return PointMatrix.of(self.mid - np.where(np.isfinite(top), top, 0))

    def normalize_by_sum(self) -> "PointMatrix":
        hidden = np.isneginf(self.mid)
        own = np.where(hidden, 0, self.mid)
        total = np.where(hidden.all(1, keepdims=True), 1, own.sum(1, keepdims=True))
        return PointMatrix.of(own / total)

    def where(self, allowed: Bools, fill_value: float) -> "PointMatrix":
        return PointMatrix.of(np.where(allowed, self.mid, fill_value))


def _zero_to_one(total: Floats) -> Floats:
    """Replace the sums of rows in which everything is masked, so that their weights are zero."""
    return np.where(total == 0, 1, total)
