"""What a checkpoint holds beside the model, as flat named tensors, and back."""

import errno
import os
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
from workings.training.errors import describe_os_error


def flatten_state(state: Mapping[int, Mapping[str, Any]]) -> dict[str, Tensor]:
    """Name the tensors of numbered tables: `3.step` is number 3's `step`.

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
    """Turn an optimiser's flat state back: each tensor where the weights are that it is about."""
    found: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        like = weights[int(index)]
        fits = shard_like(value, like) if value.shape == like.shape else value
        found.setdefault(int(index), {})[name] = fits
    return found


def select_rank_rows(
    tensors: Mapping[str, Tensor], process_group: ProcessGroup, rows: int
) -> dict[str, Tensor]:
    """This process's rows of what a crew, of whatever size, had put into a checkpoint.

    There are as many as a batch has; each process had its share of them, as of a batch.
    """
    size = len({key.split(".", 1)[0] for key in tensors})
    found = {}
    for name in dict.fromkeys(key.split(".", 1)[1] for key in tensors):
        parts = [tensors[f"{rank}.{name}"] for rank in range(size)]
        wanted = [len(range(rank, rows, size)) for rank in range(size)]
        for part, count in zip(parts, wanted, strict=True):
            if len(part) < count:  # one would be taken for all, and none may be of any width
                raise ValueError(f"{len(part)} rows of {count} are carried over")
        whole = parts[0].new_zeros(rows, *parts[0].shape[1:])
        for rank, part in enumerate(parts):
            whole[rank::size] = part[: wanted[rank]]
        share = whole[process_group.rank :: process_group.world_size]
        found[name] = share if len(share) else whole[:1]  # as in a step without a share
    return found


def get_rng_state(device: torch.device) -> dict[str, Tensor]:
    """Where this process is in its random numbers."""
    states = {"torch": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_rng_state(states: Mapping[str, Tensor], process_group: ProcessGroup, seed: int) -> None:
    """Go on with this process's random numbers; one that was not there before gets its own."""
    own = f"{process_group.rank}.torch"
    if own not in states:
        torch.manual_seed(seed * 1009 + process_group.rank)
        return
    torch.set_rng_state(states[own])
    if f"{process_group.rank}.cuda" in states and process_group.device.type == "cuda":
        torch.cuda.set_rng_state(states[f"{process_group.rank}.cuda"], process_group.device)
    elif f"{process_group.rank}.mps" in states and process_group.device.type == "mps":
        torch.mps.set_rng_state(states[f"{process_group.rank}.mps"])


CheckpointTensors = dict[str, dict[str, Tensor]]


class Checkpoints:
    """The folder `checkpoints/` of a run.

    `save` copies the tensors and returns; a thread writes them. One is written at a time, and what
    went wrong with it is told by the next `save`, or by `wait`.
    """

    def __init__(self, run: Path, keep: int) -> None:
        self.run, self.folder, self.keep = run, run / "checkpoints", keep
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._pending: Future[None] | None = None
        if self.folder.is_symlink():
            raise UserError(f"{self.folder}: a link, which might lead anywhere: a folder is needed")

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        best_step: int,
    ) -> None:
        """Have a checkpoint written, and the oldest dropped beyond those to keep and the best."""
        self.wait()
        copies = {
            name: {key: t.detach().to("cpu", copy=True) for key, t in named.items()}
            for name, named in tensors.items()
        }
        self._pending = self._executor.submit(self._write, step, copies, dict(state), best_step)

    def wait(self) -> None:
        """Wait until what is being written is there, or say why it is not."""
        writing, self._pending = self._pending, None
        if writing is None:
            return
        try:
            writing.result()
        except OSError as error:
            why = f"the checkpoint could not be written: {describe_os_error(error, self.run)}"
            raise UserError(f"{why}; {self._describe_remaining()}") from None

    def _write(
        self, step: int, tensors: CheckpointTensors, state: dict[str, Any], best_step: int
    ) -> None:
        folder = self.folder / f"step-{step}"
        if not self.run.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.run))
        if not folder.exists():  # else it was written before, by a run that was stopped right here
            write_checkpoint(folder, tensors, state)
        others = [old for old in self.list_folders() if old.name != f"step-{best_step}"]
        for old in others[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def _describe_remaining(self) -> str:
        whole = self.list_folders() if self.folder.is_dir() else []
        if not whole:
            return "there is none before it"
        return f"the last whole one is {whole[-1].name}"

    def list_folders(self) -> list[Path]:
        """The checkpoints there are, the oldest first."""
        found = [p for p in self.folder.glob("step-*") if p.name[5:].isascii()]
        return sorted((p for p in found if p.name[5:].isdigit()), key=lambda p: int(p.name[5:]))

    def find_last_finite(self) -> Path | None:
        """The newest checkpoint whose weights are numbers; what is being written is waited for."""
        self.wait()
        for folder in reversed(self.list_folders()):
            with suppress(CorruptFileError):
                tensors, _ = read_checkpoint(folder)
                if not _find_non_finite(tensors["model"]):
                    return folder
        return None

    def read_newest_valid(
        self,
        check: Callable[[CheckpointTensors, dict[str, Any]], None],
        warn: Callable[[str], None],
    ) -> tuple[CheckpointTensors, dict[str, Any]]:
        """Read the newest checkpoint that can be trusted and that `fits` does not refuse.

        One that cannot is put aside under another name, so that its step can be written again.
        """
        for rest in self.folder.glob(".step-*.part"):  # of a process that was killed
            shutil.rmtree(rest, ignore_errors=True)
        for folder in reversed(self.list_folders()):
            try:
                tensors, state = read_checkpoint(folder)
                with raise_mismatch_as_corrupt():
                    check(tensors, state)
                return tensors, state
            except CorruptFileError as error:
                warn(f"{folder.name} cannot be used ({error}): going on from the one before")
                aside = folder.with_name(f"{folder.name}.corrupt")
                shutil.rmtree(aside, ignore_errors=True)
                with suppress(FileNotFoundError):  # another process of the crew was faster
                    folder.rename(aside)
        raise UserError(
            f"{self.run}: no checkpoint can be used (they are put aside): "
            f"`workings resume {self.run}` once more begins from the beginning"
        )

    def close(self) -> None:
        """Wait for what is being written, and stop the thread."""
        try:
            self.wait()
        finally:
            self._executor.shutdown()


@contextmanager
def raise_mismatch_as_corrupt() -> Iterator[None]:
    """Take whatever goes wrong in taking a checkpoint up for its own fault; not lack of memory."""
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
    tensors: CheckpointTensors, model: Mapping[str, Tensor], weights: Sequence[Tensor]
) -> None:
    """See that tensors are those of this model, and of an optimiser of these weights of it."""
    if {n: (t.shape, t.dtype) for n, t in tensors["model"].items()} != {
        n: (t.shape, t.dtype) for n, t in model.items()
    }:
        raise CorruptFileError("it is of another model")
    for key, t in tensors.get("optimizer", {}).items():
        index = key.partition(".")[0]
        like = weights[int(index)] if index.isdecimal() and len(index) < 9 else None
        if like is None or t.shape not in ((), like.shape) or not t.is_floating_point():
            raise CorruptFileError(f"the optimiser has no room for {truncate(key)}")
    for key, t in tensors.get("average", {}).items():
        name = key.removeprefix("ema.") if key.startswith("ema.") else key.split(".", 2)[-1]
        like = model.get(name)  # else last.K.NAME
        if like is None or like.shape != t.shape or like.dtype != t.dtype:
            raise CorruptFileError(f"the average has no room for {truncate(key)}")
    if strange := _find_non_finite({**tensors["model"], **tensors.get("average", {})}):
        raise CorruptFileError(f"{truncate(strange)} holds what is no number")


def _find_non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name a tensor that holds an infinity or what is no number."""
    for name, t in tensors.items():
        if t.is_floating_point() and not bool(torch.isfinite(t).all()):
            return name
    return None
