"""The runs that the workbench was started with, by name; each is loaded by its first request.

Only the command line names folders. The page requests a run by name, and no name is a path.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Request

from workings.errors import UserError, did_you_mean, truncate
from workings.json_files import read_json
from workings.training.run_folder import MAX_SAMPLE_LENGTH, has_config, read_run_recipe
from workings.web.jobs import Deadline, JobExecutor

if TYPE_CHECKING:
    from workings.tasks.base import Task

Result = TypeVar("Result")


@dataclass(frozen=True)
class RunInfo:
    """A run as the page lists it.

    `kind`: caption, classify, language or translate. `samples`: texts of its validation data.
    """

    name: str
    title: str
    kind: str
    samples: tuple[str, ...]


@dataclass(frozen=True)
class RegisteredRun(RunInfo):
    """A run with its folder and plug-ins, which are never sent to the page."""

    folder: Path
    plugins: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {**asdict(self), "folder": str(self.folder)}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "RegisteredRun":
        """Return a run from what `to_dict` returned."""
        tuples = {key: tuple(table[key]) for key in ("samples", "plugins")}
        return cls(**{**table, **tuples, "folder": Path(table["folder"])})


class RunRegistry:
    """The registered runs by name, their loaded tasks and the threads that run them."""

    def __init__(
        self, folders: Sequence[str | Path] = (), registered: Sequence[RegisteredRun] = ()
    ) -> None:
        self.runs = {run.name: run for run in registered}
        for folder in folders:
            self._add(Path(folder))
        self._executor = JobExecutor()
        self._tasks: dict[str, tuple[float, Task]] = {}
        self._lock = Lock()

    def _add(self, folder: Path) -> None:
        recipe, folder = read_run_recipe(folder), folder.resolve()
        if any(run.folder == folder for run in self.runs.values()):
            return
        name, number = folder.name, 1
        while name in self.runs:
            number += 1
            name = f"{folder.name}-{number}"
        title, samples = recipe.title or name, _read_samples(folder)
        self.runs[name] = RegisteredRun(name, title, recipe.task, samples, folder, recipe.plugins)

    def get_run(self, name: str) -> RegisteredRun:
        """Return a run by name; raise a `UserError` if there is none, or if it was deleted."""
        run = self.runs.get(name)
        if run is None:
            hint = did_you_mean(name, self.runs) if self.runs else "start with workings serve RUN…"
            raise UserError(f"{truncate(name)}: no such run: {hint}")
        if not has_config(run.folder):
            raise UserError(f"{run.name}: the run was deleted: its folder has no config.toml")
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

    def warm_up(self) -> None:
        """Import torch in a model thread: the first request on a model waits seconds less."""
        if self.runs:
            self._executor.start(_import_inspector)

    async def submit(self, request: Request, job: Callable[[Deadline], Result]) -> Result:
        """Run a job in the model threads while other requests are served."""
        return await self._executor.run(request, job)


def _import_inspector() -> None:
    import_module("workings.web.inspector")
    # A collection of garbage would look through the 250,000 objects of torch, and nothing else runs
    # meanwhile: 0.2 s, on a busy machine more than one. These objects are no garbage.
    gc.freeze()


def _read_samples(folder: Path) -> tuple[str, ...]:
    """Return the texts that a run begins with; none before its training or of an older version."""
    try:
        samples = read_json(folder / "environment.json").get("samples")
    except (OSError, UserError):
        return ()
    texts = samples if isinstance(samples, list) else []
    return tuple(text[:MAX_SAMPLE_LENGTH] for text in texts[:2] if isinstance(text, str))


def _weights_mtime(folder: Path) -> float:
    """Return the modification time of a run's weights; 0.0 if the file is missing."""
    try:
        return (folder / "model.safetensors").stat().st_mtime
    except OSError:
        return 0.0
