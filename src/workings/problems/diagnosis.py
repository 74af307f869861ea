"""A claimed step with something wrong in it, and what counts as an explanation."""

from collections.abc import Iterator, Mapping
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


@dataclass(frozen=True)
class Explanation:
    """A mistake that leads to some of the wrong cells (`hits`), the first one among them.

    `gives`: the whole step as the mistake would have it; None: it is one of single numbers.
    """

    name: str
    description: str
    explained_cells: Bools
    result: Floats | None = None


@dataclass(frozen=True)
class WrongStep:
    """The step as it was written and judged, and everything else as claimed; vectors as rows."""

    problem: Problem
    step: Step
    first_cell: tuple[int, int]  # the first wrong cell
    first_text: str  # what stands there
    claimed_matrix: ClaimedMatrix
    verdicts: Verdicts
    carried_matrix: IntervalMatrix  # what the numbers before it lead to
    env: Mapping[
        str, IntervalMatrix
    ]  # every matrix as claimed, or else as it comes from what was claimed
    # The other claimed steps' numbers, to be copied; `off`: not as written but as they should be.
    other_claims: Mapping[str, IntervalMatrix]

    @property
    def is_wrong(self) -> Bools:
        """Which cells are wrong."""
        wrong: Bools = self.verdicts == "wrong"
        return wrong


_MIN_UNITS = 5  # units: with less written, a moved point that loses digits proves nothing
_MAX_DIGITS = 15  # more than a float has, or anybody writes
_MAX_WRONG_CELLS = 64  # wrong cells: more are not slips of the pen

_SLIP_DESCRIPTIONS = {
    "sign-lost": "has the sign of {} wrong",
    "digits-swapped": "has two digits of {} in each other's place",
    "decimal-point-moved": "has the decimal point of {} in the wrong place",
}


def find_slips(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Try what may have happened to single cells, rows or the whole of what was written."""
    if wrong_step.is_wrong.sum() <= _MAX_WRONG_CELLS:
        yield from _find_digit_slips(wrong_step)
        yield from _find_adjacent_copies(wrong_step)
    yield from _find_copied_steps(wrong_step)


def _find_digit_slips(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Undo each slip at each wrong cell, and see whether the number would do."""
    tried = [
        (name, i, j, value, unit)
        for i, j in np.argwhere(wrong_step.is_wrong).tolist()
        for name, value, unit in _undo_slips(wrong_step.claimed_matrix, i, j)
    ]
    if not tried:
        return
    names, rows, columns, values, units = (np.array(part) for part in zip(*tried, strict=True))
    whole = wrong_step.claimed_matrix.is_integer[rows, columns]
    undone = ClaimedMatrix(values[None], units[None], whole[None])
    right = wrong_step.carried_matrix.rearrange(lambda a: a[rows, columns][None])
    fits = (undone.matches(right) | undone.is_near(right.mid, 0.5))[0]
    # What may just as well be nought has no digits to be swapped or moved.
    digits = (right.lo > 0) | (right.hi < 0) | undone.matches(right.point)
    fits &= (names == "sign-lost") | digits[0]
    for name, says in _SLIP_DESCRIPTIONS.items():
        own = (names == name) & fits
        hits = np.zeros(wrong_step.is_wrong.shape, dtype=np.bool_)
        hits[rows[own], columns[own]] = True
        if hits[wrong_step.first_cell]:
            number = TextNotation(4).number(
                float(wrong_step.carried_matrix.mid[wrong_step.first_cell])
            )
            yield Explanation(name, f"{wrong_step.first_text} {says.format(number)}", hits)


def _undo_slips(
    claimed_matrix: ClaimedMatrix, i: int, j: int
) -> Iterator[tuple[str, float, float]]:
    """Give a number back its sign, its digits their order, its point its place: value and unit."""
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
    usual = _find_common_unit(claimed_matrix, i, j)
    for power in (1, -1, 2, -2, 3, -3):
        moved = value * 10.0**power
        if abs(value) >= _MIN_UNITS * unit:
            yield "decimal-point-moved", moved, unit * 10.0**power
        units = abs(moved) / usual
        if 0.5 < units < 10**_MAX_DIGITS and abs(units - round(units)) < 1e-6:
            yield "decimal-point-moved", moved, usual  # written like the numbers around it


def _find_common_unit(claimed_matrix: ClaimedMatrix, i: int, j: int) -> float:
    """How precisely the other cells are written."""
    others = claimed_matrix.units > 0
    others[i, j] = False
    return float(claimed_matrix.units[others].min() if others.any() else claimed_matrix.units[i, j])


def _swap_digits(digits: str) -> Iterator[str]:
    """Swap two digits, across the point as well; 1 may have been 01, and that 10."""
    digits = digits if "." in digits else f"0{digits}"
    at = [k for k, c in enumerate(digits) if c.isdigit()]
    for a, b in combinations(at, 2):
        if digits[a] != digits[b]:
            yield digits[:a] + digits[b] + digits[a + 1 : b] + digits[a] + digits[b + 1 :]


def _find_adjacent_copies(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Find the number in the cell beside, above or below, where it is not wrong itself."""
    value = wrong_step.claimed_matrix.values
    stands = np.where(wrong_step.is_wrong, np.nan, value)
    if wrong_step.is_wrong.sum() > 1:  # −∞ is not copied over and over: it comes from a mask
        stands = np.where(np.isinf(stands), np.nan, stands)
    around = np.pad(stands, 1, constant_values=np.nan)
    neighbours = (around[1:-1, :-2], around[1:-1, 2:], around[:-2, 1:-1], around[2:, 1:-1])
    hits: Bools = np.any([value == other for other in neighbours], axis=0)
    hits &= wrong_step.is_wrong & ~_is_zero_for_infinity(wrong_step)
    if hits[wrong_step.first_cell]:
        says = f"{wrong_step.first_text} stands in the cell next to it, too"
        yield Explanation("copied-from-neighbour", says, hits)


def _is_zero_for_infinity(wrong_step: WrongStep) -> Bools:
    """Cells with 0 where −∞ belongs: that mistake has a name, and noughts are everywhere."""
    nought: Bools = (wrong_step.claimed_matrix.values == 0) & np.isneginf(
        wrong_step.carried_matrix.mid
    )
    return nought


def _find_copied_steps(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Find the numbers in another step on the sheet: all of them, a row, or one in its place."""
    name, wrong, written = (
        "copied-from-another-step",
        wrong_step.is_wrong,
        wrong_step.claimed_matrix,
    )
    for key, other in wrong_step.other_claims.items():
        same = other.shape == wrong.shape
        fits = written.matches(other) if same else np.zeros(wrong.shape, dtype=np.bool_)
        if (fits | written.is_blank).all():
            yield Explanation(name, f"these are the numbers of {key}", fits & wrong)
        for turned in (False, True):
            yield from _find_copied_lines(wrong_step, key, other.T if turned else other, turned)
        if fits[wrong_step.first_cell]:
            # A single number may look like a rounded one by chance: it must be the very same.
            digits = (written.values == other.mid) | (other.tainted & (written.values != 0))
            hits = fits & wrong & digits & ~_is_zero_for_infinity(wrong_step)
            if hits[wrong_step.first_cell]:
                yield Explanation(
                    name, f"{wrong_step.first_text} stands in the same place of {key}", hits
                )


def _find_copied_lines(
    wrong_step: WrongStep, key: str, other: IntervalMatrix, transposed: bool
) -> Iterator[Explanation]:
    """Find the wrong cell's row (turned: its column) in another step."""
    wrong = wrong_step.is_wrong.T if transposed else wrong_step.is_wrong
    line, width = wrong_step.first_cell[1 if transposed else 0], wrong.shape[1]
    if other.shape[1] != width or width == 1:
        return
    written = wrong_step.claimed_matrix.slice_line(line, transposed)
    # Where one number alone is wrong, some row soon has the same ones: only its own counts.
    several = wrong[line].sum() > 1
    for k in range(other.shape[0]) if several else range(line, min(line + 1, other.shape[0])):
        if (written.matches(other.slice_row(k)) | written.is_blank).all():
            hits = np.zeros(wrong.shape, dtype=np.bool_)
            hits[line] = wrong[line]
            # In a problem in columns, what is a row here is a column on paper.
            what = "row" if transposed == wrong_step.problem.column_vectors else "column"
            says = f"this {what} is {what} {k + 1} of {key}"
            yield Explanation("copied-from-another-step", says, hits.T if transposed else hits)


_MAX_WORKING_CHARS = 100  # characters of a working: beyond that it explains nothing
_MAX_WORKING_COLUMNS = 16  # columns: beyond that it is not even tried


@dataclass(frozen=True)
class Cause:
    """A mistake that leads to what was written; it reproduces `explained` of `wrong` cells.

    `gives`: the step as the mistake would have it, vectors as rows, where it concerns all of it.
    """

    name: str
    num_explained: int
    num_wrong: int
    description: str
    result: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def reproduced_share(self) -> str:
        """The share of the step's wrong cells, as the report has it."""
        return f"{self.num_explained}/{self.num_wrong}"


def find_causes(wrong_step: WrongStep) -> list[Cause]:
    """Name the causes that explain the most; several, where they explain equally much."""
    wrong, best = int(wrong_step.is_wrong.sum()), dict[str, Cause]()
    for found in (*_find_step_mistakes(wrong_step), *find_slips(wrong_step)):
        explained = int(found.explained_cells.sum())
        if found.name not in best or best[found.name].num_explained < explained:
            best[found.name] = Cause(found.name, explained, wrong, found.description, found.result)
    if not best:
        return [Cause("arithmetic-slip", 1, wrong, _describe_slip(wrong_step))]
    most = max(cause.num_explained for cause in best.values())
    return [cause for cause in best.values() if cause.num_explained == most]


def _describe_slip(wrong_step: WrongStep) -> str:
    """Say what the numbers come to: `2·2 + 2·3 + 2·1 is 12, not 18`."""
    i, j = wrong_step.first_cell
    right = TextNotation(4).number(float(wrong_step.carried_matrix.mid[i, j]))
    working = _format_working(wrong_step.step.op, wrong_step.env, i, j)
    subject = "it" if working in (None, right) else working
    return f"{subject} is {right}, not {wrong_step.first_text}"


def _format_working(op: Op, env: Env, i: int, j: int) -> str | None:
    """Write a cell out with its numbers, where that is short and says something."""
    if (
        isinstance(op, Copy)
        or max((env[k].shape[1] for k in op.sources()), default=0) > _MAX_WORKING_COLUMNS
    ):
        return None
    working = op.cell(TextNotation(4), env, i, j)
    return working if len(working) <= _MAX_WORKING_CHARS else None


def _find_step_mistakes(wrong_step: WrongStep) -> Iterator[Explanation]:
    """Try each mistake that concerns a whole step: it must agree with every cell it touches."""
    steps, written = _list_unclaimed_steps(wrong_step), wrong_step.claimed_matrix
    for mistake in list_mistakes(wrong_step.problem, [step.key for step in steps]):
        result = _compute_with_mistake(mistake, steps, wrong_step)
        if result is None or result.shape != wrong_step.carried_matrix.shape:
            continue
        fits = written.matches(result) | written.is_near(result.mid, 0.5)
        agrees = fits | written.is_blank | (wrong_step.is_wrong & _is_unchanged(wrong_step, result))
        if agrees.all() and fits[wrong_step.first_cell]:
            says, hits = _describe_mistake(mistake, wrong_step), fits & wrong_step.is_wrong
            yield Explanation(mistake.name, says, hits, result.mid)


def _is_unchanged(wrong_step: WrongStep, result: IntervalMatrix) -> Bools:
    """Say where a mistake makes no difference at the digits written: it explains nothing there."""
    unit = np.maximum(wrong_step.claimed_matrix.units, 1e-12)
    with np.errstate(invalid="ignore"):
        near = np.abs(result.mid - wrong_step.carried_matrix.mid) <= unit / 2
    return near | (np.isneginf(result.mid) & np.isneginf(wrong_step.carried_matrix.mid))


def _describe_mistake(mistake: Mistake, wrong_step: WrongStep) -> str:
    """Say what the mistake was, with this cell's numbers where they show it."""
    op = mistake.ops.get(wrong_step.step.key)
    working = None
    if isinstance(op, Linear | Scaling):
        working = _format_working(op, wrong_step.env, *wrong_step.first_cell)
    return (
        f"{mistake.description}: {working} is {wrong_step.first_text}"
        if working
        else mistake.description
    )


def _list_unclaimed_steps(wrong_step: WrongStep) -> list[Step]:
    """List the step and those before it that nobody wrote down, as far as it depends on them."""
    needed, steps = {wrong_step.step.key}, []
    for step in reversed(wrong_step.problem.steps):
        if step.key in needed:
            steps.append(step)
            needed.update(key for key in step.op.sources() if key not in wrong_step.other_claims)
    return steps[::-1]


def _compute_with_mistake(
    mistake: Mistake, steps: list[Step], wrong_step: WrongStep
) -> IntervalMatrix | None:
    """Work a step out with a mistake in it, or in one before it."""
    env, changed = dict(wrong_step.env), False
    try:
        for step in steps:
            op = mistake.ops.get(step.key)
            changed = changed or op is not None
            if changed:
                env[step.key] = (op or step.op).compute(env)
    except (ValueError, KeyError):  # matrices that do not fit together, or are not there
        return None
    return env[wrong_step.step.key]
