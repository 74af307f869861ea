"""Reprints: every print of a matrix is compared with its first print."""

import json
import re

import pytest

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.documents.reading import read_problem
from workings.problems.reprints import count_differences, is_reprint

GIVEN = {"X": [[1, 0], [0, 2]], "W_Q": [["0.50", 1], [0, 1]], "scale": "none"}
Q = [["0.5", "1"], ["0", "2"]]


@pytest.mark.parametrize(
    ("first", "other", "differs"),
    [
        ("0.5", "0.50", False), ("0.125", "0.13", False), ("0.125", "0.12", False),
        ("-0.125", "-0.12", False), ("0.13", "0.125", False), ("0.125", "0.14", True),
        ("0.02", "-0.02", True), ("0.56", "0.29", True), ("2", "3", True), ("2", "1.96", True),
        ("2", "2.6", True), ("1/3", "0.33", False), ("1/3", "0.34", True), ("-inf", "-inf", False),
        ("-inf", "-100000", False), ("-inf", "0", True), ("?", "7", False), ("0.52", "0.53", True),
        ("0,5", "0.5", False), ("1e-3", "0.001", False),
    ],
)  # fmt: skip
def test_differences(first: str, other: str, differs: bool) -> None:
    assert count_differences([[first]], [[other]]) == differs


def test_reprint_has_the_shape_and_most_numbers() -> None:
    first = [["1", "2", "3"], ["4", "5", "6"]]
    assert is_reprint(first, [["1", "2", "9"], ["4", "8", "6"]])
    assert not is_reprint(first, [["1", "7", "9"], ["4", "8", "6"]])
    assert not is_reprint(first, [["1", "4"], ["2", "5"], ["3", "6"]])


def test_given_in_a_file() -> None:
    again = [{"W_Q": [[0.5, 1], [0, 1]]}, {"W_Q": [[0.5, 1], ["0.2", 1]]}]
    report = Problem(**GIVEN, claim={"Q": Q, "again": again}).check()
    assert report.counts["wrong"] == 0
    assert report.verdict == "wrong"
    (cell,) = report.reprinted_cells
    assert (cell.key, cell.reprint, cell.cell) == ("W_Q", 2, (1, 0))
    assert cell.describe() == "W_Q, row 2, column 1: printed as 0, then as 0.2"
    assert "reprinted differently: W_Q, row 2, column 1" in report.summarize()
    assert "reprinted differently: W_Q" in " ".join(report.text().split())
    assert "reprinted differently: W_Q" in report.html()
    assert "Reprinted differently: W" in report.latex()
    data = json.loads(report.to_json())
    assert data["reprints"] == [
        {"matrix": "W_Q", "again": 2, "cell": [1, 0], "printed": "0", "reprinted": "0.2"}
    ]
    assert data["first"]["step"] == "W_Q"
    assert data["first"]["causes"][0]["name"] == "reprinted-differently"


def test_column_vectors() -> None:
    fields = {**GIVEN, "vectors": "columns", "W_Q": [["0.50", 0], [1, 1]]}
    again = [{"W_Q": [["0.50", "0.7"], [1, 1]]}]
    (cell,) = Problem(**fields, claim={"again": again}).check().reprinted_cells
    assert cell.cell == (0, 1)


def test_step_may_be_rounded_once_more() -> None:
    again = [{"Q": [["0.49", "1.00"], ["0.00", "2.00"]]}]
    report = Problem(**GIVEN, claim={"Q": [["0.50", "1"], ["0", "2"]], "again": again}).check()
    assert not report.reprinted_cells
    again = [{"Q": [["0.5", "1"], ["0", "-2"]]}]
    report = Problem(**GIVEN, claim={"Q": Q, "again": again}).check()
    assert [c.cell for c in report.reprinted_cells] == [(1, 1)]
    assert report.first is not None
    assert json.loads(report.to_json())["first"]["causes"][0]["name"] == "sign-lost"


@pytest.mark.parametrize(
    ("reprint", "message"),
    [
        ({"W_Q": [[1, 2, 3]]}, "claim.again.1.W_Q is 1×3; it must be 2×2"),
        ({"W_K": [[1, 0], [0, 1]]}, "claim.again.1.W_K: no such step"),
    ],
)
def test_invalid_reprints(reprint: dict[str, list[list[int]]], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        Problem(**GIVEN, claim={"again": [reprint]})
    with pytest.raises(UserError, match=r"claim\.W_Q: no such step"):
        Problem(**GIVEN, claim={"W_Q": GIVEN["W_Q"]})


X, W_Q, W_K = "[[1, 0], [0, 2]]", "[[1, 1], [0, 1]]", "[[1, 0], [1, 1]]"
START = f"X = {X}\nW_Q = {W_Q}\nW_K = {W_K}\nQ = [[1, 1], [0, 2]]\nK = [[1, 0], [2, 2]]\n"


def find_reprints(text: str) -> list[str]:
    """Return the differences, and check that nothing else is wrong."""
    report = read_problem(START + text, scale="none").check()
    assert {c.step.key for c in report.steps if c.verdict == "wrong"} <= {"K", "Q"}
    return [cell.describe() for cell in report.reprinted_cells]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"Q = X W_Q = {X} [[1, 1], [0, 3]] = [[1, 1], [0, 2]]", "W_Q, row 2, column 2"),
        (f"Q = X W_Q = [[1, 0], [5, 2]] {W_Q} = [[1, 1], [0, 2]]", "X, row 2, column 1"),
        ("E = Q K^T = [[1, 1], [0, 2]] [[1, 7], [0, 2]] = [[1, 4], [0, 4]]", "K, row 2, column 1"),
        ("E = [[1, 1], [0, 2]] [[1, 7], [0, 2]] = [[1, 4], [0, 4]]", "K, row 2, column 1"),
        (
            "E = Q K^T = [[1, 1], [0, 2]] [[1, 0], [7, 2]]^T = [[1, 4], [0, 4]]",
            "K, row 2, column 1",
        ),
        (
            "Z = softmax(Q K^T) V = softmax([[1, 1], [0, 3]] [[1, 2], [0, 2]]) V",
            "Q, row 2, column 2",
        ),
        ("W_K = [[1, 0], [1, -1]]", "W_K, row 2, column 2"),
        (f"W_K = [[1, 9], [1, 1]] = {W_K}", "W_K, row 1, column 2"),
        ("K^T = [[1, 2], [0, 3]]", "K, row 2, column 2"),
        (f"Q = [[1, 0], [0, 9]] {W_Q} = [[1, 1], [0, 2]]", "X, row 2, column 2"),
    ],
)
def test_reprints_in_a_document(text: str, place: str) -> None:
    (reprint,) = find_reprints(text)
    assert reprint.startswith(place)


@pytest.mark.parametrize(
    "text",
    [
        f"Q = X W_Q = {X} {W_Q} = [[1, 1], [0, 2]]",
        "E = Q K^T = [[1, 1], [0, 2]] [[1, 2], [0, 2]] = [[1, 4], [0, 4]]",
        "E = Q K^T = [[1.0, 1.0], [0.0, 2.0]] [[1, 0], [2, 2]]^T = [[1, 4], [0, 4]]",
        "E = [[1, 1], [0, 2]] [[1, 0], [2, 2]] = [[1, 4], [0, 4]]",  # without the sign ᵀ
        "Q = [[3, 4], [5, 6]] [[7, 8], [9, 1]] = [[1, 1], [0, 2]]",  # other matrices altogether
    ],
)
def test_equal_reprints_in_a_document(text: str) -> None:
    assert find_reprints(text) == []


def test_steps_may_be_computed_from_the_reprint() -> None:
    text = f"X = {X}\nW_Q = {W_Q}\nQ = X W_Q = {X} [[1, 1], [0, 3]] = [[1, 1], [0, 6]]"
    report = read_problem(text).check()
    assert report.verdict == "wrong"
    assert report.counts["wrong"] == 0
    assert report.assumption == "W_Q is as reprinted"
