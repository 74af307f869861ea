"""What rounding can explain, by brute force: vary the written numbers by their last digit."""

from collections.abc import Iterator

import numpy as np

from sheets import Env, Matrix, Sheet, Worked


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


def exceeds_rounding(
    sheet: Sheet, planted: Worked, key: str, cell: tuple[int, int], exact: Env
) -> bool:
    """Return True if no rounding or truncation of earlier numbers leads to this number."""
    i, j = cell[::-1] if sheet.columns else cell
    value = float(planted.texts[key][i][j])
    unit = units(planted.texts[key], exact[key])[i, j]
    low, high = _reachable_range(sheet, planted, key, (i, j), exact)
    expected = exact[key][i, j]
    if np.isinf(value) or np.isinf(expected):
        return value != expected
    slack = unit + 1e-9 * max(1.0, abs(value))
    return not (min(low, expected) - slack <= value <= max(high, expected) + slack)


def units(texts: list[list[str]], exact: Matrix) -> Matrix:
    """Return one unit of the last digit for each cell; for whole numbers, the rounding error."""
    decimals = [len(t.partition(".")[2]) for row in texts for t in row if "." in t]

    def unit(text: str, value: float) -> float:
        if text == "-inf":
            return 0.0
        if "." in text:
            return 10.0 ** -len(text.partition(".")[2])
        if decimals:
            return 10.0 ** -min(decimals)
        return 0.0 if np.isneginf(value) else min(abs(float(text) - value), 0.5)

    return np.array(
        [[unit(t, v) for t, v in zip(*row, strict=True)] for row in zip(texts, exact, strict=True)]
    )


def _reachable_range(
    sheet: Sheet, planted: Worked, key: str, cell: tuple[int, int], exact: Env
) -> tuple[float, float]:
    """Return the smallest and largest value of a cell if earlier numbers are off by one unit.

    The direction for each number is found by moving it alone; then both ends are computed.
    """
    claimed_values = {
        k: np.array([[float(t) for t in row] for row in texts])
        for k, texts in planted.texts.items()
    }
    order = list(_needed(sheet, key, set(claimed_values)))
    base = {**sheet.given, **sheet.constants}
    inputs = {k: claimed_values[k] for k in order if k in claimed_values and k != key}

    def value(changed: Env) -> float:
        env = {**base, **changed}
        for step in order:
            if step not in changed:
                with np.errstate(all="ignore"):
                    env[step] = sheet.steps[step](env)
        return float(env[key][cell])

    middle = value(inputs)
    up: Env = {k: v.copy() for k, v in inputs.items()}
    down: Env = {k: v.copy() for k, v in inputs.items()}
    for name, cells in inputs.items():
        unit = units(planted.texts[name], exact[name])
        for index in zip(*np.nonzero(unit * np.isfinite(cells)), strict=True):
            moved = cells.copy()
            moved[index] += unit[index] / 8
            rises = value({**inputs, name: moved}) >= middle
            up[name][index] += unit[index] if rises else -unit[index]
            down[name][index] -= unit[index] if rises else -unit[index]
    ends = [end for end in (middle, value(up), value(down)) if np.isfinite(end)] or [np.nan]
    return min(ends), max(ends)


def _needed(sheet: Sheet, key: str, claimed: set[str]) -> Iterator[str]:
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
