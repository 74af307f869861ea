"""Rows of numbers of different lengths, one after the other in an array."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from workings.file_array import FileArray

Row = Sequence[int] | NDArray[np.integer[Any]]


class RaggedArray(Sequence[NDArray[Any]]):
    """Rows of different lengths; a row takes 16 bytes more than its numbers, not 120 as an array.

    The numbers may be in a file, of which only the rows that are asked for are read.

    >>> rows = RaggedArray.build([[5, 6], [], [7]], "int32")
    >>> len(rows), rows[0], rows.lengths
    (3, array([5, 6], dtype=int32), array([2, 0, 1]))
    >>> [row.tolist() for row in rows[::2]]
    [[5, 6], [7]]
    """

    def __init__(self, values: NDArray[Any] | FileArray, lengths: NDArray[np.int64]) -> None:
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
        if isinstance(index, slice) and index.step in (None, 1) and len(ends):
            return RaggedArray(self.values[int(ends[0] - lengths[0]) : int(ends[-1])], lengths)
        shift = np.repeat(
            ends - np.cumsum(lengths), lengths
        )  # from where a number is to its source
        return RaggedArray(np.asarray(self.values)[shift + np.arange(len(shift))], lengths)

    def truncate(self, limit: int) -> "RaggedArray":
        """Return the first `limit` numbers of each row.

        >>> [row.tolist() for row in RaggedArray.build([[5, 6, 7], [8]], "int32").truncate(2)]
        [[5, 6], [8]]
        """
        if not (self.lengths > limit).any():
            return self
        starts = np.repeat(self._ends - self.lengths, self.lengths)
        is_kept = np.arange(len(self.values)) - starts < limit
        return RaggedArray(np.asarray(self.values)[is_kept], self.lengths.clip(max=limit))

    def merge(self, counts: Sequence[int]) -> "RaggedArray":
        """Join consecutive rows: the first `counts[0]` become one row, and so on.

        >>> rows = RaggedArray.build([[5], [6, 7], [8]], "int32")
        >>> [row.tolist() for row in rows.merge([2, 0, 1])]
        [[5, 6, 7], [], [8]]
        """
        ends, totals = np.cumsum(counts, dtype=np.int64), np.concatenate(([0], self._ends))
        starts = ends - np.asarray(counts, np.int64)
        return RaggedArray(self.values, totals[ends] - totals[starts])

    def surround(self, prefix: Sequence[int], suffix: Sequence[int]) -> "RaggedArray":
        """Return the rows with numbers before and after each.

        >>> rows = RaggedArray.build([[5, 6], []], "int32")
        >>> [row.tolist() for row in rows.surround([1], [2])]
        [[1, 5, 6, 2], [1, 2]]
        """
        if not prefix and not suffix:
            return self
        lengths = self.lengths + len(prefix) + len(suffix)
        ends, values = np.cumsum(lengths), np.empty(int(lengths.sum()), self.values.dtype)
        is_own = np.ones(len(values), bool)
        before = ((ends - lengths + k, number) for k, number in enumerate(prefix))
        after = ((ends - len(suffix) + k, number) for k, number in enumerate(suffix))
        for places, number in chain(before, after):
            values[places], is_own[places] = number, False
        values[is_own] = np.asarray(self.values)
        return RaggedArray(values, lengths)

    @classmethod
    def concatenate(cls, parts: Sequence["RaggedArray"], dtype: str) -> "RaggedArray":
        """Return the rows of several arrays."""
        values = [np.empty(0, dtype), *(np.asarray(part.values, dtype) for part in parts)]
        lengths = [np.empty(0, np.int64), *(part.lengths for part in parts)]
        return cls(np.concatenate(values), np.concatenate(lengths))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for end, length in zip(self._ends.tolist(), self.lengths.tolist(), strict=True):
            yield self.values[end - length : end]
