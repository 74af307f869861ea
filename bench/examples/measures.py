"""The checker's bars for one kind of problem, on random examples that plain numpy solves.

Honest solutions are never called wrong, slips are found in their place, and planted mistakes are
named. `numpy_problems` has the examples' form; a kind brings its own and the mistakes to plant.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from examples.numpy_problems import Example, Plant, Planter, Rng, Style, Texts, make_problem, solve

MIN_UNITS = 4  # of the last digit, by which a planted number differs at least


@dataclass(frozen=True)
class Truncation(Style):
    """Digits beyond the last decimal are cut off."""

    def write(self, value: float) -> str:
        if np.isneginf(value):
            return "-inf"
        scale = 10**self.decimals
        text = f"{np.trunc(value * scale + 1e-9 * np.sign(value)) / scale + 0.0:.{self.decimals}f}"
        return text.removeprefix("-") if float(text) == 0 else text


@dataclass(frozen=True)
class SignificantDigits(Style):
    """So many significant digits, whatever the size of the number."""

    def write(self, value: float) -> str:
        if np.isneginf(value) or value == 0:
            return "-inf" if value else "0"
        places = self.decimals - 1 - int(np.floor(np.log10(abs(value))))
        return f"{round(value, places):.{max(places, 0)}f}"


STYLES = (
    *(Style(decimals, carries) for decimals in (2, 3, 4) for carries in (True, False)),
    *(Truncation(decimals, carries) for decimals in (2, 3) for carries in (True, False)),
    *(SignificantDigits(digits, carries) for digits in (3, 4) for carries in (True, False)),
)


def draw_claims(rng: Rng, example: Example) -> list[str]:
    """Draw which steps are claimed: usually all, sometimes some of them."""
    claimed = [key for key in example.claimable if rng.random() < 0.6]
    return claimed if claimed and rng.random() < 0.4 else example.claimable


def find_wrong_honest_sheets(make: Callable[[Rng], Example], rng: Rng, count: int) -> list[str]:
    """Return the honest solutions that are called wrong."""
    wrong = []
    for k in range(count):
        example, style = make(rng), STYLES[k % len(STYLES)]
        problem = make_problem(example, solve(example, style, claimed=draw_claims(rng, example)))
        report = problem.check()
        if report.verdict != "right":
            wrong.append(f"{style}: {report.summarize()}")
    return wrong


def find_misplaced_slips(make: Callable[[Rng], Example], rng: Rng, count: int) -> list[str]:
    """Return the slips that are not found in their place; a slip moves a number by 50 to 500 units.

    Every step is claimed and carries the rounded numbers on.
    """
    misplaced = []
    for _ in range(count):
        example = make(rng)
        key = example.claimable[rng.integers(len(example.claimable))]
        cell: tuple[int, int] | None = None
        texts_by_step: dict[str, Texts] = {}

        def spoil(
            step: str,
            texts: Texts,
            key: str = key,
            example: Example = example,
            texts_by_step: dict[str, Texts] = texts_by_step,
        ) -> Texts:
            nonlocal cell
            texts_by_step[step] = texts
            if step != key or cell is not None:
                return texts
            numbers = np.argwhere(np.isfinite(np.array(texts, dtype=float)))
            cell = tuple(numbers[rng.integers(len(numbers))].tolist())
            rows = [list(row) for row in texts]
            number = float(texts[cell[0]][cell[1]])
            tied = (
                find_ties(texts_by_step, cell[0], int(number)) if step in example.labels else set()
            )
            rows[cell[0]][cell[1]] = slip(rng, example, step, number, tied)
            return rows

        texts = solve(example, Style(3, carries_rounded=True), spoil=spoil)
        keys = list(texts)
        texts = {k: texts[k] for k in keys[: keys.index(key) + 1]}
        first = make_problem(example, texts).check().first
        if first is None or (first.key, first.cell) != (key, cell):
            misplaced.append(f"{key} {cell}: {first}")
    return misplaced


def find_ties(texts_by_step: dict[str, Texts], row: int, label: int) -> set[int]:
    """Return the labels whose probability is written like that of a label: they are right, too."""
    if "probabilities" not in texts_by_step:
        return {label}
    texts = texts_by_step["probabilities"][row]
    return {k for k, text in enumerate(texts, start=1) if text == texts[label - 1]}


def slip(rng: Rng, example: Example, step: str, number: float, tied: Collection[int] = ()) -> str:
    """Return another number than this one, as written, and none of the labels tied with it."""
    if step in example.labels:
        labels = range(1, example.labels[step] + 1)
        others = [k for k in labels if k != number and k not in tied]
        return str(rng.choice(others))
    sign = rng.choice([-1, 1])
    if step in example.integers:
        return f"{number + sign * rng.integers(1, 10):.0f}"
    return f"{number + sign * rng.uniform(0.05, 0.5):.3f}"


def plant(rng: Rng, example: Example, plants: list[Plant], name: str) -> tuple[bool, str] | None:
    """Plant a mistake; return whether it is named and a description, or None if it is invisible."""
    style = Style(int(rng.choice([2, 3, 3])), bool(rng.random() < 0.5))
    claimed, wrong_steps = draw_claims(rng, example), plants[rng.integers(len(plants))]
    right = solve(example, style, claimed=claimed)
    wrong = solve(example, style, wrong_steps, claimed=claimed)
    key = next((k for k in wrong if wrong[k] != right[k]), None)
    # If a wrong step is claimed but looks right, the mistake is not visible there.
    if key is None or (key not in wrong_steps and set(wrong_steps) & set(claimed)):
        return None
    if np.shape(wrong[key]) != np.shape(right[key]):
        return None
    a, b = (np.array(texts[key], dtype=float) for texts in (wrong, right))
    distance = np.abs(np.clip(a, -1e9, 1e9) - np.clip(b, -1e9, 1e9))  # −∞ − −∞ is no number
    units = MIN_UNITS if key not in example.integers else 0
    decimals = 0 if key in example.integers else style.decimals
    if np.isnan(a).any() or distance.max() * 10**decimals <= units:
        return None
    keys = list(wrong)
    texts = {k: wrong[k] for k in keys[: keys.index(key) + 1]}
    first = make_problem(example, texts).check().first
    if first is None or first.key != key:
        return None
    causes = [cause.name for cause in first.causes]
    return name in causes, f"{name} at {key}: {causes}"


def find_unnamed_mistakes(
    make: Callable[[Rng], Example], planters: dict[str, Planter], rng: Rng, count: int
) -> tuple[dict[str, int], list[str]]:
    """Return how often each mistake was planted, and the descriptions of those not named."""
    planted: Counter[str] = Counter()
    unnamed = []
    for name, planter in planters.items():
        for _ in range(20 * count):
            example = make(rng)
            plants = list(planter(example))
            result = plant(rng, example, plants, name) if plants else None
            if result is not None:
                planted[name] += 1
                unnamed += [] if result[0] else [result[1]]
            if planted[name] == count:
                break
    return dict(planted), unnamed
