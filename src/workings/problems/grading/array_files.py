"""Print the arrays of .npy and .npz files, which programs save; nothing is unpickled."""

import zipfile
from io import BytesIO
from pathlib import PurePosixPath

import numpy as np

from workings.errors import UserError
from workings.problems.numbers import MAX_SIDE

NUMPY_MARK = b"\x93NUMPY"
_MAX_BYTES = 10_000_000
_MAX_ARRAYS = 500


def print_array(content: bytes) -> str:
    """Return the numbers of an .npy file, row by row.

    >>> out = BytesIO()
    >>> np.save(out, np.array([[1, 0.5]]))
    >>> print_array(out.getvalue())
    '[[1.0, 0.5]]'
    """
    try:
        array = np.load(BytesIO(content), allow_pickle=False)
        rows = np.atleast_2d(np.asarray(array, dtype=float))
    except (ValueError, TypeError, OSError, EOFError, MemoryError, SyntaxError):
        raise UserError("not an array of numbers that can be read") from None
    if rows.ndim != 2 or max(rows.shape) > MAX_SIDE:
        raise UserError(f"an array of shape {array.shape}: expected a matrix")
    return str(rows.tolist())


def print_arrays(content: bytes) -> str:
    """Return the arrays of an .npz file by name: `Q = [[1.0, 0.5]]`."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            members = archive.infolist()[:_MAX_ARRAYS]
            if sum(member.file_size for member in members) > _MAX_BYTES:
                raise UserError(f"larger than {_MAX_BYTES // 1_000_000} MB unpacked")
            arrays = {PurePosixPath(m.filename).stem: archive.read(m) for m in members}
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError):
        raise UserError("not an .npz file that can be read") from None
    return "\n".join(f"{name} = {print_array(data)}" for name, data in arrays.items())
