"""The runs that the workbench was started with: by name, each loaded when it is asked for.

Only the command line names folders. A page asks for a run by its name, and no name is a path.
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
class RegisteredRun:
    """A run by its name; `kind`: caption, classify, language or translate."""

    name: str
    title: str
    kind: str
    folder: Path


class RunRegistry:
    """Runs by name. Without any, nothing here imports torch."""

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
        name, again = folder.name, 1
        while name in self.runs:
            again += 1
            name = f"{folder.name}-{again}"
        self.runs[name] = RegisteredRun(name, recipe.title or name, recipe.task, folder)

    def get_run(self, name: str) -> RegisteredRun:
        """Find a run by its name."""
        found = self.runs.get(name)
        if found is None:
            known = did_you_mean(name, self.runs) if self.runs else "workings serve RUN… shows runs"
            raise UserError(f"{truncate(name)}: no such run: {known}")
        return found

    def redact_paths(self, line: str) -> str:
        """Write a line for a page, which has no need to know where the runs lie."""
        for run in self.runs.values():
            line = line.replace(str(run.folder), run.name)
        return line

    def load_task(self, name: str) -> "Task":
        """Load a run, once for each time that its weights are written: it may still be training.

        Only from within a job that was given to `ask`.
        """
        run = self.get_run(name)
        now = _weights_mtime(run.folder)
        if self._is_stale(name, now):
            from workings.training.runs import load

            with self._lock:
                if self._is_stale(name, now):
                    task = load(run.folder)
                    task.model.eval()
                    self._tasks[name] = now, task
        return self._tasks[name][1]

    def _is_stale(self, name: str, modified: float) -> bool:
        return name not in self._tasks or modified not in (0.0, self._tasks[name][0])

    async def submit(self, request: Request, job: Callable[[Deadline], Result]) -> Result:
        """Have something done with models, one job at a time, while other requests go on."""
        return await self._executor.run(request, job)


def _weights_mtime(folder: Path) -> float:
    """When a run's weights were last written; 0: they are not there, or no longer."""
    try:
        return (folder / "model.safetensors").stat().st_mtime
    except OSError:
        return 0.0
