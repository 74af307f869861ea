"""The checker's bars for the kinds that have their own examples: honest, slipped and wrong."""

import numpy as np
import pytest

from examples.catalog import EXAMPLES
from examples.measures import find_misplaced_slips, find_unnamed_mistakes, find_wrong_honest_sheets

MIN_NAMED = 0.95


def check_bars(name: str, num_honest: int, num_slips: int, num_planted: int) -> None:
    make, planters = EXAMPLES[name]
    rng = np.random.default_rng([29, *name.encode(), num_honest])
    assert find_wrong_honest_sheets(make, rng, num_honest) == []
    assert find_misplaced_slips(make, rng, num_slips) == []
    planted, unnamed = find_unnamed_mistakes(make, planters, rng, num_planted)
    assert min(planted.values()) == num_planted, planted
    assert len(planted) == len(planters) >= 6
    total = sum(planted.values())
    assert len(unnamed) <= (1 - MIN_NAMED) * total + (total < 100), unnamed


@pytest.mark.parametrize("name", EXAMPLES)
def test_checker_holds_its_bars(name: str) -> None:
    check_bars(name, num_honest=28, num_slips=6, num_planted=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_checker_holds_its_bars_on_thousands(name: str) -> None:
    check_bars(name, num_honest=2_000, num_slips=300, num_planted=40)
