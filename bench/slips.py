"""Slips in writing or arithmetic: single numbers, rows or steps that are written wrongly."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from rounding import orient, reachable_range
from sheets import Env, Product, Sheet, Softmax, Worked, get, work
from styles import read_number

Rng = np.random.Generator
Texts = list[list[str]]
_MAX_SLIP_UNITS = 60.0
_MARGIN = 1.0  # of the range of rounding
_MAX_TABLE_FACTOR = 12  # of a multiplication table


def spoil_step(sheet: Sheet, name: str, correct: Worked, rng: Rng) -> tuple[Worked, str] | None:
    """Corrupt the written numbers of one step and continue with them; return the step, too.

    None if the result may as well be another slip, or a copy by chance.
    """
    index = int(rng.integers(len(sheet.claimed)))
    target = sheet.claimed[index]
    before = correct.texts[target]
    if name == "copied-from-another-step":
        others = [correct.texts[key] for key in sheet.claimed[:index]]
        texts = _copy_from_another_step(others, before, rng)
    elif name in SUM_SLIPS:
        texts = SUM_SLIPS[name](sheet, target, correct, rng)
    else:
        texts = _corrupt_cell(DIGIT_SLIPS[name], before, rng)
    if texts is None or texts == before or _has_decimals(texts) != _has_decimals(before):
        return None
    if name.startswith("copied") and not _is_distinctive_copy(before, texts):
        return None
    worked = write_wrongly(sheet, correct, target, texts, is_misprint=False)
    return None if worked is None else (worked, target)


def _is_distinctive_copy(before: Texts, after: Texts) -> bool:
    """Return True if a copy is no coincidence: several digits, and not those of the right number.

    A number that stands more than once in the step says little.
    """
    pairs = [(a, b) for rows in zip(before, after, strict=True) for a, b in zip(*rows, strict=True)]
    changed = [(a, b) for a, b in pairs if a != b]
    if any(_have_same_digits(a, b) for a, b in changed):
        return False
    written = [a for a, _ in pairs]
    if len(changed) == 1:
        return len(_digits(changed[0][1])) > 1 and written.count(changed[0][1]) <= 1
    return sum(len(_digits(b)) for _, b in changed) > len(changed)


def _digits(text: str) -> str:
    """Return the significant digits of a number."""
    return text.lstrip("-").replace(".", "").strip("0")


def _have_same_digits(a: str, b: str) -> bool:
    return sorted(_digits(a)) == sorted(_digits(b))


def write_wrongly(
    sheet: Sheet, correct: Worked, key: str, texts: Texts, is_misprint: bool
) -> Worked | None:
    """Return the solution with other numbers in a step; a misprint has no consequences.

    None if a number that follows is too large to be written.
    """
    if is_misprint:
        return Worked(correct.env, {**correct.texts, key: texts})
    try:
        return work(sheet, spoil=lambda step, before: texts if step == key else before)
    except ValueError:
        return None


def _has_decimals(texts: Texts) -> bool:
    """Return True if any number has decimals, which changes the precision of integers."""
    return any("." in text for row in texts for text in row)


def _corrupt_cell(
    change: Callable[[Texts, int, int, Rng], str | None], before: Texts, rng: Rng
) -> Texts | None:
    texts = [list(row) for row in before]
    i, j = rng.integers(len(texts)), rng.integers(len(texts[0]))
    changed = None if texts[i][j] == "-inf" else change(texts, i, j, rng)
    if changed is None:
        return None
    texts[i][j] = changed
    return texts


def _flip_sign(texts: Texts, i: int, j: int, rng: Rng) -> str | None:  # noqa: ARG001
    text = texts[i][j]
    if float(text) == 0:
        return None
    return text[1:] if text.startswith("-") else f"-{text}"


def _swap_digits(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    text = texts[i][j]
    positions = [k for k, c in enumerate(text) if c.isdigit()]
    pairs = [(a, b) for a, b in pairwise(positions) if text[a] != text[b]]
    if not pairs:
        return None
    a, b = pairs[rng.integers(len(pairs))]
    swapped = text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :]
    integer_part = swapped.lstrip("-").split(".")[0]
    return None if len(integer_part) > 1 and integer_part.startswith("0") else swapped


def _move_point(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    sign, text = ("-", texts[i][j][1:]) if texts[i][j].startswith("-") else ("", texts[i][j])
    if float(text) == 0:
        return None
    integer_part, _, decimals = text.partition(".")
    digits = integer_part + decimals
    point = len(integer_part) + int(rng.choice([-1, 1, -2, 2]))
    if point <= 0:
        digits, point = "0" * (1 - point) + digits, 1
    digits = digits.ljust(point, "0")
    integer_part = digits[:point].lstrip("0") or "0"
    return f"{sign}{integer_part}.{digits[point:]}" if digits[point:] else f"{sign}{integer_part}"


def _copy_neighbor(texts: Texts, i: int, j: int, rng: Rng) -> str | None:
    adjacent = [(i, j - 1), (i, j + 1), (i - 1, j), (i + 1, j)]
    inside = [(r, c) for r, c in adjacent if 0 <= r < len(texts) and 0 <= c < len(texts[0])]
    if not inside:
        return None
    r, c = inside[rng.integers(len(inside))]
    return texts[r][c]


def _copy_from_another_step(others: list[Texts], before: Texts, rng: Rng) -> Texts | None:
    """Copy a cell, a row or all of another step."""
    texts = [list(row) for row in before]
    others = [other for other in others if len(other[0]) == len(texts[0])]
    if not others:
        return None
    other = others[rng.integers(len(others))]
    unit = rng.choice(["cell", "row", "matrix"]) if len(other) == len(texts) else "row"
    i, j = rng.integers(min(len(texts), len(other))), rng.integers(len(texts[0]))
    if unit == "matrix":
        texts = [list(row) for row in other]
    elif unit == "row":
        texts[i] = list(other[i])
    else:
        texts[i][j] = other[i][j]
    return texts


def _terms(step: Product, env: Env, i: int, j: int) -> Iterator[tuple[float, float]]:
    """Yield the factors of the terms of a cell; the bias is not among them."""
    for a, b in step.pairs:
        if b and not b.startswith("I"):  # an identity is not written out
            left, right = get(env, a), get(env, b)
            # One row for all: the query of additive attention.
            yield from zip(left[min(i, len(left) - 1)], right[:, j], strict=True)


def _wrong_terms(a: float, b: float) -> list[float]:
    """Return what a·b may be taken for: a + b, another sign, nothing, twice, the next multiple."""
    wrong = [a + b, -a * b, 0.0, 2 * a * b]
    if all(value == round(value) and 1 < abs(value) <= _MAX_TABLE_FACTOR for value in (a, b)):
        wrong += [a * (b + 1), a * (b - 1), (a + 1) * b, (a - 1) * b]
    return [value for value in wrong if abs(value - a * b) > 1e-9]


def _miscalculate(sheet: Sheet, key: str, correct: Worked, rng: Rng) -> Texts | None:
    """Compute one term of the sum of a cell wrongly."""
    values = list(_miscalculations(sheet, key, correct, rng))
    if not values:
        return None
    (i, j), value = values[rng.integers(len(values))]
    changed = _rewrite(sheet, key, correct, (i, j), value)
    before = correct.texts[key]
    if changed is None or _is_known_slip(sheet, correct, before[i][j], changed[i][j]):
        return None
    return changed


def _rewrite(
    sheet: Sheet, key: str, correct: Worked, cell: tuple[int, int], value: float
) -> Texts | None:
    """Write a number in the style of the sheet."""
    step, matrix = sheet.steps[key], correct.env[key].copy()
    matrix[cell] = value
    index = list(sheet.steps).index(key)
    try:
        texts = sheet.style.write(matrix, index, isinstance(step, Softmax))
    except ValueError:
        return None
    changed = [list(row) for row in correct.texts[key]]
    changed[cell[0]][cell[1]] = texts[cell[0]][cell[1]]
    return changed


def _miscalculations(
    sheet: Sheet, key: str, correct: Worked, rng: Rng
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield a random cell with each value that one wrong term leads to."""
    step = sheet.steps[key]
    if not isinstance(step, Product):
        return
    shape = correct.env[key].shape
    i, j = int(rng.integers(shape[0])), int(rng.integers(shape[1]))
    terms = list(_terms(step, correct.env, i, j))
    if len(terms) < 2:
        return
    total = sum(a * b for a, b in terms)
    if step.bias is not None:
        total += correct.env[step.bias][0, j]
    for a, b in terms:
        for wrong in _wrong_terms(a, b):
            value = step.then(np.array([[total - a * b + wrong]]))
            yield (i, j), float(value[0, 0])


def _random_number(sheet: Sheet, key: str, correct: Worked, rng: Rng) -> Texts | None:
    """Write a number that no slip in the catalogue leads to."""
    texts = correct.texts[key]
    i, j = int(rng.integers(len(texts))), int(rng.integers(len(texts[0])))
    old = read_number(texts[i][j])
    if not np.isfinite(old):
        return None
    value = old * rng.uniform(-3, 3) + rng.uniform(-1, 1)
    changed = _rewrite(sheet, key, correct, (i, j), value)
    if changed is None or _is_known_slip(sheet, correct, texts[i][j], changed[i][j]):
        return None
    step = sheet.steps[key]
    if isinstance(step, Product):
        terms = list(_terms(step, correct.env, i, j))
        difference = read_number(changed[i][j]) - old
        for a, b in terms:
            near = [abs(wrong - a * b - difference) for wrong in _wrong_terms(a, b)]
            if near and min(near) < 0.1 * abs(difference):
                return None
    return changed


def _is_known_slip(sheet: Sheet, correct: Worked, before: str, after: str) -> bool:
    """Return True if the digits are those of the right number, or it stands somewhere else."""
    if _have_same_digits(before, after):
        return True
    written = {t for texts in correct.texts.values() for row in texts for t in row}
    given = {float(v) for cells in sheet.given.values() for v in cells.flat}
    return after in written or read_number(after) in given


def slip_beyond_rounding(
    sheet: Sheet, correct: Worked, exact: Env, rng: Rng, min_units: float
) -> tuple[Worked, str, tuple[int, int]] | None:
    """Change one number by more than `min_units` beyond rounding; return its step and cell."""
    key = sheet.claimed[rng.integers(len(sheet.claimed))]
    texts = correct.texts[key]
    i, j = int(rng.integers(len(texts))), int(rng.integers(len(texts[0])))
    low, high = (end[i, j] for end in reachable_range(sheet, correct, key, exact))
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    low, high = min(low, exact[key][i, j]), max(high, exact[key][i, j])
    unit = _unit_beside(texts, i, j)
    size = unit * min_units * float((_MAX_SLIP_UNITS / min_units) ** rng.random())
    if len(sheet.claimed) < len(sheet.claimable):
        # Bounds that hold for every rounding of several unwritten steps are wider than the range.
        size += _MARGIN * (high - low)
    value = high + size if rng.random() < 0.5 else low - size
    changed = [list(row) for row in texts]
    changed[i][j] = f"{value:.{max(round(-np.log10(unit)), 0)}f}"
    if changed[i][j] == texts[i][j]:
        return None
    worked = write_wrongly(sheet, correct, key, changed, is_misprint=bool(rng.random() < 0.3))
    return None if worked is None else (worked, key, orient(sheet, (i, j)))


def _unit_beside(texts: Texts, i: int, j: int) -> float:
    """Return the unit of a cell, or for a whole number that of the least precise decimal."""
    own = len(texts[i][j].partition(".")[2])
    others = [len(t.partition(".")[2]) for row in texts for t in row if "." in t]
    return 10.0 ** -(own or min(others, default=0))


def hard_argmax(sheet: Sheet, correct: Worked, exact: Env, rng: Rng) -> tuple[Worked, str] | None:
    """Write 1 for the largest weight of each row and 0 for the others."""
    keys = [k for k in sheet.claimed if isinstance(sheet.steps[k], Softmax)]
    if not keys:
        return None
    key = keys[rng.integers(len(keys))]
    weights = exact[key]
    hard = (weights == weights.max(1, keepdims=True)) & (weights > 0)
    decimals = rng.choice([0, 0, 1, 2])
    texts = [[f"{float(cell):.{decimals}f}" for cell in row] for row in hard]
    worked = write_wrongly(sheet, correct, key, texts, is_misprint=False)
    return None if worked is None else (worked, key)


DIGIT_SLIPS: dict[str, Callable[[Texts, int, int, Rng], str | None]] = {
    "sign-lost": _flip_sign,
    "digits-swapped": _swap_digits,
    "decimal-point-moved": _move_point,
    "copied-from-neighbour": _copy_neighbor,
}
SUM_SLIPS: dict[str, Callable[[Sheet, str, Worked, Rng], Texts | None]] = {
    "arithmetic-slip": _miscalculate,
    "unknown": _random_number,
}
SLIPS = ("arithmetic-slip", *DIGIT_SLIPS, "copied-from-another-step", "unknown")
