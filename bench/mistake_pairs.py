"""Plant two mistakes of the catalogue in one step, or one of them in an unclaimed step before."""

from collections.abc import Iterator

import numpy as np

from planting import FORMULA_MISTAKES, Plant, merge, work_with_mistake
from rounding import excess, needed_steps, units
from sheets import Env, Sheet, Worked, solve, work
from uncatalogued import has_name

Rng = np.random.Generator
_MAX_UNCLAIMED = 3  # steps before the one that the mistakes show in
_MIN_CELLS = 3  # of the step, and wrong ones
_MIN_UNITS = 3.0
_TRIES = 8  # pairs of mistakes per sheet


def plant_two(sheet: Sheet, rng: Rng) -> tuple[Worked, str, frozenset[str]] | None:
    """Solve a sheet with two mistakes that both show in one step; return it and their names.

    The claimed steps of the sheet are drawn anew. None if one of the mistakes alone leads to the
    same numbers.
    """
    keys = sheet.claimable
    index = int(rng.integers(len(keys)))
    target, num_unclaimed = keys[index], int(rng.integers(_MAX_UNCLAIMED + 1))
    sheet.claimed = [*keys[: max(index - num_unclaimed, 0)], *keys[index:]]
    exact = solve(sheet)
    if exact[target].size < _MIN_CELLS:
        return None
    try:
        correct = work(sheet)
    except ValueError:
        return None
    options = list(_options(sheet, target))
    for _ in range(_TRIES if len(options) > 1 else 0):
        (a, first), (b, second) = (options[k] for k in rng.choice(len(options), 2, replace=False))
        merged = None if a == b else merge(sheet, first, second)
        if merged is None:
            continue
        solved = [work_with_mistake(sheet, plant, correct) for plant in (merged, first, second)]
        if all(w is not None for w in solved) and _are_both_visible(sheet, target, exact, *solved):
            both = solved[0]
            if both is not None and not has_name(sheet, both, target, correct, exact):
                return both, target, frozenset((a, b))
    return None


def _options(sheet: Sheet, target: str) -> Iterator[tuple[str, Plant]]:
    """Yield the mistakes in the step or in the unclaimed steps that it depends on."""
    within = set(needed_steps(sheet, target, set(sheet.claimed)))
    within -= set(sheet.claimed) - {target}
    for name, list_variants in FORMULA_MISTAKES.items():
        for variant in list_variants(sheet):
            if within.issuperset(variant):
                yield name, variant


def _are_both_visible(
    sheet: Sheet, target: str, exact: Env, both: Worked, first: Worked, second: Worked
) -> bool:
    """Return True if the numbers show both mistakes: neither alone leads to them."""
    beyond = excess(sheet, both, target, exact)
    if (beyond > _MIN_UNITS).sum() < _MIN_CELLS or ((beyond > 0) & (beyond <= _MIN_UNITS)).any():
        return False
    unit = units(both.texts[target], exact[target]).max()
    for alone in (first, second):
        with np.errstate(invalid="ignore"):
            difference = np.abs(both.env[target] - alone.env[target])
        if (difference > _MIN_UNITS * max(unit, 1e-9)).sum() < 2:
            return False
    return True
