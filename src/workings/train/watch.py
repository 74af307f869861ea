"""A training watched from outside: how far it is, how fast, what its curves say so far."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from workings.views.report import PARTS

Record: TypeAlias = Mapping[str, Any]
State: TypeAlias = Literal["waiting", "training", "quiet", "finished"]

UNITS = ("examples", "tokens")
_SMALLER = ("loss", "perplexity", "bits")  # are better
_QUIET, _PATIENCE = 60.0, 4.0  # seconds, and how many times the longest pause: then it has stopped
_MOST = 2.0**53  # epochs, steps, examples: beyond, a number is none of ours


@dataclass(frozen=True)
class Best:
    """A measure now, and at its best."""

    key: str
    now: float
    epoch: int
    best: float
    best_epoch: int


@dataclass(frozen=True)
class Watched:
    """What a log says of a training of so many epochs."""

    records: Sequence[Record]
    epochs: int

    @cached_property
    def curves(self) -> list[dict[str, float]]:
        """The epochs, with those of their numbers that can be drawn."""
        return self._of("epoch")

    @cached_property
    def marks(self) -> list[dict[str, float]]:
        """Where it was on the way through its epochs."""
        return [mark for mark in self._of("step") if mark["step"] > 0 and mark.get("steps", 0) > 0]

    def _of(self, kind: str) -> list[dict[str, float]]:
        found = (numbers(record) for record in self.records if record["kind"] == kind)
        return [record for record in found if "epoch" in record and "step" in record]

    @property
    def finished(self) -> bool:
        """Say whether it came to its end: the last thing that it does is a test."""
        return any(record["kind"] == "test" for record in self.records)

    def state(self, silent: float) -> State:
        """Say what it is doing, when its log has been silent for so many seconds."""
        if self.finished:
            return "finished"
        times = [0.0, *(r.get("seconds", 0.0) for r in self._timed)]
        pauses = [b - a for a, b in pairwise(times)]
        pauses += [r.get("evaluation_seconds", 0.0) for r in self.curves]
        if silent > max(_QUIET, _PATIENCE * max(pauses, default=0.0)):
            return "quiet"
        return "training" if self._timed else "waiting"

    @cached_property
    def _timed(self) -> list[dict[str, float]]:
        """Everything that says when and where, in order."""
        return sorted((*self.marks, *self.curves), key=lambda record: record["step"])

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return int(self.curves[-1]["epoch"]) if self.curves else 0

    @property
    def step(self) -> int:
        """How many steps are known to be done."""
        return int(self._timed[-1]["step"]) if self._timed else 0

    @property
    def steps(self) -> int:
        """How many there are to be, if all epochs are trained; 0: not known yet."""
        if self.marks:
            return int(self.marks[-1]["steps"])
        return round(self.step / self.epoch * self.epochs) if self.epoch else 0

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return 1.0 if self.finished else min(self.step / self.steps, 1.0) if self.steps else 0.0

    @property
    def seconds(self) -> float:
        """How long it has trained, without measuring."""
        return self._timed[-1].get("seconds", 0.0) if self._timed else 0.0

    @property
    def left(self) -> float | None:
        """How many seconds it should take still, measuring and all."""
        if not self.step or self.finished:
            return None
        measuring = [record.get("evaluation_seconds", 0.0) for record in self.curves]
        mean = sum(measuring) / len(measuring) if measuring else 0.0
        training = (self.steps - self.step) * self.seconds / self.step
        return max(training + mean * (self.epochs - self.epoch), 0.0)

    @property
    def speed(self) -> tuple[float, str] | None:
        """How many examples or tokens a second lately; of a log that does not say, steps."""
        if self.marks:
            unit = next((unit for unit in UNITS if unit in self.marks[-1]), "")
            same = [m for m in self.marks[-2:] if m["epoch"] == self.marks[-1]["epoch"]]
            done, took = same[-1].get(unit, 0.0), same[-1].get("seconds", 0.0)
            if len(same) > 1:
                done, took = done - same[0].get(unit, 0.0), took - same[0].get("seconds", 0.0)
                if unit and done > 0 and took > 0:
                    return done / took, unit
        return (self.step / self.seconds, "steps") if self.step and self.seconds > 0 else None

    def measures(self) -> list[str]:
        """Name what was measured, whatever the part of the data: accuracy, loss, …"""
        keys = (key for record in (*self.curves, *self.marks) for key in record)
        found = {part_and_measure(key)[1] for key in keys}
        return sorted(found - {""})

    def means(self, what: str) -> list[tuple[float, float]]:
        """What training gave between a mark and the next, by epoch and parts of one.

        A mark has the mean since its epoch began.
        """
        points, epoch, seen, total = [], 0.0, 0.0, 0.0
        for mark in self.marks:
            mean = mark.get(f"train_{what}")
            count = next((mark[unit] for unit in UNITS if unit in mark), 0.0)
            if mark["epoch"] != epoch:
                epoch, seen, total = mark["epoch"], 0.0, 0.0
            if mean is None or count <= seen:
                continue
            place = mark["step"] * self.epochs / mark["steps"]
            points.append((place, (mean * count - total) / (count - seen)))
            seen, total = count, mean * count
        return points

    def best(self) -> list[Best]:
        """Each measure as it is now, and as it was at its best."""
        found = []
        for key in dict.fromkeys(key for record in self.curves for key in record):
            if not part_and_measure(key)[1]:
                continue
            values = [
                (r[key], int(r["epoch"]))
                for r in self.curves
                if math.isfinite(r.get(key, math.nan))
            ]
            if values:
                choose = min if any(word in key for word in _SMALLER) else max
                best = choose(values, key=lambda pair: pair[0])
                found.append(Best(key, *values[-1], *best))
        return found


def part_and_measure(key: str) -> tuple[str, str]:
    """Take the name of a measurement apart; of anything else, nothing.

    >>> part_and_measure("validation_accuracy"), part_and_measure("seconds")
    (('validation', 'accuracy'), ('', ''))
    """
    part, _, what = key.partition("_")
    return (part, what) if part in PARTS else ("", "")


def numbers(record: Record) -> dict[str, float]:
    """Keep the numbers of a record under names as we give them.

    A measurement may be anything; what counts or tells the time is neither negative nor endless.
    """
    return dict(_numbers(record.items()))


def _numbers(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, float]]:
    for key, value in items:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and key.isascii() and key.isidentifier():
            try:
                written = float(value)
            except OverflowError:
                continue
            if part_and_measure(key)[1] or 0 <= written <= _MOST:
                yield key, written
