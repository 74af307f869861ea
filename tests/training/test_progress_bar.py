"""The progress bar of a training, as a terminal shows it."""

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.plain_text import display_width
from workings.training.logging import Log
from workings.training.progress_bar import ProgressBar, format_bar
from workings.training.trainer import TrainingProgress


class Terminal(io.TextIOWrapper):
    """A terminal of a given encoding; it has no size to ask for, so 80 columns are used."""

    def __init__(self, encoding="utf-8"):
        super().__init__(io.BytesIO(), encoding=encoding, newline="")

    def isatty(self):
        return True

    def screen(self):
        return emulate(self.buffer.getvalue().decode(self.encoding))


def emulate(output):
    """Return the lines that a terminal shows: a carriage return overwrites its line."""
    lines = []
    for line in output.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


@pytest.fixture(autouse=True)
def redraw_always(monkeypatch):
    monkeypatch.setattr("workings.training.progress_bar.REDRAW_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def test_bar_is_redrawn_in_place_and_removed():
    terminal = Terminal()
    bar = ProgressBar(terminal)
    bar.update(1, 4, "epoch 1", "loss 10.5000 · 1,000 tokens/s")
    bar.update(2, 4, "epoch 1", "loss 2.5")
    [line] = terminal.screen()
    assert line.startswith("epoch 1 ━")
    assert line.count("━") == line.count("─")
    assert line.endswith("loss 2.5 · 0:00 left")
    bar.print("epoch 1: done")
    bar.update(3, 4, "epoch 2", "loss 2")
    assert [line[:13] for line in terminal.screen()] == ["epoch 1: done", "epoch 2 ━━━━━"]
    bar.clear()
    assert terminal.screen() == ["epoch 1: done", ""]


def test_only_messages_reach_a_file_or_a_dumb_terminal(monkeypatch):
    file = io.StringIO()
    dumb = Terminal()
    monkeypatch.setenv("TERM", "dumb")
    for stream in (file, dumb):
        bar = ProgressBar(stream)
        bar.update(1, 4, "epoch 1")
        bar.print("epoch 1: done")
        bar.clear()
    assert file.getvalue() == "epoch 1: done\n"
    assert dumb.screen() == ["epoch 1: done", ""]


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_terminal_without_our_symbols_gets_others(encoding):
    terminal = Terminal(encoding)
    bar = ProgressBar(terminal)
    bar.print("猫 → runs/猫")
    bar.update(1, 2, "epoch 1", "loss 2")
    message, line = terminal.screen()
    assert message == r"\u732b \u2192 runs/\u732b"
    assert line.startswith("epoch 1 ####")
    assert line.endswith("---- loss 2")


@given(st.floats(-1, 2), st.text("abc·猫", max_size=40), st.integers(2, 200))
def test_line_fits_the_terminal(fraction, status, columns):
    assert display_width(format_bar(fraction, "epoch 1", status, columns)) <= columns


def test_bar_shows_means_and_speed_of_a_training():
    terminal = Terminal()
    log = Log(None, "progress", stream=terminal, batch_unit="tokens")
    progress = TrainingProgress(step=5, num_items=500, sums={"loss": 250.0}, seconds=2.0)
    log.log_step(progress, total_steps=10)
    [line] = terminal.screen()
    assert line.endswith("loss 0.5000 · 250 tokens/s")
    log.close()
    assert terminal.screen() == [""]


def test_bar_on_a_narrow_pseudo_terminal():
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    program = (
        "import sys\nfrom workings.training.progress_bar import ProgressBar\n"
        "bar = ProgressBar(sys.stderr)\n"
        "bar.update(1, 2, 'epoch 1', 'loss 0.1234 · accuracy 0.9 · 1,000 examples/s')\n"
        "bar.print('done')\n"
    )
    environment = os.environ | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    subprocess.run([sys.executable, "-c", program], stderr=child, check=True, env=environment)
    output = os.read(parent, 10_000).decode()
    os.close(child)
    os.close(parent)
    assert "\repoch 1 loss 0.1234 · accuracy 0.9 · 1…" in output
    assert emulate(output) == ["done", ""]


def test_progress_has_lines_where_there_is_no_terminal(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr("workings.training.progress_bar.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    bar, silent = ProgressBar(stream, lines=True), ProgressBar(stream)
    for done in range(10):  # a second after the other
        bar.update(done, 20, "preparing the data")
    silent.update(1, 2, "epoch 1")
    title = "preparing the data"
    expected = [f"{title}: {5 * s}% in {s} s" for s in (1, 2, 4, 8)]
    assert stream.getvalue().splitlines() == expected
