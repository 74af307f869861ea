"""Find what caused the wrong cells of a step: mistakes in its formula, or slips in writing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from workings.languages import gettext
from workings.problems.intervals import Bools, Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.mistakes import Mistake, list_mistakes
from workings.problems.ops import Env, Linear, Op, Scaling
from workings.problems.points import PointMatrix
from workings.problems.slips import (
    describe_right,
    find_slips,
    find_term_slips,
    find_wrong_digits,
    format_working,
)
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD
from workings.problems.worked_problem import NO_KNOWN_CAUSE
from workings.problems.wrong_step import Explanation, WrongStep

UNKNOWN = "unknown"
_MAX_CHANCE = 0.3  # that random numbers fit a mistake as well
_MAX_PARTIAL_CHANCE = 1e-2  # the same for a mistake with slips on top
_MAX_PAIR_CHANCE = 1e-4  # and for two mistakes together
_MAX_SLIPS = 2  # cells that a mistake in the formula may leave unexplained
_MIN_EXPLAINED = 3  # cells, if some are left unexplained
_MIN_EXPLAINED_SHARE = 0.6  # of the cells that it changes, if some are left unexplained
_MAX_TRIALS = 6_000  # operations computed to try mistakes
_MAX_PAIRED = 200  # mistakes that are tried in pairs
_MAX_PAIRS = 800
_CONFLICT = object()  # two changes of the same thing


@dataclass(frozen=True)
class Cause:
    """A mistake that leads to the claim; it explains `num_explained` of `num_wrong` cells.

    `partner` is the other mistake if two were made together. `unexplained_cells` are the other
    wrong cells, counted from 0 in the problem's convention. `result` is the step as computed with
    the mistake, vectors as rows; None for a slip in writing.
    """

    name: str
    num_explained: int
    num_wrong: int
    description: str
    partner: str | None = None
    unexplained_cells: tuple[tuple[int, int], ...] = ()
    result: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def reproduced_share(self) -> str:
        """The explained share of the wrong cells, as in the report: "2/3"."""
        return f"{self.num_explained}/{self.num_wrong}"


def find_causes(wrong_step: WrongStep) -> list[Cause]:
    """Return the causes that explain the most wrong cells; several if they explain equally many.

    A mistake that explains all of them comes before two mistakes together, and those before a
    mistake with slips on top.
    """
    trials = _Trials(wrong_step)
    slips = list(find_slips(wrong_step))
    mistakes = list(trials.find_mistakes())
    complete = [e for e in (*mistakes, *slips) if _is_complete(wrong_step, e)]
    if any(e.result is not None for e in complete):
        return _select_best(wrong_step, complete)
    pairs = trials.find_pairs()
    if complete or pairs:
        return [*pairs, *(_select_best(wrong_step, complete) if complete else [])]
    if mistakes:
        return [_add_slips(cause) for cause in _select_best(wrong_step, mistakes)]
    arithmetic = (list(find(wrong_step)) for find in (find_term_slips, find_wrong_digits))
    for candidates in (slips, *arithmetic):
        if candidates := _select_likely_slips(wrong_step, candidates):
            return _select_best(wrong_step, candidates)
    description = gettext(
        "{no_known_cause}: {right}",
        no_known_cause=gettext(NO_KNOWN_CAUSE),
        right=describe_right(wrong_step),
    )
    return [Cause(UNKNOWN, 0, wrong_step.num_wrong, description)]


def _select_likely_slips(wrong_step: WrongStep, slips: list[Explanation]) -> list[Explanation]:
    """Return the slips in the first wrong cell, if slips explain all or most wrong cells."""
    explained = [slip.explained_cells for slip in slips]
    covers_all = bool(slips) and int(np.logical_or.reduce(explained).sum()) == wrong_step.num_wrong
    return [
        slip
        for slip in slips
        if slip.explained_cells[wrong_step.first_cell]
        and (covers_all or 2 * int(slip.explained_cells.sum()) > wrong_step.num_wrong)
    ]


def _is_complete(wrong_step: WrongStep, explanation: Explanation) -> bool:
    return int(explanation.explained_cells.sum()) == wrong_step.num_wrong


def _select_best(wrong_step: WrongStep, explanations: list[Explanation]) -> list[Cause]:
    """Return the explanations of the most cells as causes, one for each name."""
    best: dict[str, Cause] = {}
    for explanation in explanations:
        count = int(explanation.explained_cells.sum())
        if explanation.name not in best or best[explanation.name].num_explained < count:
            unexplained = np.argwhere(wrong_step.is_wrong & ~explanation.explained_cells).tolist()
            best[explanation.name] = Cause(
                explanation.name,
                count,
                wrong_step.num_wrong,
                explanation.description,
                unexplained_cells=tuple(wrong_step.orient_cell(i, j) for i, j in unexplained),
                result=explanation.result,
            )
    most = max(cause.num_explained for cause in best.values())
    return [cause for cause in best.values() if cause.num_explained == most]


def _add_slips(cause: Cause) -> Cause:
    """Describe the cells that a mistake in the formula does not explain."""
    places = [
        gettext("row {row}, column {column}", row=row + 1, column=column + 1)
        for row, column in cause.unexplained_cells
    ]
    text = (
        gettext("{mistake}, in {explained} of {wrong} cells, and one more slip at {place}")
        if len(places) == 1
        else gettext("{mistake}, in {explained} of {wrong} cells, and two more slips at {place}")
    )
    description = text.format(
        mistake=cause.description,
        explained=cause.num_explained,
        wrong=cause.num_wrong,
        place=gettext(" and at ").join(places),
    )
    return replace(cause, description=description)


class _Trials:
    """Tries mistakes: first with points, and those that come near with ranges."""

    @np.errstate(invalid="ignore")
    def __init__(self, wrong_step: WrongStep) -> None:
        self.wrong_step = wrong_step
        self.ops = {step.key: step.op for step in _list_unclaimed_steps(wrong_step)}
        self.sources = {key: frozenset(op.sources()) for key, op in self.ops.items()}
        self.points = {key: PointMatrix.of(m.mid) for key, m in wrong_step.env.items()}
        self.num_computed = 0
        carried, units = wrong_step.carried_matrix, wrong_step.claimed_matrix.units
        radius = np.maximum(carried.hi - carried.mid, carried.mid - carried.lo)
        is_exact = all(m.lo is m.hi or not (m.hi > m.lo).any() for m in wrong_step.env.values())
        self.tolerance = np.where(np.isfinite(radius), 4 * radius, np.inf) + 4 * units + 1e-9
        self.relative_tolerance = 1e-9 if is_exact else 0.1
        self.changing: list[tuple[Mistake, Floats]] = []  # mistakes that change a cell, and results

    def find_mistakes(self) -> Iterator[Explanation]:
        """Yield the mistakes that explain all wrong cells, or all but a few slips."""
        for mistake in list_mistakes(self.wrong_step.problem, self.ops):
            points = self._compute(mistake.ops, self.points)
            if points is None or not self._changes_cell(points.mid):
                continue
            self.changing.append((mistake, points.mid))
            if self._is_near(points.mid, _MAX_SLIPS):
                result = self._compute(mistake.ops, self.wrong_step.env)
                explanation = result and self._explain(mistake, result)
                if explanation:
                    yield explanation

    def find_pairs(self) -> list[Cause]:
        """Return the mistakes of which two together explain all wrong cells best."""
        if self.wrong_step.num_wrong < _MIN_EXPLAINED:
            return []
        best, causes = _MAX_PAIR_CHANCE, dict[tuple[str, str], Cause]()
        for a, b in self._list_pairs():
            ops = None if a.name == b.name else self._combine(a.ops, b.ops)
            points = ops and self._compute(ops, self.points)
            if not ops or not points or not self._is_near(points.mid, 0):
                continue
            result = self._compute(ops, self.wrong_step.env)
            pair = Mistake(
                a.name,
                ops,
                gettext(
                    "{description}, and {description_2}",
                    description=a.description,
                    description_2=b.description,
                ),
            )
            explanation = result and self._explain(pair, result)
            if not explanation or not _is_complete(self.wrong_step, explanation):
                continue
            if explanation.chance <= best * (1 + 1e-9):  # equally good ones are all listed
                causes = causes if explanation.chance >= best * (1 - 1e-9) else {}
                best = min(best, explanation.chance)
                (cause,) = _select_best(self.wrong_step, [explanation])
                for name, partner in ((a.name, b.name), (b.name, a.name)):
                    causes.setdefault((name, partner), replace(cause, name=name, partner=partner))
        return list(causes.values())

    @np.errstate(all="ignore")
    def _list_pairs(self) -> list[tuple[Mistake, Mistake]]:
        """Return pairs of mistakes, the most promising first.

        Two mistakes often change the result by the sum of their changes, or by the product.
        """
        changing = self.changing[:_MAX_PAIRED]
        if len(changing) < 2:
            return []
        claimed = self.wrong_step.claimed_matrix.values
        cells = self.wrong_step.is_wrong & np.isfinite(claimed)
        claimed, correct = claimed[cells], self.wrong_step.carried_matrix.mid[cells]
        results = np.stack([result[cells] for _, result in changing])  # [mistake, cell]
        pairs, distances = list[tuple[Mistake, Mistake]](), list[Floats]()
        for first, (mistake, _) in enumerate(changing[:-1]):  # all pairs need memory
            a, b = results[first], results[first + 1 :]
            distance = np.abs(np.stack([a + b - correct, a * b / correct]) - claimed)
            distance /= np.abs(claimed) + 1e-9  # [way, second mistake, cell]
            distance = np.where(np.isnan(distance), 1.0, np.minimum(distance, 1.0))
            distances.append(distance.sum(2).min(0))
            pairs += [(mistake, other) for other, _ in changing[first + 1 :]]
        order = np.argsort(np.concatenate(distances), kind="stable")[:_MAX_PAIRS]
        return [pairs[k] for k in order.tolist()]

    def _combine(self, a: Mapping[str, Op], b: Mapping[str, Op]) -> dict[str, Op] | None:
        """Return the operations with both mistakes; None if they exclude each other."""
        ops = {**a, **b}
        for key in a.keys() & b.keys():
            op = _merge(self.ops[key], a[key], b[key])
            if op is _CONFLICT:
                return None
            ops[key] = op
        return ops

    def _compute(self, ops: Mapping[str, Op], env: Env) -> IntervalMatrix | None:
        """Compute the step with wrong operations in it or in unclaimed steps before it."""
        if self.num_computed > _MAX_TRIALS:
            return None
        changed, layered = set[str](), dict(env)
        try:
            with np.errstate(all="ignore"):
                for key, correct in self.ops.items():
                    op = ops.get(key)
                    if op is not None or not changed.isdisjoint(self.sources[key]):
                        layered[key] = (op or correct).compute(layered)
                        changed.add(key)
        except (ValueError, KeyError):  # shapes that do not fit, or a missing matrix
            return None
        self.num_computed += len(changed)
        result = layered[self.wrong_step.step.key]
        return result if result.shape == self.wrong_step.carried_matrix.shape else None

    @np.errstate(invalid="ignore")
    def _changes_cell(self, points: Floats) -> bool:
        """Return True if a mistake makes a difference."""
        correct = self.wrong_step.carried_matrix.mid
        is_same = (points == correct) | (np.abs(points - correct) <= 1e-9 * np.abs(correct))
        return not (is_same & (np.isfinite(points) == np.isfinite(correct))).all()

    @np.errstate(invalid="ignore")
    def _is_near(self, points: Floats, max_far: int) -> bool:
        """Return True if a mistake comes near all claimed cells, except for a few wrong ones."""
        wrong, values = self.wrong_step.is_wrong, self.wrong_step.claimed_matrix.values
        limit = self.tolerance + self.relative_tolerance * np.abs(points)
        is_far = np.abs(points - values) > limit
        is_far &= ~(np.isneginf(points) & (values <= MINUS_INFINITY_THRESHOLD))
        return not (is_far & ~wrong).any() and int((is_far & wrong).sum()) <= max_far

    def _explain(self, mistake: Mistake, result: IntervalMatrix) -> Explanation | None:
        """Return the explanation by a mistake if it fits better than by chance."""
        wrong_step, claimed = self.wrong_step, self.wrong_step.claimed_matrix
        wrong = wrong_step.is_wrong
        fits = claimed.matches(result) | claimed.is_near(result.mid, 0.5)
        fits &= ~np.isnan(result.mid)  # such as the logarithm of a negative number
        explained, unexplained = fits & wrong, wrong & ~fits
        if not (fits | claimed.is_blank | wrong).all() or not explained.any():
            return None
        chance = wrong_step.estimate_chance(result.mid, explained)
        if unexplained.any():
            num_changed = int((_is_changed(wrong_step, result.mid) & ~claimed.is_blank).sum())
            if unexplained.sum() > _MAX_SLIPS or explained.sum() < _MIN_EXPLAINED:
                return None
            if explained.sum() < _MIN_EXPLAINED_SHARE * num_changed:
                return None
        if chance > (_MAX_PARTIAL_CHANCE if unexplained.any() else _MAX_CHANCE):
            return None
        description = _describe_mistake(mistake, wrong_step)
        return Explanation(mistake.name, description, explained, result.mid, chance)


@np.errstate(invalid="ignore")
def _is_changed(wrong_step: WrongStep, result: Floats) -> Bools:
    """Return where a mistake makes a difference at the written precision."""
    unit = np.maximum(wrong_step.claimed_matrix.units, 1e-12)
    correct = wrong_step.carried_matrix.mid
    is_near = np.abs(result - correct) <= unit / 2
    return ~(is_near | (np.isneginf(result) & np.isneginf(correct)))


def _describe_mistake(mistake: Mistake, wrong_step: WrongStep) -> str:
    """Describe a mistake, with the arithmetic of the first wrong cell if that is short."""
    op = mistake.ops.get(wrong_step.step.key)
    working = None
    if isinstance(op, Linear | Scaling):
        working = format_working(op, wrong_step.env, *wrong_step.first_cell)
    suffix = (
        gettext(": {working} is {first_text}", working=working, first_text=wrong_step.first_text)
        if working
        else ""
    )
    return mistake.description + suffix


def _list_unclaimed_steps(wrong_step: WrongStep) -> list[Step]:
    """Return the step and the unclaimed steps before it that it depends on."""
    needed, steps = {wrong_step.step.key}, []
    for step in reversed(wrong_step.problem.steps):
        if step.key in needed:
            steps.append(step)
            needed.update(key for key in step.op.sources() if key not in wrong_step.other_claims)
    return steps[::-1]


def _merge(correct: Any, a: Any, b: Any) -> Any:
    """Return the correct value with the changes of both wrong ones, or `_CONFLICT`."""
    if _is_equal(a, correct) or _is_equal(b, correct):
        return b if _is_equal(a, correct) else a
    if isinstance(correct, Op) and type(correct) is type(a) is type(b):
        names = [f.name for f in fields(correct)]  # type: ignore[arg-type]
        merged = {n: _merge(*(getattr(op, n) for op in (correct, a, b))) for n in names}
        has_conflict = any(value is _CONFLICT for value in merged.values())
        return _CONFLICT if has_conflict else replace(a, **merged)  # type: ignore[type-var]
    if not all(isinstance(value, tuple) for value in (correct, a, b)):
        return _CONFLICT
    if len(a) == len(b) == len(correct):
        parts = tuple(_merge(*values) for values in zip(correct, a, b, strict=True))
        return _CONFLICT if _CONFLICT in parts else parts
    shorter, longer = sorted((a, b), key=len)
    if len(longer) != len(correct):
        return _CONFLICT
    kept = [k for k, value in enumerate(correct) if value in shorter]
    is_changed_alone = all(longer[k] == correct[k] for k in range(len(longer)) if k not in kept)
    if len(kept) == len(shorter) and is_changed_alone:
        return tuple(longer[k] for k in kept)  # one mistake left a part out, the other changed one
    return _CONFLICT


def _is_equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else bool(a == b)
