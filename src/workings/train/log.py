"""What a training says while it runs: a line in the terminal, a line a record in log.jsonl."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias

from workings.views.plain import printable

if TYPE_CHECKING:
    from workings.train.loop import Progress

Mode: TypeAlias = Literal["progress", "quiet", "json"]
REFRESH = 0.2  # seconds between two looks of the progress line


class Log:
    """Writes log.jsonl, and tells the terminal in one of three ways."""

    def __init__(self, path: Path, mode: Mode = "progress", stream: TextIO | None = None) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._mode, self._stream = mode, stream or sys.stderr
        self._shown = 0.0
        self._line = 0  # width of the progress line that stands there

    def close(self) -> None:
        """End the log."""
        self._file.close()

    def record(self, **data: Any) -> None:
        """Write a record."""
        line = json.dumps(data, ensure_ascii=False)
        self._file.write(line + "\n")
        self._file.flush()
        if self._mode == "json":
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def say(self, text: str) -> None:
        """Tell the user something."""
        if self._mode == "progress":
            self._clear()
            self._stream.write(printable(text) + "\n")

    def step(self, progress: "Progress", batches: int, steps: int) -> None:
        """Show where the training is; every so often, not every step."""
        now = time.monotonic()
        if self._mode != "progress" or now - self._shown < REFRESH or not self._stream.isatty():
            return
        self._shown = now
        loss = progress.sums["loss"] / progress.examples
        pace = progress.seconds / max(progress.step, 1)
        left = time.strftime("%H:%M:%S", time.gmtime(pace * (steps - progress.step)))
        share = progress.batch / batches
        bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
        speed = progress.examples / max(share * pace * batches, 1e-9)
        told = f"loss {loss:.4f} · {speed:,.0f} examples/s · {left} left"
        self._show(f"epoch {progress.epoch + 1} {bar} {told}")

    def epoch(self, progress: "Progress", measured: dict[str, float], **timing: float) -> None:
        """Tell how an epoch went."""
        self.record(
            kind="epoch",
            epoch=progress.epoch,
            step=progress.step,
            seconds=round(progress.seconds, 3),
            **{k: round(v, 3) for k, v in timing.items()},
            **measured,
        )
        told = " · ".join(
            f"{name.replace('_', ' ')} {value:.4f}" for name, value in measured.items()
        )
        self.say(f"epoch {progress.epoch}: {told} · {progress.seconds:.0f} s")

    def _show(self, line: str) -> None:
        self._clear()
        self._stream.write(line)
        self._stream.flush()
        self._line = len(line)

    def _clear(self) -> None:
        if self._line:
            self._stream.write("\r" + " " * self._line + "\r")
            self._line = 0


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a log back; a last line that was cut off is left out."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records
