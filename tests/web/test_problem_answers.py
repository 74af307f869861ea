"""What the static page answers in the browser is what the server answers, for every path."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from starlette.testclient import TestClient

from workings.builtin import builtin_lectures
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.web import problem_answers
from workings.web.problem_answers import answer
from workings.web.request_reader import _make_reader, read
from workings.web.requests import ProblemRequest, SheetRequest

TIME = re.compile(r'"milliseconds":[\d.e-]+')  # in a page of a solution
JSON = {"content-type": "application/json"}
TABLE = {
    "title": "Zwei Wörter",
    "tokens": ["die", "Katze"],
    "settings": {"heads": 2, "mask": "causal"},
    "given": {"X": [["1", "1/3"], ["0", 2]], "W_V": "1 0 1 2\n0 1 1 0"},
    "claims": [
        {"key": "scores.1", "cells": [["1", "?"], ["0", "4"]]},
        {"key": "V", "cells": [["1", "1/3", "4/3", "9"], ["0", "2", "2", "0"]]},
    ],
}
SLIDE = r"X = \begin{bmatrix} 1 & 0 \\ 1 & 2 \end{bmatrix}"
CELL = {"key": "V", "row": 0, "column": 3}
FORMATS = [
    {"file_format": name, "report": report}
    for name in problem_answers.FILE_TYPES
    for report in (False, True)
]
POSTS: list[tuple[str, Any]] = [
    ("work", {"table": TABLE}),
    ("work", {"table": {**TABLE, "vectors": "columns"}, "decimals": 6}),
    ("check", {"table": TABLE, "decimals": 4}),
    ("cell", {"table": TABLE, **CELL}),
    *(("hint", {"table": TABLE, "key": "V", "level": level}) for level in (1, 2, 3)),
    *(("export", {"table": TABLE, **options}) for options in FORMATS),
    ("answers", {"tables": [TABLE, TABLE]}),
    ("answers", {"tables": 7 * [TABLE]}),
    ("make", {"kind": "masked", "count": 2, "seed": 7}),
    ("make", {"kind": "self", "tokens": 2, "width": 3, "vectors": "columns"}),
    ("read", {"text": "1 2\n3 4"}),
    ("open", {"text": SLIDE}),
    ("open", {"text": "[given]\nX = [[1]]\n[claim]\nQ = [[2]]"}),
    ("document", {"content": SLIDE, "file": "slide.tex"}),
    # errors
    ("document", {"content": "Zm9v", "is_base64": True, "file": "a.pdf"}),
    ("work", {"table": {"given": {"X": [["a"]]}}}),
    ("work", {"table": {"given": {"X": [["1"], [True]]}}}),
    ("work", {"table": {"given": {"X": [["1" * 201]]}}}),
    ("work", {"table": {"given": {"X": [["\ud800"]]}}}),
    ("work", {"table": {"given": {"X": 1}}}),
    ("work", {"table": {"vectors": "diagonals"}}),
    ("work", {"table": {"settings": {"given": "x"}}}),
    ("work", {"table": TABLE, "decimals": 99}),
    ("work", {"table": TABLE, "more\n\x1b[31m": 1}),
    ("work", {}),
    ("work", []),
    ("work", 3),
    ("cell", {"table": TABLE, **CELL, "row": 2}),
    ("cell", {"table": TABLE, **CELL, "row": 1.0}),
    ("check", {"table": {**TABLE, "claims": TABLE["claims"] * 2}}),  # type: ignore[operator]
    ("hint", {"table": TABLE, "key": "nothing", "level": 1}),
    ("make", {"kind": "zebra"}),
    ("make", {"kind": "self", "count": 1000}),
    ("export", {"table": TABLE, "file_format": "exe"}),
    ("read", {"text": "hello"}),
    ("open", {"text": "nothing here"}),
    ("nothing", {}),
]
GETS = ["kinds", "lectures", "lecture/L2-self", "lecture/nothing", f"lecture/{'a' * 99}", "nowhere"]


def without_time(result: Any) -> Any:
    if isinstance(result, dict):
        return {key: value for key, value in result.items() if key != "milliseconds"}
    return result


def expect_same(response: Any, path: str, body: str | None = None) -> None:
    ours = answer(path, body)
    assert ours.status == response.status_code
    if response.headers["content-type"] == "application/json":
        assert without_time(json.loads(ours.body)) == without_time(response.json())
    else:
        assert TIME.sub("", ours.body) == TIME.sub("", response.text)
    for name in ("content-type", "content-disposition"):
        expected = response.headers.get(name, "").partition(";")
        assert ours.headers.get(name, "").partition(";")[:1] == expected[:1]


@pytest.mark.parametrize(("name", "body"), POSTS)
def test_post_is_answered_like_on_the_server(client: TestClient, name: str, body: Any) -> None:
    text, path = json.dumps(body), f"/api/{name}"
    expect_same(client.post(path, content=text, headers=JSON), path, text)


@pytest.mark.parametrize("name", GETS)
def test_get_is_answered_like_on_the_server(client: TestClient, name: str) -> None:
    expect_same(client.get(f"/api/{name}"), f"/api/{name}")


@pytest.mark.parametrize("name", builtin_lectures())
def test_lecture_is_checked_like_on_the_server(client: TestClient, name: str) -> None:
    path = f"/api/lecture/{name}"
    expect_same(client.get(path), path)
    body = json.dumps({"table": json.loads(answer(path).body)})
    expect_same(client.post("/api/check", content=body, headers=JSON), "/api/check", body)


def test_missing_package_is_an_error_of_one_line(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    path = "/api/document"
    body = json.dumps({"content": "JVBERi0xLjQK", "is_base64": True, "file": "a.pdf"})
    expect_same(client.post(path, content=body, headers=JSON), path, body)
    assert answer(path, body).status == 422


def test_every_path_is_compared(client: TestClient) -> None:
    served = {f"/api/{name}" for name, _ in POSTS} | {f"/api/{name}" for name in GETS}
    assert {*problem_answers.POSTS, *problem_answers.GETS} <= served
    assert len(SHEET_KINDS) == len(json.loads(answer("/api/kinds").body))


def test_answers_need_numpy_alone() -> None:
    program = (
        "import sys\n"
        "for name in 'torch fastapi pydantic starlette PIL'.split(): sys.modules[name] = None\n"
        "from workings.web.problem_answers import answer\n"
        'print(answer(\'/api/work\', \'{"table": {"given": {"X": [[1]]}}}\').status)'
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "200\n"


def test_fields_are_read_as_declared() -> None:
    assert read(SheetRequest, {"kind": "self"}) == SheetRequest(kind="self")
    whole = read(ProblemRequest, {"table": TABLE})
    assert (whole.decimals, whole.table.claims[1].key) == (3, "V")
    for body, message in (
        ({"table": {"claims": [{"key": "Q"}]}}, "table.claims.0.cells: is missing"),
        ({"table": {"given": {"X": [[1], [None]]}}}, "table.given.X.1.0: expected a text or"),
        ({"table": {"tokens": "the cat"}}, "table.tokens: expected a list or null"),
        ({"table": {}, "decimals": True}, "decimals: expected a whole number from 0 to 15"),
        ({"table": {"given": {"X": [[float("nan")]]}}}, "expected a finite number"),
    ):
        with pytest.raises(ValueError, match=message.replace(".", r"\.")):
            read(ProblemRequest, body)


def test_schema_of_a_request() -> None:
    schema = _make_reader(SheetRequest).schema()
    assert schema["required"] == ["kind"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 6}
    assert schema["properties"]["tokens"]["anyOf"][1] == {"type": "null"}
