"""Find what caused the wrong cells of a step: a mistake in its formula, or a slip in writing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.mistakes import Mistake, list_mistakes
from workings.problems.notation import TextNotation
from workings.problems.ops import Copy, Env, Linear, Op, Scaling
from workings.problems.problem import Problem
from workings.problems.verdicts import ClaimedMatrix, Verdicts

_MAX_WORKING_CHARS = 100  # a longer calculation explains nothing
_MAX_WORKING_COLUMNS = 16  # wider rows are not written out
_MIN_UNITS = 5  # a smaller number has too few digits to recognize a moved decimal point
_MAX_DIGITS = 15  # the precision of a 64-bit float
_MAX_WRONG_CELLS = 64  # more wrong cells are not slips in writing

_SLIP_DESCRIPTIONS = {
    "sign-lost": "has the sign of {} wrong",
    "digits-swapped": "has two digits of {} swapped",
    "decimal-point-moved": "has the decimal point of {} in the wrong place",
}


@dataclass(frozen=True)
class Cause:
    """A mistake that leads to the claim; it explains `num_explained` of `num_wrong` cells.

    `result` is the step as computed with the mistake, vectors as rows; None for a slip in writing.
    """

    name: str
    num_explained: int
    num_wrong: int
    description: str
    result: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def reproduced_share(self) -> str:
        """The explained share of the wrong cells, as in the report: "2/3"."""
        return f"{self.num_explained}/{self.num_wrong}"


@dataclass(frozen=True)
class Explanation:
    """A mistake that leads to some of the wrong cells, the first one among them.

    `result` is the step as computed with the mistake; None for a slip in single numbers.
    """

    name: str
    description: str
    explained_cells: Bools
    result: Floats | None = None


@dataclass(frozen=True)
class WrongStep:
    """A claimed step with wrong cells, and everything else as claimed; vectors as rows."""

    problem: Problem
    step: Step
    first_cell: tuple[int, int]  # the first that is wrong
    first_text: str  # the number claimed there
    claimed_matrix: ClaimedMatrix
    verdicts: Verdicts
    carried_matrix: IntervalMatrix  # computed from the claims before it
    env: Env  # every matrix as claimed or, if it is not, as computed from the claims
    # The other claims, which may have been copied; tainted cells hold the exact value instead.
    other_claims: Env

    @property
    def is_wrong(self) -> Bools:
        """True for wrong cells."""
        is_wrong: Bools = self.verdicts == "wrong"
        return is_wrong


def find_causes(wrong_step: WrongStep) -> list[Cause]:
    """Return the causes that explain the most wrong cells; several if they explain equally many."""
    num_wrong, best = int(wrong_step.is_wrong.sum()), dict[str, Cause]()
    for candidate in (*_find_step_mistakes(wrong_step), *find_slips(wrong_step)):
        count = int(candidate.explained_cells.sum())
        if candidate.name not in best or best[candidate.name].num_explained < count:
            best[candidate.name] = Cause(
                candidate.name, count, num_wrong, candidate.description, candidate.result
            )
    if not best:
        return [Cause("arithmetic-slip", 1, num_wrong, _describe_slip(wrong_step))]
    most = max(cause.num_explained for cause in best.values())
    return [cause for cause in best.values() if cause.num_explained == most]


def _describe_slip(wrong_step: WrongStep) -> str:
    """Format the correct arithmetic: `2·2 + 2·3 + 2·1 is 12, not 18`."""
    i, j = wrong_step.first_cell
    right = TextNotation(4).number(float(wrong_step.carried_matrix.mid[i, j]))
    working = _format_working(wrong_step.step.op, wrong_step.env, i, j)
    subject = "it" if working in (None, right) else working
    return f"{subject} is {right}, not {wrong_step.first_text}"


def _format_working(op: Op, env: Env, i: int, j: int) -> str | None:
    """Format the arithmetic of a cell; None if it is long or only a copy."""
    width = max((env[key].shape[1] for key in op.sources()), default=0)
    if isinstance(op, Copy) or width > _MAX_WORKING_COLUMNS:
        return None
    working = op.cell(TextNotation(4), env, i, j)
    return working if len(working) <= _MAX_WORKING_CHARS else None


def _find_step_mistakes(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Try each mistake in the formula of a step: it must agree with every cell that it changes."""
    steps, claimed = _list_unclaimed_steps(wrong_step), wrong_step.claimed_matrix
    for mistake in list_mistakes(wrong_step.problem, [step.key for step in steps]):
        result = _compute_with_mistake(mistake, steps, wrong_step)
        if result is None or result.shape != wrong_step.carried_matrix.shape:
            continue
        fits = claimed.matches(result) | claimed.is_near(result.mid, 0.5)
        unchanged = wrong_step.is_wrong & _is_unchanged(wrong_step, result)
        if (fits | claimed.is_blank | unchanged).all() and fits[wrong_step.first_cell]:
            description = _describe_mistake(mistake, wrong_step)
            explained = fits & wrong_step.is_wrong
            yield Explanation(mistake.name, description, explained, result.mid)


def _is_unchanged(wrong_step: WrongStep, result: IntervalMatrix) -> Bools:
    """Return where a mistake makes no difference at the written precision."""
    unit = np.maximum(wrong_step.claimed_matrix.units, 1e-12)
    with np.errstate(invalid="ignore"):
        near = np.abs(result.mid - wrong_step.carried_matrix.mid) <= unit / 2
    return near | (np.isneginf(result.mid) & np.isneginf(wrong_step.carried_matrix.mid))


def _describe_mistake(mistake: Mistake, wrong_step: WrongStep) -> str:
    """Describe a mistake, with the arithmetic of the first wrong cell if that is short."""
    op = mistake.ops.get(wrong_step.step.key)
    working = None
    if isinstance(op, Linear | Scaling):
        working = _format_working(op, wrong_step.env, *wrong_step.first_cell)
    suffix = f": {working} is {wrong_step.first_text}" if working else ""
    return mistake.description + suffix


def _list_unclaimed_steps(wrong_step: WrongStep) -> list[Step]:
    """Return the step and the unclaimed steps before it that it depends on."""
    needed, steps = {wrong_step.step.key}, []
    for step in reversed(wrong_step.problem.steps):
        if step.key in needed:
            steps.append(step)
            needed.update(key for key in step.op.sources() if key not in wrong_step.other_claims)
    return steps[::-1]


def _compute_with_mistake(
    mistake: Mistake, steps: list[Step], wrong_step: WrongStep
) -> IntervalMatrix | None:
    """Compute the step with a mistake in it or in an unclaimed step before it."""
    env, changed = dict(wrong_step.env), False
    try:
        for step in steps:
            op = mistake.ops.get(step.key)
            changed = changed or op is not None
            if changed:
                env[step.key] = (op or step.op).compute(env)
    except (ValueError, KeyError):  # shapes that do not fit, or a missing matrix
        return None
    return env[wrong_step.step.key]


def find_slips(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Yield explanations by slips in writing: in single cells, rows or the entire step."""
    if wrong_step.is_wrong.sum() <= _MAX_WRONG_CELLS:
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
        own = (names == name) & fits
        explained = np.zeros(wrong_step.is_wrong.shape, dtype=np.bool_)
        explained[rows[own], columns[own]] = True
        if explained[wrong_step.first_cell]:
            value = float(wrong_step.carried_matrix.mid[wrong_step.first_cell])
            description = template.format(TextNotation(4).number(value))
            yield Explanation(name, f"{wrong_step.first_text} {description}", explained)


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
    if wrong_step.is_wrong.sum() > 1:  # several −∞ come from a mask and are not copied
        copyable = np.where(np.isinf(copyable), np.nan, copyable)
    padded = np.pad(copyable, 1, constant_values=np.nan)
    neighbors = (padded[1:-1, :-2], padded[1:-1, 2:], padded[:-2, 1:-1], padded[2:, 1:-1])
    explained: Bools = np.any([values == other for other in neighbors], axis=0)
    explained &= wrong_step.is_wrong & ~_is_zero_for_infinity(wrong_step)
    if explained[wrong_step.first_cell]:
        description = f"{wrong_step.first_text} is also the number in an adjacent cell"
        yield Explanation("copied-from-neighbour", description, explained)


def _is_zero_for_infinity(wrong_step: WrongStep) -> Bools:
    """Return cells with 0 instead of −∞: a mistake with its own name, while zeros are common."""
    is_zero: Bools = wrong_step.claimed_matrix.values == 0
    return is_zero & np.isneginf(wrong_step.carried_matrix.mid)


def _find_copied_steps(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Test whether the numbers are those of another claimed step: all, a row or a single one."""
    name, wrong, claimed = (
        "copied-from-another-step",
        wrong_step.is_wrong,
        wrong_step.claimed_matrix,
    )
    for key, other in wrong_step.other_claims.items():
        has_same_shape = other.shape == wrong.shape
        fits = claimed.matches(other) if has_same_shape else np.zeros(wrong.shape, dtype=np.bool_)
        if (fits | claimed.is_blank).all():
            yield Explanation(name, f"these are the numbers of {key}", fits & wrong)
        for transposed in (False, True):
            oriented = other.T if transposed else other
            yield from _find_copied_lines(wrong_step, key, oriented, transposed)
        if fits[wrong_step.first_cell]:
            # A single number may match a rounded one by chance, so it must be equal.
            is_equal = (claimed.values == other.mid) | (other.tainted & (claimed.values != 0))
            explained = fits & wrong & is_equal & ~_is_zero_for_infinity(wrong_step)
            if explained[wrong_step.first_cell]:
                description = f"{wrong_step.first_text} is the number at the same place of {key}"
                yield Explanation(name, description, explained)


def _find_copied_lines(
    wrong_step: WrongStep, key: str, other: IntervalMatrix, transposed: bool
) -> Iterator[Explanation]:
    """Test whether the row (transposed: column) of the first wrong cell is one of another step."""
    wrong = wrong_step.is_wrong.T if transposed else wrong_step.is_wrong
    line, width = wrong_step.first_cell[1 if transposed else 0], wrong.shape[1]
    if other.shape[1] != width or width == 1:
        return
    claimed = wrong_step.claimed_matrix.slice_line(line, transposed)
    # With a single wrong number, another row may match by chance: only the same row counts.
    has_several = wrong[line].sum() > 1
    candidates = (
        range(other.shape[0]) if has_several else range(line, min(line + 1, len(other.mid)))
    )
    for k in candidates:
        if (claimed.matches(other.slice_row(k)) | claimed.is_blank).all():
            explained = np.zeros(wrong.shape, dtype=np.bool_)
            explained[line] = wrong[line]
            # With column vectors, a row here is a column of the problem.
            axis = "row" if transposed == wrong_step.problem.column_vectors else "column"
            description = f"this {axis} is {axis} {k + 1} of {key}"
            explained = explained.T if transposed else explained
            yield Explanation("copied-from-another-step", description, explained)
