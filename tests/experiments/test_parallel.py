import json
import subprocess
import sys

import pytest

from workings.experiments.base import fit_power_law
from workings.experiments.parallel import (
    LENGTHS,
    PARAGRAPH_LENGTH,
    WIDTHS,
    TimingResult,
    count_products,
    find_crossing,
    measure,
)


def test_counts_are_equal_where_the_length_is_the_width():
    for width in WIDTHS:
        recurrent, attention = count_products(width, width)
        assert recurrent == attention
        assert count_products(2 * width, width) == (2 * recurrent, 4 * attention)


def test_exponent_and_crossing_of_known_curves():
    line = [(n, 3e-5 * n) for n in (16, 64, 256, 1024)]
    square = [(n, 1e-7 * n**2) for n, _ in line]
    assert fit_power_law(line) == pytest.approx((1, 3e-5))
    assert fit_power_law(square) == pytest.approx((2, 1e-7))
    assert find_crossing(square, line) == pytest.approx(300)
    assert TimingResult(64, line, square).crossing == pytest.approx(300)
    assert find_crossing(square[:2], line[:2]) is None


def test_last_crossing_counts():
    ones = [(n, 1.0) for n in (1, 2, 4, 8)]
    assert find_crossing([(1, 0.5), (2, 2), (4, 0.5), (8, 2)], ones) == pytest.approx(32**0.5)


def test_every_length_is_timed():
    for timing in measure(lengths=(8, 16), repeats=1):
        for points in (timing.recurrent, timing.attention):
            assert [n for n, _ in points] == [8, 16]
            assert all(seconds > 0 for _, seconds in points)


@pytest.mark.slow
def test_attention_is_faster_on_a_paragraph_and_less_so_on_a_book():
    """The bounds leave room for a busy machine; a subprocess runs without shape checks."""
    command = [sys.executable, "-m", "workings", "why", "parallel", "--json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = {row["n"]: row for row in json.loads(output)["figures"]}
    for width in WIDTHS:
        speedup = {
            n: float(row[f"d = {width}: RNN, ms"]) / float(row[f"d = {width}: attention, ms"])
            for n, row in rows.items()
        }
        assert speedup[f"{PARAGRAPH_LENGTH:,}"] > 2
        assert speedup[f"{LENGTHS[-1]:,}"] < speedup[f"{PARAGRAPH_LENGTH:,}"] / 2
