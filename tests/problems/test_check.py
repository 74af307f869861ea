"""Reports: the JSON contract, every kind of problem, and the findings in the lecture notes."""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings import Problem
from workings.problems.notation import TextNotation
from workings.problems.numbers import transpose_rows
from workings.problems.sheets.rounded_solution import nest_claims

LECTURES = Path(__file__).parents[2] / "lectures"
Matrix = np.ndarray
RNG = np.random.default_rng(11)


def m(rows: int, columns: int) -> Matrix:
    return np.round(RNG.normal(size=(rows, columns)), 1)


def format_cells(matrix: Matrix) -> list[list[str]]:
    return [["-inf" if v == -np.inf else f"{v:.3f}" for v in row] for row in matrix]


def check_first(**fields: Any) -> dict[str, Any]:
    report = json.loads(Problem(**fields).check().to_json())
    first: dict[str, Any] = report["first"]
    return first


def cause_names(first: dict[str, Any]) -> list[str]:
    return [cause["name"] for cause in first["causes"]]


# -- the report ------------------------------------------------------------------------------------


def test_report_json() -> None:
    claim = {"scores": [[1, 0], [0, 5]], "weights": [["0.731", "0.269"], ["0.0067", "?"]]}
    problem = Problem(title="t", X=[[1, 0], [0, 2]], scale="none", claim=claim)
    data = json.loads(problem.check().to_json("a/slide.toml"))
    keys = ["version", "file", "title", "verdict", "first", "mistakes", "steps", "counts"]
    assert list(data) == keys
    assert data.pop("mistakes") == [data["first"]]
    assert data == {
        "version": 1,
        "file": "a/slide.toml",
        "title": "t",
        "verdict": "wrong",
        "first": {
            "step": "scores",
            "head": None,
            "cell": [1, 1],
            "claimed": "5",
            "expected": 4.0,
            "causes": [
                {
                    "name": "unknown",
                    "reproduces": "0/1",
                    "says": "no known mistake explains this: 0·0 + 2·2 is 4, not 5",
                }
            ],
        },
        "steps": [
            {
                "step": "scores",
                "head": None,
                "verdict": "wrong",
                "cells": [["right", "right"], ["right", "wrong"]],
            },
            {
                "step": "weights",
                "head": None,
                "verdict": "follows",
                "cells": [["right", "right"], ["follows", "blank"]],
            },
        ],
        "counts": {"right": 5, "rounded": 0, "follows": 1, "wrong": 1, "blank": 1},
    }
    assert list(data["first"]) == ["step", "head", "cell", "claimed", "expected", "causes"]
    assert "\n" not in problem.check().to_json()


def test_correct_claim_has_no_first() -> None:
    report = Problem(X=[[1, 0]], scale="none", claim={"scores": [[1]]}).check()
    data = json.loads(report.to_json())
    assert (data["verdict"], data["first"]) == ("right", None)
    assert report.first is None
    assert report.wrong_cells == []
    assert json.loads(Problem(X=[[1]]).check().to_json())["steps"] == []


def test_carried_value_only_if_inputs_are_wrong() -> None:
    claim = {"Q": [[2], [3]], "scores": [[7, "?"], ["?", "?"]]}
    report = Problem(X=[[1], [3]], scale="none", claim=claim).check()
    first, second = report.wrong_cells
    assert (first.key, first.expected, first.carried_value) == ("Q", 1.0, None)
    assert "carried" not in json.loads(report.to_json())["first"]
    assert (second.key, second.expected, second.carried_value) == ("scores", 1.0, 2.0)
    says = "no known mistake explains this: 2·1 is 2, not 7"
    assert second.causes[0].description == says
    assert [m["step"] for m in json.loads(report.to_json())["mistakes"]] == ["Q", "scores"]
    data = second.to_dict()
    assert list(data) == ["step", "head", "cell", "claimed", "expected", "carried", "causes"]
    assert data["carried"] == 2.0


def test_infinities_are_strings_in_json() -> None:
    first = check_first(
        X=[[1], [1]], scale="none", mask="causal", claim={"masked": [[1, 7], [1, 1]]}
    )
    assert (first["claimed"], first["expected"], first["cell"]) == ("7", "-inf", [0, 1])
    first = check_first(X=[[1], [1]], scale="none", claim={"masked": [[1, "-inf"], [1, 1]]})
    assert (first["claimed"], first["expected"]) == ("-inf", 1.0)


def test_first_is_by_step_head_row_and_column() -> None:
    x = [[1, 0, 2, 0], [0, 1, 0, 3]]  # rows
    wrong = {"mixed": [[9, 9], [9, 9]], "scores": [[0, 0], [0, 9]]}
    claim = {"head": {"1": {"mixed": wrong["mixed"]}, "2": wrong}}
    first = check_first(X=x, heads=2, scale="none", claim=claim)
    assert (first["step"], first["head"], first["cell"]) == ("scores", 2, [0, 0])
    claim = {"head": {"2": {"scores": [[9, 9], [9, 9]]}, "1": {"scores": [[1, 9], [9, 1]]}}}
    first = check_first(X=x, heads=2, scale="none", claim=claim)
    assert (first["step"], first["head"], first["cell"]) == ("scores", 1, [0, 1])


def test_column_vectors_keep_cells_of_the_file() -> None:
    # Two tokens of width three, as columns. In row order (0, 1) is the first wrong cell, although
    # token 0 has a wrong number, too.
    x = [[1, 2], [3, 4], [5, 6]]
    claim = {"Q": [[1, 9], [3, 4], [9, 6]]}
    report = Problem(X=x, vectors="columns", claim=claim).check()
    assert report["Q"] == [["right", "wrong"], ["right", "right"], ["wrong", "right"]]
    assert report.first is not None
    assert report.first.cell == (0, 1)
    assert json.loads(report.to_json())["steps"][0]["cells"][2] == ["wrong", "right"]


def test_verdict_of_step_is_that_of_worst_cell() -> None:
    def verdict(*cells: Any) -> str:
        x = [[1, 1], [2, 2], ["0.1234", "0.1234"]]
        claim = {"mean": [[cell] for cell in cells]}
        report = Problem(kind="layer_norm", X=x, eps=1, claim=claim).check()
        return str(json.loads(report.to_json())["steps"][0]["verdict"])

    assert verdict(1, 2, "0.12") == "right"
    assert verdict(1, "?", "0.13") == "rounded"
    assert verdict(1, "2.5", "0.13") == "wrong"
    assert verdict("?", "?", "?") == "blank"


def test_repeated_claims_and_time_steps_in_json() -> None:
    claim = {"Q": [[1]], "again": [{"Q": [[2]]}]}
    data = json.loads(Problem(X=[[1]], claim=claim).check().to_json())
    assert [step.get("again") for step in data["steps"]] == [None, 1]
    assert data["first"]["again"] == 1
    rnn = {"kind": "rnn", "X": [[1], [1]], "W_xh": [[1]], "W_hh": [[0]]}
    claim = {"t": {"1": {"sum": [1]}, "2": {"sum": [2], "h": [["0.96"]]}}}
    data = json.loads(Problem(**rnn, claim=claim).check().to_json())
    assert [(s["step"], s["t"], s["head"]) for s in data["steps"]] == [
        ("sum", 1, None),
        ("sum", 2, None),
        ("h", 2, None),
    ]
    assert (data["first"]["step"], data["first"]["t"]) == ("sum", 2)
    assert data["steps"][2]["cells"] == [["follows"]]


# -- every kind ------------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "attention": {"X": m(2, 2), "W_Q": m(2, 2), "W_K": m(2, 2)},
    "positions": {"count": 3, "width": 4},
    "layer_norm": {"X": m(2, 3), "gamma": m(1, 3), "beta": m(1, 3)},
    "rnn": {"X": m(2, 2), "W_xh": m(2, 2), "W_hh": m(2, 2), "b": m(1, 2)},
    "lstm": {"X": m(2, 2), "W_x": m(2, 8), "W_h": m(2, 8), "b": m(1, 8)},
    "additive": {"s": m(1, 2), "H": m(3, 2), "W_s": m(2, 2), "W_h": m(2, 2), "v": m(1, 2)},
    "feed_forward": {"X": m(2, 3), "W_1": m(3, 3), "b_1": m(1, 3), "W_2": m(3, 3)},
    "block": {"X": m(2, 2), "W_Q": m(2, 2), "W_1": m(2, 2), "W_2": m(2, 2), "eps": 0.1},
}


def make_claims(problem: Problem) -> dict[str, Any]:
    """Return claims for every step of a problem, to three decimals."""
    solution = problem.solve()
    claims = {key: format_cells(solution[key]) for key in solution.keys()}  # noqa: SIM118
    return nest_claims(problem, claims)


@cache
def solve_and_claim(kind: str) -> tuple[list[str], dict[str, Any]]:
    problem = Problem(kind=kind, **KINDS[kind])
    return problem.solve().keys(), make_claims(problem)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_checked(kind: str) -> None:
    fields = {"kind": kind, **KINDS[kind]}
    keys, claims = solve_and_claim(kind)
    claim = deepcopy(claims)
    report = Problem(**fields, claim=claim).check()
    assert report.counts["wrong"] == report.counts["follows"] == report.counts["blank"] == 0
    assert [checked.step.key for checked in report.steps] == keys
    last = report.steps[-1]
    table = claim
    for part in last.step.name.split(".")[:-1]:
        table = table[part]
    if last.step.part_index is not None:
        table = table["t"][str(last.step.part_index)]
    cell = table[last.step.name.rpartition(".")[2]]
    cell[-1][-1] = f"{float(cell[-1][-1]) + 7.77:.3f}"
    first = Problem(**fields, claim=claim).check().first
    assert first is not None
    assert (first.key, first.cell) == (last.step.key, (len(cell) - 1, len(cell[0]) - 1))
    assert [cause.name for cause in first.causes] == ["unknown"]


def find_cause_names(kind: str, key: str, wrong: Matrix, **fields: Any) -> list[str]:
    name, _, part = key.partition(".")
    table = {name: format_cells(wrong)}
    claim = {"t": {part: table}} if part else table
    return cause_names(check_first(kind=kind, **{**KINDS[kind], **fields}, claim=claim))


def test_wrong_weights_of_other_kinds_are_named() -> None:
    given = KINDS["rnn"]
    x, w, b = given["X"][:1], given["W_xh"], given["b"]
    assert find_cause_names("rnn", "sum.1", x @ w.T + b) == ["weight-transposed"]
    assert find_cause_names("rnn", "sum.1", x @ given["W_hh"] + b) == ["wrong-weight"]
    assert find_cause_names("rnn", "h.1", np.tanh(x @ w.T + b)) == ["weight-transposed"]
    given = KINDS["lstm"]
    x, w, b = given["X"][:1], given["W_x"], given["b"]
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    swapped = sigmoid(x @ w[:, 2:4] + b[:, :2])
    assert find_cause_names("lstm", "i.1", swapped) == ["wrong-weight"]
    gate = sigmoid(x @ w[:, 2:4] + b[:, 2:4])  # all weights of the forget gate
    assert find_cause_names("lstm", "i.1", gate) == ["wrong-weight"]
    given = KINDS["additive"]
    s, states = given["s"], given["H"]
    hidden = np.tanh(s @ given["W_h"] + states @ given["W_h"])
    assert find_cause_names("additive", "hidden", hidden) == ["wrong-weight"]
    hidden = np.tanh(s + states @ given["W_h"])
    assert find_cause_names("additive", "hidden", hidden) == ["not-projected"]
    scores = given["v"] @ np.tanh(s @ given["W_s"] + states @ given["W_h"]).T
    assert find_cause_names("additive", "weights", np.exp(scores)) == ["exp-not-normalised"]
    given = KINDS["feed_forward"]
    hidden = given["X"] @ given["W_1"].T + given["b_1"]
    assert find_cause_names("feed_forward", "hidden", hidden) == ["weight-transposed"]
    assert find_cause_names("feed_forward", "hidden", given["X"]) == ["not-projected"]


def test_attention_mistakes_in_block_are_named() -> None:
    fields = {"kind": "block", **KINDS["block"], "W_O": m(2, 2), "scale": "sqrt(d_k)"}
    problem = Problem(**fields)
    exact = problem.solve()
    scores = {"scores": format_cells(exact["attention.scores"])}
    claim = {"attention": {**scores, "scaled": scores["scores"]}}
    assert cause_names(check_first(**fields, claim=claim)) == [
        "not-scaled",
        "copied-from-another-step",
    ]
    output = exact["attention.mixed"] @ fields["W_O"].T
    claim = {"attention": {"output": format_cells(output)}}
    assert cause_names(check_first(**fields, claim=claim)) == ["output-projection-transposed"]


# -- arbitrary claims ------------------------------------------------------------------------------

ARBITRARY_CELLS = [
    "?",
    "-inf",
    "inf",
    0,
    1,
    -7,
    -10_000,
    "0.5",
    "-2.50",
    "1/3",
    "1e300",
    "-7e-300",
    "0,1",
]


@pytest.mark.parametrize("examples", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_any_claim_gives_valid_json(examples: int) -> None:
    draw = given(st.sampled_from(sorted(KINDS)), st.booleans(), st.integers(0, 2**32 - 1))
    settings(max_examples=examples)(draw(check_json_of_any_claim))()


def check_json_of_any_claim(kind: str, columns: bool, seed: int) -> None:
    fields = {"kind": kind, **KINDS[kind]}
    claim = deepcopy(solve_and_claim(kind)[1])
    replace_cells(claim, np.random.default_rng(seed), columns)
    if columns:
        transposed = {k: v.T if isinstance(v, np.ndarray) else v for k, v in fields.items()}
        fields = {**transposed, "vectors": "columns"}
    report = Problem(**fields, claim=claim).check()
    assert json.loads(report.to_json(), parse_constant=pytest.fail)["version"] == 1
    for wrong_cell in report.wrong_cells:
        json.dumps(wrong_cell.to_dict(), allow_nan=False)
        assert wrong_cell.causes


def replace_cells(table: dict[str, Any], rng: np.random.Generator, columns: bool) -> None:
    """Replace some numbers with arbitrary cells; transpose the matrices for column vectors."""
    for name, value in table.items():
        if isinstance(value, dict):
            replace_cells(value, rng, columns)
            continue
        rows = transpose_rows(value) if columns else value
        table[name] = [
            [
                ARBITRARY_CELLS[rng.integers(len(ARBITRARY_CELLS))] if rng.random() < 0.2 else cell
                for cell in row
            ]
            for row in rows
        ]


# -- the lecture notes -----------------------------------------------------------------------------

# file: wrong cells, and the first of each step that has any: step, cell, claimed, causes
NOTES: dict[str, tuple[int, list[tuple[str, tuple[int, int], str, set[str]]]]] = {
    "L0-cross": (
        4,
        [
            ("K", (0, 0), "-0.02", {"sign-lost"}),
            ("V", (1, 0), "-0.02", {"unknown"}),
        ],
    ),
    "L0-example-1": (
        3,
        [
            (
                "output",
                (0, 0),
                "-0.16",
                {"output-projection-forgotten", "copied-from-another-step"},
            )
        ],
    ),
    "L0-example-2": (3, [("V", (1, 0), "-0.02", {"copied-from-another-step"})]),
    "L0-masked": (3, [("V", (1, 0), "-0.02", {"copied-from-another-step"})]),
    "L2-cross": (0, []),
    "L2-masked": (0, []),
    "L2-self": (
        4,
        [
            ("scores", (1, 2), "18", {"arithmetic-slip"}),
            ("weights", (1, 0), "0.000007", {"decimal-point-moved"}),
            ("mixed", (0, 0), "1.0932", {"unknown"}),
        ],
    ),
    "L3-demo": (2, [("Q", (1, 0), "18", {"arithmetic-slip"})]),
    "L3-dot-product": (0, []),
    "L3-positions": (
        2,
        [("encoding", (0, 1), "0", {"sin-and-cos-swapped", "copied-from-neighbour"})],
    ),
    # The layer tables of L0 are right; the others are our own working.
    **dict.fromkeys(("L0-conv", "L0-perceptron", "L0-pooling", "L0-rnn"), (0, [])),
    **dict.fromkeys(("L1-helo", "L1-lstm", "L1-rnn", "L3-multi-head"), (0, [])),
}


def test_every_lecture_file_is_tested() -> None:
    assert {path.stem for path in LECTURES.glob("*.toml")} == set(NOTES)


@pytest.mark.parametrize("name", NOTES)
def test_findings_in_lecture_notes(name: str) -> None:
    report = Problem.load(LECTURES / f"{name}.toml").check()
    wrong, findings = NOTES[name]
    assert report.counts["wrong"] == wrong
    assert [
        (cell.step, cell.cell, cell.claimed, {cause.name for cause in cell.causes})
        for cell in report.wrong_cells
    ] == findings


def test_carried_errors_in_lecture_notes() -> None:
    report = Problem.load(LECTURES / "L2-self.toml").check()
    assert report["weights"][1] == ["wrong", "follows", "follows"]
    assert report["mixed"][1] == ["right", "follows", "follows"]
    assert report.wrong_cells[1].carried_value == pytest.approx(7.324e-7, rel=1e-3)
    demo = Problem.load(LECTURES / "L3-demo.toml").check()
    assert demo["scores"][1][0] == "follows"
    cross = Problem.load(LECTURES / "L0-cross.toml").check()
    assert cross.first is not None
    assert cross.first.reprint == 1
    assert cross.counts["follows"] == 0  # mixed does not use the wrong V


def test_summary_counts_mistakes_and_what_follows() -> None:
    claim = {"Q": [[2], [3]], "scores": [[2, 6], [3, 9]], "weights": [["?", "?"], ["?", "?"]]}
    report = Problem(X=[[1], [3]], scale="none", claim=claim).check()
    last = report.summarize().splitlines()[-1].strip()
    assert last == "1 mistake, 2 numbers follow from it, 3 right, 4 blank"


def test_working_is_that_of_the_value_judged_against_and_tells_it_from_the_claim() -> None:
    claim = {"Q": [[2], [3]], "scores": [[7, "?"], ["?", "?"]]}
    report = Problem(X=[[1], [3]], scale="none", claim=claim).check()
    assert report.working_formula(report.wrong_cells[1])(TextNotation(3)).endswith("2·1 = 2")
    claim = {"mixed": [["0.3330000"]]}
    given = {"Q": [[0]], "K": [[0]], "V": [["0.3333333"]]}
    report = Problem(**given, claim=claim).check()
    working = report.working_formula(report.wrong_cells[0])(TextNotation(3))
    assert working.endswith("= 0.3333")
    assert report.first.distinguishing_decimals(6) == 6
