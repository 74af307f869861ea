"""Measure the checker on every other kind of problem: random examples that plain numpy solves."""

import numpy as np

from examples.catalog import EXAMPLES
from examples.measures import (
    find_misplaced_slips,
    find_unnamed_mistakes,
    find_wrong_honest_sheets,
)
from rows import Row


def check_kind(name: str, count: int, seed: int) -> Row:
    """Check correct solutions of a kind in several styles of rounding."""
    row, rng = Row(name, num_planted=count), np.random.default_rng([seed, 0, *name.encode()])
    wrong = find_wrong_honest_sheets(EXAMPLES[name][0], rng, count)
    row.num_wrong = len(wrong)
    return _add_failures(row, wrong)


def check_kind_slips(name: str, count: int, seed: int) -> Row:
    """Change one number of each solution; count the slips that are found in their place."""
    row, rng = Row(name, num_planted=count), np.random.default_rng([seed, 1, *name.encode()])
    misplaced = find_misplaced_slips(EXAMPLES[name][0], rng, count)
    row.num_found = count - len(misplaced)
    return _add_failures(row, misplaced)


def plant_in_kind(name: str, count: int, seed: int) -> Row:
    """Plant each mistake of a kind `count` times; count those that are named."""
    row, rng = Row(name), np.random.default_rng([seed, 2, *name.encode()])
    planted, unnamed = find_unnamed_mistakes(*EXAMPLES[name], rng, count)
    row.num_planted = sum(planted.values())
    row.num_named = row.num_planted - len(unnamed)
    return _add_failures(row, unnamed)


def _add_failures(row: Row, failures: list[str]) -> Row:
    for text in failures:
        row.add_failure(text)
    return row
