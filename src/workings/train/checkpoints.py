"""Checkpoints of a run: written while training goes on, the last few and the best kept."""

import errno
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from workings.errors import UserError
from workings.storage import read_checkpoint, write_checkpoint

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
            raise UserError(f"{self._why(error)}; {self._whats_left()}") from None

    def _write(self, step: int, tensors: Tensors, state: dict[str, Any], best_step: int) -> None:
        folder = self.folder / f"step-{step}"
        if not self.run.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the run's folder has vanished", str(self.run))
        if not folder.exists():  # else it was written before, by a run that was stopped right here
            write_checkpoint(folder, tensors, state)
        others = [old for old in self.all() if old.name != f"step-{best_step}"]
        for old in others[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def _why(self, error: OSError) -> str:
        place = error.filename or self.folder
        return f"the checkpoint could not be written: {place}: {error.strerror or error}"

    def _whats_left(self) -> str:
        whole = self.all() if self.folder.is_dir() else []
        if not whole:
            return "there is none before it"
        return f"the last whole one is {whole[-1].name}: workings resume {self.run}"

    def all(self) -> list[Path]:
        """The checkpoints there are, the oldest first."""
        found = [p for p in self.folder.glob("step-*") if p.name.removeprefix("step-").isdigit()]
        return sorted(found, key=lambda p: int(p.name.removeprefix("step-")))

    def newest(
        self, fits: Callable[[Tensors, dict[str, Any]], None], say: Callable[[str], None]
    ) -> tuple[Tensors, dict[str, Any]]:
        """Read the newest checkpoint that can be trusted and that `fits` does not refuse.

        One that cannot is put aside under another name, so that its step can be written again.
        """
        for folder in reversed(self.all()):
            try:
                found = read_checkpoint(folder)
                fits(*found)
                return found
            except (UserError, KeyError, ValueError, TypeError, RuntimeError, OSError) as error:
                said = str(error).splitlines()[0] if str(error) else type(error).__name__
                say(f"{folder.name} cannot be used ({said}): going on from the one before")
                aside = folder.with_name(f"{folder.name}.damaged")
                shutil.rmtree(aside, ignore_errors=True)
                folder.rename(aside)
        raise UserError(f"{self.run}: no checkpoint to go on from")

    def close(self) -> None:
        """Wait for what is being written, and stop the thread."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()
