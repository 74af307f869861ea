"""Rows of numbers of different lengths, one after the other in an array."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Row = Sequence[int] | NDArray[np.integer[Any]]


class RaggedArray(Sequence[NDArray[Any]]):
    """Rows of different lengths; a row takes 8 bytes more than its numbers, not 120 as an array.

    >>> rows = RaggedArray.build([[5, 6], [], [7]], "int32")
    >>> len(rows), rows[0], rows.lengths
    (3, array([5, 6], dtype=int32), array([2, 0, 1]))
    >>> [row.tolist() for row in rows[::2]]
    [[5, 6], [7]]
    """

    def __init__(self, values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.values, self.lengths = values, lengths
        self._ends = np.cumsum(lengths, dtype=np.int64)

    @classmethod
    def build(cls, rows: Sequence[Row], dtype: str) -> "RaggedArray":
        """Concatenate rows."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        if rows and isinstance(rows[0], np.ndarray):
            return cls(np.concatenate(rows).astype(dtype), lengths)
        values = np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum()))
        return cls(values, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice | NDArray[np.integer[Any]]) -> "RaggedArray": ...
    def __getitem__(self, index: int | slice | NDArray[np.integer[Any]]) -> Any:
        """Return a row, or a selection of rows."""
        if not isinstance(index, slice | np.ndarray):
            end = self._ends[index]
            return self.values[end - self.lengths[index] : end]
        lengths, ends = self.lengths[index], self._ends[index]
        shift = np.repeat(
            ends - np.cumsum(lengths), lengths
        )  # from where a number is to its source
        return RaggedArray(self.values[shift + np.arange(len(shift))], lengths)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for end, length in zip(self._ends.tolist(), self.lengths.tolist(), strict=True):
            yield self.values[end - length : end]
