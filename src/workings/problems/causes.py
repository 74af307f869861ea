"""Why a number may be wrong: which mistakes of the catalogue lead to just what was written."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workings.problems.cells import Bools, Cells
from workings.problems.mistakes import Mistake, mistakes
from workings.problems.problem import Problem
from workings.problems.verdicts import Verdicts, Written

FEW = 5  # units: below that so few digits are left that a moved point proves nothing


@dataclass(frozen=True)
class Cause:
    """A mistake that leads to what was written; it reproduces `explained` of `wrong` cells."""

    name: str
    explained: int
    wrong: int
    says: str

    @property
    def reproduces(self) -> str:
        """The share of the step's wrong cells, as the report has it."""
        return f"{self.explained}/{self.wrong}"


@dataclass(frozen=True)
class Suspect:
    """A claimed step with something wrong in it, as it was written and judged."""

    key: str
    first: tuple[int, int]  # the first wrong cell
    written: Written
    texts: list[list[str]]
    verdicts: Verdicts
    env: dict[str, Cells]  # everything before it as claimed, everything after it exact
    claimed: frozenset[str]  # which steps were claimed

    @property
    def right(self) -> Cells:
        """What the numbers before it lead to."""
        return self.env[self.key]

    @property
    def wrong(self) -> Bools:
        """Which cells are wrong."""
        wrong: Bools = self.verdicts == "wrong"
        return wrong


def causes(problem: Problem, suspect: Suspect) -> list[Cause]:
    """Name the causes that explain the most; several, where they explain equally much."""
    found: dict[str, Cause] = {}
    for name, explained, says in (*_of_step(problem, suspect), *_of_cells(problem, suspect)):
        if name not in found or explained > found[name].explained:
            found[name] = Cause(name, explained, int(suspect.wrong.sum()), says)
    if not found:
        slip = "no known mistake leads there: a slip of arithmetic or of the pen"
        return [Cause("arithmetic-slip", 1, int(suspect.wrong.sum()), slip)]
    most = max(cause.explained for cause in found.values())
    return [cause for cause in found.values() if cause.explained == most]


def _of_step(problem: Problem, suspect: Suspect) -> Iterator[tuple[str, int, str]]:
    """Try each mistake that concerns a whole step: it must agree with every cell it touches."""
    for mistake in mistakes(problem):
        result = _with_mistake(problem, suspect, mistake)
        if result is None:
            continue
        fits = _fits(suspect.written, result)
        unit = np.maximum(suspect.written.unit, 1e-12)
        with np.errstate(invalid="ignore"):
            same = np.abs(result.mid - suspect.right.mid) <= unit / 2
        untouched = same | (np.isneginf(result.mid) & np.isneginf(suspect.right.mid))
        agrees = fits | suspect.written.blank | (suspect.wrong & untouched)
        if agrees.all() and fits[suspect.first]:
            yield mistake.name, int((fits & suspect.wrong).sum()), mistake.says


def _with_mistake(problem: Problem, suspect: Suspect, mistake: Mistake) -> Cells | None:
    """Work the step out with a mistake in it, or in a step before that nobody wrote down."""
    if mistake.key != suspect.key and mistake.key in suspect.claimed:
        return None
    keys = [step.key for step in problem.steps]
    start, end = keys.index(mistake.key), keys.index(suspect.key)
    if start > end:
        return None
    env, touched = dict(suspect.env), {mistake.key}
    try:
        env[mistake.key] = mistake.op.compute(env)
        for step in problem.steps[start + 1 : end + 1]:
            if touched.intersection(step.op.sources()) and (
                step.key == suspect.key or step.key not in suspect.claimed
            ):
                env[step.key] = step.op.compute(env)
                touched.add(step.key)
    except ValueError:  # shapes that fit the exact problem fit here, too; a mistake's may not
        return None
    return env[suspect.key] if suspect.key in touched else None


def _fits(written: Written, cells: Cells) -> Bools:
    with np.errstate(invalid="ignore"):
        return written.stands_for(cells) | written.near(cells.mid, 0.5)


def _of_cells(problem: Problem, suspect: Suspect) -> Iterator[tuple[str, int, str]]:
    """Try what may happen to single cells."""
    written, right, wrong = suspect.written, suspect.right, suspect.wrong
    text = suspect.texts[suspect.first[0]][suspect.first[1]]
    weighty = np.abs(right.mid) > written.unit
    hits: Bools = written.stands_for(-right) & weighty & wrong
    if hits[suspect.first]:
        yield "sign-lost", int(hits.sum()), f"{text} has the wrong sign"
    for power in (1, -1, 2, -2, 3, -3):
        moved = right * Cells.exact(10.0**power)
        clear = np.abs(written.value) >= FEW * written.unit
        hits = written.stands_for(moved) & clear & weighty & wrong & (written.value != 0)
        if hits[suspect.first]:
            yield (
                "decimal-point-moved",
                int(hits.sum()),
                f"the decimal point of {text} is off by {abs(power)}",
            )
    hits = _swapped(suspect)
    if hits[suspect.first]:
        yield "digits-swapped", int(hits.sum()), f"{text} has two digits in the wrong order"
    hits = _beside(suspect)
    if hits[suspect.first]:
        yield "copied-from-neighbour", int(hits.sum()), f"{text} stands in the cell next to it, too"
    yield from _copied(problem, suspect)


def _swapped(suspect: Suspect) -> Bools:
    hits = np.zeros(suspect.wrong.shape, dtype=np.bool_)
    for i, j in np.argwhere(suspect.wrong):
        value, unit = suspect.written.value[i, j], suspect.written.unit[i, j]
        right = suspect.right.mid[i, j]
        if unit <= 0 or not np.isfinite(right) or not np.isfinite(value):
            continue
        places = max(round(-np.log10(unit)), 0)
        rounded = f"{abs(right):.{places}f}"
        truncated = f"{np.floor(abs(right) / unit + 1e-9) * unit:.{places}f}"
        hits[i, j] = np.sign(value) * np.sign(right) >= 0 and any(
            f"{abs(value):.{places}f}" == swap
            for digits in {rounded, truncated}
            for swap in _swaps(digits)
        )
    return hits


def _swaps(digits: str) -> Iterator[str]:
    """Swap two neighbouring digits, across the point as well."""
    at = [k for k, c in enumerate(digits) if c.isdigit()]
    for a, b in pairwise(at):
        if digits[a] != digits[b]:
            yield digits[:a] + digits[b] + digits[a + 1 : b] + digits[a] + digits[b + 1 :]


def _beside(suspect: Suspect) -> Bools:
    """Say which wrong cells hold what the cell beside, above or below them holds."""
    value = np.pad(suspect.written.value, 1, constant_values=np.nan)
    centre = value[1:-1, 1:-1]
    neighbours = (value[1:-1, :-2], value[1:-1, 2:], value[:-2, 1:-1], value[2:, 1:-1])
    same: Bools = np.any([centre == other for other in neighbours], axis=0)
    return same & suspect.wrong


def _copied(problem: Problem, suspect: Suspect) -> Iterator[tuple[str, int, str]]:
    """Find another step with these numbers: in the same cell, or in a row."""
    i, j = suspect.first
    row = suspect.wrong[i]
    for step in problem.steps:
        if step.key == suspect.key or not step.claimable or not step.shown:
            continue
        other = suspect.env[step.key]
        if other.shape == suspect.right.shape:
            hits = _fits(suspect.written, _sharp(other)) & suspect.wrong
            if hits[i, j]:
                yield "copied-from-another-step", int(hits.sum()), f"these numbers are {step.key}'s"
        if other.shape[1] == suspect.right.shape[1] and row.sum() > 1:
            for k in range(other.shape[0]):
                line = Cells(*(getattr(_sharp(other), a)[[k]] for a in Cells.__slots__))
                fits = _fits(suspect.written, line)[i] & row
                if (fits == row).all():
                    says = f"this row is row {k + 1} of {step.key}"
                    yield "copied-from-another-step", int(row.sum()), says


def _sharp(cells: Cells) -> Cells:
    """What was copied was copied as it stands: no range."""
    return Cells(cells.mid, cells.mid, cells.mid, cells.off)
