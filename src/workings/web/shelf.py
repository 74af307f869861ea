"""The runs that the workbench was started with: by name, each loaded when it is asked for.

Only the command line names folders. A page asks for a run by its name, and no name is a path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request

from workings.errors import UserError, brief, near
from workings.web.worker import Turn, Worker

if TYPE_CHECKING:
    from workings.tasks.task import Task

Result = TypeVar("Result")


@dataclass(frozen=True)
class Run:
    """A run by its name; `kind`: caption, classify, language or translate."""

    name: str
    title: str
    kind: str
    folder: Path


class Shelf:
    """Runs by name. Without any, nothing here imports torch."""

    def __init__(self, folders: Sequence[str | Path] = ()) -> None:
        self.runs: dict[str, Run] = {}
        for folder in folders:
            self._add(Path(folder))
        self._worker = Worker()
        self._loaded: dict[str, tuple[float, Task]] = {}
        self._lock = Lock()

    def _add(self, folder: Path) -> None:
        from workings.train.runs import recipe_of

        recipe, folder = recipe_of(folder), folder.resolve()
        if any(run.folder == folder for run in self.runs.values()):
            return
        name, again = folder.name, 1
        while name in self.runs:
            again += 1
            name = f"{folder.name}-{again}"
        self.runs[name] = Run(name, recipe.title or name, recipe.task, folder)

    def run(self, name: str) -> Run:
        """Find a run by its name."""
        found = self.runs.get(name)
        if found is None:
            known = near(name, self.runs) if self.runs else "workings serve RUN… shows runs"
            raise UserError(f"{brief(name)}: no such run: {known}")
        return found

    def without_places(self, line: str) -> str:
        """Write a line for a page, which has no need to know where the runs lie."""
        for run in self.runs.values():
            line = line.replace(str(run.folder), run.name)
        return line

    def task(self, name: str) -> "Task":
        """Load a run, once for each time that its weights are written: it may still be training.

        Only from within a job that was given to `ask`.
        """
        run = self.run(name)
        now = _written(run.folder)
        if self._is_old(name, now):
            from workings.train.runs import load

            with self._lock:
                if self._is_old(name, now):
                    task = load(run.folder)
                    task.model.eval()
                    self._loaded[name] = now, task
        return self._loaded[name][1]

    def _is_old(self, name: str, now: float) -> bool:
        return name not in self._loaded or now not in (0.0, self._loaded[name][0])

    async def ask(self, request: Request, job: Callable[[Turn], Result]) -> Result:
        """Have something done with models, one job at a time, while other requests go on."""
        return await self._worker.do(request, job)


def _written(folder: Path) -> float:
    """When a run's weights were last written; 0: they are not there, or no longer."""
    try:
        return (folder / "model.safetensors").stat().st_mtime
    except OSError:
        return 0.0
