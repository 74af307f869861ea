"""The checker's benchmark plants every mistake and finds no correct solution wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIN_NAMED = {"mistakes": 0.9, "mistake_and_slip": 0.85, "two_mistakes": 0.75}
MAX_MISNAMED = 0.1


def test_a_quick_run_judges_and_names_what_is_planted(tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    command = [sys.executable, str(ROOT / "bench" / "check.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr
    result = json.loads(out.read_text(encoding="utf-8"))
    totals = {name: rows.pop() for name, rows in result.items() if isinstance(rows, list) and rows}

    assert len(result["honest"]) >= 19  # styles of rounding
    assert [row["name"] for row in result["honest"] if row["wrong"]] == []
    assert [row["name"] for row in result["slips"] if row["found"] < row["planted"]] == []
    planted = {row["name"] for row in result["mistakes"]}
    assert len(planted) >= 57  # of the kinds that the benchmark draws
    assert planted <= _documented_names()
    for name in totals:
        assert all(row["planted"] for row in result[name]), name
    assert totals["mistakes"]["found"] >= 0.95 * totals["mistakes"]["planted"]
    for name, share in MIN_NAMED.items():
        assert totals[name]["named"] >= share * totals[name]["planted"], name
    nameless = totals["uncatalogued"]
    assert nameless["named"] <= MAX_MISNAMED * nameless["planted"]


def _documented_names() -> set[str]:
    text = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = text.partition("## Mistakes by name")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z_-]+(?:-[a-z_0-9-]+)+|unknown)`", section))
