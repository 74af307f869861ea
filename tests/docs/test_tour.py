"""The tour of `make demo`: its commands, its first part, and a step that fails."""

import os
import subprocess
import sys

import pytest
import tour
from commands import ROOT, parse_command, split


def run_tour(part, **environment):
    return subprocess.run(
        [sys.executable, "docs/tour.py", part],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_every_command_parses():
    for stop in (*tour.PROBLEMS, *tour.MODELS):
        parse_command(split(stop.command))


def test_text_fits_a_terminal():
    texts = [tour.FAREWELL, *(stop.about for stop in (*tour.PROBLEMS, *tour.MODELS))]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80


def test_wrong_number_is_marked():
    done = run_tour("problems", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert "$ workings check L2-self" in done.stdout
    assert "▸18✗" in done.stdout
    assert "\x1b" not in done.stdout


def test_failed_step_stops_the_tour(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["tour.py", "problems"])
    steps = (tour.Stop("Nothing there.", "check nowhere.toml"), *tour.PROBLEMS)
    monkeypatch.setattr(tour, "PROBLEMS", steps)
    assert tour.main() == 2
    captured = capfd.readouterr()
    assert captured.err.splitlines()[-1] == (
        "the tour stops: `workings check nowhere.toml` ended with status 2"
    )
    assert "L2-self" not in captured.out


@pytest.mark.slow
def test_full_tour():
    done = run_tour("models")
    assert done.returncode == 0, done.stderr
    assert "cœur" in done.stdout
    for run in (tour.TRANSLATOR, tour.PYTHON):
        assert (ROOT / run / "report.html").is_file()
