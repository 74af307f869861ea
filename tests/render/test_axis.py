"""Ticks are round, upwards, and cover the numbers; labels tell them apart."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.render.chart import Axis, is_drawable, linear_ticks, log_ticks, make_axis

numbers = st.floats(-1e12, 1e12) | st.floats(allow_nan=False, allow_infinity=False)


@given(numbers, numbers, st.integers(2, 12), st.booleans())
def test_ticks_cover_are_round_and_few(one: float, other: float, most: int, log: bool) -> None:
    values = [abs(one), abs(other)] if log else [one, other]
    if not all(is_drawable(value, log) for value in values):
        return
    made = make_axis(values, most, log=log, extend_to_ticks=True)
    assert made.low <= min(values) <= max(values) <= made.high
    assert (made.low, made.high) == (made.ticks[0], made.ticks[-1])
    assert all(a < b for a, b in itertools.pairwise(made.ticks))
    assert 2 <= len(made.ticks) <= max(most, 3)
    assert len(set(made.labels)) == len(made.labels)
    inner = make_axis(values, most, log=log)
    assert all(inner.low <= tick <= inner.high for tick in inner.ticks)
    assert all(-1e-9 <= made.fraction_along(value) <= 1 + 1e-9 for value in values)


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.9), (0, 7), (-4, 31), (1e-7, 9e-7), (2e8, 3e8)])
def test_steps_are_one_two_or_five(low: float, high: float) -> None:
    found = linear_ticks(low, high)
    steps = {f"{b - a:.6e}" for a, b in itertools.pairwise(found)}
    assert len(steps) == 1
    assert steps.pop()[0] in "125"
    assert all(tick == float(f"{tick:.10g}") for tick in found)  # 0.3, not 0.30000000000000004


def test_numbers_are_written_for_people() -> None:
    def written(*values: float, **options: bool) -> Axis:
        return make_axis(values, 6, extend_to_ticks=True, **options)

    assert written(0, 1).labels == ("0", "1")
    assert written(0.01, 0.98).labels == ("0", "0.2", "0.4", "0.6", "0.8", "1.0")
    assert written(-2.5, 9).labels == ("−5", "0", "5", "10")
    assert written(0, 9500).labels == ("0", "2,000", "4,000", "6,000", "8,000", "10,000")
    assert written(0, 2.5e-7).labels[:2] == ("0", "0.5·10⁻⁷")
    assert written(1e-6, 2, log=True).labels == ("10⁻⁶", "0.0001", "0.01", "1", "100")
    assert written(0.995, 0.999, percent=True).labels[-1] == "99.9\u00a0%"
    assert log_ticks(1, 100, 7) == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(1, 100, 6) == [1, 10, 100]


def test_a_narrow_logarithmic_axis_has_even_steps() -> None:
    found = make_axis([2.42, 2.81], 6, log=True, extend_to_ticks=True)
    assert found.labels == ("2.4", "2.5", "2.6", "2.7", "2.8", "2.9")
