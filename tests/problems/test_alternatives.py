"""Conventions that a problem leaves open: numbers that follow another one are not wrong."""

import json
import math
from typing import Any

import numpy as np
import pytest

from workings.problems import Problem, Report
from workings.problems.check import check_problem
from workings.problems.documents.reading import read_problem

RNG = np.random.default_rng(3)
GIVEN = {
    name: np.round(RNG.normal(size=shape), 1).tolist()
    for name, shape in {"X": (3, 3), "W_Q": (3, 3), "W_K": (3, 3), "W_V": (3, 3)}.items()
}
WIDE = {
    name: np.round(0.7 * RNG.normal(size=shape), 1).tolist()
    for name, shape in {"X": (3, 4), "W_Q": (4, 3), "W_K": (4, 3), "W_V": (4, 2)}.items()
}
DECLARED = {"vectors": "rows", "scale": "sqrt(d_k)", "mask": "none", "normalizer": "softmax"}
STEPS = ("Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed")
PADDING = [[1, 1, 0]] * 3


def solve(fields: dict[str, Any], steps: tuple[str, ...] = STEPS) -> dict[str, Any]:
    """Return the claims of a correct solution, rounded to three decimals."""
    solution = Problem(**fields).solve()
    return {
        step: [[f"{v:.3f}" if np.isfinite(v) else "-inf" for v in row] for row in solution[step]]
        for step in steps
    }


def check(given: dict[str, Any], claim: dict[str, Any], **settings: Any) -> Report:
    return Problem(**given, **settings, claim=claim).check()


@pytest.mark.parametrize(
    ("setting", "assumption"),
    [
        ({"mask": "causal"}, 'the mask is causal: declare mask = "causal"'),
        (
            {"mask": PADDING},
            "the mask hides key 3: declare mask = [[1, 1, 0], [1, 1, 0], [1, 1, 0]]",
        ),
        ({"scale": "none"}, 'the scores are not scaled: declare scale = "none"'),
        ({"scale": 3}, "the scores are divided by d_k = 3: declare scale = 3"),
        ({"scale": 2.0}, "the scores are divided by √d_model = √4: declare scale = 2.0"),
        ({"normalizer": "sigmoid"}, 'the weights are a sigmoid: declare normalizer = "sigmoid"'),
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [STEPS, ("weights", "mixed"), ("mixed",)], ids=len)
def test_undeclared_setting(
    setting: dict[str, Any], assumption: str, steps: tuple[str, ...]
) -> None:
    claim = solve({**WIDE, **setting}, steps)
    report = check(WIDE, claim)
    assert report.verdict == "right"
    assert report.assumption == assumption
    declared = check(WIDE, claim, **DECLARED)
    assert declared.verdict == "wrong"
    assert not declared.assumption
    assert check(WIDE, claim, **setting).assumption == ""


def test_vectors_as_columns() -> None:
    claim = solve({**GIVEN, "vectors": "columns"})
    report = check(GIVEN, claim)
    assert (report.verdict, report.problem.column_vectors) == ("right", True)
    assert report.assumption == 'each token is a column: declare vectors = "columns"'
    assert check(GIVEN, claim, vectors="rows").verdict == "wrong"


def test_weights_that_multiply_transposed() -> None:
    transposed = {n: np.transpose(m).tolist() if n != "X" else m for n, m in GIVEN.items()}
    report = check(GIVEN, solve(transposed))
    assert report.verdict == "right"
    assert report.assumption.endswith("x Wᵀ: write W_Q, W_K, W_V transposed")
    # One transposed weight is a mistake.
    report = check(GIVEN, solve({**GIVEN, "W_Q": transposed["W_Q"]}))
    assert report.first is not None
    assert report.first.causes[0].name == "weight-transposed"


def test_two_conventions() -> None:
    report = check(WIDE, solve({**WIDE, "scale": "none", "mask": "causal"}, ("weights", "mixed")))
    assert report.verdict == "right"
    assert "not scaled" in report.assumption
    assert "; and the mask is causal" in report.assumption
    assert check(GIVEN, solve({**GIVEN, "vectors": "columns", "scale": "none"})).verdict == "right"


def test_scores_that_are_scaled_already() -> None:
    claim = solve(WIDE)
    claim["scores"] = claim.pop("scaled")
    del claim["masked"]
    report = check(WIDE, claim)
    assert report.verdict == "right"
    assert report.assumption == "scores are divided by √3: claim them as scaled"


def test_output_with_an_unknown_projection() -> None:
    claim = solve(WIDE)
    mixed = Problem(**WIDE).solve()["mixed"]
    claim["output"] = np.round(mixed @ [[0.3, -1.2], [2.1, 0.4]], 3).tolist()
    report = check(WIDE, claim)
    assert report.verdict == "right"
    assert report.assumption.endswith("a W_O that is not given: give W_O")
    assert "output is not judged: W_O is not given" in report.summarize()
    assert json.loads(report.to_json())["not_judged"] == ["output"]
    # Three vectors of two numbers determine W_O: other numbers are no product.
    claim["output"][0][0] += 1
    assert check(WIDE, claim).verdict == "wrong"
    claim["output"] = [["5", *row[1:]] for row in claim["mixed"]]
    assert check(WIDE, claim).verdict == "wrong"


def test_slip_is_still_wrong() -> None:
    claim = solve({**WIDE, "scale": "none", "mask": "causal"})
    claim["Q"][1][1] = "7.777"
    report = check(WIDE, claim)
    assert report.verdict == "wrong"
    assert {checked.step.key for checked in report.steps if checked.verdict == "wrong"} == {"Q"}
    assert "not scaled" in report.assumption
    assert "\n  if the " in report.summarize()


def test_convention_must_explain_more_than_one_number() -> None:
    scaled = solve(WIDE)["scaled"]
    scaled[0][0] = solve(WIDE)["scores"][0][0]
    assert check(WIDE, {"scaled": scaled}).verdict == "wrong"
    single = {"X": [[1, 2]], "W_Q": [[1], [1]], "W_K": [[2], [1]], "W_V": [[1], [0]]}
    assert check(single, {"scaled": [["3"]]}).verdict == "wrong"
    root = {"X": [[1, 2]], "scale": "sqrt(d_k)"}
    assert check({"X": root["X"]}, {"scaled": [["5"]]}).verdict == "wrong"


def test_convention_must_not_make_other_numbers_wrong() -> None:
    claim = solve(WIDE)
    claim["weights"] = solve({**WIDE, "scale": "none"})["weights"]  # but scaled is claimed
    report = check(WIDE, claim)
    assert report.verdict == "wrong"
    assert not report.assumption


def test_report_states_the_assumption() -> None:
    report = check(WIDE, solve({**WIDE, "mask": "causal"}))
    text = 'right, if the mask is causal: declare mask = "causal"'
    assert report.summarize().startswith(f"✓ {text}\n")
    assert text in " ".join(report.text().split())
    assert "if the mask is causal" in report.html()
    assert "if the mask is causal" in report.latex()
    data = json.loads(report.to_json())
    assert data["verdict"] == "right"
    assert data["if"] == 'the mask is causal: declare mask = "causal"'
    assert "if" not in json.loads(check(WIDE, solve(WIDE)).to_json())


def test_right_problem_is_checked_once() -> None:
    problem = Problem(**WIDE, claim=solve(WIDE))
    assert problem.check().to_json() == check_problem(problem).to_json()


# -- documents -------------------------------------------------------------------------------------


def write(matrices: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {m}".replace("'", "") for name, m in matrices.items()) + "\n"


@pytest.mark.parametrize("mask", ["causal", "padding"])
def test_formula_with_a_mask_that_is_not_given(mask: str) -> None:
    claim = solve({**WIDE, "mask": "causal" if mask == "causal" else PADDING}, ("weights", "mixed"))
    formulas = {
        r"A = softmax(QK^T/\sqrt{d_k} + M)": claim["weights"],
        "Z = A V": claim["mixed"],
    }
    report = read_problem(write(WIDE) + write(formulas)).check()
    assert report.verdict == "right"
    assert "the mask" in report.assumption


def test_formula_that_divides_is_a_declaration() -> None:
    claim = solve({**WIDE, "scale": "none"}, ("weights",))["weights"]
    for formula in (r"softmax(QK^T/\sqrt{d_k})", "softmax(QK^T / sqrt(3))"):
        report = read_problem(write(WIDE) + write({f"A = {formula}": claim})).check()
        assert report.first is not None
        assert report.first.causes[0].name == "not-scaled"
    report = read_problem(write(WIDE) + write({"A = softmax(QK^T)": claim})).check()
    assert (report.verdict, report.assumption) == ("right", "")
    report = read_problem(write(WIDE) + write({"A": claim})).check()
    assert (report.verdict, "not scaled" in report.assumption) == ("right", True)


def test_formula_with_another_divisor() -> None:
    claim = solve({**WIDE, "scale": math.sqrt(4)}, ("weights",))["weights"]
    report = read_problem(write(WIDE) + write({"A = softmax(QK^T/sqrt(4))": claim})).check()
    assert (report.verdict, report.assumption) == ("right", "")


def test_formula_with_a_sigmoid() -> None:
    sigmoid = solve({**WIDE, "normalizer": "sigmoid"}, ("weights",))["weights"]
    softmax = solve(WIDE, ("weights",))["weights"]
    text = write(WIDE)
    report = read_problem(text + write({"A = sigmoid(QK^T/sqrt(d_k))": sigmoid})).check()
    assert (report.verdict, report.assumption) == ("right", "")
    report = read_problem(text + write({"A = sigmoid(QK^T/sqrt(d_k))": softmax})).check()
    assert (report.verdict, "a softmax" in report.assumption) == ("right", True)
    report = read_problem(text + write({"A = softmax(QK^T/sqrt(d_k))": sigmoid})).check()
    assert report.verdict == "wrong"


def test_shapes_show_columns() -> None:
    given = {name: np.transpose(m).tolist() for name, m in WIDE.items()}
    claim = solve({**given, "vectors": "columns"})
    names = {"Q": "Q", "K": "K", "V": "V", "S": "scores", "A": "weights", "Z": "mixed"}
    text = write(given) + write({name: claim[step] for name, step in names.items()})
    report = read_problem(text).check()
    assert report.verdict == "right"
    assert report.assumption == 'each token is a column: declare vectors = "columns"'
    assert not read_problem(text, vectors="columns").check().assumption
