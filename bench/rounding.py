"""How far rounding can reach: by brute force, from the numbers on the sheet."""

from collections.abc import Iterator

import numpy as np

from sheets import Env, Matrix, Sheet, Worked


class _Asked(dict[str, Matrix]):
    """Remembers which matrices were looked at."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.seen: set[str] = set()

    def __getitem__(self, key: str) -> Matrix:
        self.seen.add(key)
        return super().__getitem__(key)


def first_difference(
    sheet: Sheet, honest: Worked, planted: Worked
) -> tuple[str, tuple[int, int]] | None:
    """Find the first number that is written differently: step, then row, column of the file."""
    for key in sheet.claimed:
        a, b = np.array(honest.texts[key]), np.array(planted.texts[key])
        differs = (a != b).T if sheet.columns else a != b
        if differs.any():
            row, column = (int(k) for k in np.argwhere(differs)[0])
            return key, (row, column)
    return None


def unexplained(sheet: Sheet, planted: Worked, key: str, cell: tuple[int, int], exact: Env) -> bool:
    """Say whether no rounding or truncation of the numbers before leads to this one."""
    i, j = cell[::-1] if sheet.columns else cell
    value = float(planted.texts[key][i][j])
    unit = units(planted.texts[key], exact[key])[i, j]
    low, high = _reach(sheet, planted, key, (i, j), exact)
    right = exact[key][i, j]
    if np.isinf(value) or np.isinf(right):
        return value != right
    slack = unit + 1e-9 * max(1.0, abs(value))
    return not (min(low, right) - slack <= value <= max(high, right) + slack)


def units(texts: list[list[str]], exact: Matrix) -> Matrix:
    """One in the last digit, for each cell; among whole numbers, what was rounded away."""
    places = [len(t.partition(".")[2]) for row in texts for t in row if "." in t]

    def unit(text: str, value: float) -> float:
        if text == "-inf":
            return 0.0
        if "." in text:
            return 10.0 ** -len(text.partition(".")[2])
        if places:
            return 10.0 ** -min(places)
        return 0.0 if np.isneginf(value) else min(abs(float(text) - value), 0.5)

    return np.array(
        [[unit(t, v) for t, v in zip(*row, strict=True)] for row in zip(texts, exact, strict=True)]
    )


def _reach(
    sheet: Sheet, planted: Worked, key: str, cell: tuple[int, int], exact: Env
) -> tuple[float, float]:
    """Work one cell out from the numbers before it, each a unit up or down as suits it best.

    Which way suits it is found by moving each on its own; both ends are then worked out.
    """
    written = {
        k: np.array([[float(t) for t in row] for row in texts])
        for k, texts in planted.texts.items()
    }
    order = list(_needed(sheet, key, set(written)))
    base = {**sheet.given, **sheet.constants}
    inputs = {k: written[k] for k in order if k in written and k != key}

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
        for place in zip(*np.nonzero(unit * np.isfinite(cells)), strict=True):
            tried = cells.copy()
            tried[place] += unit[place] / 8
            rises = value({**inputs, name: tried}) >= middle
            up[name][place] += unit[place] if rises else -unit[place]
            down[name][place] -= unit[place] if rises else -unit[place]
    ends = [end for end in (middle, value(up), value(down)) if np.isfinite(end)] or [np.nan]
    return min(ends), max(ends)


def _needed(sheet: Sheet, key: str, written: set[str]) -> Iterator[str]:
    """List the steps that a step is worked out from, back to what is written, in order."""
    env = {**sheet.given, **sheet.constants}
    sources: dict[str, set[str]] = {}
    for step, way in sheet.steps.items():
        asked = _Asked(env)
        with np.errstate(all="ignore"):
            env[step] = way(asked)
        sources[step] = asked.seen
        if step == key:
            break
    needed, stack = set(), [key]
    while stack:
        step = stack.pop()
        if step in needed or step not in sources:
            continue
        needed.add(step)
        if step == key or step not in written:
            stack += sources[step]
    return (step for step in sources if step in needed)
