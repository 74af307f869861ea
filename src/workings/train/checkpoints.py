"""Checkpoints of a run: written while training goes on, the last few and the best kept."""

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

from workings.errors import UserError, brief
from workings.storage import Damaged, read_checkpoint, write_checkpoint
from workings.tasks.memory import is_memory
from workings.train.faults import system_told

Tensors = dict[str, dict[str, Tensor]]


class Checkpoints:
    """The folder `checkpoints/` of a run.

    `save` copies the tensors and returns; a thread writes them. One is written at a time, and what
    went wrong with it is told by the next `save`, or by `wait`.
    """

    def __init__(self, run: Path, keep: int) -> None:
        self.run, self.folder, self.keep = run, run / "checkpoints", keep
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._writing: Future[None] | None = None
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
        self._writing = self._writer.submit(self._write, step, copies, dict(state), best_step)

    def wait(self) -> None:
        """Wait until what is being written is there, or say why it is not."""
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except OSError as error:
            why = f"the checkpoint could not be written: {system_told(error, self.run)}"
            raise UserError(f"{why}; {self._whats_left()}") from None

    def _write(self, step: int, tensors: Tensors, state: dict[str, Any], best_step: int) -> None:
        folder = self.folder / f"step-{step}"
        if not self.run.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.run))
        if not folder.exists():  # else it was written before, by a run that was stopped right here
            write_checkpoint(folder, tensors, state)
        others = [old for old in self.all() if old.name != f"step-{best_step}"]
        for old in others[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def _whats_left(self) -> str:
        whole = self.all() if self.folder.is_dir() else []
        if not whole:
            return "there is none before it"
        return f"the last whole one is {whole[-1].name}"

    def all(self) -> list[Path]:
        """The checkpoints there are, the oldest first."""
        found = [p for p in self.folder.glob("step-*") if p.name[5:].isascii()]
        return sorted((p for p in found if p.name[5:].isdigit()), key=lambda p: int(p.name[5:]))

    def last_good(self) -> Path | None:
        """The newest checkpoint whose weights are numbers; what is being written is waited for."""
        self.wait()
        for folder in reversed(self.all()):
            with suppress(Damaged):
                tensors, _ = read_checkpoint(folder)
                if not _strange_numbers(tensors["model"]):
                    return folder
        return None

    def newest(
        self, fits: Callable[[Tensors, dict[str, Any]], None], say: Callable[[str], None]
    ) -> tuple[Tensors, dict[str, Any]]:
        """Read the newest checkpoint that can be trusted and that `fits` does not refuse.

        One that cannot is put aside under another name, so that its step can be written again.
        """
        for rest in self.folder.glob(".step-*.part"):  # of a process that was killed
            shutil.rmtree(rest, ignore_errors=True)
        for folder in reversed(self.all()):
            try:
                tensors, state = read_checkpoint(folder)
                with misfits_told():
                    fits(tensors, state)
                return tensors, state
            except Damaged as error:
                say(f"{folder.name} cannot be used ({error}): going on from the one before")
                aside = folder.with_name(f"{folder.name}.damaged")
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
            self._writer.shutdown()


@contextmanager
def misfits_told() -> Iterator[None]:
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
        if is_memory(error) or isinstance(error, Damaged):
            raise
        raise Damaged(
            f"it does not fit: {brief(str(error) or type(error).__name__, 150)}"
        ) from None


def check_fits(tensors: Tensors, model: Mapping[str, Tensor], weights: Sequence[Tensor]) -> None:
    """See that tensors are those of this model, and of an optimiser of these weights of it."""
    if {n: (t.shape, t.dtype) for n, t in tensors["model"].items()} != {
        n: (t.shape, t.dtype) for n, t in model.items()
    }:
        raise Damaged("it is of another model")
    for key, t in tensors.get("optimiser", {}).items():
        index = key.partition(".")[0]
        like = weights[int(index)] if index.isdecimal() and len(index) < 9 else None
        if like is None or t.shape not in ((), like.shape) or not t.is_floating_point():
            raise Damaged(f"the optimiser has no room for {brief(key)}")
    for key, t in tensors.get("average", {}).items():
        name = key.removeprefix("mean.") if key.startswith("mean.") else key.split(".", 2)[-1]
        like = model.get(name)  # else last.K.NAME
        if like is None or like.shape != t.shape or like.dtype != t.dtype:
            raise Damaged(f"the average has no room for {brief(key)}")
    if strange := _strange_numbers({**tensors["model"], **tensors.get("average", {})}):
        raise Damaged(f"{brief(strange)} holds what is no number")


def _strange_numbers(tensors: Mapping[str, Tensor]) -> str | None:
    """Name a tensor that holds an infinity or what is no number."""
    for name, t in tensors.items():
        if t.is_floating_point() and not bool(torch.isfinite(t).all()):
            return name
    return None
