"""Why a number may be wrong: which mistakes of the catalogue lead to just what was written."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from workings.problems.cells import Bools, Cells, Floats
from workings.problems.kinds import Step
from workings.problems.mistakes import Mistake, mistakes
from workings.problems.ops import Copy, Env, Linear, Op, Scaled
from workings.problems.slips import slips
from workings.problems.suspect import Explanation, Suspect
from workings.views.notation import Text

_LONG = 100  # characters of a working: beyond that it explains nothing
_WIDE = 16  # columns: beyond that it is not even tried


@dataclass(frozen=True)
class Cause:
    """A mistake that leads to what was written; it reproduces `explained` of `wrong` cells.

    `gives`: the step as the mistake would have it, vectors as rows, where it concerns all of it.
    """

    name: str
    explained: int
    wrong: int
    says: str
    gives: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def reproduces(self) -> str:
        """The share of the step's wrong cells, as the report has it."""
        return f"{self.explained}/{self.wrong}"


def causes(suspect: Suspect) -> list[Cause]:
    """Name the causes that explain the most; several, where they explain equally much."""
    wrong, best = int(suspect.wrong.sum()), dict[str, Cause]()
    for found in (*_of_step(suspect), *slips(suspect)):
        explained = int(found.hits.sum())
        if found.name not in best or best[found.name].explained < explained:
            best[found.name] = Cause(found.name, explained, wrong, found.says, found.gives)
    if not best:
        return [Cause("arithmetic-slip", 1, wrong, _slip(suspect))]
    most = max(cause.explained for cause in best.values())
    return [cause for cause in best.values() if cause.explained == most]


def _slip(suspect: Suspect) -> str:
    """Say what the numbers come to: `2·2 + 2·3 + 2·1 is 12, not 18`."""
    i, j = suspect.first
    right = Text(4).number(float(suspect.right.mid[i, j]))
    working = _working(suspect.step.op, suspect.env, i, j)
    subject = "it" if working in (None, right) else working
    return f"{subject} is {right}, not {suspect.text}"


def _working(op: Op, env: Env, i: int, j: int) -> str | None:
    """Write a cell out with its numbers, where that is short and says something."""
    if isinstance(op, Copy) or max((env[k].shape[1] for k in op.sources()), default=0) > _WIDE:
        return None
    working = op.cell(Text(4), env, i, j)
    return working if len(working) <= _LONG else None


def _of_step(suspect: Suspect) -> Iterator[Explanation]:
    """Try each mistake that concerns a whole step: it must agree with every cell it touches."""
    steps, written = _unwritten(suspect), suspect.written
    for mistake in mistakes(suspect.problem, [step.key for step in steps]):
        result = _with(mistake, steps, suspect)
        if result is None or result.shape != suspect.right.shape:
            continue
        fits = written.stands_for(result) | written.near(result.mid, 0.5)
        agrees = fits | written.blank | (suspect.wrong & _same(suspect, result))
        if agrees.all() and fits[suspect.first]:
            says, hits = _says(mistake, suspect), fits & suspect.wrong
            yield Explanation(mistake.name, says, hits, result.mid)


def _same(suspect: Suspect, result: Cells) -> Bools:
    """Say where a mistake makes no difference at the digits written: it explains nothing there."""
    unit = np.maximum(suspect.written.unit, 1e-12)
    with np.errstate(invalid="ignore"):
        near = np.abs(result.mid - suspect.right.mid) <= unit / 2
    return near | (np.isneginf(result.mid) & np.isneginf(suspect.right.mid))


def _says(mistake: Mistake, suspect: Suspect) -> str:
    """Say what the mistake was, with this cell's numbers where they show it."""
    op = mistake.ops.get(suspect.step.key)
    working = None
    if isinstance(op, Linear | Scaled):
        working = _working(op, suspect.env, *suspect.first)
    return f"{mistake.says}: {working} is {suspect.text}" if working else mistake.says


def _unwritten(suspect: Suspect) -> list[Step]:
    """List the step and those before it that nobody wrote down, as far as it depends on them."""
    needed, steps = {suspect.step.key}, []
    for step in reversed(suspect.problem.steps):
        if step.key in needed:
            steps.append(step)
            needed.update(key for key in step.op.sources() if key not in suspect.sheet)
    return steps[::-1]


def _with(mistake: Mistake, steps: list[Step], suspect: Suspect) -> Cells | None:
    """Work a step out with a mistake in it, or in one before it."""
    env, changed = dict(suspect.env), False
    try:
        for step in steps:
            op = mistake.ops.get(step.key)
            changed = changed or op is not None
            if changed:
                env[step.key] = (op or step.op).compute(env)
    except (ValueError, KeyError):  # matrices that do not fit together, or are not there
        return None
    return env[suspect.step.key]
