"""The routes of Work and Check return the library's results; errors are one line."""

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
from kinds_of_sheets import ALL_BUT_DEAR
from starlette.testclient import TestClient

from workings import Problem
from workings.problems.grading import grade
from workings.problems.notation import format_decimal, typeset
from workings.problems.sheets import make_sheet
from workings.problems.sheets.rounded_solution import make_answer_key
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.render.sheets import write_sheet
from workings.web.problem_views import build_solution_view
from workings.web.requests import ProblemTable

LECTURES = sorted((Path(__file__).parents[2] / "lectures").glob("*.toml"))
Table = dict[str, Any]
JSON = {"content-type": "application/json"}


def error_of(response: Any, status: int = 422) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    line: str = response.json()["error"]
    assert 0 < len(line) <= 301
    assert "\n" not in line
    return line


@pytest.mark.parametrize("file", LECTURES, ids=lambda file: file.stem)
def test_lecture_numbers_equal_library(client: TestClient, file: Path) -> None:
    table = client.get(f"/api/lecture/{file.stem}").json()
    problem = Problem.load(file)
    worked = client.post("/api/work", json={"table": table, "decimals": 4}).json()
    solution = problem.solve(4)
    assert [step["key"] for step in worked["steps"]] == solution.keys()
    for step in worked["steps"]:
        exact = solution[step["key"]]
        values = [
            [float(v.replace("−", "-").replace("∞", "inf")) if "·" not in v else None for v in row]
            for row in step["values"]
        ]
        for i, row in enumerate(values):
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
    for finding, wrong_cell in zip(report["findings"], expected.wrong_cells, strict=True):
        assert [c["name"] for c in finding["causes"]] == [c.name for c in wrong_cell.causes]
        assert (finding["row"], finding["column"]) == wrong_cell.cell


def test_cell_working_equals_library(client: TestClient, table: Table) -> None:
    problem = Problem(heads=2, mask="causal", **table["given"])
    body = {"table": table, "key": "weights.2", "row": 1, "column": 0}
    cell = client.post("/api/cell", json=body).json()
    assert cell["working"]["text"] == problem.solve().cell("weights.2", 2, 1)
    assert float(cell["value"]) == problem.solve()["weights", 2][1, 0]
    assert cell["reads"] == [{"key": "masked.2", "rows": [1], "columns": [0, 1]}]
    assert cell["working"]["tree"][0] == "math"


def test_column_vectors_transpose_all_steps(client: TestClient, table: Table) -> None:
    transposed = {
        **table,
        "vectors": "columns",
        "given": {
            name: [list(c) for c in zip(*m, strict=True)] for name, m in table["given"].items()
        },
    }
    rows = client.post("/api/work", json={"table": table}).json()["steps"]
    columns = client.post("/api/work", json={"table": transposed}).json()["steps"]
    for step, transposed_step in zip(rows, columns, strict=True):
        assert step["texts"] == [list(c) for c in zip(*transposed_step["texts"], strict=True)]
        assert step["axes"] == transposed_step["axes"][::-1]


def test_cause_has_name_and_resulting_cells(client: TestClient, table: Table) -> None:
    table = {**table, "settings": {"scale": "sqrt(d_k)"}, "given": {"X": [["1", "2"], ["3", "1"]]}}
    scaled = [["5", "5"], ["5", "10"]]
    claims = [{"key": "scaled", "cells": scaled}]
    report = client.post("/api/check", json={"table": {**table, "claims": claims}}).json()
    cause = report["findings"][0]["causes"][0]
    assert cause["name"] == "not-scaled"
    assert cause["resulting_cells"] == scaled


def test_carried_errors_are_linked(client: TestClient) -> None:
    table = client.get("/api/lecture/L2-self").json()
    links = client.post("/api/check", json={"table": table}).json()["links"]
    assert (links[0]["source"], links[0]["cell"], links[0]["target"]) == (
        "scores",
        [1, 2],
        "weights",
    )


def test_optional_matrices_start_neutral(client: TestClient, table: Table) -> None:
    worked = client.post("/api/work", json={"table": table}).json()
    last = worked["steps"][-1]["values"]
    assert set(worked["absent"]) >= {"W_V", "W_O", "b_Q", "context"}
    for name, cells in worked["absent"].items():
        extended = {**table, "given": {**table["given"], name: cells}}
        solution = client.post("/api/work", json={"table": extended}).json()
        assert solution["steps"][-1]["values"] == last, name


@pytest.mark.parametrize(
    "text",
    [r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", "array([[1, 2],\n [3, 4]])", "1,2\n3,4"],
)
def test_read_parses_matrices(client: TestClient, text: str) -> None:
    assert client.post("/api/read", json={"text": text}).json() == [["1", "2"], ["3", "4"]]


def test_undeclared_conventions_of_a_slide(client: TestClient) -> None:
    slide = "X = [[1, 0], [0, 2]]; A = [[1, 0], [0.06, 0.94]]"
    table = client.post("/api/open", json={"text": slide}).json()
    assert table["vectors"] == ""
    assert not {"scale", "mask", "normalizer"} & set(table["settings"])
    report = client.post("/api/check", json={"table": table}).json()
    assert report["verdict"] == "right"
    assert report["assumption"] == 'the mask is causal: declare mask = "causal"'
    table["settings"]["mask"] = "none"
    report = client.post("/api/check", json={"table": table}).json()
    assert (report["verdict"], report["assumption"]) == ("wrong", "")


def test_unknown_weights_and_reprints_of_a_slide(client: TestClient) -> None:
    slide = (
        "X = [[1, 0], [0, 2]]; Q = [[0.33, 1], [5, 6]]; K = [[7, 8], [9, 1]]; X = [[1, 0], [0, 3]]"
    )
    table = client.post("/api/open", json={"text": slide}).json()
    assert table["rounded"] == ["Q", "K"]
    assert [(claim["key"], claim["reprint"]) for claim in table["claims"]] == [("X", 1)]
    report = client.post("/api/check", json={"table": table}).json()
    note = "reprinted differently: X, row 2, column 2: printed as 2, then as 3"
    assert report["notes"] == [note]
    text = client.post("/api/export", json={"table": table, "file_format": "toml"}).text
    problem = Problem.from_toml(text)
    assert problem.given["Q"].lo[0, 0] < 0.33 < problem.given["Q"].hi[0, 0]
    assert len(problem.check().reprinted_cells) == 1


def test_open_parses_slides_and_problem_files(client: TestClient) -> None:
    slide = '% workings: scale = "none"\n$X = [[1, 0], [0, 2]]$\n\n$scores = [[1, 0], [0, 5]]$'
    table = client.post("/api/open", json={"text": slide}).json()
    assert table["claims"] == [{"key": "scores", "reprint": 0, "cells": [["1", "0"], ["0", "5"]]}]
    assert table["settings"]["scale"] == "none"
    for file in LECTURES:
        text = file.read_text(encoding="utf-8")
        assert (
            client.post("/api/open", json={"text": text}).json()
            == client.get(f"/api/lecture/{file.stem}").json()
        )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (f'title = "{"x" * 2001}"\n[given]\nX = [[1]]\n', "title"),
        ("[given]\nX = [[1]]\n" + "[[claim.again]]\nQ = [[1]]\n" * 21, "reprint"),
    ],
)
def test_opened_problem_can_be_sent_back(client: TestClient, text: str, field: str) -> None:
    """What the page could not send back is an error when it is opened."""
    assert field in error_of(client.post("/api/open", json={"text": text}))


def test_fractions_are_exact(client: TestClient) -> None:
    text = '[given]\nX = [["1/6", "1/2"]]\n[claim]\nQ = [["1/6", "1/2"]]\n'
    table = client.post("/api/open", json={"text": text}).json()
    assert table["given"]["X"] == [["1/6", "0.5"]]
    assert client.post("/api/check", json={"table": table}).json()["verdict"] == "right"


def test_optional_matrices_are_listed(client: TestClient) -> None:
    text = 'kind = "additive"\n[given]\ns = [[1, 0]]\nH = [[1, 2], [0, 1]]\nv = [1, 1]\n'
    table = client.post("/api/open", json={"text": text}).json()
    worked = client.post("/api/work", json={"table": table}).json()
    assert "W_s" in worked["absent"]


@pytest.mark.parametrize("file", LECTURES, ids=lambda file: file.stem)
def test_exported_problem_is_the_same_problem(client: TestClient, file: Path) -> None:
    table = client.get(f"/api/lecture/{file.stem}").json()

    def export(file_format: str, **options: Any) -> Any:
        body = {"table": table, "file_format": file_format, **options}
        return client.post("/api/export", json=body)

    toml = export("toml")
    assert toml.headers["content-disposition"] == 'attachment; filename="workings.toml"'
    assert "given" in tomllib.loads(toml.text)
    assert Problem.from_toml(toml.text).check().to_json() == Problem.load(file).check().to_json()
    for report in (False, True):
        svg = export("svg", report=report).text
        assert ElementTree.fromstring(svg).tag.endswith("svg")  # noqa: S314
    assert export("latex").text.startswith("\\documentclass")
    assert "<script>" in export("html").text


def test_sheet_equals_library(client: TestClient) -> None:
    body = {"kind": "masked", "count": 2, "seed": 7}
    views = client.post("/api/make", json=body).json()
    sheet = make_sheet("masked", (3, 3), 2, 7)
    for view, exercise in zip(views, sheet.exercises, strict=True):
        worked = client.post("/api/work", json={"table": view["table"]}).json()
        assert [s["key"] for s in worked["steps"]] == exercise.problem.solve().keys()
        assert view["table"]["tokens"] == exercise.problem.tokens


def test_hints_have_three_levels(client: TestClient, table: Table) -> None:
    problem = Problem(heads=2, mask="causal", **table["given"])
    claims = [{"key": "Q", "cells": [["1", "0.5", "?", "2"], ["?", "?", "?", "?"]]}]
    body = {"table": {**table, "claims": claims}, "key": "Q"}
    hints = [client.post("/api/hint", json={**body, "level": k}).json() for k in (1, 2, 3)]
    assert {(hint["row"], hint["column"]) for hint in hints} == {(0, 2)}
    formula, computation, number = (hint["working"]["text"] for hint in hints)
    assert formula == "Q = X W_Q"
    assert number == problem.solve().cell("Q", 1, 3)
    assert number.startswith(computation)
    assert computation.count("=") == 1


SMALL = {"given": {"X": [[1]]}}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("work", {"table": {"given": {"X": [["a"]]}}}, "given.X: 'a' is not a number"),
        ("work", {"table": {"given": {}}}, "given.X is missing"),
        ("work", {"table": {"given": {"J": [[1]]}}}, "no such given"),
        ("work", {"table": {"given": {"X": [[1]], "W_Q": [[1], [2]]}}}, "it must be 1"),
        ("work", {"table": {"given": {"X": [[1] * 65]}}}, "the page takes at most 64"),
        ("work", {"table": {"given": {"X": "1 " * 65}}}, "the page takes at most 64"),
        ("work", {"table": {**SMALL, "kind": "zebra"}}, "expected one of"),
        ("work", {"table": {"kind": "positions", "settings": {"count": 1024}}}, "at most 64"),
        ("work", {"table": {"settings": {"given": "x"}}}, "not a setting"),
        ("work", {"table": {}, "decimals": 99}, "decimals"),
        ("work", {"table": {}, "more": 1}, "more: no such field"),
        ("work", {"table": {"given": {"X": [["\ud800"]]}}}, "X"),
        ("work", [], "the request"),
        (
            "cell",
            {"table": SMALL, "key": "scroes", "row": 0, "column": 0},
            "did you mean 'scores'?",
        ),
        ("cell", {"table": SMALL, "key": "scores", "row": 3, "column": 0}, "no cell 4,1"),
        ("check", {"table": {**SMALL, "claims": [{"key": "Q.Q.Q", "cells": [[1]]}]}}, "no such"),
        (
            "check",
            {"table": {**SMALL, "claims": [{"key": "Q", "cells": [[1]]}] * 2}},
            "given twice",
        ),
        ("hint", {"table": SMALL, "key": "nothing", "level": 1}, "expected one of"),
        ("read", {"text": "hello"}, "is not a matrix"),
        ("open", {"text": "[given]\nX = true"}, "given.X must be a matrix"),
        ("open", {"text": "nothing here"}, "X"),
        ("make", {"kind": "zebra"}, "expected one of"),
        ("export", {"table": SMALL, "file_format": "exe"}, "file_format"),
    ],
)
def test_invalid_request_returns_one_line_error(
    client: TestClient, path: str, body: Any, message: str
) -> None:
    assert message in error_of(client.post(f"/api/{path}", content=json.dumps(body), headers=JSON))


@pytest.mark.parametrize(
    "name", ["nothing", "../L2-self", "%2e%2e%2fpyproject", "L2-self.toml", "a" * 61]
)
def test_names_are_not_paths(client: TestClient, name: str) -> None:
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
def test_malformed_body_is_rejected(client: TestClient, body: bytes) -> None:
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
def test_any_table_is_answered_or_rejected(client: TestClient, table: Table, path: str) -> None:
    body = {"table": table, **({"file_format": "toml"} if path == "/api/export" else {})}
    response = client.post(path, content=json.dumps(body), headers=JSON)
    assert response.status_code in (200, 422)
    if response.status_code == 422:
        error_of(response)


def test_tokens_are_returned_unchanged(client: TestClient) -> None:
    tokens = ["<script>alert(1)</script>", "x" * 10_000]
    table = {"tokens": tokens, "given": {"X": [[1, 0], [0, 1]]}}
    worked = client.post("/api/work", json={"table": table}).json()
    assert worked["given"][0]["row_names"] == tokens


def test_numbers_are_formatted_like_exported_pages(client: TestClient) -> None:
    table = {"settings": {"scale": "none"}, "given": {"X": [["0.1", "-0.7"], ["3", "1e-9"]]}}
    worked = client.post("/api/work", json={"table": table, "decimals": 2}).json()
    exact = Problem(X=table["given"]["X"], scale="none").solve()["scores"]
    texts = next(s for s in worked["steps"] if s["key"] == "scores")["texts"]
    assert texts[0][1] == typeset(format_decimal(exact[0, 1], 2)) == "0.30"


def test_app_needs_no_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = sys.modules['jaxtyping'] = None\n"
        "from starlette.testclient import TestClient\n"
        "from workings.web.app import build_app\n"
        "body = {'table': {'given': {'X': [[1]]}}}\n"
        "print(TestClient(build_app()).post('/api/work', json=body).status_code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "200\n"


def test_page_size(client: TestClient) -> None:
    names = re.findall(r"/page/([\w.]+)", client.get("/").text)
    seen = set()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            names += re.findall(r'"\./([\w.]+)"', client.get(f"/page/{name}").text)
    assert {"app.js", "work.js", "check.js", "page.css"} <= seen
    assert sum(len(client.get(f"/page/{name}").content) for name in seen) < 400_000


@pytest.mark.parametrize("name", ALL_BUT_DEAR)
def test_every_kind_of_the_menu_opens_and_shows_all_its_cells(
    client: TestClient, name: str
) -> None:
    kinds = {kind["name"]: kind for kind in client.get("/api/kinds").json()}
    assert kinds[name]["title"] == SHEET_KINDS[name].title
    body = {"kind": name, "level": 1, "count": 1, "seed": 4}
    (exercise,) = client.post("/api/make", json=body).json()
    table = exercise["table"]
    solution = client.post("/api/work", json={"table": table}).json()
    problem = make_sheet(name, count=1, seed=4, level=1).exercises[0].problem
    assert [step["key"] for step in solution["steps"]] == problem.solve().keys()
    step = solution["steps"][-1]
    rows, columns = len(step["texts"]), len(step["texts"][0])
    cell = {"key": step["key"], "row": rows - 1, "column": columns - 1}
    working = client.post("/api/cell", json={"table": table, **cell}).json()
    assert working["working"]["text"] == problem.solve().cell(step["key"], rows, columns)
    report = client.post("/api/check", json={"table": table})
    assert [step["key"] for step in report.json()["open_steps"]] == problem.solve().keys()
    toml = client.post("/api/export", json={"table": table, "file_format": "toml"}).text
    assert Problem.from_toml(toml).solve().keys() == problem.solve().keys()


def test_gradients_are_marked_as_backward() -> None:
    problem = Problem(
        kind="linear_gradient", given={"X": [[1, 2]], "W": [[1, 0], [2, 1]], "dY": [[1, 1]]}
    )
    view = build_solution_view(problem, 3)
    marked = {matrix.key for matrix in (*view.given, *view.steps) if matrix.is_backward}
    assert marked == {"dY", "dX", "dW"}
    attention = build_solution_view(Problem(X=[[1, 2], [3, 1]]), 3)
    assert not any(matrix.is_backward for matrix in (*attention.given, *attention.steps))


def test_implied_states_can_be_added() -> None:
    problem = Problem(kind="rnn", given={"X": [[1]], "W_xh": [[1]], "W_hh": [[0.5]]})
    assert build_solution_view(problem, 3).absent["h0"] == [["0"]]
    assert "h0" not in ProblemTable.from_problem(problem).given
    lstm = make_sheet("lstm", "2x2", count=1).exercises[0].problem
    assert list(build_solution_view(lstm, 3).absent) == ["h0", "c0"]  # no weights of single gates


@pytest.mark.parametrize("text", ["{", "[" * 3000])
def test_options_that_are_not_json_are_one_line_errors(client: TestClient, text: str) -> None:
    table = {"kind": "rnn", "options": {"activation": text}, "given": {"X": [[1]]}}
    answer = client.post("/api/work", json={"table": table})
    assert error_of(answer) == "options.activation: expected JSON"


def test_answers_of_the_practice_mode_are_graded(client: TestClient, tmp_path: Path) -> None:
    """The file that the page saves gets the marks of its numbers."""
    sheet = make_sheet("multi-head", "2x2", count=2, seed=4)
    write_sheet(sheet, tmp_path / "sheet")
    body = {"kind": "multi-head", "tokens": 2, "width": 2, "count": 2, "seed": 4}
    tables = [exercise["table"] for exercise in client.post("/api/make", json=body).json()]
    for table, exercise in zip(tables, sheet.exercises, strict=True):
        key = make_answer_key(exercise.problem, 3)
        table["claims"] = [{"key": k, "reprint": 0, "cells": cells} for k, cells in key.items()]
    tables[1]["claims"][0]["cells"][0][0] = "?"
    (tmp_path / "answers").mkdir()
    response = client.post("/api/answers", json={"tables": tables})
    (tmp_path / "answers" / "ann.toml").write_text(response.text)
    ((first, second),) = (s.marks for s in grade(tmp_path / "sheet", tmp_path / "answers").students)
    assert first.total == first.problem.max_points
    cells = tables[1]["claims"][0]["cells"]
    lost = 1 / (len(cells) * len(cells[0]))
    assert second.total == pytest.approx(second.problem.max_points - lost)
