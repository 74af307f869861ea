"""Ranges are sound (they hold whatever the inputs may be), tight, and know what was wrong."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from workings.problems.intervals import IntervalMatrix, concatenate_columns, select_cells
from workings.problems.ops import ACTIVATIONS

Pair = tuple[IntervalMatrix, np.ndarray]  # a matrix with ranges, and one that lies in them
VALUES = st.floats(-6, 6, allow_subnormal=False)
SIZE = st.integers(1, 4)
few = settings(max_examples=40)


@st.composite
def within(draw: st.DrawFn, rows: int | None = None, columns: int | None = None) -> Pair:
    shape = (rows or draw(SIZE), columns or draw(SIZE))
    mid = draw(arrays(np.float64, shape, elements=VALUES))
    radius = draw(arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.01, 0.3, 2.0])))
    where = draw(arrays(np.float64, shape, elements=st.floats(-1, 1)))
    cells = IntervalMatrix(mid, mid - radius, mid + radius, np.zeros(shape, dtype=np.bool_))
    return cells, np.clip(mid + where * radius, cells.lo, cells.hi)


def holds(cells: IntervalMatrix, actual: np.ndarray) -> bool:
    slack = 1e-12 * (1 + np.abs(actual))
    return bool(((cells.lo <= actual + slack) & (actual - slack <= cells.hi)).all())


def in_order(cells: IntervalMatrix) -> bool:
    return bool(((cells.lo <= cells.mid) & (cells.mid <= cells.hi)).all())


@st.composite
def two(draw: st.DrawFn, inner: bool) -> tuple[Pair, Pair]:
    a = draw(within())
    rows, columns = a[0].shape
    return a, draw(within(rows=columns) if inner else within(rows, columns))


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
@few
@given(pair=within())
def test_ranges_of_functions_are_sound(name: str, pair: Pair) -> None:
    on_cells, on_numbers = CELLWISE[name]
    cells, actual = pair
    assert holds(on_cells(cells), on_numbers(actual))
    assert in_order(on_cells(cells))
    np.testing.assert_allclose(on_cells(cells).mid, on_numbers(cells.mid), rtol=1e-12, atol=1e-14)


@few
@given(pairs=two(inner=False))
def test_ranges_of_cellwise_operations_are_sound(pairs: tuple[Pair, Pair]) -> None:
    (a, x), (b, y) = pairs
    assert holds(a + b, x + y)
    assert holds(a - b, x - y)
    assert holds(a * b, x * y)
    with np.errstate(all="ignore"):
        quotient = x / y
    assert holds(a / b, np.where(np.isfinite(quotient), quotient, 0.0))


@few
@given(pairs=two(inner=True))
def test_ranges_of_products_are_sound(pairs: tuple[Pair, Pair]) -> None:
    (a, x), (b, y) = pairs
    assert holds(a @ b, x @ y)
    assert in_order(a @ b)


@few
@given(pair=within())
def test_ranges_of_shares_of_a_sum_are_sound(pair: Pair) -> None:
    cells, actual = pair
    total = actual.sum(1, keepdims=True)
    with np.errstate(all="ignore"):
        shares = np.where(np.abs(total) < 1e-9, 0, actual / total)
    far = (np.abs(total) > 1e-9) & (np.abs(cells.mid.sum(1, keepdims=True)) > 1e-9)
    share = cells.normalize_by_sum()
    slack = 1e-9 * (1 + np.abs(shares))
    assert (~far | ((share.lo <= shares + slack) & (shares - slack <= share.hi))).all()


def corners(a: IntervalMatrix, b: IntervalMatrix) -> tuple[np.ndarray, np.ndarray]:
    """The range of a product, term by term."""
    terms = np.stack(
        [x[:, :, None] * y[None, :, :] for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    )  # [corner, row, inner, column]
    return terms.min(0).sum(1), terms.max(0).sum(1)


@few
@given(pairs=two(inner=True))
def test_small_products_are_as_tight_as_can_be(pairs: tuple[Pair, Pair]) -> None:
    (a, _), (b, _) = pairs
    lo, hi = corners(a, b)
    np.testing.assert_allclose((a @ b).lo, lo, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((a @ b).hi, hi, rtol=1e-9, atol=1e-9)


def test_large_products_are_tight_to_second_order() -> None:
    rng = np.random.default_rng(0)
    mids, radii = rng.normal(size=(2, 30, 30)), rng.uniform(0, 0.2, (2, 30, 30))
    a, b = (
        IntervalMatrix(m, m - r, m + r, np.zeros(m.shape) > 0)
        for m, r in zip(mids, radii, strict=True)
    )
    (lo, hi), got, both = corners(a, b), a @ b, 2 * radii[0] @ radii[1]
    assert ((got.lo <= lo) & (got.lo >= lo - both)).all()
    assert ((got.hi >= hi) & (got.hi <= hi + both)).all()


@few
@given(pair=within(rows=3, columns=3), values=within(rows=3))
def test_mixing_knows_that_weights_add_up_to_one(pair: Pair, values: Pair) -> None:
    (scores, actual), (v, y) = pair, values
    weights = scores.softmax()
    apart = IntervalMatrix(weights.mid, weights.lo, weights.hi, weights.tainted) @ v
    mixed = weights @ v
    assert holds(mixed, softmax(actual) @ y)
    assert (mixed.lo >= apart.lo - 1e-12).all()
    assert (mixed.hi <= apart.hi + 1e-12).all()
    ones = weights @ IntervalMatrix.exact(np.ones((3, 1)))
    np.testing.assert_allclose(ones.lo, 1, atol=1e-12)  # whatever the weights
    np.testing.assert_allclose(ones.hi, 1, atol=1e-12)


def test_mixing_by_no_weights_at_all_gives_nothing() -> None:
    nobody = IntervalMatrix.exact([[-np.inf, -np.inf], [0.0, 0.0]]).softmax()
    mixed = nobody @ IntervalMatrix.exact([[5.0], [7.0]])
    np.testing.assert_allclose(mixed.lo, [[0], [6]], atol=1e-12)
    np.testing.assert_allclose(mixed.hi, [[0], [6]], atol=1e-12)


@few
@given(pair=within(), shared=within(columns=1))
def test_variances_are_sound_and_tight(pair: Pair, shared: Pair) -> None:
    (x, actual), (means, mean) = pair, shared
    rows = min(x.shape[0], means.shape[0])
    x, means = x.rearrange(lambda a: a[:rows]), means.rearrange(lambda a: a[:rows])
    actual, mean = actual[:rows], mean[:rows]
    got = x.variance(means)
    assert holds(got, np.square(actual - mean).mean(1, keepdims=True))
    assert in_order(got)
    np.testing.assert_allclose(
        got.mid, np.square(x.mid - means.mid).mean(1, keepdims=True), rtol=1e-12, atol=1e-12
    )
    # Around its own mean, the mean's doubt adds nothing but its square.
    own = x.mid.mean(1, keepdims=True)
    unsure = IntervalMatrix(own, own - 0.1, own + 0.1, np.zeros(own.shape) > 0)
    exact = IntervalMatrix.exact(x.mid)
    width = exact.variance(unsure).hi - exact.variance(unsure).lo
    assert (width <= 0.01 + 1e-9).all()


@few
@given(pair=within(columns=3))
def test_softmax_is_as_tight_as_can_be(pair: Pair) -> None:
    cells, _ = pair
    ends = [
        softmax(np.where(np.array(corner), cells.hi, cells.lo))
        for corner in product([False, True], repeat=3)
    ]
    got = cells.softmax()
    np.testing.assert_allclose(got.lo, np.min(ends, axis=0), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(got.hi, np.max(ends, axis=0), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", ["sine", "cosine", "gelu", "tanh"])
@few
@given(pair=within(rows=1, columns=1))
def test_functions_are_as_tight_as_can_be(name: str, pair: Pair) -> None:
    on_cells, on_numbers = CELLWISE[name]
    cells, _ = pair
    line = np.linspace(cells.lo[0, 0], cells.hi[0, 0], 400)[None, :]
    got, values = on_cells(cells), on_numbers(line)
    step = 8 * (line[0, 1] - line[0, 0]) + 1e-9  # no function here is steeper than 8 ≈ 2·(6 + 2)/2
    assert got.lo[0, 0] >= values.min() - step
    assert got.hi[0, 0] <= values.max() + step


def test_softmax_hides_and_stays_finite() -> None:
    scores = [[1000.0, -1000.0, 999.0], [-np.inf] * 3, [-np.inf, 3.0, -np.inf], [-1000.0] * 3]
    weights = IntervalMatrix.exact(scores).softmax().mid
    np.testing.assert_allclose(weights[0], [np.e / (1 + np.e), 0, 1 / (1 + np.e)], rtol=1e-14)
    assert weights[1].tolist() == [0, 0, 0]  # may look at nothing: no weight anywhere
    assert weights[2].tolist() == [0, 1, 0]
    np.testing.assert_allclose(weights[3], [1 / 3] * 3, rtol=1e-14)


def test_softmax_of_a_thousand_keys_needs_little_memory() -> None:
    import tracemalloc

    scores = np.random.default_rng(0).normal(size=(64, 1024))
    unsure = IntervalMatrix(
        scores, scores - 0.1, scores + 0.1, np.zeros(scores.shape, dtype=np.bool_)
    )
    tracemalloc.start()
    weights = unsure.softmax()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * scores.nbytes  # and not 1,024 times
    np.testing.assert_allclose(weights.mid, softmax(scores), rtol=1e-12)


def off(values: list[list[float]], *wrong: tuple[int, int]) -> IntervalMatrix:
    cells = IntervalMatrix.exact(values)
    marked = np.zeros(cells.shape, dtype=np.bool_)
    for place in wrong:
        marked[place] = True
    return IntervalMatrix(cells.mid, cells.lo, cells.hi, marked)


def test_what_is_wrong_reaches_what_is_computed_from_it() -> None:
    a = off([[1, 2], [3, 4]], (0, 1))
    ones = IntervalMatrix.exact([[1, 1], [1, 1]])
    assert (a @ ones).tainted.tolist() == [[True, True], [False, False]]
    assert (ones @ a).tainted.tolist() == [[False, True], [False, True]]
    assert (a + ones).tainted.tolist() == (a * ones).tainted.tolist() == a.tainted.tolist()
    assert (a / ones).tainted.tolist() == (ones / a).tainted.tolist() == a.tainted.tolist()
    assert a.T.tainted.tolist() == [[False, False], [True, False]]
    assert a.softmax().tainted.tolist() == [[True, True], [False, False]]  # a row competes
    assert a.normalize_by_sum().tainted.tolist() == [[True, True], [False, False]]
    assert a.sigmoid().tainted.tolist() == a.tainted.tolist()
    assert a.mean().tainted.tolist() == [[True], [False]]
    assert concatenate_columns([ones, a]).tainted.tolist() == [
        [False, False, False, True],
        [False] * 4,
    ]


def test_zero_stops_what_is_wrong() -> None:
    a = off([[1, 2], [3, 4]], (0, 1))
    blind = IntervalMatrix.exact([[1, 0], [0, 0]])  # nothing of row 1 gets through
    assert (a @ blind).tainted.tolist() == [[False, False], [False, False]]
    assert (a * blind).tainted.tolist() == [[False, False], [False, False]]
    assert (blind / (a * a)).tainted.tolist() == [[False, False], [False, False]]
    assert (off([[0, 0]], (0, 0)) @ IntervalMatrix.exact([[1], [1]])).tainted.tolist() == [
        [True]
    ]  # 0 is wrong
    doubtful = IntervalMatrix(
        np.zeros((2, 1)), -np.ones((2, 1)), np.ones((2, 1)), np.zeros((2, 1)) > 0
    )
    assert (a @ doubtful).tainted.tolist() == [[True], [False]]  # perhaps it was no zero


def test_a_mask_stops_what_is_wrong() -> None:
    a = off([[1, 2], [3, 4]], (0, 1))
    lower = np.tril(np.ones((2, 2), dtype=np.bool_))
    masked = a.where(lower, -np.inf)
    assert masked.tainted.tolist() == [[False, False], [False, False]]
    assert masked.softmax().tainted.tolist() == [[False, False], [False, False]]
    wrongly_hidden = off([[-np.inf, 2.0]], (0, 0))
    assert wrongly_hidden.softmax().tainted.tolist() == [[True, True]]


def test_infinities_and_what_is_no_number_end_in_a_range_without_ends() -> None:
    endless = IntervalMatrix.exact([[-np.inf, 1.0]])
    wild = endless @ IntervalMatrix.exact([[0.0], [1.0]])
    assert (wild.lo[0, 0], wild.hi[0, 0]) == (-np.inf, np.inf)
    assert (endless * IntervalMatrix.exact([[0.0, 1.0]])).hi[0, 0] == np.inf
    assert (endless - endless).lo[0, 0] == -np.inf
    by_zero = IntervalMatrix.exact([[1.0]]) / IntervalMatrix.exact([[0.0]])
    assert (by_zero.lo[0, 0], by_zero.hi[0, 0]) == (-np.inf, np.inf)


def test_merge_takes_cells_from_both() -> None:
    a, b = IntervalMatrix.exact([[1, 2]]), off([[3, 4]], (0, 1))
    both = select_cells(np.array([[True, False]]), a, b)
    assert both.mid.tolist() == [[1, 4]]
    assert both.tainted.tolist() == [[False, True]]
