"""Worked problems built by hand, for the tests of every format."""

from dataclasses import replace

import pytest

from workings.problems.notation import Notation, format_decimal
from workings.problems.worked_problem import (
    CauseSummary,
    Cell,
    MistakeSummary,
    Panel,
    WorkedProblem,
)

HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "\\input{/etc/passwd} $x_1^2$ ~%#&",
    "\x1b[31mred\u202eevil\r\n",
    "中文词",
]


def numbers(count: int) -> list[str]:
    return [str(k + 1) for k in range(count)]


def matrix(name: str, values: list[list[float]], formula: object = None, **fields: object) -> Panel:
    cells = [
        [
            Cell(
                format_decimal(v, 3),
                float(v),
                "masked" if v == float("-inf") else "",
                f"{name} is {v}",
            )
            for v in row
        ]
        for row in values
    ]
    names = {"row_names": numbers(len(values)), "column_names": numbers(len(values[0]))}
    return Panel(name, formula, cells, **{**names, **fields})  # type: ignore[arg-type]


def scores_formula(n: Notation) -> str:
    return n.equals(n.symbol("scores"), n.matrix_product(n.symbol("Q"), n.transpose(n.symbol("K"))))


def scaled_formula(n: Notation) -> str:
    return n.equals(n.symbol("scaled_2"), n.fraction(n.symbol("scores_2"), n.root(n.number(3))))


@pytest.fixture
def solution() -> WorkedProblem:
    """Two steps of a masked problem with named tokens."""
    tokens = ["the", "cat"]
    inf = float("inf")
    return WorkedProblem(
        "Two words",
        [matrix("X", [[1, 0], [0, -2]], row_names=tokens), matrix("W_Q", [[0.5, 1], [-12.25, 0]])],
        [
            matrix(
                "scores",
                [[1, -inf], [0.25, 1e-7]],
                scores_formula,
                row_names=tokens,
                column_names=tokens,
            ),
            matrix("scaled, head 2", [[1.5, -20.0]], scaled_formula),
        ],
    )


@pytest.fixture
def report() -> WorkedProblem:
    """A report with every mark; the first wrong cell is scores[1][2]."""

    def cell(text: str, mark: str, note: str = "") -> Cell:
        return Cell(text, None if text == "?" else float(text), mark, note)

    scores = Panel(
        "scores",
        scores_formula,
        [
            [cell("2", "right"), cell("4", "right"), cell("?", "blank")],
            [cell("4", "right"), cell("16", "right"), cell("18", "wrong", "should be 12")],
        ],
        ["the", "cat"],
        ["a", "b", "c"],
        verdict="wrong",
        first_wrong=(1, 2),
    )
    weights = Panel(
        "weights",
        None,
        [
            [cell("0.06", "right"), cell("0.468", "rounded")],
            [cell("0.000007", "follows"), cell("3", "wrong", "should be 0.88")],
        ],
        numbers(2),
        numbers(2),
        verdict="wrong",
    )
    mistake = MistakeSummary(
        "scores, row 2, column 3",
        "18",
        "12",
        lambda n: n.equals(n.product(n.number(2), n.number(6)), n.number(12)),
        [
            CauseSummary("arithmetic-slip", "1/1", "no rule gives 18"),
            CauseSummary("sign-lost", "1/1", "a <b> sign & more"),
        ],
    )
    second = MistakeSummary(
        "weights, row 2, column 2",
        "3",
        "0.88",
        None,
        [CauseSummary("not-scaled", "9/9", ""), CauseSummary("scaled-by-d_k", "9/9", "")],
    )
    steps = [scores, weights]
    return WorkedProblem("A report", [], steps, "wrong", "5 right, 1 wrong", [mistake, second])


@pytest.fixture
def hostile() -> WorkedProblem:
    """A report with hostile text in every place that has text."""
    names, text = HOSTILE_TEXTS, "".join(HOSTILE_TEXTS[:4])
    values = [[float(i - j) for j in range(len(names))] for i in range(len(names))]
    panel = matrix("scores", values, scores_formula, row_names=names, column_names=names)
    cell = replace(panel.cells[0][0], text=text, value=None, note=text)
    cells = [[cell, *panel.cells[0][1:]], *panel.cells[1:]]
    step = replace(panel, name=text, cells=cells, verdict=text)
    mistake = MistakeSummary(text, text, text, None, [CauseSummary(text, text, text)])
    return WorkedProblem(text, [replace(panel, name=text)], [step], text, text, [mistake] * 2)


@pytest.fixture
def large() -> WorkedProblem:
    """A report on a 40 × 40 matrix with its first wrong cell near the middle."""
    panel = matrix("scores", [[i + j / 8 for j in range(40)] for i in range(40)], scores_formula)
    cells = [list(row) for row in panel.cells]
    cells[21][22] = Cell("77", 77.0, "wrong", "should be 23.75")
    return WorkedProblem(
        "Large", [], [replace(panel, cells=cells, verdict="wrong", first_wrong=(21, 22))]
    )
