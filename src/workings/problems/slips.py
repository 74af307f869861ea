"""Slips in single numbers: signs, digits, copies, and one wrong term of a sum."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations

import numpy as np

from workings.languages import gettext, gettext_noop
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.labels import get_label
from workings.problems.notation import TextNotation
from workings.problems.ops import Copy, Env, Op, Terms
from workings.problems.verdicts import ClaimedMatrix
from workings.problems.wrong_step import Explanation, WrongStep

_MAX_WORKING_CHARS = 100  # a longer calculation explains nothing
_MAX_WORKING_COLUMNS = 16  # wider rows are not written out
_MIN_UNITS = 5  # a smaller number has too few digits to recognize a moved decimal point
_MIN_DIGITS = 3  # with fewer, most numbers differ in a single digit
_MAX_DIGITS = 15  # the precision of a 64-bit float
_MAX_WRONG_CELLS = 64  # more wrong cells are not slips in writing
_MAX_TERM_SLIPS = 2  # more wrong cells are not slips in a single term
_MAX_TABLE_FACTOR = 12  # of a multiplication table
_MAX_SLIP_CHANCE = 0.15  # of all slips of one kind
_MAX_ADJACENT_CHANCE = 0.2  # of a copy from an adjacent cell
_MAX_COPY_CHANCE = 0.2  # of a copy from any of the other steps

_SLIP_DESCRIPTIONS = {
    "sign-lost": gettext_noop("{first_text} has the sign of {right} wrong"),
    "digits-swapped": gettext_noop("{first_text} has two digits of {right} swapped"),
    "decimal-point-moved": gettext_noop(
        "{first_text} has the decimal point of {right} in the wrong place"
    ),
}


def find_slips(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Yield explanations by slips in writing: in single cells, rows or the entire step."""
    if wrong_step.num_wrong <= _MAX_WRONG_CELLS:
        yield from _find_digit_slips(wrong_step)
        yield from _find_adjacent_copies(wrong_step)
    yield from _find_copied_steps(wrong_step)


def _find_digit_slips(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Undo each slip at each wrong cell and test whether the number would be right."""
    candidates = [
        (name, i, j, value, unit)
        for i, j in np.argwhere(wrong_step.is_wrong).tolist()
        for name, value, unit in _undo_slips(wrong_step.claimed_matrix, i, j)
    ]
    if not candidates:
        return
    names, rows, columns, values, units = (np.array(part) for part in zip(*candidates, strict=True))
    is_integer = wrong_step.claimed_matrix.is_integer[rows, columns]
    undone = ClaimedMatrix(values[None], units[None], is_integer[None])
    right = wrong_step.carried_matrix.rearrange(lambda a: a[rows, columns][None])
    fits = (undone.matches(right) | undone.is_near(right.mid, 0.5))[0]
    # A value whose range contains zero has no digits that could be swapped or moved.
    has_digits = (right.lo > 0) | (right.hi < 0) | undone.matches(right.point)
    fits &= (names == "sign-lost") | has_digits[0]
    for name, template in _SLIP_DESCRIPTIONS.items():
        own = names == name
        explained = np.zeros(wrong_step.is_wrong.shape, dtype=np.bool_)
        explained[rows[own & fits], columns[own & fits]] = True
        num_tried = np.zeros(explained.shape)
        np.add.at(num_tried, (rows[own], columns[own]), 1)
        chance = _estimate_slip_chance(wrong_step, explained, num_tried)
        if explained.any() and chance <= _MAX_SLIP_CHANCE:
            value = float(wrong_step.carried_matrix.mid[wrong_step.first_cell])
            text = gettext(
                template,
                first_text=wrong_step.first_text,
                right=TextNotation(4).number(value),
            )
            yield Explanation(name, text, explained, None, chance)


def _estimate_slip_chance(wrong_step: WrongStep, cells: Bools, num_tried: Floats) -> float:
    """Return the probability that random numbers in these cells look like slips."""
    return float(np.minimum(wrong_step.value_chance * num_tried, 1.0)[cells].prod())


def _undo_slips(
    claimed_matrix: ClaimedMatrix, i: int, j: int
) -> Iterator[tuple[str, float, float]]:
    """Yield numbers that a slip may have turned into this one: slip, value and unit."""
    value, unit = float(claimed_matrix.values[i, j]), float(claimed_matrix.units[i, j])
    if value == 0 or not np.isfinite(value):
        return
    yield "sign-lost", -value, unit
    if unit == 0:
        return
    places = max(round(-np.log10(unit)), 0)
    digits = f"{abs(value):.{places}f}"
    for swapped in _swap_digits(digits) if len(digits) <= _MAX_DIGITS else ():
        yield "digits-swapped", float(np.copysign(float(swapped), value)), unit
    common = _find_common_unit(claimed_matrix, i, j)
    for power in (1, -1, 2, -2, 3, -3):
        moved = value * 10.0**power
        if abs(value) >= _MIN_UNITS * unit:
            yield "decimal-point-moved", moved, unit * 10.0**power
        units = abs(moved) / common
        if 0.5 < units < 10**_MAX_DIGITS and abs(units - round(units)) < 1e-6:
            yield "decimal-point-moved", moved, common  # precision of the other cells


def _find_common_unit(claimed_matrix: ClaimedMatrix, i: int, j: int) -> float:
    """Return the smallest unit of the other cells."""
    others = claimed_matrix.units > 0
    others[i, j] = False
    return float(claimed_matrix.units[others].min() if others.any() else claimed_matrix.units[i, j])


def _swap_digits(digits: str) -> Iterator[str]:
    """Yield the number with two digits swapped, also across the point; 1 counts as 01."""
    digits = digits if "." in digits else f"0{digits}"
    positions = [k for k, c in enumerate(digits) if c.isdigit()]
    for a, b in combinations(positions, 2):
        if digits[a] != digits[b]:
            yield digits[:a] + digits[b] + digits[a + 1 : b] + digits[a] + digits[b + 1 :]


def _find_adjacent_copies(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Test whether wrong cells have the number of an adjacent cell that is not wrong itself."""
    values = wrong_step.claimed_matrix.values
    copyable = np.where(wrong_step.is_wrong, np.nan, values)
    if wrong_step.num_wrong > 1:  # several −∞ come from a mask and are not copied
        copyable = np.where(np.isinf(copyable), np.nan, copyable)
    padded = np.pad(copyable, 1, constant_values=np.nan)
    neighbors = np.stack([padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1], padded[2:, 1:-1]])
    explained: Bools = (neighbors == values).any(0)
    explained &= wrong_step.is_wrong & ~_is_zero_for_infinity(wrong_step)
    if explained.any():
        chance = _estimate_adjacent_chance(wrong_step, copyable, neighbors, explained)
        if chance <= _MAX_ADJACENT_CHANCE:
            description = gettext(
                "{first_text} is also the number in an adjacent cell",
                first_text=wrong_step.first_text,
            )
            yield Explanation("copied-from-neighbour", description, explained, None, chance)


def _estimate_adjacent_chance(
    wrong_step: WrongStep, copyable: Floats, neighbors: Floats, cells: Bools
) -> float:
    """Return the probability that each of these cells has the number of an adjacent one by chance.

    A number that is frequent in the rest of the matrix is likely beside a cell, too.
    """
    chance = 1.0
    for i, j in np.argwhere(cells).tolist():
        number, adjacent = wrong_step.claimed_matrix.values[i, j], neighbors[:, i, j]
        num_adjacent = len(set(adjacent[~np.isnan(adjacent)].tolist()))
        num_equal = int((copyable == number).sum() - (adjacent == number).sum())
        num_others = int((~np.isnan(copyable)).sum() - (~np.isnan(adjacent)).sum())
        share = num_adjacent * float(wrong_step.value_chance[i, j])
        chance *= min(1.0, max(share, num_equal / (num_others + 1)))
    return chance


def _is_zero_for_infinity(wrong_step: WrongStep) -> Bools:
    """Return cells with 0 instead of −∞: a mistake with its own name, while zeros are common."""
    is_zero: Bools = wrong_step.claimed_matrix.values == 0
    return is_zero & np.isneginf(wrong_step.carried_matrix.mid)


def _find_copied_steps(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Test whether the numbers are those of another claimed step: all, a row or a single one."""
    sources = _list_copy_sources(wrong_step)
    order = {step.key: k for k, step in enumerate(wrong_step.problem.steps)}
    for key, other in sources.items():
        is_later = order[key] > order[wrong_step.step.key]
        for explanation in _compare_with_step(wrong_step, key, other, is_later):
            if explanation.chance <= _MAX_COPY_CHANCE / len(sources):
                yield explanation


def _list_copy_sources(wrong_step: WrongStep) -> dict[str, Floats]:
    """Return the claims that may have been copied: not those that should have equal numbers."""
    exact = wrong_step.problem.exact_matrices
    own = exact[wrong_step.step.key].mid
    return {
        key: values
        for key, values in wrong_step.other_claims.items()
        if (values.shape[0] == own.shape[0] or values.shape[1] == own.shape[1])
        and not (values.shape == own.shape and _is_equal(exact[key].mid, own))
    }


@np.errstate(invalid="ignore")
def _is_equal(a: Floats, b: Floats) -> bool:
    return bool(((np.abs(a - b) <= 1e-9 * (1 + np.abs(b))) | (a == b)).all())


def _compare_with_step(
    wrong_step: WrongStep, key: str, other: Floats, is_later: bool
) -> Iterator[Explanation]:
    """Yield the copies from one other step: all of it, a row or column, single numbers."""
    wrong, claimed = wrong_step.is_wrong, wrong_step.claimed_matrix
    fits = np.zeros(wrong.shape, dtype=np.bool_)
    if other.shape == wrong.shape and _has_first_number(wrong_step, other[wrong_step.first_cell]):
        fits = claimed.matches(IntervalMatrix.exact(other))
    # A later step is computed from this one, so only several numbers can be a misprint of it.
    if (fits | claimed.is_blank).all() and not (is_later and wrong_step.num_wrong == 1):
        yield _make_copy(
            wrong_step, fits & wrong, gettext("these are the numbers of {key}", key=key)
        )
    for transposed in (False, True):
        yield from _find_copied_lines(
            wrong_step, key, other.T if transposed else other, transposed, is_later
        )
    if fits[wrong_step.first_cell] and not is_later:
        # A single number may match a rounded one by chance, so it must be equal.
        explained = fits & wrong & (claimed.values == other) & ~_is_zero_for_infinity(wrong_step)
        if explained[wrong_step.first_cell]:
            description = gettext(
                "{first_text} is the number at the same place of {key}",
                first_text=wrong_step.first_text,
                key=key,
            )
            yield _make_copy(wrong_step, explained, description)


def _has_first_number(wrong_step: WrongStep, numbers: Floats | float) -> Bools:
    """Return which numbers may be those of the first wrong cell, before a closer look."""
    value = wrong_step.claimed_matrix.values[wrong_step.first_cell]
    unit = wrong_step.claimed_matrix.units[wrong_step.first_cell]
    with np.errstate(invalid="ignore"):  # −∞ minus −∞
        is_near = np.abs(numbers - value) <= unit + 1e-9 * abs(value)
    is_possible: Bools = is_near | (numbers == value)
    return is_possible


def _make_copy(
    wrong_step: WrongStep, explained: Bools, description: str, num_tried: int = 1
) -> Explanation:
    chance = num_tried * _estimate_copy_chance(wrong_step, explained)
    return Explanation("copied-from-another-step", description, explained, None, chance)


def _estimate_copy_chance(wrong_step: WrongStep, cells: Bools) -> float:
    """Return the probability that these cells agree with those of another step by chance.

    A number agrees as often as it occurs in the rest of the step, and at least as often as a
    random one does.
    """
    values = wrong_step.claimed_matrix.values
    rest = values[np.isfinite(values) & ~wrong_step.is_wrong]
    frequency = (values[cells][:, None] == rest[None, :]).sum(1) / max(rest.size, 1)
    return float(np.maximum(wrong_step.value_chance[cells], frequency).prod())


def _find_copied_lines(
    wrong_step: WrongStep, key: str, other: Floats, transposed: bool, is_later: bool
) -> Iterator[Explanation]:
    """Test whether the row (transposed: column) of the first wrong cell is one of another step."""
    wrong = wrong_step.is_wrong.T if transposed else wrong_step.is_wrong
    line, column = wrong_step.first_cell[::-1] if transposed else wrong_step.first_cell
    if other.shape[1] != wrong.shape[1] or wrong.shape[1] == 1:
        return
    candidates = np.flatnonzero(_has_first_number(wrong_step, other[:, column])).tolist()
    count = int(wrong[line].sum())
    if count == 1:  # another row may match by chance: only the same row of an earlier step counts
        candidates = [line] if line in candidates and not is_later else []
    if not candidates:
        return
    claimed = wrong_step.claimed_matrix.slice_line(line, transposed)
    for k in candidates:
        if (claimed.matches(IntervalMatrix.exact(other[k])) | claimed.is_blank).all():
            explained = np.zeros(wrong.shape, dtype=np.bool_)
            explained[line] = wrong[line]
            # With column vectors, a row here is a column of the problem.
            description = (
                gettext("this row is row {k} of {key}", k=k + 1, key=key)
                if transposed == wrong_step.problem.column_vectors
                else gettext("this column is column {k} of {key}", k=k + 1, key=key)
            )
            explained = explained.T if transposed else explained
            yield _make_copy(wrong_step, explained, description, len(other) if count > 1 else 1)


def find_term_slips(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Yield the explanation that wrong cells have one wrong term each, if there are few."""
    if wrong_step.num_wrong > _MAX_TERM_SLIPS:
        return
    slips = {
        (i, j): _find_term_slip(wrong_step, i, j)
        for i, j in np.argwhere(wrong_step.is_wrong).tolist()
    }
    explained = np.zeros(wrong_step.is_wrong.shape, dtype=np.bool_)
    for cell, slip in slips.items():
        explained[cell] = slip is not None
    if slip := slips[wrong_step.first_cell]:
        yield Explanation(
            "arithmetic-slip",
            gettext("{slip}: {right}", slip=slip, right=describe_right(wrong_step)),
            explained,
        )


def find_wrong_digits(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Yield the explanation that each wrong cell has one wrong digit: 0.149 for 0.119."""
    if wrong_step.num_wrong > _MAX_TERM_SLIPS:
        return
    explained = np.zeros(wrong_step.is_wrong.shape, dtype=np.bool_)
    num_tried = np.zeros(explained.shape)
    for i, j in np.argwhere(wrong_step.is_wrong).tolist():
        right = wrong_step.carried_matrix.rearrange(partial(_take_cell, i, j))
        candidates = list(_replace_digits(wrong_step.claimed_matrix, i, j))
        num_tried[i, j] = len(candidates)
        explained[i, j] = any(candidate.matches(right).all() for candidate in candidates)
    chance = _estimate_slip_chance(wrong_step, explained, num_tried)
    if explained[wrong_step.first_cell] and chance <= _MAX_SLIP_CHANCE:
        text = f"{wrong_step.first_text} has one wrong digit: {describe_right(wrong_step)}"
        yield Explanation("arithmetic-slip", text, explained, None, chance)


def _take_cell(i: int, j: int, matrix: Floats) -> Floats:
    return matrix[i : i + 1, j : j + 1]


def _replace_digits(claimed_matrix: ClaimedMatrix, i: int, j: int) -> Iterator[ClaimedMatrix]:
    """Yield the number of a cell with each of its digits replaced by each other one."""
    value, unit = float(claimed_matrix.values[i, j]), float(claimed_matrix.units[i, j])
    if not np.isfinite(value) or unit <= 0:
        return
    places = max(round(-np.log10(unit)), 0)
    digits = f"{abs(value):.{places}f}"
    num_digits = len(digits.replace(".", "").lstrip("0"))
    for k, old in enumerate(digits if _MIN_DIGITS <= num_digits <= _MAX_DIGITS else ""):
        for new in "0123456789" if old.isdigit() else "":
            if new != old:
                replaced = np.copysign(float(digits[:k] + new + digits[k + 1 :]), value)
                is_integer = claimed_matrix.is_integer[i, j]
                yield ClaimedMatrix(
                    np.array([[replaced]]), np.array([[unit]]), np.array([[is_integer]])
                )


def _find_term_slip(wrong_step: WrongStep, i: int, j: int) -> str | None:
    """Describe a slip in one term that leads to the number of a cell; None if there is none."""
    terms = wrong_step.step.op.terms(wrong_step.env, i, j)
    if terms is None or not np.isfinite([f for factors in terms.products for f in factors]).all():
        return None
    slips = list(list_term_slips(terms))
    if not slips:
        return None
    values = np.array([[value for value, _ in slips]])
    claimed, carried = wrong_step.claimed_matrix, wrong_step.carried_matrix
    number, unit = claimed.values[i, j], claimed.units[i, j]
    repeated = ClaimedMatrix(
        np.full_like(values, number),
        np.full_like(values, unit),
        np.full(values.shape, claimed.is_integer[i, j]),
    )
    radius = float(carried.hi[i, j] - carried.lo[i, j]) / 2
    untainted = np.zeros(values.shape, dtype=np.bool_)
    for slack in (min(radius, unit / 2), radius):
        fits = repeated.matches(IntervalMatrix(values, values - slack, values + slack, untainted))
        # Rounded inputs may lead further away, unless the sum is then met by chance.
        chance = len(slips) * (2 * slack / max(unit, 1e-12)) * wrong_step.value_chance[i, j]
        if fits.any() and (slack <= unit / 2 or chance <= _MAX_SLIP_CHANCE):
            return slips[int(np.flatnonzero(fits[0])[0])][1]
    return None


def list_term_slips(terms: Terms) -> Iterator[tuple[float, str]]:
    """Yield the results of slips in one term of a sum, with descriptions: `2·3 taken as 5`."""
    products = [float(np.prod(factors)) for factors in terms.products]
    total = sum(products)
    n = TextNotation(4)
    for factors, product in zip(terms.products, products, strict=True):
        text = n.product(*map(n.factor, factors)) if len(factors) > 1 else n.number(factors[0])
        slips = [
            (wrong, gettext("{text} taken as {wrong}", text=text, wrong=n.number(wrong)))
            for wrong in _list_products(factors)
        ]
        if product != 0:
            slips += [
                (
                    -product,
                    gettext("{text} taken as {product}", text=text, product=n.number(-product)),
                ),
                (0.0, gettext("{text} left out", text=text)),
                (2 * product, gettext("{text} counted twice", text=text)),
            ]
        for wrong, description in slips:
            if wrong != product:
                yield terms.finish(total - product + wrong), description


def _list_products(factors: tuple[float, ...]) -> Iterator[float]:
    """Yield what a product may be taken for: the sum, or an adjacent entry of the table."""
    if len(factors) != 2:
        return
    a, b = factors
    yield a + b
    is_whole = all(value == int(value) and 1 < abs(value) <= _MAX_TABLE_FACTOR for value in factors)
    if is_whole:
        yield from (a * (b + 1), a * (b - 1), (a + 1) * b, (a - 1) * b)


def describe_right(wrong_step: WrongStep) -> str:
    """Format the correct arithmetic: `2·2 + 2·3 + 2·1 is 12, not 18`."""
    i, j = wrong_step.first_cell
    value, labels = float(wrong_step.carried_matrix.mid[i, j]), wrong_step.step.labels
    right = get_label(value, labels) if labels else TextNotation(4).number(value)
    working = format_working(wrong_step.step.op, wrong_step.env, i, j)
    claimed = wrong_step.first_text
    if working in (None, right):
        return gettext("it is {right}, not {claimed}", right=right, claimed=claimed)
    return gettext(
        "{working} is {right}, not {claimed}", working=working, right=right, claimed=claimed
    )


def format_working(op: Op, env: Env, i: int, j: int) -> str | None:
    """Format the arithmetic of a cell; None if it is long or only a copy."""
    width = max((env[key].shape[1] for key in op.sources()), default=0)
    if isinstance(op, Copy) or width > _MAX_WORKING_COLUMNS:
        return None
    working = op.cell(TextNotation(4), env, i, j)
    return working if len(working) <= _MAX_WORKING_CHARS else None
