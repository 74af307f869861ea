"""Checkpoints: writing them in the background, validating them, and their flat tensors."""

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workings.distributed import ProcessGroup, shard_like
from workings.errors import UserError, truncate
from workings.storage import CorruptFileError, read_checkpoint, write_checkpoint
from workings.tasks.base import is_out_of_memory
from workings.training.errors import describe_os_error, find_non_finite
from workings.training.optimizers import averaged_name

CheckpointTensors = dict[str, dict[str, Tensor]]


class Checkpoints:
    """The folder `checkpoints/` of a run.

    `save` copies the tensors and returns; a thread writes one checkpoint at a time. Its errors are
    raised by the next `save`, or by `wait`.
    """

    def __init__(self, run: Path, keep: int) -> None:
        self.run, self.folder, self.keep = run, run / "checkpoints", keep
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._pending: Future[None] | None = None
        if self.folder.is_symlink():
            raise UserError(f"{self.folder}: a symbolic link, where a folder is expected")

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        best_step: int,
    ) -> None:
        """Write a checkpoint in the background; drop old ones, but not that of the best step."""
        self.wait()
        copies = {
            name: {key: t.detach().to("cpu", copy=True) for key, t in named.items()}
            for name, named in tensors.items()
        }
        self._pending = self._executor.submit(self._write, step, copies, dict(state), best_step)

    def wait(self) -> None:
        """Wait until the pending checkpoint is written; raise UserError if that failed."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            pending.result()
        except OSError as error:
            failure = f"the checkpoint could not be written: {describe_os_error(error, self.run)}"
            raise UserError(f"{failure}; {self._describe_remaining()}") from None

    def _write(
        self, step: int, tensors: CheckpointTensors, state: dict[str, Any], best_step: int
    ) -> None:
        folder = self.folder / f"step-{step}"
        if not self.run.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.run))
        if not folder.exists():  # else the run was stopped right after writing it
            write_checkpoint(folder, tensors, state)
        others = [old for old in self.list_folders() if old.name != f"step-{best_step}"]
        for old in others[: -self.keep]:
            _remove(old)

    def _describe_remaining(self) -> str:
        folders = self.list_folders() if self.folder.is_dir() else []
        if not folders:
            return "there is no earlier checkpoint"
        return f"the last complete checkpoint is {folders[-1].name}"

    def list_folders(self) -> list[Path]:
        """List the checkpoints, oldest first."""
        folders = [p for p in self.folder.glob("step-*") if re.fullmatch("step-[0-9]+", p.name)]
        return sorted(folders, key=lambda p: int(p.name[5:]))

    def find_last_finite(self) -> Path | None:
        """Return the newest checkpoint whose weights have neither NaN nor infinity."""
        self.wait()
        for folder in reversed(self.list_folders()):
            with suppress(CorruptFileError):
                tensors, _ = read_checkpoint(folder)
                if not find_non_finite(tensors["model"]):
                    return folder
        return None

    def read_newest_valid(
        self,
        check: Callable[[CheckpointTensors, dict[str, Any]], None],
        warn: Callable[[str], None],
    ) -> tuple[CheckpointTensors, dict[str, Any]]:
        """Read the newest checkpoint that is intact and that `check` accepts.

        Others are renamed to `step-N.corrupt`, so that their step can be written again.
        """
        for rest in self.folder.glob(".step-*.part"):  # of a killed process
            shutil.rmtree(rest, ignore_errors=True)
        for folder in reversed(self.list_folders()):
            try:
                tensors, state = read_checkpoint(folder)
                with raise_mismatch_as_corrupt():
                    check(tensors, state)
                return tensors, state
            except CorruptFileError as error:
                warn(f"{folder.name} cannot be used ({error}): using the one before")
                renamed = folder.with_name(f"{folder.name}.corrupt")
                shutil.rmtree(renamed, ignore_errors=True)
                with suppress(FileNotFoundError):  # another process renamed it first
                    folder.rename(renamed)
        raise UserError(
            f"{self.run}: no checkpoint can be used (they are renamed to *.corrupt): "
            f"`workings resume {self.run}` again starts from the beginning"
        )

    def close(self) -> None:
        """Wait for the pending checkpoint, and stop the thread."""
        try:
            self.wait()
        finally:
            self._executor.shutdown()


def _remove(folder: Path) -> None:
    """Remove a checkpoint; a process that is killed meanwhile leaves no part of it by its name."""
    part = folder.with_name(f".{folder.name}.part")  # what `read_newest_valid` clears
    with suppress(OSError):
        folder.rename(part)
    shutil.rmtree(part, ignore_errors=True)


@contextmanager
def raise_mismatch_as_corrupt() -> Iterator[None]:
    """Turn errors in loading a checkpoint, except for lack of memory, into CorruptFileError."""
    try:
        yield
    except (
        AttributeError,
        LookupError,
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        if is_out_of_memory(error) or isinstance(error, CorruptFileError):
            raise
        raise CorruptFileError(
            f"it does not fit: {truncate(str(error) or type(error).__name__, 150)}"
        ) from None


def check_compatible(
    tensors: CheckpointTensors,
    model: Mapping[str, Tensor],
    weights: Sequence[Tensor],
    state_names: Sequence[frozenset[str]],
) -> None:
    """Check that a checkpoint has the tensors of a model, its optimizer and its average.

    `weights` are those of the optimizer, and `state_names` the names of each one's state tensors.
    """
    if _describe_tensors(tensors["model"]) != _describe_tensors(model):
        raise CorruptFileError("its weights are of another model")
    _check_optimizer(tensors.get("optimizer", {}), weights, state_names)
    average = tensors.get("average", {})
    for key, t in average.items():
        like = model.get(averaged_name(key))
        if like is None or like.shape != t.shape or like.dtype != t.dtype:
            raise CorruptFileError(f"the model has no weight for the average {truncate(key)}")
    if name := find_non_finite({**tensors["model"], **average}):
        raise CorruptFileError(f"{truncate(name)} has NaN or infinity")


def _describe_tensors(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (t.shape, t.dtype) for name, t in tensors.items()}


def _check_optimizer(
    tensors: Mapping[str, Tensor],
    weights: Sequence[Tensor],
    state_names: Sequence[frozenset[str]],
) -> None:
    names_by_weight: dict[int, set[str]] = {}
    for key, t in tensors.items():
        index, _, name = key.partition(".")
        like = weights[int(index)] if index.isdecimal() and len(index) < 9 else None
        if like is None or t.shape not in ((), like.shape) or not t.is_floating_point():
            raise CorruptFileError(f"the optimizer has no state {truncate(key)}")
        names_by_weight.setdefault(int(index), set()).add(name)
    for number, names in names_by_weight.items():
        if names != state_names[number]:
            raise CorruptFileError(f"the optimizer state of weight {number} is incomplete")


# -- flat tensors ----------------------------------------------------------------------------------


def flatten_state(state: Mapping[int, Mapping[str, Any]]) -> dict[str, Tensor]:
    """Return the tensors of numbered tables with flat names: `3.step` is `step` of number 3.

    >>> flatten_state({3: {"step": 7}})
    {'3.step': tensor(7)}
    """
    return {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def unflatten_optimizer_state(
    tensors: Mapping[str, Tensor], weights: list[Tensor]
) -> dict[int, dict[str, Tensor]]:
    """Return an optimizer's state from its flat tensors, each sharded like its weight."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        like = weights[int(index)]
        sharded = shard_like(value, like) if value.shape == like.shape else value
        state.setdefault(int(index), {})[name] = sharded
    return state


def select_rank_rows(
    tensors: Mapping[str, Tensor], process_group: ProcessGroup, rows: int
) -> dict[str, Tensor]:
    """Return this process's rows of a state that any number of processes saved.

    `rows` is the size of a batch: each process saved the rows of its share of one.
    """
    world_size = len({key.split(".", 1)[0] for key in tensors})
    result = {}
    for name in dict.fromkeys(key.split(".", 1)[1] for key in tensors):
        shares = [tensors[f"{rank}.{name}"] for rank in range(world_size)]
        counts = [len(range(rank, rows, world_size)) for rank in range(world_size)]
        for share, count in zip(shares, counts, strict=True):
            if len(share) < count:  # one row would be broadcast, and none may have any width
                raise ValueError(f"the state has {len(share)} rows of {count}")
        merged = shares[0].new_zeros(rows, *shares[0].shape[1:])
        for rank, share in enumerate(shares):
            merged[rank::world_size] = share[: counts[rank]]
        own = merged[process_group.rank :: process_group.world_size]
        result[name] = own if len(own) else merged[:1]  # a step without a share computes one row
    return result


def get_rng_state(device: torch.device) -> dict[str, Tensor]:
    """Return the states of this process's random number generators."""
    states = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_rng_state(states: Mapping[str, Tensor], process_group: ProcessGroup, seed: int) -> None:
    """Restore this process's random number generators; seed those of an additional process."""
    rank, device = process_group.rank, process_group.device
    if f"{rank}.torch" not in states:
        torch.manual_seed(seed * 1009 + rank)
        return
    torch.set_rng_state(states[f"{rank}.torch"])
    if f"{rank}.cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states[f"{rank}.cuda"], device)
    elif f"{rank}.mps" in states and device.type == "mps":
        torch.mps.set_rng_state(states[f"{rank}.mps"])
