"""The documented calls of the library pass mypy in strict mode."""

import subprocess
import sys

import pytest
from commands import ROOT

from documents import read_blocks


@pytest.mark.slow
def test_readme_examples_are_typed(tmp_path):
    python = [block.text for block in read_blocks(ROOT / "README.md") if block.language == "python"]
    file = tmp_path / "examples.py"
    file.write_text("\n".join(python), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(file)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
