"""What rounding can explain, by brute force: move every number by what its digits leave open.

A written number may be off by one unit of its last digit, unless it is exactly what the numbers
before it lead to. Results that are not written were rounded to the decimals of the number in
question: the unclaimed steps, roots, exponentials, the sums inside an activation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sheets import Env, Matrix, NotedStep, Sheet, Worked
from styles import read_number

_EXACT = 1e-14  # relative: closer values are equal
_NUMBER = re.compile(r"-?\d+(?:[.,](\d+))?(?:(?:e|×10\^)(-?\d+))?")
Source = tuple[str, str]  # a step, and the name of an intermediate result or ""


class _RecordingEnv(dict[str, Matrix]):
    """A dict that records which matrices were read."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.read_keys: set[str] = set()

    def __getitem__(self, key: str) -> Matrix:
        self.read_keys.add(key)
        return super().__getitem__(key)


def first_difference(
    sheet: Sheet, correct: Worked, planted: Worked
) -> tuple[str, tuple[int, int]] | None:
    """Return step and cell (row, column of the file) of the first number written differently."""
    for key in sheet.claimed:
        a, b = np.array(correct.texts[key]), np.array(planted.texts[key])
        differs = (a != b).T if sheet.columns else a != b
        if differs.any():
            row, column = (int(k) for k in np.argwhere(differs)[0])
            return key, (row, column)
    return None


def orient(sheet: Sheet, cell: tuple[int, int]) -> tuple[int, int]:
    """Convert a cell from the convention of the file to vectors as rows, or back."""
    return (cell[1], cell[0]) if sheet.columns else cell


def excess(sheet: Sheet, planted: Worked, key: str, exact: Env) -> Matrix:
    """Return how far each written number of a step is from what rounding can explain, in units.

    One unit is for the rounding of the number itself. A missing or wrong −∞ is infinitely far.
    """
    values = _read(planted.texts[key])
    unit = units(planted.texts[key], exact[key], sheet)
    low, high = reachable_range(sheet, planted, key, exact)
    low, high = np.minimum(low, exact[key]), np.maximum(high, exact[key])
    with np.errstate(all="ignore"):
        distance = np.maximum(np.maximum(low - values, values - high), 0)
        result = distance / np.maximum(unit, _EXACT * np.maximum(np.abs(values), 1))
    is_infinite = np.isneginf(exact[key])
    result = np.where(is_infinite, np.where(values <= -10_000, 0, np.inf), result)
    return np.where(np.isinf(values) & ~is_infinite, np.inf, result)


def exceeds_rounding(
    sheet: Sheet, planted: Worked, key: str, cell: tuple[int, int], exact: Env, units: float = 1.0
) -> bool:
    """Return True if a cell (of the file) is more than some units beyond any honest rounding."""
    return bool(excess(sheet, planted, key, exact)[orient(sheet, cell)] > units)


def units(texts: list[list[str]], exact: Matrix, sheet: Sheet | None = None) -> Matrix:
    """Return one unit of the last digit for each cell; for whole numbers, the rounding error."""
    shown = [_decimals(text) for row in texts for text in row]
    decimals = [k for k in shown if k]

    def unit(text: str, value: float) -> float:
        places = _decimals(text)
        if places is None:
            return 0.0
        if places or "e" in text or "×" in text:
            return 10.0**-places
        if decimals:
            return 10.0 ** -min(decimals)
        return 0.0 if np.isneginf(value) else min(abs(float(text) - value), 0.5)

    result = np.array(
        [[unit(t, v) for t, v in zip(*row, strict=True)] for row in zip(texts, exact, strict=True)]
    )
    significant = None if sheet is None else sheet.style.significant
    if significant is not None:  # 1230 of three digits
        values = np.abs(_read(texts))
        with np.errstate(all="ignore"):
            power = np.floor(np.log10(values)) - significant + 1
            digits = np.where(np.isfinite(power), 10.0**power, 0)
        result = np.maximum(result, digits)
    return result


def _decimals(text: str) -> int | None:
    """Return how many decimals a number is written with; None if it is exact."""
    match = _NUMBER.fullmatch(text)
    return match and len(match[1] or "") - int(match[2] or 0)


def _read(texts: list[list[str]]) -> Matrix:
    return np.array([[read_number(t) for t in row] for row in texts])


@dataclass
class _Evaluation:
    """Computes a step from the written numbers, each moved by some amount."""

    sheet: Sheet
    order: list[str]  # the steps to compute, the last is the one in question
    claims: Env
    noted: dict[Source, Matrix] = field(default_factory=dict)  # what may have been rounded

    def __call__(self, moves: dict[Source, Matrix]) -> Matrix:
        env = {**self.sheet.given, **self.sheet.constants}
        for key in self.order:
            if key in self.claims and key != self.order[-1]:
                env[key] = self.claims[key] + moves.get((key, ""), 0.0)
                continue
            step = self.sheet.steps[key]

            def note(name: str, value: Matrix, key: str = key) -> Matrix:
                self.noted.setdefault((key, name), value)
                moved = value + moves.get((key, name), 0.0)
                return np.maximum(moved, 0) if name == "exponentials" else moved

            with np.errstate(all="ignore"):
                result = step.compute(env, note) if isinstance(step, NotedStep) else step(env)
            if key != self.order[-1] and key not in self.sheet.inner:
                self.noted.setdefault((key, ""), result)
                result = result + moves.get((key, ""), 0.0)
            env[key] = result
        return env[self.order[-1]]


def reachable_range(sheet: Sheet, planted: Worked, key: str, exact: Env) -> tuple[Matrix, Matrix]:
    """Return the smallest and largest values of a step that rounding of earlier results leads to.

    The direction for each number is found by moving it alone; then both ends are computed. A cell
    that may be divided by zero has no bounds.
    """
    claims = {
        k: np.where(np.isneginf(exact[k]), -np.inf, _read(texts))
        for k, texts in planted.texts.items()
    }
    evaluate = _Evaluation(sheet, list(needed_steps(sheet, key, set(claims))), claims)
    middle = evaluate({})
    own_unit = float(units(planted.texts[key], exact[key], sheet).max())
    bounds = {
        source: _bound(source[1], value, own_unit) for source, value in evaluate.noted.items()
    }
    carried = _carry(sheet, claims)
    for k in evaluate.order[:-1]:
        if k in claims:
            is_exact = _equal(claims[k], exact[k]) & _equal(claims[k], carried[k])
            bounds[k, ""] = np.where(is_exact, 0.0, units(planted.texts[k], exact[k], sheet))
    cells = [(s, c) for s, bound in bounds.items() for c in np.argwhere(bound > 0).tolist()]
    if not cells:
        return middle, middle
    probes = {s: np.zeros((len(cells), *bound.shape)) for s, bound in bounds.items()}
    for index, (source, (i, j)) in enumerate(cells):
        probes[source][index, i, j] = bounds[source][i, j]
    with np.errstate(all="ignore"):  # [number, row, column]
        down = {s: -probe for s, probe in probes.items()}
        rises = evaluate(probes) >= evaluate(down)
    rows, columns = middle.shape
    own = np.arange(rows * columns)
    signs = np.where(np.broadcast_to(rises, (len(cells), rows, columns)), 1.0, -1.0)
    top = {s: np.zeros((rows * columns, *bound.shape)) for s, bound in bounds.items()}
    for index, (source, (i, j)) in enumerate(cells):
        top[source][:, i, j] = bounds[source][i, j] * signs[index].ravel()
    ends = [middle]
    for side in (1, -1):
        values = evaluate({source: side * moves for source, moves in top.items()})
        values = np.broadcast_to(values, (rows * columns, rows, columns))
        ends.append(values[own, own // columns, own % columns].reshape(rows, columns))
    is_unbounded = np.isnan(ends).any(0)
    return (
        np.where(is_unbounded, -np.inf, np.min(ends, 0)),
        np.where(is_unbounded, np.inf, np.max(ends, 0)),
    )


def _bound(name: str, value: Matrix, unit: float) -> Matrix:
    """Return by how much results that are not written may be off."""
    if not name:
        return np.full(value.shape, unit)
    bound = np.full(value.shape, unit / 2)
    if name == "exponentials":  # nobody continues with a single digit
        bound = np.where(value.max(-1, keepdims=True) < 10 * unit, 0.0, bound)
    return bound


def _carry(sheet: Sheet, claims: Env) -> Env:
    """Return what the claims before each step lead to."""
    env, carried = {**sheet.given, **sheet.constants}, {}
    for key, step in sheet.steps.items():
        with np.errstate(all="ignore"):
            carried[key] = step(env)
        env[key] = claims.get(key, carried[key])
    return carried


def _equal(a: Matrix, b: Matrix) -> Matrix:
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= _EXACT * np.abs(a)
    return close | (a == b)


def needed_steps(sheet: Sheet, key: str, claimed: set[str]) -> Iterator[str]:
    """Yield the steps that a step depends on, back to the written ones, in order."""
    env = {**sheet.given, **sheet.constants}
    sources: dict[str, set[str]] = {}
    for step, function in sheet.steps.items():
        recording = _RecordingEnv(env)
        with np.errstate(all="ignore"):
            env[step] = function(recording)
        sources[step] = recording.read_keys
        if step == key:
            break
    needed, stack = set(), [key]
    while stack:
        step = stack.pop()
        if step in needed or step not in sources:
            continue
        needed.add(step)
        if step == key or step not in claimed:
            stack += sources[step]
    return (step for step in sources if step in needed)
