"""Experiment trackers: the numbers of a training's log in TensorBoard, Weights & Biases or MLflow.

A tracker belongs to a run folder. It receives the records that are written to log.jsonl. If it is
new, it first gets those that are there already, so a resumed run and a finished one are complete.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from workings.config import to_table, to_toml
from workings.errors import UserError, did_you_mean, truncate
from workings.recipes import Recipe
from workings.recipes.base import flatten_table
from workings.storage import read_json, write_json
from workings.training.logging import Log, read_log
from workings.training.monitor import Record, extract_numbers, split_metric_name

PROJECT = "workings"  # of Weights & Biases, and the experiment of MLflow
IDS_FILE = "trackers.json"  # in a run folder: the ids by which the trackers know the run
_TRACKED_KINDS = ("step", "epoch", "test")  # of records; samples are texts
_MAX_PARAMS = 100  # per request to MLflow


class Tracker(Protocol):
    """Writes numbers to an experiment tracker."""

    is_new: bool  # has no records of this run yet

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step."""

    def close(self) -> None:
        """Write what is still in memory."""


class TensorBoardTracker:
    """Writes event files, which `tensorboard --logdir` reads."""

    def __init__(self, run: Path, recipe: Recipe, first_step: int, out: Path | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = out or run / "tensorboard"
        self.is_new = first_step == 0 or not any(folder.glob("events.*"))
        # Events from this step on are of a training that was stopped after its last checkpoint.
        purge_step = 0 if self.is_new else first_step + 1
        self._writer = SummaryWriter(str(folder), purge_step=purge_step)
        if self.is_new:
            recipe_text = "\n".join(f"    {line}" for line in to_toml(to_table(recipe)).split("\n"))
            self._writer.add_text("recipe", recipe_text)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """Logs to Weights & Biases; its own environment variables say where (WANDB_MODE, …)."""

    def __init__(self, run: Path, recipe: Recipe, first_step: int) -> None:
        wandb: Any = import_module("wandb")
        known = _read_id(run, "wandb") if first_step else None
        self.is_new = known is None
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.resolve().name,
            dir=str(run),
            config=to_table(recipe),
            id=known,
            resume=None if self.is_new else "allow",
        )
        _write_id(run, "wandb", self._run.id)
        # Its own step counter only grows, and would drop what a resumed run writes again.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    def close(self) -> None:
        self._run.finish()


class MLflowTracker:
    """Logs to MLflow; its own environment variables say where (MLFLOW_TRACKING_URI, …)."""

    def __init__(self, run: Path, recipe: Recipe, first_step: int) -> None:
        mlflow: Any = import_module("mlflow")
        self._entities: Any = import_module("mlflow.entities")
        self._client = mlflow.MlflowClient()
        known = _read_id(run, "mlflow") if first_step else None
        self.is_new = known is None
        if known is not None:
            self._id = known
            self._client.update_run(known, status="RUNNING")
            return
        experiment_id = self._find_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT))
        name = run.resolve().name
        self._id = self._client.create_run(experiment_id, run_name=name).info.run_id
        _write_id(run, "mlflow", self._id)
        settings = flatten_table(to_table(recipe))
        params = [self._entities.Param(key, str(value)) for key, value in settings]
        for start in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + _MAX_PARAMS])

    def _find_experiment(self, name: str) -> Any:
        experiment = self._client.get_experiment_by_name(name)
        return (
            self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        now = round(time.time() * 1000)
        metrics = [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        self._client.set_terminated(self._id)


TRACKERS: dict[str, Callable[[Path, Recipe, int], Tracker]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MLflowTracker,
}


def check_trackers(names: Sequence[str]) -> None:
    """Raise an error if there is no such tracker, or its package is missing."""
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"{name}: no such tracker: {did_you_mean(name, TRACKERS)}")
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def track(
    log: Log, names: Sequence[str], run: Path, recipe: Recipe, first_step: int
) -> Iterator[None]:
    """Send the records of a log to trackers, from `first_step` on.

    A tracker that fails is dropped with a warning, and the training continues without it.
    """
    senders = [_Sender(name, log.warn) for name in names]
    for sender in senders:
        sender.open(run, recipe, first_step)
        log.listeners.append(sender.send)
    try:
        yield
    finally:
        for sender in senders:
            sender.close()


class _Sender:
    """Sends records to one tracker until it fails."""

    def __init__(self, name: str, warn: Callable[[str], None]) -> None:
        self._name, self._warn = name, warn
        self._tracker: Tracker | None = None
        self._step = 0

    def open(self, run: Path, recipe: Recipe, first_step: int) -> None:
        with self._drop_on_error():
            self._tracker = TRACKERS[self._name](run, recipe, first_step)
            if self._tracker.is_new:
                for record in read_log(run / "log.jsonl"):
                    self.send(record)
        self._step = first_step

    def send(self, record: Record) -> None:
        if self._tracker is None:
            return
        with self._drop_on_error():
            self._step, values = select_values(record, self._step)
            if values:
                self._tracker.log(self._step, values)

    def close(self) -> None:
        if self._tracker is not None:
            with self._drop_on_error():
                self._tracker.close()

    @contextmanager
    def _drop_on_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each package has its own
            self._tracker = None
            self._warn(f"--log {self._name} ends here: {_describe(error)}; the training continues")


def export_log(run: Path, recipe: Recipe, name: str, out: Path | None = None) -> int:
    """Send the log of a run to a tracker; return the number of records.

    `out` is the folder of TensorBoard's event files (default: `tensorboard` in the run).
    """
    if out is not None and name != "tensorboard":
        raise UserError(
            f"--out is for tensorboard: {name} has its own settings for where it writes"
        )
    check_trackers([name])
    records = read_log(run / "log.jsonl")
    step, count = 0, 0
    try:
        tracker = TensorBoardTracker(run, recipe, 0, out) if out else TRACKERS[name](run, recipe, 0)
        for record in records:
            step, values = select_values(record, step)
            if values:
                tracker.log(step, values)
                count += 1
        tracker.close()
    except (UserError, ModuleNotFoundError):
        raise
    except Exception as error:  # each package has its own
        raise UserError(f"{name}: {_describe(error)}") from error
    return count


def select_values(record: Record, last_step: int) -> tuple[int, dict[str, float]]:
    """Return the step and the numbers of a record; metrics are grouped by their split.

    The record of the test has no step: it follows the last one.

    >>> select_values({"kind": "epoch", "epoch": 1, "step": 9, "train_loss": 0.5, "seconds": 2}, 0)
    (9, {'epoch': 1.0, 'train/loss': 0.5, 'seconds': 2.0})
    """
    if record["kind"] not in _TRACKED_KINDS:
        return last_step, {}
    numbers = extract_numbers(record)
    step = int(numbers.pop("step", last_step))
    numbers.pop("steps", None)
    return step, {"/".join(filter(None, split_metric_name(k))) or k: v for k, v in numbers.items()}


def _describe(error: Exception) -> str:
    return truncate(f"{type(error).__name__}: {error}", 200)


def _read_id(run: Path, name: str) -> str | None:
    path = run / IDS_FILE
    tracker_id = read_json(path).get(name) if path.exists() else None
    return tracker_id if isinstance(tracker_id, str) else None


def _write_id(run: Path, name: str, tracker_id: str) -> None:
    path = run / IDS_FILE
    write_json(path, {**(read_json(path) if path.exists() else {}), name: tracker_id})
