"""A progress bar on the last line of a terminal, redrawn in place. It needs no ANSI codes."""

import errno
import os
import time
from typing import TextIO

from workings.plain_text import display_width, pad_right, truncate_to_columns

MAX_BAR_COLUMNS, MIN_BAR_COLUMNS = 40, 8
DEFAULT_COLUMNS = 80  # of a terminal that does not tell its size
REDRAW_SECONDS = 0.1
FIRST_LINE_SECONDS = 1.0  # until the first line, where there is no terminal


class ProgressBar:
    """Shows progress on a terminal, and prints messages above it.

    Elsewhere messages are printed, and with `lines` also the progress: after a second, and then
    each time when twice as many seconds are over.
    """

    def __init__(self, stream: TextIO, *, enabled: bool = True, lines: bool = False) -> None:
        self._stream, self._has_lines = stream, lines and enabled
        self._line_seconds = FIRST_LINE_SECONDS
        self._is_shown = enabled and _is_terminal(stream)
        self._symbols = "━─" if _can_encode("━─", stream) else "#-"
        self._drawn_columns = 0
        self._next_redraw = 0.0  # on the clock of time.monotonic
        self._start: tuple[float, int] | None = None  # time and progress at the first update

    def update(self, done: int, total: int, title: str, status: str = "") -> None:
        """Show that `done` of `total` steps are complete; frequent calls redraw only some times."""
        if not (self._is_shown or self._has_lines):
            return
        now = time.monotonic()
        self._start = self._start or (now, done)
        if not self._is_shown:
            self._write_line(now - self._start[0], done / max(total, 1), title)
            return
        if now < self._next_redraw and done < total:
            return
        self._next_redraw = now + REDRAW_SECONDS
        left = format_time_left(now - self._start[0], done - self._start[1], total - done)
        status = " · ".join(filter(None, (status, left)))
        columns = _count_columns(self._stream) - 1  # Windows wraps a full line
        line = format_bar(done / max(total, 1), title, status, columns, self._symbols)
        self._write("\r" + pad_right(line, self._drawn_columns))
        self._drawn_columns = display_width(line)

    def _write_line(self, seconds: float, fraction: float, title: str) -> None:
        """Write how far it is, if it is time for a line."""
        if seconds >= self._line_seconds:
            self._line_seconds = 2 * seconds
            self._write(f"{title}: {fraction:.0%} in {seconds:.0f} s\n")

    def print(self, text: str) -> None:
        """Print a message in place of the bar, which is drawn again below it."""
        self.clear()
        self._write(f"{text}\n")

    def clear(self) -> None:
        """Remove the bar from the terminal until the next update."""
        if self._drawn_columns:
            self._write("\r" + " " * self._drawn_columns + "\r")
        self._drawn_columns, self._next_redraw = 0, 0.0

    def _write(self, text: str) -> None:
        if not _can_encode(text, self._stream):  # a code page of Windows has no μ or 猫
            encoding = self._stream.encoding or "utf-8"
            text = text.encode(encoding, "backslashreplace").decode(encoding)
        write_and_flush(self._stream, text)


def write_and_flush(stream: TextIO, text: str) -> None:
    """Write to a stream; a training outlives the terminal that it was started in."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def format_bar(fraction: float, title: str, status: str, columns: int, symbols: str = "━─") -> str:
    """Return a line of at most `columns`: the bar shrinks first, and the end of the text is cut.

    >>> format_bar(0.5, "epoch 2", "loss 0.25", columns=30)
    'epoch 2 ━━━━━━────── loss 0.25'
    >>> format_bar(0.5, "epoch 2", "loss 0.25 · 0:10 left", columns=24)
    'epoch 2 loss 0.25 · 0:1…'
    """
    size = min(columns - display_width(f"{title}  {status}"), MAX_BAR_COLUMNS)
    if size < MIN_BAR_COLUMNS:
        return truncate_to_columns(f"{title} {status}", columns)
    filled = round(size * min(max(fraction, 0.0), 1.0))
    return f"{title} {symbols[0] * filled}{symbols[1] * (size - filled)} {status}"


def format_time_left(seconds: float, steps_done: int, steps_left: int) -> str:
    """Return the estimated time of the remaining steps; empty while it is unknown.

    >>> format_time_left(30.0, 100, 300), format_time_left(3600.0, 10, 15)
    ('1:30 left', '1:30:00 left')
    """
    if steps_done <= 0:
        return ""
    minutes, rest = divmod(round(seconds / steps_done * steps_left), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    return f"{clock} left"


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _count_columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS


def _can_encode(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "utf-8", stream.errors or "strict")
    except UnicodeEncodeError:
        return False
    return True
