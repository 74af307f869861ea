"""Documents of many formats: the examples they hold, their verdicts and what is not read."""

import json
import os
from pathlib import Path

import pytest

from workings.problems.documents.reading import read_document

SHARED = Path(
    os.environ.get("WORKINGS_DATA", Path(__file__).parents[4] / "shared" / "data")
).with_name("documents")
EXPECTED = SHARED / "expected.json"


def list_cells(report: dict, verdict: str) -> dict[str, list[list[int]]]:
    cells: dict[str, list[list[int]]] = {}
    for step in report["steps"]:
        time, head = step.get("t"), step.get("head")
        name = step["step"] + (f"@{time}" if time else "") + (f".{head}" if head else "")
        marked = [
            [i, j]
            for i, row in enumerate(step["cells"])
            for j, cell in enumerate(row)
            if cell == verdict
        ]
        if marked:
            cells[name + "'" * bool(step.get("again"))] = marked
    return cells


def load_expected() -> list[tuple[str, list[dict]]]:
    if not EXPECTED.exists():
        return []
    return list(json.loads(EXPECTED.read_text(encoding="utf-8")).items())


@pytest.mark.skipif(not EXPECTED.exists(), reason=f"no documents at {SHARED}")
@pytest.mark.parametrize(("name", "expected"), load_expected())
def test_published_forms(name: str, expected: list[dict]) -> None:
    if name.endswith(".pdf"):
        pytest.importorskip("pypdf")
    report = read_document((SHARED / name).read_bytes(), name)
    actual = [example.to_dict() for example in report.examples]
    assert [example["line"] for example in actual] == [example["line"] for example in expected]
    for example, wanted in zip(actual, expected, strict=True):
        first = example["first"] and [example["first"]["step"], example["first"]["cell"]]
        causes = [cause["name"] for cause in example["first"]["causes"]] if first else [None]
        assert example["kind"] == wanted["kind"]
        assert (causes[0], (example["first"] or {}).get("t")) == (wanted["cause"], wanted.get("t"))
        assert first == wanted["first"]
        assert list_cells(example, "wrong") == wanted["wrong"]
        assert list_cells(example, "follows") == wanted.get("follows", {})
