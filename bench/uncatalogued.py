"""Wrong formulas that have no name in the catalogue of mistakes."""

from collections.abc import Callable, Iterator

import numpy as np

from planting import FORMULA_MISTAKES, work_with_mistake
from rounding import excess, units
from sheets import Env, Matrix, Product, Sheet, Step, Worked, multiply, softmax

Rng = np.random.Generator
Distortion = Callable[[Matrix, Rng], Matrix]
_MIN_WRONG_CELLS = 3
_MIN_UNITS = 3.0


def _permute(x: Matrix, rng: Rng) -> Matrix:
    return rng.permutation(x.flat).reshape(x.shape)


def _add_row_sum(x: Matrix, _rng: Rng) -> Matrix:
    return x + x.sum(-1, keepdims=True)


def _add_noise_to_row(x: Matrix, rng: Rng) -> Matrix:
    row = rng.integers(len(x))
    x[row] += rng.normal(0, 1 + np.abs(x[row]).max(), x.shape[1])
    return x


def _divide_by_largest(x: Matrix, _rng: Rng) -> Matrix:
    return x / np.abs(x).max()


def _multiply_by_constant(x: Matrix, rng: Rng) -> Matrix:
    return x * rng.choice([0.37, 0.6, 1.3, 1.7, 2.3, 3.7])


def _min_max(x: Matrix, _rng: Rng) -> Matrix:
    low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
    return (x - low) / np.where(high > low, high - low, 1)


DISTORTIONS: dict[str, Distortion] = {
    "squared": lambda x, _rng: x**2,
    "cubed": lambda x, _rng: x**3 / 2,
    "cells permuted": _permute,
    "row sum added": _add_row_sum,
    "noise in a row": _add_noise_to_row,
    "noise everywhere": lambda x, rng: x + rng.normal(0, 1 + np.abs(x).max(), x.shape),
    "one added": lambda x, _rng: x + 1,
    "constant added": lambda x, rng: x + rng.uniform(0.3, 3),
    "divided by the largest": _divide_by_largest,
    "wrong constant": _multiply_by_constant,
    "cumulative sum": lambda x, _rng: x.cumsum(-1),
    "mean subtracted": lambda x, _rng: x - x.mean(),
    "rows rolled": lambda x, _rng: np.roll(x, 1, 0),
    "minimum to maximum": _min_max,
    "softmax of it": lambda x, _rng: softmax(x),
    "exponential": lambda x, _rng: np.exp(np.clip(x, -5, 5)) - 1,
    "position added": lambda x, _rng: x + np.arange(x.size).reshape(x.shape),
}
RANDOM_WEIGHT = "random weight"
KINDS_OF_DISTORTION = (*DISTORTIONS, RANDOM_WEIGHT)


def plant_uncatalogued(
    sheet: Sheet, name: str, correct: Worked, exact: Env, rng: Rng
) -> tuple[Worked, str] | None:
    """Solve a sheet with a claimed step computed by a formula that has no name.

    None if rounding could explain it, or if a mistake of the catalogue has the same result.
    """
    key = sheet.claimed[rng.integers(len(sheet.claimed))]
    step = _random_weight(sheet, key) if name == RANDOM_WEIGHT else _distort(sheet, key, name)
    if step is None or exact[key].size <= _MIN_WRONG_CELLS:
        return None
    seed = int(rng.integers(2**32))
    worked = work_with_mistake(
        sheet, {key: lambda env: step(env, np.random.default_rng(seed))}, correct
    )
    if worked is None or not np.isfinite(exact[key]).all():
        return None
    beyond = excess(sheet, worked, key, exact)
    ambiguous = (beyond > 0) & (beyond <= _MIN_UNITS)
    if (beyond > _MIN_UNITS).sum() < _MIN_WRONG_CELLS or ambiguous.any():
        return None
    return None if has_name(sheet, worked, key, correct, exact) else (worked, key)


def _distort(sheet: Sheet, key: str, name: str) -> Callable[[Env, Rng], Matrix]:
    right, distortion = sheet.steps[key], DISTORTIONS[name]
    return lambda env, rng: distortion(np.array(right(env)), rng)


def _random_weight(sheet: Sheet, key: str) -> Callable[[Env, Rng], Matrix] | None:
    """Multiply by a random matrix in place of the weight."""
    step = sheet.steps[key]
    if not isinstance(step, Product) or not step.pairs[0][1].startswith("W_"):
        return None

    def product(env: Env, rng: Rng) -> Matrix:
        x, weight = step.pairs[0]
        total = env[x] @ np.round(rng.normal(0, 2, env[weight].shape), 1)
        total = total + sum(multiply(env, a, b) for a, b in step.pairs[1:])
        return step.then(total if step.bias is None else total + env[step.bias])

    return product


def has_name(sheet: Sheet, worked: Worked, key: str, correct: Worked, exact: Env) -> bool:
    """Return True if a mistake of the catalogue leads to the same numbers."""
    written = np.array([[float(t) for t in row] for row in worked.texts[key]])
    unit = units(worked.texts[key], exact[key])
    for variant in list_variants(sheet):
        other = work_with_mistake(sheet, variant, correct)
        if other is None or other.env[key].shape != written.shape:
            continue
        with np.errstate(invalid="ignore"):
            is_near = np.abs(other.env[key] - written) <= 2 * unit + 1e-9
        if (is_near | (other.env[key] == written)).all():
            return True
    return False


def list_variants(sheet: Sheet) -> Iterator[dict[str, Step]]:
    """Yield all wrong formulas of the catalogue that the sheet allows."""
    for lister in FORMULA_MISTAKES.values():
        yield from lister(sheet)
