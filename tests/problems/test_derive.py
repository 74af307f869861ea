"""One cell with its largest terms: they and the remainder are the cell, whatever is left out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.derivation import MAX_SHOWN_SCORE, derive
from workings.problems.notation import LatexNotation, MathMLNotation, TextNotation

X = [[1, 0, 2], [0, 3, 1]]


def drawn(seed, vectors="rows", **settings):
    draw = np.random.default_rng(seed)
    shapes = {"X": (4, 6), "W_Q": (6, 3), "W_K": (6, 3), "W_V": (6, 5), "b_Q": (1, 3)}
    made = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    if vectors == "columns":
        made = {name: matrix.T for name, matrix in made.items()}
    return Problem(**made, vectors=vectors, **settings)


@given(st.integers(0, 99), st.integers(1, 8), st.sampled_from(["rows", "columns"]))
def test_terms_and_remainder_are_the_cell(seed, top, vectors):
    problem = drawn(seed, vectors, mask="causal")
    solved = problem.solve()
    for step in ("Q", "scores", "weights", "mixed"):
        row, column = 1 + seed % 3, 1 + seed % 2
        found = derive(problem, step, row, column, top=top)
        assert found.value == solved[step][row - 1, column - 1]
        *terms, total = [line.numbers[-1] for line in found.lines]
        assert sum(terms) == pytest.approx(total, abs=1e-12)
        left_out = [line for line in found.lines if line.name.startswith("+ remainder")]
        if not left_out and step != "weights":  # nothing is left out: the same as the solution's
            assert sorted(found.working(TextNotation()).split()) == sorted(
                solved.cell(step, row, column).split()
            )


def test_a_row_of_a_textbook_in_every_notation():
    problem = Problem(X=X, scale="none")
    found = derive(problem, "scores", 1, 1, top=1)
    assert found.working(TextNotation()) == "scores[1,1] = 2·2 + 1 = 5"
    assert found.working(LatexNotation()) == r"\mathrm{scores}_{1,1} = 2 \cdot 2 + 1 = 5"
    assert found.working(MathMLNotation()).count("<mo>=</mo>") == 2
    assert [line.name for line in found.lines] == ["3", "+ remainder of the other 2", "sum"]
    assert found.formula(TextNotation()) == "scores = Q Kᵀ"
    assert found.header == ("column", "Q[1]", "K[1]", "product")


def test_what_leads_to_a_weight_is_told_before_it():
    problem = Problem(X=X, mask="causal", tokens=["a", "b"])
    found = derive(problem, "weights", 2, 1)
    assert [line(TextNotation()) for line in found.intermediates] == [
        "scores[2,1] = 2",
        "scaled[2,1] = 2/√3 = 1.155",
        "masked[2,1] = 1.155",
    ]
    assert found.header == ("token", "masked", "e^masked", "weights")
    assert [line.name for line in found.lines] == ["2 b", "1 a", "sum"]
    assert derive(Problem(X=X, scale="none"), "weights", 2, 1).header[1] == "scores"


def test_high_scores_are_shown_less_the_largest():
    large = 3 * math.sqrt(MAX_SHOWN_SCORE)
    problem = Problem(X=[[large, 0], [large - 0.1, 0]], scale="none")
    found = derive(problem, "weights", 1, 2)
    assert found.header[1] == "scores − 900"
    assert [line.numbers[0] for line in found.lines[:2]] == pytest.approx([0, -3])
    assert found.value == pytest.approx(math.exp(-3) / (1 + math.exp(-3)))
    assert found.lines[-1].numbers[1] == pytest.approx(1 + math.exp(-3))


def test_who_sees_nothing_has_no_sum():
    problem = Problem(X=X, mask=[[0, 0], [1, 1]])
    found = derive(problem, "weights", 1, 1)
    assert not found.lines
    assert found.working(TextNotation()) == "weights[1,1] = 0"


def test_other_steps_are_written_as_they_are():
    other = Problem(kind="layer_norm", X=X)
    assert derive(other, "mean", 1, 1).working(TextNotation()) == other.solve().cell("mean", 1, 1)
    sigmoid = Problem(X=X, normalizer="sigmoid")
    assert not derive(sigmoid, "weights", 1, 1).lines
    with pytest.raises(UserError, match="at least 1"):
        derive(other, "mean", 1, 1, top=0)
    with pytest.raises(UserError, match="2×1: it has no cell 3,1"):
        derive(other, "mean", 3, 1)
