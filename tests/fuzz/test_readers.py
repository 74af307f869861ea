"""Every reader, fuzzed for a second; the long tests do it for a minute, guided where they can be.

By hand, for as long as one likes: `python fuzz/run.py all --seconds 600`.
"""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "fuzz"


def _program():
    spec = spec_from_file_location("fuzz_run", FOLDER / "run.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAM = _program()
NAMES = list(PROGRAM.readers())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_one_line(name):
    count, taken = PROGRAM.fuzz(name, seconds=1, seed=1)
    assert count > 3
    assert taken < count or name in ("texts", "log")  # which anything may be


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_one_line_at_length(name):
    command = [sys.executable, str(FOLDER / "run.py"), name, "--seconds", "60", "--seed", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
