"""The figures in the pages are those that the program wrote."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_tables_are_true():
    done = subprocess.run(
        [sys.executable, "docs/results.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_result_has_its_recipe():
    for result in (ROOT / "results").glob("imdb-*.json"):
        assert (ROOT / "recipes" / f"{result.stem}.toml").is_file()
