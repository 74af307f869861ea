"""The server's answers are the library's, and what it refuses it refuses in a line."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from workings import Problem
from workings.problems.notation import format_decimal, typeset

LECTURES = sorted((Path(__file__).parents[2] / "lectures").glob("*.toml"))
Table = dict[str, Any]
JSON = {"content-type": "application/json"}


def refused(response: Any, status: int = 422) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    line: str = response.json()["error"]
    assert 0 < len(line) <= 301
    assert "\n" not in line
    return line


@pytest.mark.parametrize("file", LECTURES, ids=lambda file: file.stem)
def test_every_number_of_a_lecture_is_the_librarys(client: TestClient, file: Path) -> None:
    table = client.get(f"/api/lecture/{file.stem}").json()
    problem = Problem.load(file)
    worked = client.post("/api/work", json={"table": table, "decimals": 4}).json()
    solution = problem.solve(4)
    assert [step["key"] for step in worked["steps"]] == solution.keys()
    for step in worked["steps"]:
        exact = solution[step["key"]]
        shown = [
            [float(v.replace("−", "-").replace("∞", "inf")) if "·" not in v else None for v in row]
            for row in step["values"]
        ]
        for i, row in enumerate(shown):
            for j, value in enumerate(row):
                assert value is None or value == exact[i, j]
    report = client.post("/api/check", json={"table": table}).json()
    expected = problem.check()
    assert report["verdict"] == expected.verdict
    assert report["counts"] == expected.counts
    assert [s["claimed"]["marks"] for s in report["steps"]] == [
        expected._orient_verdicts(one.verdicts) for one in expected.steps
    ]
    assert [f["key"] for f in report["findings"]] == [f.key for f in expected.wrong_cells]
    for told, first in zip(report["findings"], expected.wrong_cells, strict=True):
        assert [c["name"] for c in told["causes"]] == [c.name for c in first.causes]
        assert (told["row"], told["column"]) == first.cell


def test_a_cell_is_written_out_as_the_library_does(client: TestClient, table: Table) -> None:
    problem = Problem(heads=2, mask="causal", **table["given"])
    asked = {"table": table, "key": "weights.2", "row": 1, "column": 0}
    told = client.post("/api/cell", json=asked).json()
    assert told["working"]["text"] == problem.solve().cell("weights.2", 2, 1)
    assert float(told["value"]) == problem.solve()["weights", 2][1, 0]
    assert told["reads"] == [{"key": "masked.2", "rows": [1], "columns": [0, 1]}]
    tree = told["working"]["tree"]
    assert tree[0] == "math"


def test_columns_turn_everything_over(client: TestClient, table: Table) -> None:
    turned = {
        **table,
        "vectors": "columns",
        "given": {
            name: [list(c) for c in zip(*m, strict=True)] for name, m in table["given"].items()
        },
    }
    rows = client.post("/api/work", json={"table": table}).json()["steps"]
    columns = client.post("/api/work", json={"table": turned}).json()["steps"]
    for one, other in zip(rows, columns, strict=True):
        assert one["texts"] == [list(c) for c in zip(*other["texts"], strict=True)]
        assert one["axes"] == other["axes"][::-1]


def test_a_planted_mistake_is_named_with_what_it_gives(client: TestClient, table: Table) -> None:
    table = {**table, "settings": {}, "given": {"X": [["1", "2"], ["3", "1"]]}}
    scaled = [["5", "5"], ["5", "10"]]
    claims = [{"key": "scaled", "cells": scaled}]
    report = client.post("/api/check", json={"table": {**table, "claims": claims}}).json()
    cause = report["findings"][0]["causes"][0]
    assert cause["name"] == "not-scaled"
    assert cause["resulting_cells"] == scaled


def test_errors_carried_on_are_linked(client: TestClient) -> None:
    table = client.get("/api/lecture/L2-self").json()
    links = client.post("/api/check", json={"table": table}).json()["links"]
    assert (links[0]["source"], links[0]["cell"], links[0]["target"]) == (
        "scores",
        [1, 2],
        "weights",
    )


def test_absent_matrices_change_nothing_at_first(client: TestClient, table: Table) -> None:
    worked = client.post("/api/work", json={"table": table}).json()
    last = worked["steps"][-1]["values"]
    assert {one["name"] for one in worked["absent"]} >= {"W_V", "W_O", "b_Q", "context"}
    for one in worked["absent"]:
        more = {**table, "given": {**table["given"], one["name"]: one["cells"]}}
        again = client.post("/api/work", json={"table": more}).json()
        assert again["steps"][-1]["values"] == last, one["name"]


@pytest.mark.parametrize(
    "text",
    [r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", "array([[1, 2],\n [3, 4]])", "1,2\n3,4"],
)
def test_matrices_are_read_from_text(client: TestClient, text: str) -> None:
    assert client.post("/api/read", json={"text": text}).json()["cells"] == [["1", "2"], ["3", "4"]]


def test_slides_and_problem_files_are_opened(client: TestClient) -> None:
    slide = '% workings: scale = "none"\n$X = [[1, 0], [0, 2]]$\n\n$scores = [[1, 0], [0, 5]]$'
    told = client.post("/api/open", json={"text": slide}).json()
    assert told["claims"] == [{"key": "scores", "reprint": 0, "cells": [["1", "0"], ["0", "5"]]}]
    assert told["settings"]["scale"] == "none"
    for file in LECTURES:
        text = file.read_text(encoding="utf-8")
        assert (
            client.post("/api/open", json={"text": text}).json()
            == client.get(f"/api/lecture/{file.stem}").json()
        )


def test_fractions_are_right_on_the_page_as_well(client: TestClient) -> None:
    text = '[given]\nX = [["1/6", "1/2"]]\n[claim]\nQ = [["1/6", "1/2"]]\n'
    table = client.post("/api/open", json={"text": text}).json()
    assert table["given"]["X"] == [["1/6", "0.5"]]
    assert client.post("/api/check", json={"table": table}).json()["verdict"] == "right"


def test_all_that_might_be_given_is_offered(client: TestClient) -> None:
    text = 'kind = "additive"\n[given]\ns = [[1, 0]]\nH = [[1, 2], [0, 1]]\nv = [1, 1]\n'
    table = client.post("/api/open", json={"text": text}).json()
    worked = client.post("/api/work", json={"table": table}).json()
    assert "W_s" in [absent["name"] for absent in worked["absent"]]


@pytest.mark.parametrize("file", LECTURES, ids=lambda file: file.stem)
def test_what_is_kept_as_a_file_is_the_same_problem(client: TestClient, file: Path) -> None:
    table = client.get(f"/api/lecture/{file.stem}").json()
    written = client.post("/api/export", json={"table": table, "file_format": "toml"})
    assert written.headers["content-disposition"] == 'attachment; filename="workings.toml"'
    assert "given" in tomllib.loads(written.text)
    assert Problem.from_toml(written.text).check().to_json() == Problem.load(file).check().to_json()
    for report in (False, True):
        svg = client.post(
            "/api/export", json={"table": table, "file_format": "svg", "report": report}
        ).text
        assert ElementTree.fromstring(svg).tag.endswith("svg")  # noqa: S314
    assert client.post(
        "/api/export", json={"table": table, "file_format": "latex"}
    ).text.startswith("\\documentclass")
    assert (
        "<script>" in client.post("/api/export", json={"table": table, "file_format": "html"}).text
    )


def test_sheets_are_those_of_the_library(client: TestClient) -> None:
    from workings.problems.sheets import make_sheet

    told = client.post("/api/make", json={"kind": "masked", "count": 2, "seed": 7}).json()
    sheet = make_sheet("masked", (3, 3), 2, 7)
    for one, exercise in zip(told["exercises"], sheet.exercises, strict=True):
        worked = client.post("/api/work", json={"table": one["table"]}).json()
        assert [s["key"] for s in worked["steps"]] == exercise.problem.solve().keys()
        assert one["table"]["tokens"] == exercise.problem.tokens


def test_hints_come_a_step_at_a_time(client: TestClient, table: Table) -> None:
    problem = Problem(heads=2, mask="causal", **table["given"])
    claims = [{"key": "Q", "cells": [["1", "0.5", "?", "2"], ["?", "?", "?", "?"]]}]
    asked = {"table": {**table, "claims": claims}, "key": "Q"}
    told = [client.post("/api/hint", json={**asked, "level": k}).json() for k in (1, 2, 3)]
    assert {(t["row"], t["column"]) for t in told} == {(0, 2)}
    assert told[0]["help"]["text"] == "Q = X W_Q"
    assert told[2]["help"]["text"] == problem.solve().cell("Q", 1, 3)
    assert told[2]["help"]["text"].startswith(told[1]["help"]["text"])
    assert told[1]["help"]["text"].count("=") == 1


ONE = {"given": {"X": [[1]]}}


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("work", {"table": {"given": {"X": [["a"]]}}}, "given.X: 'a' is not a number"),
        ("work", {"table": {"given": {}}}, "given.X is missing"),
        ("work", {"table": {"given": {"Y": [[1]]}}}, "no such given"),
        ("work", {"table": {"given": {"X": [[1]], "W_Q": [[1], [2]]}}}, "it must be 1"),
        ("work", {"table": {"given": {"X": [[1] * 65]}}}, "the page takes 64"),
        ("work", {"table": {"given": {"X": "1 " * 65}}}, "the page takes 64"),
        ("work", {"table": {**ONE, "kind": "zebra"}}, "expected one of"),
        ("work", {"table": {"kind": "positions", "settings": {"count": 1024}}}, "at most 64"),
        ("work", {"table": {"settings": {"given": "x"}}}, "a place of its own"),
        ("work", {"table": {}, "decimals": 99}, "decimals"),
        ("work", {"table": {}, "more": 1}, "Extra inputs"),
        ("work", {"table": {"given": {"X": [["\ud800"]]}}}, "X"),
        ("work", [], "the request"),
        ("cell", {"table": ONE, "key": "scroes", "row": 0, "column": 0}, "did you mean 'scores'?"),
        ("cell", {"table": ONE, "key": "scores", "row": 3, "column": 0}, "no cell 4,1"),
        ("check", {"table": {**ONE, "claims": [{"key": "Q.Q.Q", "cells": [[1]]}]}}, "no such"),
        ("check", {"table": {**ONE, "claims": [{"key": "Q", "cells": [[1]]}] * 2}}, "there twice"),
        ("hint", {"table": ONE, "key": "nothing", "level": 1}, "expected one of"),
        ("read", {"text": "hello"}, "is not a matrix"),
        ("open", {"text": "[given]\nX = 1"}, "given.X must be a matrix"),
        ("open", {"text": "nothing here"}, "X"),
        ("make", {"kind": "zebra"}, "expected one of"),
        ("export", {"table": ONE, "file_format": "exe"}, "file_format"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    client: TestClient, path: str, body: Any, said: str
) -> None:
    assert said in refused(client.post(f"/api/{path}", content=json.dumps(body), headers=JSON))


@pytest.mark.parametrize(
    "name", ["nothing", "../L2-self", "%2e%2e%2fpyproject", "L2-self.toml", "a" * 61]
)
def test_no_path_reaches_the_files(client: TestClient, name: str) -> None:
    assert client.get(f"/api/lecture/{name}").status_code in (404, 422)
    assert client.get(f"/page/{name}").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"table": NaN}',
        b'{"table": {"given": {"X": [[NaN]]}}}',
        b"",
    ],
)
def test_what_is_no_request_is_refused(client: TestClient, body: bytes) -> None:
    response = client.post("/api/work", content=body, headers=JSON)
    assert response.status_code in (400, 422)
    assert "\n" not in response.json()["error"]


cells = st.one_of(
    st.text(max_size=8),
    st.integers(-9, 9).map(str),
    st.floats(),
    st.sampled_from(["1/2", "0,5", "-inf", "?", "1e9"]),
)
matrices = st.one_of(
    st.text(max_size=30),
    st.lists(st.lists(cells, max_size=3), max_size=3),
    st.just([["1", "2"], ["3", "4"]]),
)
rows = matrices.filter(lambda matrix: isinstance(matrix, list))
words = st.sampled_from(["none", "causal", "sum", "softmax", "sqrt(d_k)"])
names = st.sampled_from(["heads", "scale", "mask", "normalizer", "eps", "count", "width", "zebra"])
keys = st.sampled_from(["Q", "scores", "weights.1", "mixed", "h.1", "head.1.Q", "again", ""])
claim = st.fixed_dictionaries({"key": keys, "reprint": st.integers(0, 2), "cells": matrices})
givens = st.sampled_from(["X", "W_Q", "W_V", "W_O", "b_K", "context", "Q", "gamma", "s"])
kinds = [
    "attention",
    "layer_norm",
    "rnn",
    "lstm",
    "positions",
    "additive",
    "feed_forward",
    "block",
    "x",
]
tables = st.fixed_dictionaries(
    {"given": st.dictionaries(givens, matrices, max_size=3)},
    optional={
        "kind": st.sampled_from(kinds),
        "vectors": st.sampled_from(["rows", "columns"]),
        "tokens": st.lists(st.text(max_size=5), max_size=3),
        "settings": st.dictionaries(
            names, st.one_of(st.integers(-2, 99), st.floats(), words, rows), max_size=3
        ),
        "claims": st.lists(claim, max_size=3),
    },
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables, path=st.sampled_from(["/api/work", "/api/check", "/api/export"]))
def test_nothing_that_is_posted_breaks_it(client: TestClient, table: Table, path: str) -> None:
    body = {"table": table, **({"file_format": "toml"} if path == "/api/export" else {})}
    response = client.post(path, content=json.dumps(body), headers=JSON)
    assert response.status_code in (200, 422)
    if response.status_code == 422:
        refused(response)


def test_words_of_any_length_and_kind_come_back_as_they_are(client: TestClient) -> None:
    tokens = ["<script>alert(1)</script>", "x" * 10_000]
    table = {"tokens": tokens, "given": {"X": [[1, 0], [0, 1]]}}
    worked = client.post("/api/work", json={"table": table}).json()
    assert worked["given"][0]["row_names"] == tokens


def test_numbers_are_shown_as_the_exported_pages_show_them(client: TestClient) -> None:
    table = {"settings": {"scale": "none"}, "given": {"X": [["0.1", "-0.7"], ["3", "1e-9"]]}}
    worked = client.post("/api/work", json={"table": table, "decimals": 2}).json()
    exact = Problem(X=table["given"]["X"], scale="none").solve()["scores"]
    shown = next(s for s in worked["steps"] if s["key"] == "scores")["texts"]
    assert shown[0][1] == typeset(format_decimal(exact[0, 1], 2)) == "0.30"


def test_it_needs_no_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = sys.modules['jaxtyping'] = None\n"
        "from starlette.testclient import TestClient\n"
        "from workings.web.app import build_app\n"
        "asked = {'table': {'given': {'X': [[1]]}}}\n"
        "print(TestClient(build_app()).post('/api/work', json=asked).status_code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "200\n"


def test_the_page_is_light(client: TestClient) -> None:
    names = re.findall(r"/page/([\w.]+)", client.get("/").text)
    seen = set()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            names += re.findall(r'"\./([\w.]+)"', client.get(f"/page/{name}").text)
    assert {"app.js", "work.js", "check.js", "page.css"} <= seen
    assert sum(len(client.get(f"/page/{name}").content) for name in seen) < 300_000
