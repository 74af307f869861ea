"""Problems made in Python, and what may be given."""

import numpy as np
import pytest
import torch

from workings import Problem
from workings.errors import UserError

X = np.array([[1.0, 0.0], [0.0, 2.0]])


def weights() -> np.ndarray:
    powers = np.exp(X @ X.T / np.sqrt(2))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_an_implementations_numbers_are_right_to_the_digits_they_can_hold(kind):
    right = weights().astype(kind)
    assert Problem(X=X, claim={"weights": right}).check().verdict == "right"
    assert Problem(X=X, claim={"weights": torch.from_numpy(right)}).check().verdict == "right"
    wrong = right.copy()
    wrong[0, 0] += 0.01
    assert Problem(X=X, claim={"weights": wrong}).check().first.cell == (0, 0)


def test_queries_given_keys_and_values_from_a_context():
    context = [[1, 0], [0, 2]]
    solution = Problem(Q=[[1, 0]], context=context, scale="none").solve()
    assert solution["scores"].tolist() == [[1.0, 0.0]]
    with pytest.raises(UserError, match=r"given\.K is missing"):
        Problem(Q=[[1, 0]])


def test_a_block_may_look_at_a_context():
    eye = [[1, 0], [0, 1]]
    problem = Problem(kind="block", X=X, context=[[1, 1], [2, 0], [0, 1]], W_1=eye, W_2=eye, eps=1)
    assert problem.solve()["attention.scores"].shape == (2, 3)
    assert problem.solve()["norm_2.output"].shape == (2, 2)


def test_names_for_a_context_that_is_not_there_are_refused():
    with pytest.raises(UserError, match="context_tokens"):
        Problem(kind="layer_norm", X=[[1, 2]], context_tokens=["x", "y"])


def test_large_problems_are_laid_out_without_writing_every_cell_out():
    problem = Problem(X=np.random.default_rng(0).normal(size=(40, 2)))
    pages = problem.solve().to_worked_problem(notes=True).steps
    noted = {page.name for page in pages if page.cells[0][0].note}
    assert noted == {"Q", "K", "V", "mixed"}  # 80 cells each; the others have 1,600
    assert "<table" in problem.solve().html()
    assert not any(
        c.note for page in problem.solve().to_worked_problem().steps for r in page.cells for c in r
    )


def test_a_heads_step_is_reached_by_number():
    claim = {"head": {2: {"scores": [[1, 1], [1, 1]]}}}
    problem = Problem(X=X, heads=2, claim=claim)
    assert problem.solve()["scores", 2].tolist() == problem.solve()["scores.2"].tolist()
    assert problem.check().first.head == 2
    assert "scores.2" in repr(problem)
    assert "✗" in repr(problem.check())
    assert "weights.1" in repr(problem.solve())


def test_a_number_that_was_rounded_keeps_its_noughts():
    assert (
        Problem(kind="positions", count=2, width=4)
        .solve()
        .cell("encoding", 2, 4)
        .endswith("= 1.000")
    )
    assert Problem(X=[[0.5, 1]], scale="none").solve().cell("scores", 1, 1).endswith("= 1.25")


@pytest.mark.parametrize("vectors", ["rows", "columns"])
def test_doubles_are_taken_as_they_are(vectors):
    matrix = np.array([[0.1, 1 / 3, -2e-20], [1e9, 5.0, 0.0]])
    by_array, by_list = (
        Problem(X=given, vectors=vectors, scale="none") for given in (matrix, matrix.tolist())
    )
    np.testing.assert_array_equal(by_array.solve()["scores"], by_list.solve()["scores"])
    matrix[:] = 7  # the problem's own numbers stay
    np.testing.assert_array_equal(by_array.given["X"].mid, by_list.given["X"].mid)
    with pytest.raises(UserError, match="not a number"):
        Problem(X=np.array([[np.nan, 1.0]]))
    with pytest.raises(UserError, match="at most 1024"):
        Problem(X=np.zeros((1, 1025)))
