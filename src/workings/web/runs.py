"""The runs that the workbench was started with, by name; each is loaded by its first request.

Only the command line names folders. The page requests a run by name, and no name is a path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request

from workings.errors import UserError, did_you_mean, truncate
from workings.web.jobs import Deadline, JobExecutor

if TYPE_CHECKING:
    from workings.tasks.base import Task

Result = TypeVar("Result")


@dataclass(frozen=True)
class RunInfo:
    """A run as the page lists it; `kind`: caption, classify, language or translate."""

    name: str
    title: str
    kind: str


@dataclass(frozen=True)
class RegisteredRun(RunInfo):
    """A run with its folder, which is never sent to the page."""

    folder: Path


class RunRegistry:
    """The registered runs by name, their loaded tasks and the threads that run them."""

    def __init__(self, folders: Sequence[str | Path] = ()) -> None:
        self.runs: dict[str, RegisteredRun] = {}
        for folder in folders:
            self._add(Path(folder))
        self._executor = JobExecutor()
        self._tasks: dict[str, tuple[float, Task]] = {}
        self._lock = Lock()

    def _add(self, folder: Path) -> None:
        from workings.training.runs import read_run_recipe

        recipe, folder = read_run_recipe(folder), folder.resolve()
        if any(run.folder == folder for run in self.runs.values()):
            return
        name, number = folder.name, 1
        while name in self.runs:
            number += 1
            name = f"{folder.name}-{number}"
        self.runs[name] = RegisteredRun(name, recipe.title or name, recipe.task, folder)

    def get_run(self, name: str) -> RegisteredRun:
        """Return a run by name; raise a `UserError` if there is none."""
        run = self.runs.get(name)
        if run is None:
            hint = did_you_mean(name, self.runs) if self.runs else "start with workings serve RUN…"
            raise UserError(f"{truncate(name)}: no such run: {hint}")
        return run

    def redact_paths(self, line: str) -> str:
        """Return a message with the folders of runs replaced by their names."""
        for run in self.runs.values():
            line = line.replace(str(run.folder), run.name)
        return line

    def load_task(self, name: str) -> "Task":
        """Return the task of a run; load it again if its weights have been written since.

        Call this only from a job given to `submit`.
        """
        run = self.get_run(name)
        modified = _weights_mtime(run.folder)
        if self._is_stale(name, modified):
            from workings.training.runs import load

            with self._lock:
                if self._is_stale(name, modified):
                    task = load(run.folder)
                    task.model.eval()
                    self._tasks[name] = modified, task
        return self._tasks[name][1]

    def _is_stale(self, name: str, modified: float) -> bool:
        return name not in self._tasks or modified not in (0.0, self._tasks[name][0])

    async def submit(self, request: Request, job: Callable[[Deadline], Result]) -> Result:
        """Run a job in the model threads while other requests are served."""
        return await self._executor.run(request, job)


def _weights_mtime(folder: Path) -> float:
    """Return the modification time of a run's weights; 0.0 if the file is missing."""
    try:
        return (folder / "model.safetensors").stat().st_mtime
    except OSError:
        return 0.0
