import json
import subprocess
import sys

import pytest

from workings.experiments.curves import fit_power_law
from workings.experiments.parallel import (
    LENGTHS,
    PARAGRAPH_LENGTH,
    WIDTHS,
    TimingResult,
    count_products,
    find_crossing,
    measure,
)


def test_products_are_even_where_the_length_is_the_width():
    for width in WIDTHS:
        recurrent, attention = count_products(width, width)
        assert recurrent == attention
        assert count_products(2 * width, width) == (2 * recurrent, 4 * attention)


def test_an_exponent_and_a_crossing_are_those_of_the_points():
    line = [(n, 3e-5 * n) for n in (16, 64, 256, 1024)]
    square = [(n, 1e-7 * n**2) for n, _ in line]
    assert fit_power_law(line) == pytest.approx((1, 3e-5))
    assert fit_power_law(square) == pytest.approx((2, 1e-7))
    assert find_crossing(square, line) == pytest.approx(300)
    assert TimingResult(64, line, square).crossing == pytest.approx(300)
    assert find_crossing(square[:2], line[:2]) is None


def test_noise_before_the_last_crossing_does_not_count():
    ones = [(n, 1.0) for n in (1, 2, 4, 8)]
    assert find_crossing([(1, 0.5), (2, 2), (4, 0.5), (8, 2)], ones) == pytest.approx(32**0.5)


def test_every_length_is_timed():
    for raced in measure(lengths=(8, 16), repeats=1):
        for way in (raced.recurrent, raced.attention):
            assert [n for n, _ in way] == [8, 16]
            assert all(seconds > 0 for _, seconds in way)


@pytest.mark.slow
def test_attention_leads_on_a_paragraph_and_less_on_a_book():
    """By factors that a busy machine does not take away; in a process that checks no shapes."""
    asked = [sys.executable, "-m", "workings", "why", "parallel", "--json"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    rows = {row["n"]: row for row in json.loads(told)["figures"]}
    for width in WIDTHS:
        lead = {
            n: float(row[f"d = {width}: RNN, ms"]) / float(row[f"d = {width}: attention, ms"])
            for n, row in rows.items()
        }
        assert lead[f"{PARAGRAPH_LENGTH:,}"] > 2
        assert lead[f"{LENGTHS[-1]:,}"] < lead[f"{PARAGRAPH_LENGTH:,}"] / 2
