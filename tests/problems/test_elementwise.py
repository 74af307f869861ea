"""Operations on cells and their sums: ranges are sound and tight, formulas read well."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workings.problems.elementwise import CELL_FUNCTIONS, AxisSum, ElementwiseSum, Exponential
from workings.problems.intervals import IntervalMatrix
from workings.problems.kinds.loss import Accuracy, CrossEntropy, Prediction, SoftmaxJacobian
from workings.problems.notation import LatexNotation, MathMLNotation, TextNotation
from workings.problems.ops import Op

FEW = settings(max_examples=40)
SEEDS = st.integers(0, 2**32 - 1)
EYE = IntervalMatrix.exact(np.eye(3))

NUMPY_FUNCTIONS = {
    "none": lambda x: x,
    "square": np.square,
    "root": lambda x: np.sqrt(np.maximum(x, 0)),
    "tanh": np.tanh,
    "complement": lambda x: 1 - x,
    "slope of none": np.ones_like,
    "slope of tanh": lambda x: 1 - x**2,
    "slope of sigmoid": lambda x: x * (1 - x),
    "slope of relu": lambda x: (x > 0) * 1.0,
}


def make_intervals(
    rng: np.random.Generator, low: float, high: float
) -> tuple[IntervalMatrix, np.ndarray]:
    """Return a 3×3 matrix with ranges, and values inside of them."""
    mid = rng.uniform(low, high, (3, 3))
    radius = rng.choice([0.0, 0.01, 0.3], (3, 3))
    lo, hi = np.clip(mid - radius, low, high), np.clip(mid + radius, low, high)
    return IntervalMatrix(mid, lo, hi, np.zeros((3, 3), dtype=np.bool_)), rng.uniform(lo, hi)


def contains(matrix: IntervalMatrix, values: np.ndarray) -> bool:
    slack = 1e-12 * (1 + np.abs(values))
    return bool(((matrix.lo <= values + slack) & (values - slack <= matrix.hi)).all())


@pytest.mark.parametrize("name", CELL_FUNCTIONS)
@FEW
@given(seed=SEEDS)
def test_cell_functions_are_sound_and_tight(name: str, seed: int) -> None:
    matrix, values = make_intervals(np.random.default_rng(seed), -2, 2)
    function, got = NUMPY_FUNCTIONS[name], CELL_FUNCTIONS[name].apply(matrix)
    assert contains(got, function(values))
    np.testing.assert_allclose(got.mid, function(matrix.mid), rtol=1e-12, atol=1e-12)
    lines = function(np.linspace(matrix.lo, matrix.hi, 400))
    step = 5 * (matrix.hi - matrix.lo) / 399 + 1e-9  # no function but the root is steeper
    if name != "root":
        assert ((got.lo >= lines.min(0) - step) & (got.hi <= lines.max(0) + step)).all()


def cross_entropy(p: np.ndarray) -> np.ndarray:
    return -np.log(np.diag(p))[:, None]


def predict(p: np.ndarray) -> np.ndarray:
    return p.argmax(1)[:, None] + 1


OPERATIONS = {
    "sum": (
        ElementwiseSum(((2.0, (("x", "none"), ("x", "square"))), (-1.0, (("Y", "none"),))), 3.0),
        lambda x: (2 * x**3 - np.eye(3)) / 3,
    ),
    "over vectors": (AxisSum((("x", "none"), ("Y", "none"))), lambda x: np.diag(x)[None]),
    "within vectors": (
        AxisSum((("x", "square"),), False, 2.0),
        lambda x: (x**2).sum(1)[:, None] / 2,
    ),
    "perplexity": (Exponential("x", 2.0), lambda x: np.exp(x / 2)),
    "losses": (CrossEntropy("x", "Y"), cross_entropy),
    "predictions": (Prediction("x"), predict),
    "jacobian": (SoftmaxJacobian("row"), lambda x: np.diag(x[0]) - np.outer(x[0], x[0])),
}


@pytest.mark.parametrize("name", OPERATIONS)
@FEW
@given(seed=SEEDS)
def test_operations_are_sound(name: str, seed: int) -> None:
    op, function = OPERATIONS[name]
    matrix, values = make_intervals(np.random.default_rng(seed), 0.05, 1)
    got = op.compute({"x": matrix, "row": matrix.slice_row(0), "Y": EYE})
    assert contains(got, function(values))
    np.testing.assert_allclose(got.mid, function(matrix.mid), rtol=1e-12, atol=1e-12)


@FEW
@given(seed=SEEDS)
def test_accuracy_is_sound(seed: int) -> None:
    matrix, values = make_intervals(np.random.default_rng(seed), 0.05, 1)
    predictions = Prediction("x").compute({"x": matrix})
    accuracy = Accuracy("predictions", "Y").compute({"predictions": predictions, "Y": EYE})
    assert contains(accuracy, np.mean(values.argmax(1) == np.arange(3))[None, None])


def test_probability_of_zero_beside_the_target_does_not_count() -> None:
    env = {"p": IntervalMatrix.exact([[0.0, 1.0, 0.0]]), "Y": IntervalMatrix.exact([[0, 1, 0]])}
    loss = CrossEntropy("p", "Y").compute(env)
    assert (loss.lo[0, 0], loss.mid[0, 0], loss.hi[0, 0]) == (0, 0, 0)


FORMULAS: dict[str, tuple[Op, str, str]] = {
    "gradient": (
        ElementwiseSum(((1.0, (("probabilities", "none"),)), (-1.0, (("Y", "none"),))), 2.0),
        "(probabilities−Y)/2",
        r"\frac{\mathrm{probabilities} - Y}{2}",
    ),
    "slope": (
        ElementwiseSum(((1.0, (("dh.2", "none"), ("h.2", "slope of tanh"))),)),
        "dh₂∘(1 − h₂²)",
        r"\mathrm{d}h_{2} \circ (1 - {h_{2}}^{2})",
    ),
    "gate": (
        ElementwiseSum(
            ((-0.1, (("di", "none"), ("i", "slope of sigmoid"))), (1.0, (("b", "none"),)))
        ),
        "−0.1·di∘i∘(1 − i) + b",
        r"-0.1 \cdot \mathrm{d}i \circ i \circ (1 - i) + b",
    ),
    "bias": (
        AxisSum((("dgamma", "none"),)),
        "colsum(dγ)",
        r"\operatorname{colsum}(\mathrm{d}\gamma)",
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str) -> None:
    op, text, latex = FORMULAS[name]
    assert op.formula(TextNotation(), False) == text
    assert op.formula(LatexNotation(), False) == latex
    assert "<mi>" in op.formula(MathMLNotation(), False)
