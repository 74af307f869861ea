"""Solutions: access by key, the arithmetic of cells, JSON and panels to display."""

import json
from pathlib import Path

import numpy as np
import pytest

from workings import Problem, UserError
from workings.problems.solution import make_given_panels

LECTURES = Path(__file__).parents[2] / "lectures"
X = [[1, 0], [0, 2]]


def test_json_is_exact_and_writes_infinity_as_string() -> None:
    solution = Problem(X=[[1, 2], [3, 1]], mask="causal", scale="none", title="t").solve()
    data = json.loads(solution.to_json())
    steps = {step["step"]: step["cells"] for step in data["steps"]}
    assert data["title"] == "t"
    assert steps["masked"] == [[5.0, "-inf"], [5.0, 10.0]]
    assert steps["weights"][1] == solution["weights"][1].tolist()


def test_decimals_out_of_range_are_rejected() -> None:
    with pytest.raises(UserError, match="from 0 to 15"):
        Problem(X=[[1]]).solve(decimals=16)


def test_cell_of_lecture_notes() -> None:
    solution = Problem.load(LECTURES / "L2-self.toml").solve()
    assert solution.cell("scores", 2, 3) == "scores[2,3] = 2·2 + 2·3 + 2·1 = 12"
    assert solution.cell("weights", 1, 2) == "weights[1,2] = e⁴/(e²+e⁴+e⁴) = 0.468"
    with pytest.raises(UserError, match="3×3: it has no cell 4,1"):
        solution.cell("scores", 4, 1)
    with pytest.raises(UserError, match="did you mean 'scores'"):
        solution.cell("score", 1, 1)


def test_cell_with_column_vectors_counts_as_displayed() -> None:
    solution = Problem.load(LECTURES / "L3-demo.toml").solve()
    assert solution["scores"].shape == (3, 3)
    assert solution.cell("Q", 2, 1) == "Q[2,1] = 1·4 + 2·2 + 3·3 + 4·1 = 21"
    working = solution.cell("scores", 2, 1)  # key 2, query 1
    assert working == "scores[2,1] = 10·13 + 21·22 + 20·11 + 19·16 = 1116"


def test_cell_keeps_trailing_zeros_of_rounded_number() -> None:
    encoding = Problem(kind="positions", count=2, width=4).solve()
    assert encoding.cell("encoding", 2, 4).endswith("= 1.000")
    assert Problem(X=[[0.5, 1]], scale="none").solve().cell("scores", 1, 1).endswith("= 1.25")


def test_step_of_head_is_indexed_by_number() -> None:
    solution = Problem(X=X, heads=2).solve()
    assert solution["scores", 2].tolist() == solution["scores.2"].tolist()
    assert "weights.1" in repr(solution)


def test_large_steps_have_no_note_per_cell() -> None:
    solution = Problem(X=np.random.default_rng(0).normal(size=(40, 2))).solve()
    panels = solution.to_worked_problem(notes=True).steps
    noted = {panel.name for panel in panels if panel.cells[0][0].note}
    assert noted == {"Q", "K", "V", "mixed"}  # 80 cells each; the others have 1,600
    assert "<table" in solution.html()
    panels = solution.to_worked_problem().steps
    assert not any(cell.note for panel in panels for row in panel.cells for cell in row)


def test_given_panels_are_restricted_to_names() -> None:
    problem = Problem(kind="rnn", X=[[0.25]], W_xh=[[1]], W_hh=[[1]])
    assert [panel.name for panel in make_given_panels(problem)] == ["X", "W_xh", "W_hh", "h0"]
    (panel,) = make_given_panels(problem, ["X"])
    assert (panel.name, panel.cells[0][0].text) == ("X", "0.25")


def test_cancelled_numbers_are_shown_as_zero() -> None:
    fields = {"X": [[0.1, 0.2, 0.3]], "dY": [[0.1, 0.1, 0.1]]}
    solution = Problem(kind="layer_norm_gradient", **fields).solve()
    assert abs(solution["dX"]).max() < 1e-12
    assert "⁻" not in solution.text()
    assert "⁻" not in solution.cell("dX", 1, 1)
    small = Problem(kind="softmax", logits=[[0, -40]]).solve()
    assert small["probabilities"][0, 1] > 0
    assert "⁻¹⁸" in small.text()
