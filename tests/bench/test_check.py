"""The checker's benchmark plants every mistake and finds no correct solution wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("bench") / "check.json"
    command = [sys.executable, str(ROOT / "bench" / "check.py"), "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr
    return json.loads(out.read_text(encoding="utf-8"))


def test_no_honest_solution_is_called_wrong(quick: dict[str, Any]) -> None:
    *styles, total = quick["honest"]
    assert len(styles) >= 19
    assert total["planted"] >= 200
    assert [row["name"] for row in styles if row["wrong"]] == []


def test_slips_are_found(quick: dict[str, Any]) -> None:
    assert [row["name"] for row in quick["slips"] if row["found"] < row["planted"]] == []


def test_every_name_is_planted_and_most_are_reported(quick: dict[str, Any]) -> None:
    *mistakes, total = quick["mistakes"]
    assert {row["name"] for row in mistakes} == _documented_names()
    assert all(row["planted"] for row in mistakes)
    assert total["found"] >= 0.95 * total["planted"]
    assert total["named"] >= 0.9 * total["planted"]


@pytest.mark.parametrize(("section", "share"), [("mistake_and_slip", 0.85), ("two_mistakes", 0.75)])
def test_mistakes_are_named_beside_others(
    quick: dict[str, Any], section: str, share: float
) -> None:
    *rows, total = quick[section]
    assert all(row["planted"] for row in rows)
    assert total["named"] >= share * total["planted"]


def test_mistakes_without_a_name_get_none(quick: dict[str, Any]) -> None:
    total = quick["uncatalogued"][-1]
    assert total["named"] <= 0.1 * total["planted"]


def _documented_names() -> set[str]:
    text = (ROOT / "docs" / "problem-format.md").read_text(encoding="utf-8")
    section = text.partition("## Mistakes by name")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z_-]+(?:-[a-z_0-9-]+)+|unknown)`", section))
