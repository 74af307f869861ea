"""Generated sheets: planted mistakes are named, and what is no mistake of the catalog is not."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from examples.numpy_problems import (
    KINDS,
    PLANTERS,
    Example,
    Matrix,
    Plant,
    Rng,
    Style,
    Texts,
    make_problem,
    solve,
    truncate_claims,
)
from workings.problems.check import WrongCell

MIN_NAMED = 0.985  # of all sheets
MAX_MISNAMED = 0.02
MIN_UNITS = 4  # by which a planted number differs, at least


def draw_sheet(rng: Rng, kind: str) -> tuple[Example, Style, list[str]]:
    """Draw a problem, a style of writing and which steps are claimed."""
    example = KINDS[kind](rng)
    style = Style(int(rng.choice([2, 3, 3])), bool(rng.random() < 0.5))
    claimed = example.claimable
    if rng.random() < 0.4:
        claimed = [key for key in claimed if rng.random() < 0.6] or claimed[-1:]
    return example, style, claimed


def find_first_difference(
    right: dict[str, Texts], wrong: dict[str, Texts], style: Style
) -> str | None:
    """Return the first step that differs; None if it looks like rounding, or shapes differ."""
    for key, texts in wrong.items():
        if np.shape(texts) != np.shape(right[key]):
            return None
        if texts != right[key]:
            a, b = (np.array(m, dtype=float) for m in (texts, right[key]))
            is_visible = np.isfinite(a).all() and (np.abs(a - b) * 10**style.decimals).max()
            return key if is_visible > MIN_UNITS else None
    return None


def plant(rng: Rng, kind: str, name: str) -> tuple[WrongCell | None, str] | None:
    """Plant a mistake in a sheet; return the first wrong cell and the step it should be in."""
    example, style, claimed = draw_sheet(rng, kind)
    plants = list(PLANTERS[kind, name](example))
    wrong_steps = plants[rng.integers(len(plants))]
    right = solve(example, style, claimed=claimed)
    wrong = solve(example, style, wrong_steps, claimed=claimed)
    key = find_first_difference(right, wrong, style)
    # If a wrong step is claimed but looks right, the mistake is not visible there.
    if key is None or (key not in wrong_steps and set(wrong_steps) & set(claimed)):
        return None
    return make_problem(example, truncate_claims(wrong, key)).check().first, key


def repeat(
    attempt: Callable[[], tuple[WrongCell | None, str] | None], count: int
) -> list[WrongCell]:
    """Collect the first wrong cells of sheets on which the wrong step is found."""
    cells: list[WrongCell] = []
    for _ in range(20 * count):
        result = attempt()
        if result is not None and result[0] is not None and result[0].key == result[1]:
            cells.append(result[0])
        if len(cells) == count:
            break
    return cells


@pytest.mark.parametrize("num_sheets", [4, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_planted_mistakes_are_named(kind: str, num_sheets: int) -> None:
    names = [name for k, name in PLANTERS if k == kind]
    missed: Counter[str] = Counter()
    for name in names:
        rng = np.random.default_rng([3, *kind.encode(), *name.encode()])
        cells = repeat(lambda name=name, rng=rng: plant(rng, kind, name), num_sheets)
        assert len(cells) == num_sheets, name
        missed[name] = sum(name not in [c.name for c in cell.causes] for cell in cells)
    assert missed.total() <= (1 - MIN_NAMED) * num_sheets * len(names) + 1, missed
    assert max(missed.values()) <= 1, missed


def add_slip(rng: Rng, texts: Texts) -> Texts:
    """Change a random number by ten to a hundred units."""
    changed = [list(row) for row in texts]
    i, j = rng.integers(len(texts)), rng.integers(len(texts[0]))
    decimals = len(changed[i][j].partition(".")[2])
    slip = rng.choice([-1, 1]) * rng.uniform(10, 100) * 10.0**-decimals
    changed[i][j] = f"{float(changed[i][j]) + slip:.{decimals}f}"
    return changed


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lstm"])
def test_mistake_with_a_slip_on_top_is_named(kind: str) -> None:
    names = [name for k, name in PLANTERS if k == kind]
    rng = np.random.default_rng([4, *kind.encode()])
    num_named = num_sheets = 0
    for _ in range(400):
        example, style, claimed = draw_sheet(rng, kind)
        name = names[rng.integers(len(names))]
        plants = list(PLANTERS[kind, name](example))
        wrong_steps = plants[rng.integers(len(plants))]
        right = solve(example, style, claimed=claimed)
        wrong = solve(example, style, wrong_steps, claimed=claimed)
        key = find_first_difference(right, wrong, style)
        if key is None or (key not in wrong_steps and set(wrong_steps) & set(claimed)):
            continue
        a, b = (np.array(texts[key], dtype=float) for texts in (wrong, right))
        if (np.abs(a - b) * 10**style.decimals > MIN_UNITS).sum() < 4:
            continue  # at least three numbers besides the slip show the mistake
        wrong[key] = add_slip(rng, wrong[key])
        cell = make_problem(example, truncate_claims(wrong, key)).check().first
        num_sheets += 1
        num_named += cell is not None and name in [cause.name for cause in cell.causes]
        if num_sheets == 20:
            break
    assert num_named >= 0.95 * num_sheets - 1


DISTORTIONS: dict[str, Callable[[Matrix, Rng], Matrix]] = {
    "noise": lambda x, rng: x + rng.normal(0, 1 + np.abs(x).max(), x.shape),
    "squares": lambda x, _rng: x**2 + 1,
    "shuffled cells": lambda x, rng: rng.permutation(x.ravel()).reshape(x.shape),
    "another scale": lambda x, rng: x * rng.choice([0.37, 1.31, 2.3]),
    "cumulative sum": lambda x, _rng: x.cumsum(1) + 0.1,
}


def distort(rng: Rng, kind: str, name: str) -> tuple[WrongCell | None, str] | None:
    """Distort a step with at least four cells, so that no mistake of the catalog leads to it."""
    example, style, claimed = draw_sheet(rng, kind)
    key = claimed[rng.integers(len(claimed))]
    right, function, seed = example.steps[key], DISTORTIONS[name], rng.integers(2**32)
    wrong_step: Plant = {
        key: lambda e: function(np.array(right(e)), np.random.default_rng(seed)),
    }
    correct = solve(example, style, claimed=claimed)
    texts = solve(example, style, wrong_step, claimed=claimed)
    a, b = (np.array(t[key], dtype=float) for t in (texts, correct))
    if (np.abs(a - b) * 10**style.decimals > MIN_UNITS).sum() < 3:
        return None
    return make_problem(example, truncate_claims(texts, key)).check().first, key


@pytest.mark.parametrize("name", DISTORTIONS)
def test_mistakes_without_a_name_get_none(name: str) -> None:
    given: Counter[str] = Counter()
    for kind in KINDS:
        rng = np.random.default_rng([5, *kind.encode(), *name.encode()])
        cells = repeat(lambda kind=kind, rng=rng: distort(rng, kind, name), 8)
        given.update(cause.name for cell in cells for cause in cell.causes)
    assert given.pop("unknown") >= 50
    assert given.total() <= MAX_MISNAMED * 64 + 1, given


def test_random_numbers_are_unknown() -> None:
    """A single random number is neither a slip in writing nor in a term, nor a copy."""
    given: Counter[str] = Counter()
    rng = np.random.default_rng(6)
    for kind in (*KINDS, *KINDS):
        for _ in range(8):
            example = KINDS[kind](rng)
            key = example.claimable[rng.integers(len(example.claimable))]
            number = f"{rng.uniform(-30, 30):.3f}"

            def spoil(step: str, texts: Texts, key: str = key, number: str = number) -> Texts:
                return [[number, *texts[0][1:]], *texts[1:]] if step == key else texts

            texts = solve(example, Style(3, carries_rounded=True), spoil=spoil)
            first = make_problem(example, truncate_claims(texts, key)).check().first
            assert first is not None
            given.update(cause.name for cause in first.causes)
    assert given.pop("unknown") >= 120
    assert given.total() <= 4, given
