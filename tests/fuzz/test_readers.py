"""Fuzz every reader with twenty files; the slow tests for minutes, with atheris if installed.

For longer: `python fuzz/run.py all --seconds 600`.
"""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "fuzz"


def _load_program():
    spec = spec_from_file_location("fuzz_run", FOLDER / "run.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAM = _load_program()
NUM_FILES = 20
NAMES = list(PROGRAM.readers())


@pytest.mark.parametrize("name", NAMES)
def test_readers_accept_or_refuse_mutated_files(name):
    count, accepted = PROGRAM.fuzz(name, seed=1, max_files=NUM_FILES)
    assert count == NUM_FILES
    assert accepted < count or name in ("texts", "log")  # these accept any input


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_readers_accept_or_refuse_mutated_files_for_minutes(name):
    seconds = "600" if "document" in name else "60"
    command = [sys.executable, str(FOLDER / "run.py"), name, "--seconds", seconds, "--seed", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
