"""Batches of examples of like length, and their padding.

A batch is as long as its longest text: with lengths mixed at random one long review makes the whole
batch long, and sorting alone would show the model the same batches every epoch. So: shuffle, sort
within pools of a few dozen batches, cut, and shuffle the batches.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from workings.errors import UserError

Ids = Sequence[int] | npt.NDArray[np.integer] | Tensor


def batches(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    size: int | None = None,
    *,
    tokens: int | None = None,
    seed: int,
    epoch: int = 0,
    start: int = 0,
    pool: int = 50,
    shuffle: bool = True,
) -> list[list[int]]:
    """Group examples, given by their lengths, into batches of indices: each exactly once.

    `size` is the number of examples in a batch (one batch may be smaller); `tokens` bounds what a
    batch comes to with its padding, and an example longer than that stands alone. Both may be
    given. `pool` counts the batches that are sorted by length together: 1 leaves lengths mixed.
    The seed and the epoch settle everything, so that a run resumed in the middle of an epoch takes
    `start`, the number of batches already seen. `shuffle=False` sorts everything, shortest first:
    the fastest way to go over a test set once.

    >>> batches([5, 2, 9, 1, 5, 2], size=2, seed=0, shuffle=False)
    [[3, 1], [5, 0], [4, 2]]
    >>> batches([5, 2, 9, 1, 5, 2], tokens=10, seed=0, shuffle=False)
    [[3, 1, 5], [0, 4], [2]]
    """
    for name, value, least in (("size", size, 1), ("tokens", tokens, 1), ("pool", pool, 1)):
        if value is not None and value < least:
            raise UserError(f"{name} = {value}: it must be at least {least}")
    if size is None and tokens is None:
        raise UserError("give the batches a size, or a number of tokens")
    sizes = np.asarray(lengths, dtype=np.int64)
    if not shuffle:
        return _cut(np.argsort(sizes, kind="stable"), sizes, size, tokens)[start:]
    # The stream of this older generator is frozen: every numpy gives the same batches.
    draw = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, epoch])))
    order = draw.permutation(len(sizes))
    step = pool * _usual(sizes, size, tokens)
    found: list[list[int]] = []
    for first in range(0, len(order), step):
        some = order[first : first + step]
        if pool > 1:
            some = some[np.argsort(sizes[some], kind="stable")]
        found += _cut(some, sizes, size, tokens)
    return [found[i] for i in draw.permutation(len(found))][start:]


def _usual(sizes: npt.NDArray[np.int64], size: int | None, tokens: int | None) -> int:
    """How many examples a batch usually has: pools are made of whole batches."""
    mean = max(float(sizes.mean()), 1.0) if len(sizes) else 1.0
    by_tokens = len(sizes) if tokens is None else max(int(tokens / mean), 1)
    return max(by_tokens if size is None else min(size, by_tokens) if tokens else size, 1)


def _cut(
    order: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    size: int | None,
    tokens: int | None,
) -> list[list[int]]:
    indices: list[int] = order.tolist()
    if tokens is None:
        assert size is not None
        return [indices[i : i + size] for i in range(0, len(indices), size)]
    found: list[list[int]] = []
    longest = 0
    for index in indices:
        longest = max(longest, int(sizes[index]))
        last = found[-1] if found else []
        full = (len(last) + 1) * longest > tokens or (size is not None and len(last) == size)
        if not last or full:
            found.append([index])
            longest = int(sizes[index])
        else:
            last.append(index)
    return found


def pad(
    sequences: Sequence[Ids],
    value: int = 0,
    *,
    length: int | None = None,
    longest: int | None = None,
    front: bool = False,
) -> tuple[Int[Tensor, "batch time"], Int[Tensor, " batch"]]:
    """Put sequences into one matrix, `value` after their ends (or in `front`), with their lengths.

    The matrix is as wide as the longest sequence, and never narrower than one. `longest` cuts
    sequences off there; `length` cuts or pads each to exactly that: the notes' way, with 500.

    >>> ids, lengths = pad([[7, 8, 9], [5]])
    >>> ids
    tensor([[7, 8, 9],
            [5, 0, 0]])
    >>> lengths
    tensor([3, 1])
    >>> pad([[7, 8, 9], [5]], length=2)[0]
    tensor([[7, 8],
            [5, 0]])
    """
    if not sequences:
        raise UserError("no sequences to pad: a batch has at least one")
    for name, bound in (("length", length), ("longest", longest)):
        if bound is not None and bound < 1:
            raise UserError(f"{name} = {bound}: it must be at least 1")
    most = min(b for b in (length, longest, max(map(len, sequences))) if b is not None)
    counts = [min(len(sequence), most) for sequence in sequences]
    width = max(length or most, 1)
    # Rows are filled in numpy, where an assignment costs a seventh of torch's.
    ids = np.full((len(sequences), width), value, dtype=np.int64)
    for row, sequence, count in zip(ids, sequences, counts, strict=True):
        row[width - count if front else 0 :][:count] = sequence[:count]
    return torch.from_numpy(ids), torch.tensor(counts)
