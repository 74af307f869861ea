"""Monitoring a training by its log: following the file while it grows, progress and metrics."""

import hashlib
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
from workings.io import open_regular_file
from workings.training.log_damage import (
    describe_missing_end,
    list_damaged_lines,
    read_checkpoint_states,
)
from workings.training.logging import parse_records

Record: TypeAlias = Mapping[str, Any]
TrainingState: TypeAlias = Literal["waiting", "training", "quiet", "finished"]

MAX_TAIL_BYTES = 2**29  # larger logs are not followed
MAX_RECORDS = 10_000  # kept of a log: evenly spaced ones, and those after the last of these
MAX_METRICS = 100  # different metrics of a training
_CHUNK_BYTES = 2**20  # read at a time; no record is longer
_LATEST_LINES = 100
_MAX_DAMAGED_LINES = 100  # whose numbers are kept
BATCH_UNITS = ("examples", "tokens")
_OVERLAP_BYTES = 512  # bytes before the offset by which a changed file is recognized
_METRIC_PREFIXES = ("train", "validation", "test")
_LOWER_IS_BETTER = ("loss", "perplexity", "bits")
_STALL_SECONDS, _STALL_FACTOR = 60.0, 4.0  # quiet for longer than both: the training has stalled
_MAX_COUNT = 2.0**53  # larger counts (epochs, steps, examples) are invalid


class LogTail:
    """The records of a log that is still being written.

    A resumed training truncates its log and writes the end again. The bytes before the offset then
    differ, and the whole file is read again. Of a log with more than `MAX_RECORDS` lines, every
    second one is left out, then every second of the rest, and so on; the last line is always kept.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offset, self._overlap = 0, b""
        self._records: dict[int, dict[str, Any]] = {}  # by the numbers of their lines
        self._latest: list[bytes] = []  # lines
        self._num_lines, self._spacing = 0, 1
        self._damaged_lines: list[int] = []
        self.damage = ""
        """what was damaged at the last read: lines that are no records, or a missing end"""

    def read(self) -> tuple[int, list[dict[str, Any]]]:
        """Read what is new; return a revision number and all records.

        The number is computed from the file: other readers of the same lines have the same one. A
        missing log has no records. An incomplete last line is read when it is complete.
        """
        with self._lock:
            states = read_checkpoint_states(self._path.parent)  # before the log, which grows
            try:
                with open_regular_file(self._path) as file:
                    self._read_new(file)
            except FileNotFoundError:
                self._reset()
            missing = describe_missing_end(self._offset, states)
            self.damage = "; ".join(
                filter(None, [list_damaged_lines(self._damaged_lines), missing])
            )
            return self._compute_revision(), self._list_records()

    def _compute_revision(self) -> int:
        """Return 0 for an empty log, or else a hash of its length and its last bytes."""
        if not self._offset:
            return 0
        digest = hashlib.blake2b(self._overlap, digest_size=6, salt=self._offset.to_bytes(8))
        return int.from_bytes(digest.digest())

    def _read_new(self, file: Any) -> None:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_TAIL_BYTES:
            raise UserError(
                f"{self._path.name}: larger than {MAX_TAIL_BYTES:,} bytes: too large to follow"
            )
        file.seek(self._offset - len(self._overlap))
        if file.read(len(self._overlap)) != self._overlap:
            self._reset()
            file.seek(0)
        lines = dict[int, bytes]()
        while chunk := file.read(_CHUNK_BYTES):
            complete = chunk[: chunk.rfind(b"\n") + 1]
            if not complete:
                if len(chunk) == _CHUNK_BYTES:
                    raise UserError(f"{self._path.name}: a line is too long to be a record")
                break
            self._offset += len(complete)
            self._overlap = (self._overlap + complete)[-_OVERLAP_BYTES:]
            new = complete.split(b"\n")
            for start in range(0, len(new) - 1, MAX_RECORDS):  # a file may be all line ends
                self._add_lines(new[start : min(start + MAX_RECORDS, len(new) - 1)], lines)
            file.seek(self._offset)
        for number, line in lines.items():  # only now: most lines of a long log are left out
            if records := parse_records(line):
                self._records[number] = records[0]
            elif len(self._damaged_lines) < _MAX_DAMAGED_LINES:
                self._damaged_lines.append(number + 1)

    def _add_lines(self, new: list[bytes], lines: dict[int, bytes]) -> None:
        """Add those of the new lines that are kept to `lines`."""
        start = -self._num_lines % self._spacing
        numbers = range(self._num_lines + start, self._num_lines + len(new), self._spacing)
        lines |= zip(numbers, new[start :: self._spacing], strict=True)
        self._num_lines += len(new)
        self._latest = [*self._latest, *new[-_LATEST_LINES:]][-_LATEST_LINES:]
        while len(self._records) + len(lines) > MAX_RECORDS:
            self._spacing *= 2
            for kept in (self._records, lines):
                for number in [n for n in kept if n % self._spacing]:
                    del kept[number]

    def _list_records(self) -> list[dict[str, Any]]:
        records = list(self._records.values())
        if self._spacing == 1:
            return records
        num_after = min(self._num_lines - 1 - max(self._records, default=-1), len(self._latest))
        latest = self._latest[len(self._latest) - num_after :]
        return records + parse_records(b"\n".join(latest))

    def _reset(self) -> None:
        if self._offset:
            self._offset, self._overlap, self._records, self._latest = 0, b"", {}, []
            self._num_lines, self._spacing = 0, 1
            self._damaged_lines = []


@dataclass(frozen=True)
class BestMetric:
    """The latest and the best value of a metric."""

    key: str
    latest: float
    epoch: int
    best: float
    best_epoch: int


@dataclass(frozen=True)
class TrainingStatus:
    """The progress and metrics of a training, from its log and its number of epochs."""

    records: Sequence[Record]
    epochs: int
    damage: str = ""
    """what is damaged in the log"""

    @cached_property
    def curves(self) -> list[dict[str, float]]:
        """The numbers of the records that are written after each epoch."""
        return self._numbers_of_kind("epoch")

    @cached_property
    def step_records(self) -> list[dict[str, float]]:
        """The numbers of the records that are written between evaluations."""
        return [
            record
            for record in self._numbers_of_kind("step")
            if record["step"] > 0 and record.get("steps", 0) > 0
        ]

    def _numbers_of_kind(self, kind: str) -> list[dict[str, float]]:
        numbers = (extract_numbers(record) for record in self.records if record["kind"] == kind)
        return [record for record in numbers if "epoch" in record and "step" in record]

    @property
    def is_finished(self) -> bool:
        """True once the test is recorded, which ends a training."""
        return any(record["kind"] == "test" for record in self.records)

    def state(self, idle_seconds: float) -> TrainingState:
        """Return the state of the training; `idle_seconds`: since the log's last change."""
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
        """The records of steps and epochs, ordered by step."""
        return sorted((*self.step_records, *self.curves), key=lambda record: record["step"])

    @property
    def epoch(self) -> int:
        """The number of completed epochs."""
        return int(self.curves[-1]["epoch"]) if self.curves else 0

    @property
    def step(self) -> int:
        """The number of completed steps, as far as recorded."""
        return int(self._timeline[-1]["step"]) if self._timeline else 0

    @property
    def steps(self) -> int:
        """The number of steps of all epochs; 0: not known yet."""
        if self.step_records:
            return int(self.step_records[-1]["steps"])
        return round(self.step / self.epoch * self.epochs) if self.epoch else 0

    @property
    def fraction_done(self) -> float:
        """The completed fraction of the training, from 0 to 1."""
        return 1.0 if self.is_finished else min(self.step / self.steps, 1.0) if self.steps else 0.0

    @property
    def seconds(self) -> float:
        """The seconds of training so far, without evaluation."""
        return self._timeline[-1].get("seconds", 0.0) if self._timeline else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated seconds until the end, evaluation included."""
        if not self.step or self.is_finished:
            return None
        evaluations = [record.get("evaluation_seconds", 0.0) for record in self.curves]
        mean = sum(evaluations) / len(evaluations) if evaluations else 0.0
        training = (self.steps - self.step) * self.seconds / self.step
        return max(training + mean * (self.epochs - self.epoch), 0.0)

    @property
    def speed(self) -> tuple[float, str] | None:
        """Examples or tokens per second between the last records; steps, if the log has neither."""
        if self.step_records:
            unit = next((unit for unit in BATCH_UNITS if unit in self.step_records[-1]), "")
            epoch = self.step_records[-1]["epoch"]
            recent = [r for r in self.step_records[-2:] if r["epoch"] == epoch]
            if len(recent) > 1:
                first, last = recent
                count = last.get(unit, 0.0) - first.get(unit, 0.0)
                seconds = last.get("seconds", 0.0) - first.get("seconds", 0.0)
                if unit and count > 0 and seconds > 0:
                    return count / seconds, unit
        return (self.step / self.seconds, "steps") if self.step and self.seconds > 0 else None

    def list_metrics(self) -> list[str]:
        """List the metrics without their splits: accuracy, loss, …"""
        keys = (key for record in (*self.curves, *self.step_records) for key in record)
        return sorted({split_metric_name(key)[1] for key in keys} - {""})[:MAX_METRICS]

    def train_curve(self, metric: str) -> list[tuple[float, float]]:
        """Return the training metric between each two records, as points (epochs done, mean).

        The records have means since the beginning of their epoch.
        """
        points, epoch, previous_count, previous_sum = [], 0.0, 0.0, 0.0
        for record in self.step_records:
            mean = record.get(f"train_{metric}")
            count = next((record[unit] for unit in BATCH_UNITS if unit in record), 0.0)
            if record["epoch"] != epoch:
                epoch, previous_count, previous_sum = record["epoch"], 0.0, 0.0
            if mean is None or count <= previous_count:
                continue
            epochs_done = record["step"] * self.epochs / record["steps"]
            points.append((epochs_done, (mean * count - previous_sum) / (count - previous_count)))
            previous_count, previous_sum = count, mean * count
        return points

    def best_metrics(self) -> list[BestMetric]:
        """Return the latest and the best value of each metric, of the first `MAX_METRICS`."""
        metrics: dict[str, BestMetric] = {}
        for record in self.curves:
            epoch = int(record["epoch"])
            for key, value in record.items():
                if not split_metric_name(key)[1] or not math.isfinite(value):
                    continue
                before = metrics.get(key)
                if before is None and len(metrics) == MAX_METRICS:
                    continue
                best = value, epoch
                if before is not None and not _is_better(key, value, before.best):
                    best = before.best, before.best_epoch
                metrics[key] = BestMetric(key, value, epoch, *best)
        return list(metrics.values())


def _is_better(key: str, value: float, best: float) -> bool:
    return value < best if any(word in key for word in _LOWER_IS_BETTER) else value > best


def split_metric_name(key: str) -> tuple[str, str]:
    """Split the key of a metric into split and metric; other keys into empty strings.

    >>> split_metric_name("validation_accuracy"), split_metric_name("seconds")
    (('validation', 'accuracy'), ('', ''))
    """
    split, _, metric = key.partition("_")
    return (split, metric) if split in _METRIC_PREFIXES else ("", "")


def extract_numbers(record: Record) -> dict[str, float]:
    """Return the valid numbers of a record.

    Metrics may have any value; counts and times must be finite and not negative.
    """
    return dict(_iter_numbers(record.items()))


def _iter_numbers(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, float]]:
    for key, value in items:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and key.isascii() and key.isidentifier():
            try:
                number = float(value)
            except OverflowError:
                continue
            if split_metric_name(key)[1] or 0 <= number <= _MAX_COUNT:
                yield key, number
