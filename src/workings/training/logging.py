"""The training log: log.jsonl, one record per line, and what the terminal shows."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from workings.data.download import ProgressCallback
from workings.io import open_regular_file, read_limited, sync_entries
from workings.plain_text import escape_control
from workings.training.progress_bar import ProgressBar, write_and_flush

if TYPE_CHECKING:
    from workings.training.trainer import TrainingProgress

LogMode: TypeAlias = Literal["progress", "quiet", "json"]
MAX_LOG_BYTES = 2**30
MAX_FIELDS = 1_000  # of a record
MAX_STEP_RECORDS = 200  # in a training
MIN_STEPS_BETWEEN_RECORDS = 100


class Log:
    """Writes log.jsonl; prints messages and a progress bar, the records as JSON, or nothing."""

    def __init__(
        self,
        path: Path | None,
        mode: LogMode = "progress",
        stream: TextIO | None = None,
        batch_unit: str = "examples",
    ) -> None:
        # Only the main process has a path; the logs of the others write nothing.
        self._path = path
        self._file = open_regular_file(path, "ab") if path is not None else None
        self._digest = hashlib.sha256()  # of the file
        if path is not None:
            sync_entries(path.parent)  # else its entry, and with it all lines, may be lost
            self._digest = _hash_file(path, path.stat().st_size)
        self._mode, self._batch_unit = mode, batch_unit
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        """functions that receive every record"""
        self._stream = stream or sys.stderr
        self._bar = ProgressBar(self._stream, enabled=mode == "progress")

    def close(self) -> None:
        """Close the file, and remove the progress bar."""
        self._bar.clear()
        if self._file is not None:
            self._file.close()

    def synced_offset(self) -> int:
        """Flush the file to disk and return its length."""
        if self._file is None:
            return 0
        with self._name_file_in_errors():
            os.fsync(self._file.fileno())
        return self._file.tell()

    @property
    def sha256(self) -> str:
        """The SHA-256 of what has been written."""
        return self._digest.hexdigest()

    def rewind(self, offset: int, sha256: str = "") -> None:
        """Truncate the log to its length at a checkpoint: what follows is written again.

        `sha256` is what the log had then; if it differs now, the file was damaged.
        """
        if self._file is None or self._path is None:
            return
        if (length := self._file.seek(0, os.SEEK_END)) < offset:
            self.info(f"{self._path} is shorter than at the checkpoint: the curves have a gap")
            offset, sha256 = _find_last_line_end(self._path, length), ""
        self._file.truncate(offset)
        self._file.seek(offset)
        self._digest = _hash_file(self._path, offset)
        if sha256 not in ("", self.sha256):
            self.warn(f"{self._path} was changed since the checkpoint: the curves may be wrong")

    def record(self, **data: Any) -> None:
        """Write a record."""
        line = json.dumps(data, ensure_ascii=False)
        if self._file is not None:
            rest = line.encode("utf-8", "surrogatepass") + b"\n"
            self._digest.update(rest)
            with self._name_file_in_errors():
                while rest:  # a disk that is almost full writes only a part
                    rest = rest[self._file.write(rest) :]
        if self._mode == "json":
            write_and_flush(sys.stdout, line + "\n")
        for listener in self.listeners:
            listener(data)

    @contextmanager
    def _name_file_in_errors(self) -> Iterator[None]:
        """Add the file's name to errors in writing, which do not have it."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def info(self, text: str) -> None:
        """Print a message."""
        if self._mode == "progress":
            self._bar.print(escape_control(text))

    def warn(self, text: str) -> None:
        """Print a warning in every mode."""
        self._bar.print(f"workings: warning: {escape_control(text)}")

    def log_step(self, progress: "TrainingProgress", total_steps: int) -> None:
        """Update the progress bar; at regular intervals of steps, write a record."""
        means = {name: total / progress.num_items for name, total in progress.sums.items()}
        if progress.step % max(-(-total_steps // MAX_STEP_RECORDS), MIN_STEPS_BETWEEN_RECORDS) == 0:
            # By steps, not by time, so that a resumed run writes the same records.
            self.record(
                kind="step",
                epoch=progress.epoch + 1,
                step=progress.step,
                steps=total_steps,
                seconds=round(progress.seconds, 3),
                **{self._batch_unit: progress.num_items},
                **{f"train_{name}": mean for name, mean in means.items()},
            )
        seconds = max(progress.seconds - progress.epoch_start_seconds, 1e-9)
        speed = f"{progress.num_items / seconds:,.0f} {self._batch_unit}/s"
        status = " · ".join([*(f"{name} {mean:.4f}" for name, mean in means.items()), speed])
        self._bar.update(progress.step, total_steps, f"epoch {progress.epoch + 1}", status)

    @contextmanager
    def show_evaluation(self, title: str) -> Iterator[ProgressCallback]:
        """Show a progress bar of its own while held-out data are measured."""
        self._bar.clear()
        bar = ProgressBar(self._stream, enabled=self._mode == "progress", lines=True)
        try:
            yield lambda done, total: bar.update(done, total, title)
        finally:
            bar.clear()

    def log_epoch(
        self, progress: "TrainingProgress", metrics: dict[str, float], **timing: float
    ) -> None:
        """Write and print the metrics of an epoch."""
        self.record(
            kind="epoch",
            epoch=progress.epoch,
            step=progress.step,
            seconds=round(progress.seconds, 3),
            **{k: round(v, 3) for k, v in timing.items()},
            **metrics,
        )
        self.info(f"epoch {progress.epoch}: {format_metrics(metrics)} · {progress.seconds:.0f} s")

    def log_samples(self, epoch: int, samples: dict[str, Any]) -> None:
        """Write and print sample outputs."""
        self.record(kind="sample", epoch=epoch, **samples)
        self.info("\n".join(f"  {line}" for text in samples.values() for line in text.split("\n")))


@contextmanager
def show_data_progress(mode: LogMode) -> Iterator[ProgressCallback]:
    """Show a progress bar while data are downloaded or decoded; without a terminal, some lines."""
    bar = ProgressBar(sys.stderr, enabled=mode == "progress", lines=True)
    try:
        yield lambda done, total: bar.update(done, total, "preparing the data")
    finally:
        bar.clear()


def _hash_file(path: Path, length: int) -> "hashlib._Hash":
    """Hash the first bytes of a file."""
    digest = hashlib.sha256()
    with open_regular_file(path) as file:
        while chunk := file.read(min(length, 2**20)):
            digest.update(chunk)
            length -= len(chunk)
    return digest


def _find_last_line_end(path: Path, length: int) -> int:
    with open_regular_file(path) as file:
        return read_limited(file, MAX_LOG_BYTES, path)[:length].rfind(b"\n") + 1


def format_metrics(metrics: Mapping[str, float | str]) -> str:
    """Return numbers on one line, and texts, such as signatures, on a line each below it.

    >>> print(format_metrics({"test_bleu": 9.5, "test_pairs": 2550, "signature": "nrefs:1"}))
    test bleu 9.5000 · test pairs 2,550
      signature nrefs:1
    """
    numbers, texts = [], []
    for key, value in metrics.items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):  # a table
            continue
        if isinstance(value, str):
            texts.append(f"\n  {name} {value}")
        else:
            numbers.append(
                f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value:,}"
            )
    return " · ".join(numbers) + "".join(texts)


def read_epochs(path: Path) -> list[dict[str, Any]]:
    """Read the records of a log's epochs, with their numbers only."""
    return [record for record in read_log(path) if record["kind"] == "epoch"]


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the records of a log; incomplete and invalid lines are skipped."""
    with open_regular_file(path) as file:
        return parse_records(read_limited(file, MAX_LOG_BYTES, path))


def parse_records(raw: bytes) -> list[dict[str, Any]]:
    """Parse lines of a log; of an epoch only the numbers are kept, for the curves.

    A line with more than `MAX_FIELDS` fields is no record: no training writes it.
    """
    records = []
    for line in raw.decode("utf-8", "replace").split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict) or len(record) > MAX_FIELDS:
            continue
        if not isinstance(record.get("kind"), str):
            continue
        if record["kind"] == "epoch":
            record = {k: v for k, v in record.items() if k == "kind" or isinstance(v, int | float)}
            if not isinstance(record.get("epoch"), int):
                continue
        records.append(record)
    return records
