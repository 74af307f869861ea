"""Derivations of cells, the inputs of a cell, and errors carried from claim to claim."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.derivation import (
    MAX_SHOWN_SCORE,
    derive,
    find_error_links,
    find_inputs,
)
from workings.problems.notation import LatexNotation, MathMLNotation, TextNotation

LECTURES = Path(__file__).parents[2] / "lectures"
X = [[1, 0, 2], [0, 3, 1]]


def draw_problem(seed, vectors="rows", **settings):
    rng = np.random.default_rng(seed)
    shapes = {"X": (4, 6), "W_Q": (6, 3), "W_K": (6, 3), "W_V": (6, 5), "b_Q": (1, 3)}
    matrices = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    if vectors == "columns":
        matrices = {name: matrix.T for name, matrix in matrices.items()}
    return Problem(**matrices, vectors=vectors, **settings)


@given(st.integers(0, 99), st.integers(1, 8), st.sampled_from(["rows", "columns"]))
def test_terms_and_remainder_sum_to_cell(seed, top, vectors):
    problem = draw_problem(seed, vectors, mask="causal")
    solved = problem.solve()
    for step in ("Q", "scores", "weights", "mixed"):
        row, column = 1 + seed % 3, 1 + seed % 2
        derivation = derive(problem, step, row, column, top=top)
        assert derivation.value == solved[step][row - 1, column - 1]
        *terms, total = [line.numbers[-1] for line in derivation.lines]
        assert sum(terms) == pytest.approx(total, abs=1e-12)
        remainder = [line for line in derivation.lines if line.name.startswith("+ remainder")]
        if not remainder and step != "weights":  # all terms are shown, as in the solution
            assert sorted(derivation.working(TextNotation()).split()) == sorted(
                solved.cell(step, row, column).split()
            )


def test_product_in_every_notation():
    problem = Problem(X=X, scale="none")
    derivation = derive(problem, "scores", 1, 1, top=1)
    assert derivation.working(TextNotation()) == "scores[1,1] = 2·2 + 1 = 5"
    assert derivation.working(LatexNotation()) == r"\mathrm{scores}_{1,1} = 2 \cdot 2 + 1 = 5"
    assert derivation.working(MathMLNotation()).count("<mo>=</mo>") == 2
    assert [line.name for line in derivation.lines] == ["3", "+ remainder of the other 2", "sum"]
    assert derivation.formula(TextNotation()) == "scores = Q Kᵀ"
    assert derivation.header == ("column", "Q[1]", "K[1]", "product")


def test_weight_is_preceded_by_earlier_steps():
    problem = Problem(X=X, mask="causal", tokens=["a", "b"])
    derivation = derive(problem, "weights", 2, 1)
    assert [line(TextNotation()) for line in derivation.intermediates] == [
        "scores[2,1] = 2",
        "scaled[2,1] = 2/√3 = 1.155",
        "masked[2,1] = 1.155",
    ]
    assert derivation.header == ("token", "masked", "e^masked", "weights")
    assert [line.name for line in derivation.lines] == ["2 b", "1 a", "sum"]
    assert derive(Problem(X=X, scale="none"), "weights", 2, 1).header[1] == "scores"


def test_large_scores_are_shown_minus_maximum():
    large = 3 * math.sqrt(MAX_SHOWN_SCORE)
    problem = Problem(X=[[large, 0], [large - 0.1, 0]], scale="none")
    derivation = derive(problem, "weights", 1, 2)
    assert derivation.header[1] == "scores − 900"
    assert [line.numbers[0] for line in derivation.lines[:2]] == pytest.approx([0, -3])
    assert derivation.value == pytest.approx(math.exp(-3) / (1 + math.exp(-3)))
    assert derivation.lines[-1].numbers[1] == pytest.approx(1 + math.exp(-3))


def test_masked_row_has_no_sum():
    problem = Problem(X=X, mask=[[0, 0], [1, 1]])
    derivation = derive(problem, "weights", 1, 1)
    assert not derivation.lines
    assert derivation.working(TextNotation()) == "weights[1,1] = 0"


def test_other_operations_are_written_like_the_solution():
    other = Problem(kind="layer_norm", X=X)
    assert derive(other, "mean", 1, 1).working(TextNotation()) == other.solve().cell("mean", 1, 1)
    sigmoid = Problem(X=X, normalizer="sigmoid")
    assert not derive(sigmoid, "weights", 1, 1).lines
    with pytest.raises(UserError, match="at least 1"):
        derive(other, "mean", 1, 1, top=0)
    with pytest.raises(UserError, match="2×1: it has no cell 3,1"):
        derive(other, "mean", 3, 1)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("columns", [False, True])
def test_inputs_of_cell_are_those_that_change_it(heads, columns):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    if columns:
        x, w = x.T.copy(), w.T.copy()
    fields = {"heads": heads, "vectors": "columns" if columns else "rows"}
    problem = Problem(X=x, W_Q=w, **fields)
    for block in find_inputs(problem, "Q", 1, 2):
        for i, j in np.ndindex(x.shape if block.key == "X" else w.shape):
            changed = {"X": x.copy(), "W_Q": w.copy()}
            changed[block.key][i, j] += 1
            same = Problem(**changed, **fields).solve()["Q"][1, 2] == problem.solve()["Q"][1, 2]
            assert same != (i in block.rows and j in block.columns)


def test_inputs_of_head_are_columns_of_projections():
    problem = Problem(X=[[1, 2, 0, 1], [3, 1, 1, 1]], heads=2, scale="none")
    blocks = {block.key: block for block in find_inputs(problem, "scores.2", 1, 0)}
    assert (blocks["Q"].rows, blocks["Q"].columns) == ([1], [2, 3])
    assert (blocks["K"].rows, blocks["K"].columns) == ([0], [2, 3])


def test_error_links_connect_claims():
    report = Problem.load(LECTURES / "L2-self.toml").check()
    links = [(link.source, link.cell, link.target) for link in find_error_links(report)]
    assert links == [("scores", (1, 2), "weights"), ("weights", (1, 0), "mixed")]
    for link in find_error_links(report):
        assert report[link.target][link.first[0]][link.first[1]] == "follows"
        assert report[link.source][link.cell[0]][link.cell[1]] in ("wrong", "follows")
