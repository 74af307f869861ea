"""Sheets: reproducible, suited for work by hand, and able to distinguish mistakes."""

import hashlib
import json
import math
import subprocess
import sys
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.sheets import Sheet, make_sheet
from workings.problems.sheets.plan import make_plan
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.render.sheets import render_files

DECIMALS = 3


@cache
def make_files(kind: str, **options: object) -> dict[str, str]:
    return render_files(make_cached_sheet(kind, **options))


@cache
def make_cached_sheet(kind: str, **options: object) -> Sheet:
    count = 1 if kind in ("lstm", "block") else 2  # these are long
    return make_sheet(kind, SHEET_KINDS[kind].sizes[0], count, 5, **options)


def test_same_seed_gives_same_bytes_in_another_process() -> None:
    program = (
        "import json, hashlib\n"
        "from workings.problems.sheets import make_sheet\n"
        "from workings.render.sheets import render_files\n"
        "for mistakes in (False, True):\n"
        "    files = render_files(make_sheet('masked', '2x3', 2, 5, mistakes=mistakes))\n"
        "    print(hashlib.sha256(json.dumps(files).encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": "99", "PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=True,
    )
    sheets = [make_files("masked"), make_files("masked", mistakes=True)]
    digests = [hashlib.sha256(json.dumps(files).encode()).hexdigest() for files in sheets]
    assert run.stdout.split() == digests


def test_title_keeps_capitals_of_names() -> None:
    assert make_cached_sheet("lstm").exercises[0].problem.title == "Problem 1: an LSTM"
    assert make_cached_sheet("self").exercises[0].problem.title == "Problem 1: self-attention"


@pytest.mark.parametrize("mistakes", [False, True])
def test_problem_does_not_depend_on_count(mistakes: bool) -> None:
    few, many = (render_files(make_sheet("self", "3x3", n, 3, mistakes=mistakes)) for n in (2, 4))
    for name in ("problem-01.toml", "problem-02.toml", "key/problem-02.toml"):
        assert few[name] == many[name]


def test_problems_differ_within_and_between_seeds() -> None:
    givens = [
        str(exercise.table["given"])
        for seed in (1, 2)
        for exercise in make_sheet("self", "2x2", 5, seed).exercises
    ]
    assert len(set(givens)) == 10


@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_key_is_right_and_complete(kind: str) -> None:
    for name, text in make_files(kind).items():
        if name.startswith("key/problem"):
            counts = Problem.from_toml(text).check().counts
            assert counts["right"] == sum(counts.values()) > 0
        elif name.startswith("problem"):
            assert Problem.from_toml(text).claims == []


def test_column_vectors_transpose_the_same_problem() -> None:
    rows, columns = (make_cached_sheet("cross", vectors=v) for v in ("rows", "columns"))
    files = make_files("cross", vectors="columns")
    assert 'vectors = "columns"' in files["problem-01.toml"].replace("vectors        ", "vectors ")
    assert Problem.from_toml(files["key/problem-01.toml"]).check().verdict == "right"
    solution = columns.exercises[0].problem.solve()
    np.testing.assert_allclose(solution["scores"], solution["K"].T @ solution["Q"])
    np.testing.assert_array_equal(rows.exercises[0].problem.solve()["Q"], solution["Q"].T)


@settings(max_examples=10)
@given(
    st.integers(0, 10**9),
    st.sampled_from(("self", "masked", "cross", "multi-head")),
    st.sampled_from(("2x2", "3x3", "3x4", "4x4", "2x5")),
)
def test_attention_problems_suit_work_by_hand(seed: int, kind: str, size: str) -> None:
    (exercise,) = make_sheet(kind, size, 1, seed).exercises
    solution = exercise.problem.solve()
    for matrix in exercise.table["given"].values():
        assert all(isinstance(v, int) and abs(v) <= 3 for row in matrix for v in row)
    for row in exercise.table["given"]["X"]:
        assert len(set(row)) > 1
    for key in solution.keys():  # noqa: SIM118
        matrix, step = solution[key], key.split(".")[0]
        if step in ("Q", "K", "V", "scores"):
            assert (matrix == np.round(matrix)).all()
            assert np.abs(matrix).max() <= 25
        if step == "weights":
            masked = solution.problem.exact_matrices[key.replace("weights", "masked")].mid
            allowed = np.isfinite(masked)
            for row, may in zip(matrix, allowed, strict=True):
                if may.sum() > 1:
                    assert row[may].min() > 0.02
                    assert row[may].max() < 0.98
                    assert np.ptp(row[may]) > 0.02
            assert len({tuple(np.round(row, 2)) for row in matrix}) > 1


@pytest.mark.parametrize("kind", ["positions", "layer_norm", "rnn", "lstm", "additive", "block"])
def test_other_kinds_have_short_givens_and_do_not_saturate(kind: str) -> None:
    for exercise in make_cached_sheet(kind).exercises:
        for matrix in exercise.table["given"].values():
            for value in np.ravel(matrix):
                assert round(float(value), 1) == value
        solution = exercise.problem.solve()
        for key in solution.keys():  # noqa: SIM118
            if key.split(".")[0] in ("i", "f", "o", "weights"):
                assert solution[key].min() > 0.02
                assert solution[key].max() < 0.98
            if key == "mean":
                assert np.allclose(solution[key] * 2, np.round(solution[key] * 2))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def compute_mistakes(
    given: dict[str, list[list[int]]],
) -> dict[str, dict[str, np.ndarray]]:
    """Return the results of mistakes, computed independently of the package."""
    x, w_q, w_k = (np.array(given[name], dtype=float) for name in ("X", "W_Q", "W_K"))
    d_model, d_k = w_q.shape
    scores = x @ w_q @ (x @ w_k).T
    scaled = np.round(scores / math.sqrt(d_k), DECIMALS)
    mask = np.tril(np.ones(scaled.shape, dtype=bool))
    masked = np.where(mask, scaled, -np.inf)
    late = np.where(mask, scores, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        across = np.nan_to_num(softmax(masked.T).T)
    return {
        "scores": {"right": scores, "swapped": scores.T},
        "scaled": {
            "right": scaled,
            "not": scores,
            "d_k": scores / d_k,
            "d_model": scores / math.sqrt(d_model),
            "multiplied": scores * math.sqrt(d_k),
        },
        "masked": {
            "right": masked,
            "forgotten": scaled,
            "transposed": np.where(mask.T, scaled, -np.inf),
            "self": np.where(mask & ~np.eye(len(mask), dtype=bool), scaled, -np.inf),
            "zeros": np.where(mask, scaled, 0.0),
        },
        "weights": {
            "right": softmax(masked),
            "axis": across,
            "after": softmax(scaled) * mask,
            "sigmoid": 1 / (1 + np.exp(-masked)),
            "exp": np.exp(masked),
            "late": softmax(late) / math.sqrt(d_k),
        },
    }


@pytest.mark.parametrize(("size", "d_k"), [("3x4", 3), ("3x3", 4), ("2x2", 4), ("4x5", 2)])
def test_mistakes_lead_to_different_numbers(size: str, d_k: int) -> None:
    sheet = make_sheet("masked", size, 3, 21, d_k=d_k)
    assert sheet.notes == []
    for exercise in sheet.exercises:
        for step, results in compute_mistakes(exercise.table["given"]).items():
            names = list(results)
            for a, name in enumerate(names):
                for other in names[a + 1 :]:
                    with np.errstate(invalid="ignore"):
                        difference = np.abs(
                            np.round(results[name], DECIMALS) - np.round(results[other], DECIMALS)
                        )
                    assert np.nan_to_num(difference, nan=0).max() > 1.5 * 10**-DECIMALS, (
                        step,
                        name,
                        other,
                    )


@pytest.mark.parametrize(
    ("size", "d_k"), [("3x4", 3), ("3x3", 4), ("3x2", 4), ("3x5", 4), ("3x8", 4)]
)
def test_default_d_k_distinguishes_scaling_mistakes(size: str, d_k: int) -> None:
    plan = make_plan("self", size)
    assert plan.d_k == d_k
    divisors = {1.0, d_k, math.sqrt(d_k), math.sqrt(plan.width), 1 / math.sqrt(d_k)}
    assert len({round(divisor, 9) for divisor in divisors}) == 5


def test_ambiguous_d_k_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"÷ d_k and ÷ √d_model are both ÷ 2 .* use --d-k 3"):
        make_plan("masked", "3x4", d_k=2)
    with pytest.raises(UserError, match="use --d-k 4 or --scale none"):
        make_plan("self", "3x3", d_k=1)
    assert make_plan("self", "3x4", d_k=2, scale="none").d_k == 2
    (note,) = make_sheet("self", "2x3", 1, d_k=3).notes
    assert "not a mistake" in note


@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_planted_mistake_is_found(kind: str) -> None:
    sheet = make_cached_sheet(kind, mistakes=True)
    files = make_files(kind, mistakes=True)
    for exercise in sheet.exercises:
        planted = exercise.planted_mistake
        assert planted is not None
        report = Problem.from_toml(files[f"{exercise.name}.toml"]).check()
        assert report.first is not None
        assert (report.first.key, report.first.cell) == (planted.key, planted.cell)
        assert planted.name in [cause.name for cause in report.first.causes]
        assert {checked.step.key for checked in report.steps if checked.verdict == "wrong"} == {
            planted.key
        }
        assert report.counts["blank"] == 0
        row, column = planted.cell
        key = files[f"key/{exercise.name}.toml"]
        assert f"# Planted: {planted.name}" in key
        assert f"row {row + 1}, column {column + 1}" in key
        assert Problem.from_toml(key).check().verdict == "right"


def test_planted_mistakes_vary() -> None:
    sheet = make_sheet("masked", "2x3", 8, 4, mistakes=True)
    names = Counter(e.planted_mistake.name for e in sheet.exercises if e.planted_mistake)
    assert len(names) == 8


def test_few_decimals_are_noted_if_ambiguous() -> None:
    sheet = make_sheet("lstm", "2x2", 1, 3, decimals=1)
    assert len(sheet.notes) == 1
    assert all("use more --decimals" in note for note in sheet.notes)
    assert make_sheet("self", "3x3", 2, 3, decimals=2).notes == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "mask"}, "did you mean 'masked'"),
        ({"size": "3by4"}, "like 3x4"),
        ({"size": "1x4"}, "tokens must be from 2 to 6"),
        ({"size": "3x99"}, "width must be from 2 to 8"),
        ({"size": "6x2"}, "need a width of 3"),
        ({"kind": "positions", "size": "3x5"}, "an even width from 4"),
        ({"kind": "positions", "size": "3x4", "count": 11}, "only 10 different"),
        ({"count": 0}, "--count 0: it must be from 1 to 200"),
        ({"decimals": 0}, "--decimals 0: it must be from 1 to 6"),
        ({"vectors": "row"}, "rows, columns"),
        ({"kind": "rnn", "heads": 2}, "--heads is for --kind self"),
        ({"kind": "self", "hidden_size": 2}, "--hidden-size is for"),
        ({"kind": "self", "context": 2}, "--context is for --kind cross"),
        ({"kind": "multi-head", "heads": 1}, "--kind self"),
        ({"kind": "multi-head", "heads": 8, "d_k": 8}, "64 columns"),
        ({"scale": "7"}, r"sqrt\(d_k\), none"),
        ({"d_k": 99}, "--d-k 99: it must be from 1 to 8"),
    ],
)
def test_invalid_options_are_rejected(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        make_sheet(**{"kind": "masked", "size": "3x4", **arguments})
    assert "\n" not in str(error.value)


def test_options_set_sizes() -> None:
    sheet = make_sheet("cross", "2x3", 1, heads=2, d_k=2, context=4, scale="none")
    problem = sheet.exercises[0].problem
    assert problem.solve()["weights.2"].shape == (2, 4)
    assert problem.solve()["output"].shape == (2, 3)
    assert "scaled.1" not in problem.solve().keys()  # noqa: SIM118
    rnn = make_sheet("rnn", "2x4", 1, hidden_size=2).exercises[0].problem
    assert rnn.solve()["h.2"].shape == (1, 2)
