"""The tour of `make demo`: its commands, its first part, and what it does when a step fails."""

import os
import subprocess
import sys

import pytest
import tour
from commands import ROOT, parsed, split


def toured(part, **environment):
    return subprocess.run(
        [sys.executable, "docs/tour.py", part],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_every_command_can_be_given():
    for stop in (*tour.PROBLEMS, *tour.MODELS):
        parsed(split(stop.command))


def test_what_is_said_fits_a_terminal():
    said = [tour.FAREWELL, *(stop.about for stop in (*tour.PROBLEMS, *tour.MODELS))]
    assert max(len(line) for text in said for line in text.splitlines()) <= 80


def test_the_wrong_number_is_pointed_at():
    done = toured("problems", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert "$ workings check lectures/L2-self.toml" in done.stdout
    assert "▸18✗" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_failed_step_stops_the_tour(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["tour.py", "problems"])
    steps = (tour.Stop("Nothing there.", "check nowhere.toml"), *tour.PROBLEMS)
    monkeypatch.setattr(tour, "PROBLEMS", steps)
    assert tour.main() == 2
    told = capfd.readouterr()
    assert told.err.splitlines()[-1] == (
        "the tour stops: `workings check nowhere.toml` ended with status 2"
    )
    assert "L2-self" not in told.out


@pytest.mark.slow
def test_the_whole_tour():
    done = toured("models")
    assert done.returncode == 0, done.stderr
    assert "cœur" in done.stdout
    for run in (tour.TRANSLATOR, tour.PYTHON):
        assert (ROOT / run / "report.html").is_file()
