"""Batches of examples of similar length, and padding.

A batch is as long as its longest text. If lengths were mixed at random, one long review would make
the whole batch long; if examples were sorted, every epoch would have the same batches. So examples
are shuffled, sorted within pools of a few dozen batches, cut into batches, and these are shuffled.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from workings.errors import UserError

IdSequence = Sequence[int] | npt.NDArray[np.integer] | Tensor


def make_batches(
    lengths: Sequence[int] | npt.NDArray[np.integer],
    batch_size: int | None = None,
    *,
    max_tokens: int | None = None,
    seed: int,
    epoch: int = 0,
    pool: int = 50,
    shuffle: bool = True,
) -> list[list[int]]:
    """Group examples, given by their lengths, into batches of indices; each occurs exactly once.

    `batch_size` is the number of examples per batch (one batch may be smaller); `max_tokens` limits
    a batch's size including padding, and a longer example is a batch of its own. Both may be given.
    `pool` is the number of batches that are sorted by length together; with 1, lengths stay mixed.
    The seed and the epoch determine the batches, so a run can be resumed within an epoch.
    `shuffle=False` sorts all examples, shortest first, which is fastest for a test set.

    >>> make_batches([5, 2, 9, 1, 5, 2], batch_size=2, seed=0, shuffle=False)
    [[3, 1], [5, 0], [4, 2]]
    >>> make_batches([5, 2, 9, 1, 5, 2], max_tokens=10, seed=0, shuffle=False)
    [[3, 1, 5], [0, 4], [2]]
    """
    if batch_size is None and max_tokens is None:
        raise UserError("expected batch_size, max_tokens or both")
    sizes = np.asarray(lengths, dtype=np.int64)
    return _make_batches(sizes, (sizes,), batch_size, max_tokens, seed, epoch, pool, shuffle)


def make_pair_batches(
    source_lengths: Sequence[int] | npt.NDArray[np.integer],
    target_lengths: Sequence[int] | npt.NDArray[np.integer],
    max_tokens: int = 4096,
    *,
    seed: int,
    epoch: int = 0,
    pool: int = 50,
    shuffle: bool = True,
) -> list[list[int]]:
    """Group pairs into batches of indices, of similar length on both sides.

    `max_tokens` limits the size of either side of a batch including padding; a longer pair is a
    batch of its own. For the other parameters see `make_batches`.

    >>> sources, targets = [5, 2, 9, 1, 5, 2], [4, 3, 7, 2, 6, 3]
    >>> make_pair_batches(sources, targets, max_tokens=12, seed=0, shuffle=False)
    [[3, 1, 5], [0, 4], [2]]
    """
    sources = np.asarray(source_lengths, dtype=np.int64)
    targets = np.asarray(target_lengths, dtype=np.int64)
    if len(sources) != len(targets):
        raise UserError(f"{len(sources):,} sources, but {len(targets):,} targets")
    # The larger matrix of a batch is as wide as its longest side. Sorting by that, and then by the
    # target, pads 7% of Multi30k; by the target and then the source, 11%.
    sizes = np.maximum(sources, targets)
    return _make_batches(sizes, (targets, sizes), None, max_tokens, seed, epoch, pool, shuffle)


def _make_batches(
    padded_lengths: npt.NDArray[np.int64],
    sort_keys: tuple[npt.NDArray[np.int64], ...],
    batch_size: int | None,
    max_tokens: int | None,
    seed: int,
    epoch: int,
    pool: int,
    shuffle: bool,
) -> list[list[int]]:
    """Shuffle, sort within pools (the last key is the primary one), cut, and shuffle batches."""
    for name, value in (("batch_size", batch_size), ("max_tokens", max_tokens), ("pool", pool)):
        if value is not None and value < 1:
            raise UserError(f"{name} = {value}: expected at least 1")
    if not shuffle:
        return _cut_batches(np.lexsort(sort_keys), padded_lengths, batch_size, max_tokens)
    # The stream of this legacy generator is frozen: it is the same in every numpy version.
    rng = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, epoch])))
    order = rng.permutation(len(padded_lengths))
    pool_size = pool * _typical_batch_size(padded_lengths, batch_size, max_tokens)
    batches: list[list[int]] = []
    for start in range(0, len(order), pool_size):
        indices = order[start : start + pool_size]
        if pool > 1:
            indices = indices[np.lexsort([lengths[indices] for lengths in sort_keys])]
        batches += _cut_batches(indices, padded_lengths, batch_size, max_tokens)
    return [batches[i] for i in rng.permutation(len(batches))]


def _typical_batch_size(
    padded_lengths: npt.NDArray[np.int64], batch_size: int | None, max_tokens: int | None
) -> int:
    """Return how many examples of mean length a batch has."""
    sizes = [] if batch_size is None else [batch_size]
    if max_tokens is not None:
        mean = max(float(padded_lengths.mean()), 1.0) if len(padded_lengths) else 1.0
        sizes.append(max(int(max_tokens / mean), 1))
    return min(sizes)


def _cut_batches(
    order: npt.NDArray[np.int64],
    padded_lengths: npt.NDArray[np.int64],
    batch_size: int | None,
    max_tokens: int | None,
) -> list[list[int]]:
    indices: list[int] = order.tolist()
    if max_tokens is None:
        assert batch_size is not None
        return [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
    batches: list[list[int]] = []
    max_length = 0
    for index in indices:
        max_length = max(max_length, int(padded_lengths[index]))
        batch = batches[-1] if batches else []
        is_full = (len(batch) + 1) * max_length > max_tokens or len(batch) == batch_size
        if not batch or is_full:
            batches.append([index])
            max_length = int(padded_lengths[index])
        else:
            batch.append(index)
    return batches


def pad(
    sequences: Sequence[IdSequence],
    value: int = 0,
    *,
    length: int | None = None,
    max_length: int | None = None,
    pad_left: bool = False,
) -> tuple[Int[Tensor, "batch time"], Int[Tensor, " batch"]]:
    """Return sequences padded with `value` as one matrix, and their lengths.

    The matrix is as wide as the longest sequence, and at least 1. `max_length` truncates sequences;
    `length` truncates or pads them all to one length. `pad_left` pads before the sequence.

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
        raise UserError("no sequences to pad: expected at least one")
    for name, limit in (("length", length), ("max_length", max_length)):
        if limit is not None and limit < 1:
            raise UserError(f"{name} = {limit}: expected at least 1")
    longest = max(map(len, sequences))
    limit = min(n for n in (length, max_length, longest) if n is not None)
    lengths = [min(len(sequence), limit) for sequence in sequences]
    width = max(length or limit, 1)
    # Rows are filled in numpy, where an assignment takes a seventh of torch's time.
    ids = np.full((len(sequences), width), value, dtype=np.int64)
    for row, sequence, count in zip(ids, sequences, lengths, strict=True):
        row[width - count if pad_left else 0 :][:count] = sequence[:count]
    return torch.from_numpy(ids), torch.tensor(lengths)
