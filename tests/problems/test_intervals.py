"""Interval arithmetic: ranges are sound and tight, and taint propagates."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workings.problems.intervals import IntervalMatrix, concatenate_columns, select_cells
from workings.problems.ops import ACTIVATIONS

Pair = tuple[IntervalMatrix, np.ndarray]  # a matrix with ranges, and values inside of them
VALUES = st.floats(-6, 6, allow_subnormal=False)
SIZE = st.integers(1, 4)
FEW = settings(max_examples=40)


@st.composite
def matrices_with_values(
    draw: st.DrawFn, rows: int | None = None, columns: int | None = None
) -> Pair:
    shape = (rows or draw(SIZE), columns or draw(SIZE))
    mid = draw(arrays(np.float64, shape, elements=VALUES))
    radius = draw(arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.01, 0.3, 2.0])))
    where = draw(arrays(np.float64, shape, elements=st.floats(-1, 1)))
    cells = IntervalMatrix(mid, mid - radius, mid + radius, np.zeros(shape, dtype=np.bool_))
    return cells, np.clip(mid + where * radius, cells.lo, cells.hi)


def contains(cells: IntervalMatrix, actual: np.ndarray) -> bool:
    slack = 1e-12 * (1 + np.abs(actual))
    return bool(((cells.lo <= actual + slack) & (actual - slack <= cells.hi)).all())


def is_ordered(cells: IntervalMatrix) -> bool:
    return bool(((cells.lo <= cells.mid) & (cells.mid <= cells.hi)).all())


@st.composite
def pairs_of_matrices(draw: st.DrawFn, inner: bool) -> tuple[Pair, Pair]:
    a = draw(matrices_with_values())
    rows, columns = a[0].shape
    return a, draw(
        matrices_with_values(rows=columns) if inner else matrices_with_values(rows, columns)
    )


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


CELLWISE: dict[
    str, tuple[Callable[[IntervalMatrix], IntervalMatrix], Callable[[np.ndarray], np.ndarray]]
] = {
    "softmax": (IntervalMatrix.softmax, softmax),
    "sigmoid": (IntervalMatrix.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (ACTIVATIONS["tanh"], np.tanh),
    "relu": (ACTIVATIONS["relu"], lambda x: np.maximum(x, 0)),
    "gelu": (ACTIVATIONS["gelu"], lambda x: ACTIVATIONS["gelu"](IntervalMatrix.exact(x)).mid),
    "exp": (lambda c: c.apply_monotonic(np.exp), np.exp),
    "sine": (lambda c: c.apply_sinusoid(np.sin, np.pi / 2), np.sin),
    "cosine": (lambda c: c.apply_sinusoid(np.cos, 0.0), np.cos),
    "mean": (IntervalMatrix.mean, lambda x: x.mean(1, keepdims=True)),
    "negative": (lambda c: -c, np.negative),
    "transpose": (lambda c: c.T, np.transpose),
}


@pytest.mark.parametrize("name", CELLWISE)
@FEW
@given(pair=matrices_with_values())
def test_function_ranges_are_sound(name: str, pair: Pair) -> None:
    on_intervals, on_numbers = CELLWISE[name]
    cells, actual = pair
    assert contains(on_intervals(cells), on_numbers(actual))
    assert is_ordered(on_intervals(cells))
    np.testing.assert_allclose(
        on_intervals(cells).mid, on_numbers(cells.mid), rtol=1e-12, atol=1e-14
    )


@FEW
@given(pairs=pairs_of_matrices(inner=False))
def test_elementwise_ranges_are_sound(pairs: tuple[Pair, Pair]) -> None:
    (a, x), (b, y) = pairs
    assert contains(a + b, x + y)
    assert contains(a - b, x - y)
    assert contains(a * b, x * y)
    with np.errstate(all="ignore"):
        quotient = x / y
    assert contains(a / b, np.where(np.isfinite(quotient), quotient, 0.0))


@FEW
@given(pairs=pairs_of_matrices(inner=True))
def test_product_ranges_are_sound(pairs: tuple[Pair, Pair]) -> None:
    (a, x), (b, y) = pairs
    assert contains(a @ b, x @ y)
    assert is_ordered(a @ b)


@FEW
@given(pair=matrices_with_values())
def test_normalize_by_sum_ranges_are_sound(pair: Pair) -> None:
    cells, actual = pair
    total = actual.sum(1, keepdims=True)
    with np.errstate(all="ignore"):
        shares = np.where(np.abs(total) < 1e-9, 0, actual / total)
    far = (np.abs(total) > 1e-9) & (np.abs(cells.mid.sum(1, keepdims=True)) > 1e-9)
    share = cells.normalize_by_sum()
    slack = 1e-9 * (1 + np.abs(shares))
    assert (~far | ((share.lo <= shares + slack) & (shares - slack <= share.hi))).all()


def term_by_term_range(a: IntervalMatrix, b: IntervalMatrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of a product from the ranges of its terms."""
    terms = np.stack(
        [x[:, :, None] * y[None, :, :] for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    )  # [corner, row, inner, column]
    return terms.min(0).sum(1), terms.max(0).sum(1)


@FEW
@given(pairs=pairs_of_matrices(inner=True))
def test_small_product_ranges_are_tight(pairs: tuple[Pair, Pair]) -> None:
    (a, _), (b, _) = pairs
    lo, hi = term_by_term_range(a, b)
    np.testing.assert_allclose((a @ b).lo, lo, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((a @ b).hi, hi, rtol=1e-9, atol=1e-9)


def test_large_product_ranges_are_tight_to_second_order() -> None:
    rng = np.random.default_rng(0)
    mids, radii = rng.normal(size=(2, 30, 30)), rng.uniform(0, 0.2, (2, 30, 30))
    a, b = (
        IntervalMatrix(m, m - r, m + r, np.zeros(m.shape) > 0)
        for m, r in zip(mids, radii, strict=True)
    )
    (lo, hi), got, both = term_by_term_range(a, b), a @ b, 2 * radii[0] @ radii[1]
    assert ((got.lo <= lo) & (got.lo >= lo - both)).all()
    assert ((got.hi >= hi) & (got.hi <= hi + both)).all()


@FEW
@given(pair=matrices_with_values(rows=3, columns=3), values=matrices_with_values(rows=3))
def test_weighted_average_uses_that_weights_sum_to_one(pair: Pair, values: Pair) -> None:
    (scores, actual), (v, y) = pair, values
    weights = scores.softmax()
    term_by_term = IntervalMatrix(weights.mid, weights.lo, weights.hi, weights.tainted) @ v
    mixed = weights @ v
    assert contains(mixed, softmax(actual) @ y)
    assert (mixed.lo >= term_by_term.lo - 1e-12).all()
    assert (mixed.hi <= term_by_term.hi + 1e-12).all()
    ones = weights @ IntervalMatrix.exact(np.ones((3, 1)))
    np.testing.assert_allclose(ones.lo, 1, atol=1e-12)  # for all weights
    np.testing.assert_allclose(ones.hi, 1, atol=1e-12)


def test_weighted_average_of_masked_row_is_zero() -> None:
    weights = IntervalMatrix.exact([[-np.inf, -np.inf], [0.0, 0.0]]).softmax()
    mixed = weights @ IntervalMatrix.exact([[5.0], [7.0]])
    np.testing.assert_allclose(mixed.lo, [[0], [6]], atol=1e-12)
    np.testing.assert_allclose(mixed.hi, [[0], [6]], atol=1e-12)


@FEW
@given(pair=matrices_with_values(), shared=matrices_with_values(columns=1))
def test_variance_ranges_are_sound_and_tight(pair: Pair, shared: Pair) -> None:
    (x, actual), (means, mean) = pair, shared
    rows = min(x.shape[0], means.shape[0])
    x, means = x.rearrange(lambda a: a[:rows]), means.rearrange(lambda a: a[:rows])
    actual, mean = actual[:rows], mean[:rows]
    got = x.variance(means)
    assert contains(got, np.square(actual - mean).mean(1, keepdims=True))
    assert is_ordered(got)
    np.testing.assert_allclose(
        got.mid, np.square(x.mid - means.mid).mean(1, keepdims=True), rtol=1e-12, atol=1e-12
    )
    # Around the row's own mean, an error of the mean adds only its square.
    own = x.mid.mean(1, keepdims=True)
    inexact = IntervalMatrix(own, own - 0.1, own + 0.1, np.zeros(own.shape) > 0)
    exact = IntervalMatrix.exact(x.mid)
    width = exact.variance(inexact).hi - exact.variance(inexact).lo
    assert (width <= 0.01 + 1e-9).all()


@FEW
@given(pair=matrices_with_values(columns=3))
def test_softmax_ranges_are_tight(pair: Pair) -> None:
    cells, _ = pair
    ends = [
        softmax(np.where(np.array(corner), cells.hi, cells.lo))
        for corner in product([False, True], repeat=3)
    ]
    got = cells.softmax()
    np.testing.assert_allclose(got.lo, np.min(ends, axis=0), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(got.hi, np.max(ends, axis=0), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["sine", "cosine", "gelu", "tanh"])
@FEW
@given(pair=matrices_with_values(rows=1, columns=1))
def test_function_ranges_are_tight(name: str, pair: Pair) -> None:
    on_intervals, on_numbers = CELLWISE[name]
    cells, _ = pair
    line = np.linspace(cells.lo[0, 0], cells.hi[0, 0], 400)[None, :]
    got, values = on_intervals(cells), on_numbers(line)
    step = 8 * (line[0, 1] - line[0, 0]) + 1e-9  # no function here has a slope above 8
    assert got.lo[0, 0] >= values.min() - step
    assert got.hi[0, 0] <= values.max() + step


def test_softmax_of_masked_and_large_scores() -> None:
    scores = [[1000.0, -1000.0, 999.0], [-np.inf] * 3, [-np.inf, 3.0, -np.inf], [-1000.0] * 3]
    weights = IntervalMatrix.exact(scores).softmax().mid
    np.testing.assert_allclose(weights[0], [np.e / (1 + np.e), 0, 1 / (1 + np.e)], rtol=1e-14)
    assert weights[1].tolist() == [0, 0, 0]  # everything is masked
    assert weights[2].tolist() == [0, 1, 0]
    np.testing.assert_allclose(weights[3], [1 / 3] * 3, rtol=1e-14)


def test_softmax_memory_is_linear_in_keys() -> None:
    import tracemalloc

    scores = np.random.default_rng(0).normal(size=(64, 1024))
    inexact = IntervalMatrix(
        scores, scores - 0.1, scores + 0.1, np.zeros(scores.shape, dtype=np.bool_)
    )
    tracemalloc.start()
    weights = inexact.softmax()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * scores.nbytes  # not 1,024 times
    np.testing.assert_allclose(weights.mid, softmax(scores), rtol=1e-12)


def make_tainted(values: list[list[float]], *wrong: tuple[int, int]) -> IntervalMatrix:
    cells = IntervalMatrix.exact(values)
    marked = np.zeros(cells.shape, dtype=np.bool_)
    for index in wrong:
        marked[index] = True
    return IntervalMatrix(cells.mid, cells.lo, cells.hi, marked)


def test_taint_propagates() -> None:
    a = make_tainted([[1, 2], [3, 4]], (0, 1))
    ones = IntervalMatrix.exact([[1, 1], [1, 1]])
    assert (a @ ones).tainted.tolist() == [[True, True], [False, False]]
    assert (ones @ a).tainted.tolist() == [[False, True], [False, True]]
    assert (a + ones).tainted.tolist() == (a * ones).tainted.tolist() == a.tainted.tolist()
    assert (a / ones).tainted.tolist() == (ones / a).tainted.tolist() == a.tainted.tolist()
    assert a.T.tainted.tolist() == [[False, False], [True, False]]
    assert a.softmax().tainted.tolist() == [[True, True], [False, False]]  # softmax mixes the row
    assert a.normalize_by_sum().tainted.tolist() == [[True, True], [False, False]]
    assert a.sigmoid().tainted.tolist() == a.tainted.tolist()
    assert a.mean().tainted.tolist() == [[True], [False]]
    assert concatenate_columns([ones, a]).tainted.tolist() == [
        [False, False, False, True],
        [False] * 4,
    ]


def test_exact_zero_stops_taint() -> None:
    a = make_tainted([[1, 2], [3, 4]], (0, 1))
    zeros = IntervalMatrix.exact([[1, 0], [0, 0]])  # row 1 of the product is zero
    assert (a @ zeros).tainted.tolist() == [[False, False], [False, False]]
    assert (a * zeros).tainted.tolist() == [[False, False], [False, False]]
    assert (zeros / (a * a)).tainted.tolist() == [[False, False], [False, False]]
    assert (make_tainted([[0, 0]], (0, 0)) @ IntervalMatrix.exact([[1], [1]])).tainted.tolist() == [
        [True]
    ]  # the 0 itself is tainted
    inexact_zero = IntervalMatrix(
        np.zeros((2, 1)), -np.ones((2, 1)), np.ones((2, 1)), np.zeros((2, 1)) > 0
    )
    assert (a @ inexact_zero).tainted.tolist() == [[True], [False]]  # it may not be zero


def test_mask_stops_taint() -> None:
    a = make_tainted([[1, 2], [3, 4]], (0, 1))
    lower = np.tril(np.ones((2, 2), dtype=np.bool_))
    masked = a.where(lower, -np.inf)
    assert masked.tainted.tolist() == [[False, False], [False, False]]
    assert masked.softmax().tainted.tolist() == [[False, False], [False, False]]
    tainted_mask = make_tainted([[-np.inf, 2.0]], (0, 0))
    assert tainted_mask.softmax().tainted.tolist() == [[True, True]]


def test_infinity_and_nan_give_unbounded_ranges() -> None:
    unbounded = IntervalMatrix.exact([[-np.inf, 1.0]])
    wild = unbounded @ IntervalMatrix.exact([[0.0], [1.0]])
    assert (wild.lo[0, 0], wild.hi[0, 0]) == (-np.inf, np.inf)
    assert (unbounded * IntervalMatrix.exact([[0.0, 1.0]])).hi[0, 0] == np.inf
    assert (unbounded - unbounded).lo[0, 0] == -np.inf
    by_zero = IntervalMatrix.exact([[1.0]]) / IntervalMatrix.exact([[0.0]])
    assert (by_zero.lo[0, 0], by_zero.hi[0, 0]) == (-np.inf, np.inf)


def test_select_cells_takes_from_both() -> None:
    a, b = IntervalMatrix.exact([[1, 2]]), make_tainted([[3, 4]], (0, 1))
    both = select_cells(np.array([[True, False]]), a, b)
    assert both.mid.tolist() == [[1, 4]]
    assert both.tainted.tolist() == [[False, True]]
