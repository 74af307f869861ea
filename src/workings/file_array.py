"""Arrays in files, of which only the rows that are asked for are read.

A memory map would do as well, but ends the process (SIGBUS) if another one cuts its file short.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, overload

from workings.errors import UserError

if TYPE_CHECKING:  # numpy is imported in functions: readers of named datasets do not need it
    from numpy.typing import NDArray

_CHUNK_BYTES = 2**24


class FileBytes:
    """The bytes of an open file, which is closed when this is no longer in use."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._lock = threading.Lock()  # the position in the file is shared
        weakref.finalize(self, file.close)

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill a buffer from an offset on; raise UserError if the file ends before that."""
        with self._lock:
            self._file.seek(offset)
            while buffer:
                count = self._file.readinto(buffer)  # type: ignore[attr-defined]
                if not count:
                    raise UserError(
                        f"{self._path}: cut short while it was in use: start or resume the "
                        "training again, and the file is written again"
                    )
                buffer = buffer[count:]

    def update(self, digest: Callable[[memoryview], None], size: int) -> None:
        """Give the first bytes to the function of a digest, chunk by chunk."""
        chunk = memoryview(bytearray(min(size, _CHUNK_BYTES)))
        for offset in range(0, size, _CHUNK_BYTES):
            part = chunk[: min(_CHUNK_BYTES, size - offset)]
            self.read_into(part, offset)
            digest(part)


class FileArray:
    """A read-only array in a file; an index or a slice returns a copy of the rows it names."""

    def __init__(
        self, file: FileBytes, dtype: str, length: int, row_shape: tuple[int, ...] = ()
    ) -> None:
        import numpy as np

        self._file, self.dtype = file, np.dtype(dtype)
        self.shape = (length, *row_shape)
        self._row_bytes = self.dtype.itemsize * int(np.prod(row_shape, dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> "NDArray[Any]": ...
    def __getitem__(self, index: int | slice | Sequence[int]) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self[range(start, stop, step)]
            return self._read(start, max(stop - start, 0))
        if isinstance(index, Sequence):
            rows = self._empty(len(index))
            for row, k in enumerate(index):
                rows[row : row + 1] = self._read(self._check(k), 1)
            return rows
        return self._read(self._check(index), 1)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "NDArray[Any]":
        """Read all of it: for `numpy.asarray`."""
        del copy  # it always is one
        return self[:] if dtype is None else self[:].astype(dtype)

    def split_rows(self, count: int, row_shape: tuple[int, ...]) -> "FileArray":
        """Return the first numbers of a one-dimensional array as `count` rows of a shape."""
        return FileArray(self._file, self.dtype.name, count, row_shape)

    def _check(self, index: int) -> int:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return int(index) % len(self)

    def _read(self, start: int, count: int) -> "NDArray[Any]":
        import numpy as np

        rows = self._empty(count)
        if rows.size:
            buffer = rows.reshape(-1).view(np.uint8).data
            self._file.read_into(buffer, start * self._row_bytes)
        return rows

    def _empty(self, count: int) -> "NDArray[Any]":
        import numpy as np

        return np.empty((count, *self.shape[1:]), self.dtype)
