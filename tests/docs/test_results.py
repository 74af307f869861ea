"""The tables on the pages match results/*.json."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_tables_are_up_to_date():
    done = subprocess.run(
        [sys.executable, "docs/results.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_result_has_its_recipe():
    for result in (ROOT / "results").glob("imdb-*.json"):
        for name in result.stem.partition(".seed-")[0].split("+"):  # of an ensemble
            assert (ROOT / "recipes" / f"{name}.toml").is_file()
