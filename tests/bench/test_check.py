"""The benchmark of the checker runs, has a plant for every name, and blames no honest solution."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_quick_run(tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    command = [sys.executable, str(ROOT / "bench" / "check.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["honest_called_wrong"] == 0, done.stdout
    *mistakes, total = result["mistakes"]
    assert {row["name"] for row in mistakes} == _names_of_the_contract()
    assert all(row["planted"] for row in mistakes)
    assert total["found"] >= 0.95 * total["planted"]
    assert total["named"] >= 0.9 * total["planted"]


def _names_of_the_contract() -> set[str]:
    contract = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = contract.partition("## Mistakes by name")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z_-]+-[a-z_-]+)`", section))
