"""Problems from Python objects: arrays, tensors and which givens are accepted."""

import numpy as np
import pytest

from workings import Problem
from workings.errors import UserError

X = np.array([[1.0, 0.0], [0.0, 2.0]])


def exact_weights() -> np.ndarray:
    powers = np.exp(X @ X.T / np.sqrt(2))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_claim_of_low_precision_dtype_is_right(dtype):
    right = exact_weights().astype(dtype)
    assert Problem(X=X, claim={"weights": right}).check().verdict == "right"
    wrong = right.copy()
    wrong[0, 0] += 0.01
    assert Problem(X=X, claim={"weights": wrong}).check().first.cell == (0, 0)
    torch = pytest.importorskip("torch")
    assert Problem(X=X, claim={"weights": torch.from_numpy(right)}).check().verdict == "right"


def test_queries_may_be_given_with_a_context():
    context = [[1, 0], [0, 2]]
    solution = Problem(Q=[[1, 0]], context=context, scale="none").solve()
    assert solution["scores"].tolist() == [[1.0, 0.0]]
    with pytest.raises(UserError, match=r"given\.K is missing"):
        Problem(Q=[[1, 0]])


def test_block_with_context():
    identity = [[1, 0], [0, 1]]
    problem = Problem(
        kind="block", X=X, context=[[1, 1], [2, 0], [0, 1]], W_1=identity, W_2=identity, eps=1
    )
    assert problem.solve()["attention.scores"].shape == (2, 3)
    assert problem.solve()["norm_2.output"].shape == (2, 2)


def test_context_tokens_without_context_are_rejected():
    with pytest.raises(UserError, match="context_tokens"):
        Problem(kind="layer_norm", X=[[1, 2]], context_tokens=["x", "y"])


def test_claim_of_head_is_given_by_number():
    claim = {"head": {2: {"scores": [[1, 1], [1, 1]]}}}
    problem = Problem(X=X, heads=2, claim=claim)
    assert problem.check().first.head == 2
    assert "scores.2" in repr(problem)
    assert "✗" in repr(problem.check())


def test_requested_steps_are_shown_and_slices_are_not():
    problem = Problem(X=X, heads=2, scale="none")
    keys = [step.key for step in problem.asked_steps]
    names = ("scores", "weights", "mixed")
    assert keys == ["Q", "K", "V", *(f"{name}.{h}" for name in names for h in (1, 2)), "mixed"]


@pytest.mark.parametrize("vectors", ["rows", "columns"])
def test_float64_arrays_are_copied_exactly(vectors):
    matrix = np.array([[0.1, 1 / 3, -2e-20], [1e9, 5.0, 0.0]])
    by_array, by_list = (
        Problem(X=given, vectors=vectors, scale="none") for given in (matrix, matrix.tolist())
    )
    np.testing.assert_array_equal(by_array.solve()["scores"], by_list.solve()["scores"])
    matrix[:] = 7  # the problem has a copy
    np.testing.assert_array_equal(by_array.given["X"].mid, by_list.given["X"].mid)
    with pytest.raises(UserError, match="not a number"):
        Problem(X=np.array([[np.nan, 1.0]]))
    with pytest.raises(UserError, match="at most 1024"):
        Problem(X=np.zeros((1, 1025)))


def test_too_many_heads_are_refused_by_their_cost() -> None:
    problem = {"X": [[1.0] * 512] * 100, "heads": 512}
    with pytest.raises(UserError, match="more than 5,000,000 numbers; expected fewer tokens"):
        Problem(**problem)
