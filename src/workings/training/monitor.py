"""A log that is read while somebody writes it: each time, only what is new."""

import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

from workings.errors import UserError
from workings.io import open_regular_file, read_limited
from workings.render.training_report import SPLIT_NAMES
from workings.training.logging import parse_records

MAX_TAIL_BYTES = 64 * 2**20  # bytes that are kept up with
_OVERLAP_BYTES = 512  # bytes before the place that was read to, to know the file again by


class LogTail:
    """The records of a log, as far as they are written.

    A resumed training cuts its log back and writes the end anew: what was read then no longer
    stands before the place that was read to, and everything is read again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offset, self._overlap = 0, b""
        self._records: list[dict[str, Any]] = []
        self._version = 0

    def read(self) -> tuple[int, list[dict[str, Any]]]:
        """Catch up: how often there was something new so far, and all records.

        A log that is gone has none. A line that is not whole yet waits for its end.
        """
        with self._lock:
            try:
                with open_regular_file(self._path) as file:
                    self._read_new(file)
            except FileNotFoundError:
                self._reset()
            return self._version, list(self._records)

    def _read_new(self, file: Any) -> None:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_TAIL_BYTES:
            raise UserError(
                f"{self._path.name}: larger than {MAX_TAIL_BYTES:,} bytes: too long to follow"
            )
        file.seek(self._offset - len(self._overlap))
        if file.read(len(self._overlap)) != self._overlap:
            self._reset()
            file.seek(0)
        new = read_limited(file, MAX_TAIL_BYTES, self._path.name)
        whole = new[: new.rfind(b"\n") + 1]
        if whole:
            self._offset += len(whole)
            self._overlap = (self._overlap + whole)[-_OVERLAP_BYTES:]
            self._records += parse_records(whole)
            self._version += 1

    def _reset(self) -> None:
        if self._offset:
            self._offset, self._overlap, self._records = 0, b"", []
            self._version += 1


Record: TypeAlias = Mapping[str, Any]
TrainingState: TypeAlias = Literal["waiting", "training", "quiet", "finished"]

BATCH_UNITS = ("examples", "tokens")
_LOWER_IS_BETTER = ("loss", "perplexity", "bits")  # are better
_STALL_SECONDS, _STALL_FACTOR = (
    60.0,
    4.0,
)  # seconds, and how many times the longest pause: then it has stopped
_MAX_COUNT = 2.0**53  # epochs, steps, examples: beyond, a number is none of ours


@dataclass(frozen=True)
class BestMetric:
    """A measure now, and at its best."""

    key: str
    latest: float
    epoch: int
    best: float
    best_epoch: int


@dataclass(frozen=True)
class TrainingStatus:
    """What a log says of a training of so many epochs."""

    records: Sequence[Record]
    epochs: int

    @cached_property
    def curves(self) -> list[dict[str, float]]:
        """The epochs, with those of their numbers that can be drawn."""
        return self._numbers_of_kind("epoch")

    @cached_property
    def step_records(self) -> list[dict[str, float]]:
        """Where it was on the way through its epochs."""
        return [
            mark
            for mark in self._numbers_of_kind("step")
            if mark["step"] > 0 and mark.get("steps", 0) > 0
        ]

    def _numbers_of_kind(self, kind: str) -> list[dict[str, float]]:
        found = (extract_numbers(record) for record in self.records if record["kind"] == kind)
        return [record for record in found if "epoch" in record and "step" in record]

    @property
    def is_finished(self) -> bool:
        """Say whether it came to its end: the last thing that it does is a test."""
        return any(record["kind"] == "test" for record in self.records)

    def state(self, idle_seconds: float) -> TrainingState:
        """Say what it is doing, when its log has been silent for so many seconds."""
        if self.is_finished:
            return "finished"
        times = [0.0, *(r.get("seconds", 0.0) for r in self._timeline)]
        pauses = [b - a for a, b in pairwise(times)]
        pauses += [r.get("evaluation_seconds", 0.0) for r in self.curves]
        if idle_seconds > max(_STALL_SECONDS, _STALL_FACTOR * max(pauses, default=0.0)):
            return "quiet"
        return "training" if self._timeline else "waiting"

    @cached_property
    def _timeline(self) -> list[dict[str, float]]:
        """Everything that says when and where, in order."""
        return sorted((*self.step_records, *self.curves), key=lambda record: record["step"])

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return int(self.curves[-1]["epoch"]) if self.curves else 0

    @property
    def step(self) -> int:
        """How many steps are known to be done."""
        return int(self._timeline[-1]["step"]) if self._timeline else 0

    @property
    def steps(self) -> int:
        """How many there are to be, if all epochs are trained; 0: not known yet."""
        if self.step_records:
            return int(self.step_records[-1]["steps"])
        return round(self.step / self.epoch * self.epochs) if self.epoch else 0

    @property
    def fraction_done(self) -> float:
        """How much of it is done, from 0 to 1."""
        return 1.0 if self.is_finished else min(self.step / self.steps, 1.0) if self.steps else 0.0

    @property
    def seconds(self) -> float:
        """How long it has trained, without measuring."""
        return self._timeline[-1].get("seconds", 0.0) if self._timeline else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How many seconds it should take still, measuring and all."""
        if not self.step or self.is_finished:
            return None
        measuring = [record.get("evaluation_seconds", 0.0) for record in self.curves]
        mean = sum(measuring) / len(measuring) if measuring else 0.0
        training = (self.steps - self.step) * self.seconds / self.step
        return max(training + mean * (self.epochs - self.epoch), 0.0)

    @property
    def speed(self) -> tuple[float, str] | None:
        """How many examples or tokens a second lately; of a log that does not say, steps."""
        if self.step_records:
            unit = next((unit for unit in BATCH_UNITS if unit in self.step_records[-1]), "")
            same = [
                m for m in self.step_records[-2:] if m["epoch"] == self.step_records[-1]["epoch"]
            ]
            done, took = same[-1].get(unit, 0.0), same[-1].get("seconds", 0.0)
            if len(same) > 1:
                done, took = done - same[0].get(unit, 0.0), took - same[0].get("seconds", 0.0)
                if unit and done > 0 and took > 0:
                    return done / took, unit
        return (self.step / self.seconds, "steps") if self.step and self.seconds > 0 else None

    def list_metrics(self) -> list[str]:
        """Name what was measured, whatever the part of the data: accuracy, loss, …"""
        keys = (key for record in (*self.curves, *self.step_records) for key in record)
        found = {split_metric_name(key)[1] for key in keys}
        return sorted(found - {""})

    def train_curve(self, metric: str) -> list[tuple[float, float]]:
        """What training gave between a mark and the next, by epoch and parts of one.

        A mark has the mean since its epoch began.
        """
        points, epoch, seen, total = [], 0.0, 0.0, 0.0
        for mark in self.step_records:
            mean = mark.get(f"train_{metric}")
            count = next((mark[unit] for unit in BATCH_UNITS if unit in mark), 0.0)
            if mark["epoch"] != epoch:
                epoch, seen, total = mark["epoch"], 0.0, 0.0
            if mean is None or count <= seen:
                continue
            place = mark["step"] * self.epochs / mark["steps"]
            points.append((place, (mean * count - total) / (count - seen)))
            seen, total = count, mean * count
        return points

    def best_metrics(self) -> list[BestMetric]:
        """Each measure as it is now, and as it was at its best."""
        found = []
        for key in dict.fromkeys(key for record in self.curves for key in record):
            if not split_metric_name(key)[1]:
                continue
            values = [
                (r[key], int(r["epoch"]))
                for r in self.curves
                if math.isfinite(r.get(key, math.nan))
            ]
            if values:
                choose = min if any(word in key for word in _LOWER_IS_BETTER) else max
                best = choose(values, key=lambda pair: pair[0])
                found.append(BestMetric(key, *values[-1], *best))
        return found


def split_metric_name(key: str) -> tuple[str, str]:
    """Take the name of a measurement apart; of anything else, nothing.

    >>> split_metric_name("validation_accuracy"), split_metric_name("seconds")
    (('validation', 'accuracy'), ('', ''))
    """
    part, _, what = key.partition("_")
    return (part, what) if part in SPLIT_NAMES else ("", "")


def extract_numbers(record: Record) -> dict[str, float]:
    """Keep the numbers of a record under names as we give them.

    A measurement may be anything; what counts or tells the time is neither negative nor endless.
    """
    return dict(_iter_numbers(record.items()))


def _iter_numbers(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, float]]:
    for key, value in items:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and key.isascii() and key.isidentifier():
            try:
                written = float(value)
            except OverflowError:
                continue
            if split_metric_name(key)[1] or 0 <= written <= _MAX_COUNT:
                yield key, written
