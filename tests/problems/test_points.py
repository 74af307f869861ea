"""Matrices without ranges have the values of interval matrices, for every step and mistake."""

import numpy as np
import pytest

from examples.numpy_problems import KINDS, make_problem
from workings.problems.mistakes import list_mistakes
from workings.problems.points import PointMatrix


@pytest.mark.parametrize("kind", KINDS)
def test_points_have_the_values_of_intervals(kind: str) -> None:
    problem = make_problem(KINDS[kind](np.random.default_rng(3)), {})
    env = problem.exact_matrices
    points = {key: PointMatrix.of(matrix.mid) for key, matrix in env.items()}
    ops = [step.op for step in problem.steps]
    ops += [
        op
        for mistake in list_mistakes(problem, [step.key for step in problem.steps])
        for op in mistake.ops.values()
    ]
    for op in ops:
        try:
            expected = op.compute(env)
        except (ValueError, KeyError):
            with pytest.raises((ValueError, KeyError)):
                op.compute(points)
            continue
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(op.compute(points).mid, expected.mid, rtol=1e-12, atol=1e-12)
    assert len(ops) > 10


def test_points_with_masks() -> None:
    scores = np.array([[1.0, -np.inf, 2.0], [-np.inf, -np.inf, -np.inf]])
    weights = PointMatrix.of(scores).softmax().mid
    np.testing.assert_allclose(weights, [[1 / (1 + np.e), 0, np.e / (1 + np.e)], [0, 0, 0]])
    shares = PointMatrix.of(scores).normalize_by_sum().mid
    np.testing.assert_allclose(shares, [[1 / 3, 0, 2 / 3], [0, 0, 0]])
