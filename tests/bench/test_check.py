"""The checker's benchmark plants every mistake and finds no correct solution wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_quick_run_finds_and_names_planted_mistakes(tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    command = [sys.executable, str(ROOT / "bench" / "check.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["honest_called_wrong"] == 0, done.stdout
    *mistakes, total = result["mistakes"]
    assert {row["name"] for row in mistakes} == _documented_names()
    assert all(row["planted"] for row in mistakes)
    assert total["found"] >= 0.95 * total["planted"]
    assert total["named"] >= 0.9 * total["planted"]


def _documented_names() -> set[str]:
    text = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = text.partition("## Mistakes by name")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z_-]+-[a-z_-]+)`", section))
