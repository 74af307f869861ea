"""What a training says while it runs: a line in the terminal, a line a record in log.jsonl."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from rich.console import Console
from rich.progress import (
    BarColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from workings.data.download import ProgressCallback as Told
from workings.io import open_regular_file, read_limited
from workings.plain_text import escape_control

if TYPE_CHECKING:
    from workings.training.trainer import TrainingProgress

LogMode: TypeAlias = Literal["progress", "quiet", "json"]
MAX_LOG_BYTES = 2**30
MAX_STEP_RECORDS, MIN_STEPS_BETWEEN_RECORDS = (
    200,
    100,
)  # of a training; and how many steps apart they are at least


class Log:
    """Writes log.jsonl, and tells the terminal in one of three ways."""

    def __init__(
        self,
        path: Path | None,
        mode: LogMode = "progress",
        stream: TextIO | None = None,
        batch_unit: str = "examples",
    ) -> None:
        # Without a path nothing is kept: that is for all but the chief of a crew.
        self._path = path
        self._file = open_regular_file(path, "ab") if path is not None else None
        self._mode, self._batch_unit = mode, batch_unit
        self._console = Console(file=stream or sys.stderr)
        self._bar = Bar(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[means]} · {task.fields[speed]:,.0f} " + f"{batch_unit}/s ·"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            transient=True,
            disable=mode != "progress" or not self._console.is_terminal,
        )
        self._bar_task: TaskID | None = None

    def close(self) -> None:
        """End the log."""
        self._bar.stop()
        if self._file is not None:
            self._file.close()

    def synced_offset(self) -> int:
        """How many bytes have been written, and are safe."""
        if self._file is None:
            return 0
        with self._name_file_in_errors():
            os.fsync(self._file.fileno())
        return self._file.tell()

    def rewind(self, offset: int) -> None:
        """Forget what was written after a checkpoint: it will be written again."""
        if self._file is None or self._path is None:
            return
        if (there := self._file.seek(0, os.SEEK_END)) < offset:
            self.info(f"{self._path} has lost its end: the curves will have a gap")
            offset = _find_last_line_end(self._path, there)
        self._file.truncate(offset)
        self._file.seek(offset)

    def record(self, **data: Any) -> None:
        """Write a record."""
        line = json.dumps(data, ensure_ascii=False)
        if self._file is not None:
            rest = line.encode("utf-8", "surrogatepass") + b"\n"
            with self._name_file_in_errors():
                while rest:  # a disk that fills up takes a part of it
                    rest = rest[self._file.write(rest) :]
        if self._mode == "json":
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    @contextmanager
    def _name_file_in_errors(self) -> Iterator[None]:
        """Name the file in errors of writing, which do not by themselves."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None

    def info(self, text: str) -> None:
        """Tell the user something."""
        if self._mode == "progress":
            shown = escape_control(text)
            self._console.print(shown, markup=False, highlight=False, soft_wrap=True)

    def log_step(self, progress: "TrainingProgress", total_steps: int) -> None:
        """Show where the training is; now and then, keep it for those who watch from elsewhere."""
        means = {name: total / progress.num_items for name, total in progress.sums.items()}
        if progress.step % max(-(-total_steps // MAX_STEP_RECORDS), MIN_STEPS_BETWEEN_RECORDS) == 0:
            # By steps, not by the clock: a run that is resumed writes the same again.
            self.record(
                kind="step",
                epoch=progress.epoch + 1,
                step=progress.step,
                steps=total_steps,
                seconds=round(progress.seconds, 3),
                **{self._batch_unit: progress.num_items},
                **{f"train_{name}": mean for name, mean in means.items()},
            )
        shown: dict[str, Any] = {
            "epoch": progress.epoch + 1,
            "means": " · ".join(f"{name} {mean:.4f}" for name, mean in means.items()),
            "speed": progress.num_items
            / max(progress.seconds - progress.epoch_start_seconds, 1e-9),
        }
        if self._bar_task is None:
            self._bar_task = self._bar.add_task("", total=total_steps, **shown)
            self._bar.start()
        self._bar.update(self._bar_task, completed=progress.step, **shown)

    def log_epoch(
        self, progress: "TrainingProgress", metrics: dict[str, float], **timing: float
    ) -> None:
        """Tell how an epoch went."""
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
        """Keep what a task has to say after an epoch, and show it."""
        self.record(kind="sample", epoch=epoch, **samples)
        self.info("\n".join(f"  {line}" for text in samples.values() for line in text.split("\n")))


@contextmanager
def show_data_progress(mode: LogMode) -> Iterator[Told]:
    """Show, in a terminal, how far the data are fetched or decoded; it is gone afterwards."""
    console = Console(file=sys.stderr)
    with Bar(
        TextColumn("getting the data ready"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=mode != "progress" or not console.is_terminal,
    ) as bar:
        ready = bar.add_task("", total=None)
        yield lambda done, total: bar.update(ready, completed=done, total=total)


def _find_last_line_end(path: Path, length: int) -> int:
    with open_regular_file(path) as file:
        return read_limited(file, MAX_LOG_BYTES, path)[:length].rfind(b"\n") + 1


def format_metrics(metrics: Mapping[str, float | str]) -> str:
    """Write measurements in a line; how they were measured, a line each below it.

    >>> print(format_metrics({"test_bleu": 9.5, "test_pairs": 2550, "signature": "nrefs:1|case:mixed"}))
    test bleu 9.5000 · test pairs 2,550
      signature nrefs:1|case:mixed
    """
    figures, words = [], []
    for key, value in metrics.items():
        name = key.replace("_", " ")
        if isinstance(value, str):
            words.append(f"\n  {name} {value}")
        else:
            figures.append(
                f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value:,}"
            )
    return " · ".join(figures) + "".join(words)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a log back; a last line that was cut off, and what is no record, is left out.

    Of an epoch only the numbers are kept, for the curves.
    """
    with open_regular_file(path) as file:
        return parse_records(read_limited(file, MAX_LOG_BYTES, path))


def parse_records(raw: bytes) -> list[dict[str, Any]]:
    """Read lines of a log."""
    records = []
    for line in raw.decode("utf-8", "replace").split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
            continue
        if record["kind"] == "epoch":
            record = {k: v for k, v in record.items() if k == "kind" or isinstance(v, int | float)}
            if not isinstance(record.get("epoch"), int):
                continue
        records.append(record)
    return records
