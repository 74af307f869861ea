"""Tell work from guessing: which numbers of an answer carry information about the problem.

Zeros in every box, a copy of the givens or the answers to other numbers agree with some cells by
chance, and later steps follow from their wrong ones. Such agreement gets no marks:

- A cell that many other problems of the same shape share (a −∞ of the mask, the first angle), or
  that has the most frequent value of its step, carries no information. Such cells count in full
  only if half of the others in their step do.
- A number that fills much of the answer and is mostly wrong counts nowhere.
- Right cells count if there are more of them than chance explains. Numbers that follow count if the
  answer shows work on these givens: right numbers, or wrong ones that a named mistake explains.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from random import Random
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.problems.check import Report
from workings.problems.grading.text_peers import TextPeers, draw_other_texts
from workings.problems.intervals import Bools, Floats
from workings.problems.judging import CheckedStep
from workings.problems.kinds import Step
from workings.problems.problem import Problem

Matrices: TypeAlias = Mapping[str, Floats]

_NUM_SHUFFLES = 6
_MAX_OTHERS = 6  # other problems of the sheet whose answers are compared
_COMMON_SHARE = 0.5  # of unrelated problems that have the same number in a cell
_BLANKET_SHARE = 0.5  # of the cells that one number fills
_WORK_SHARE = 0.6  # of the cells that are right if somebody works and makes mistakes
_MIN_EVIDENCE = 1.0  # logarithm of the likelihood ratio from which right cells count
_EXPLAINED_CHANCE = 0.3  # that a mistake of the catalog explains a wrong cell by chance
_FOLLOW_CHANCE = 0.3  # that a number follows from other givens, some of which may be the same
_COPY_SHARE = 0.5  # of the cells of a step
_MIN_EXPLAINED = 3  # wrong cells of a step that a mistake explains


def list_unrelated_problems(table: Mapping[str, Any], others: Iterable[Problem]) -> list[Problem]:
    """Return problems of the same size with other givens, and others of the sheet."""
    problem, given = Problem(**table), table.get("given", {})
    unrelated: list[Problem] = []
    for other_given in draw_other_texts(given) or _list_shuffles(problem, given):
        try:
            other = Problem(**{**table, "given": {**given, **other_given}})
            other.exact_matrices  # noqa: B018 - raises if it cannot be computed
        except (UserError, ValueError):  # such as a norm of a constant vector
            continue
        unrelated.append(other)
    return [*unrelated, *islice(others, _MAX_OTHERS)]


def _list_shuffles(problem: Problem, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield givens with the numbers in other cells, or the words in other places."""
    rng = Random("unrelated problems")  # noqa: S311
    names = [name for name in given if name in problem.kind.matrices]
    names += [name for name, value in given.items() if isinstance(value, str)]
    for k in range(_NUM_SHUFFLES):
        shuffled = {name: _shuffle(given[name], rng) for name in names}
        base = {"base": float(given["base"]) * (10.0 if k % 2 else 0.1)} if "base" in given else {}
        if shuffled or base:
            yield {**shuffled, **base}


def _shuffle(matrix: Any, rng: Random) -> Any:
    """Return a matrix (a list of rows, or one row) or a text with its parts in another order."""
    if isinstance(matrix, str):
        words = matrix.split(" ")
        return " ".join(rng.sample(words, len(words)))
    if not isinstance(matrix, list):
        return matrix
    is_flat = not any(isinstance(row, list) for row in matrix)
    rows = [matrix] if is_flat else matrix
    cells = [cell for row in rows for cell in row]
    rng.shuffle(cells)
    remaining = iter(cells)
    shuffled = [[next(remaining) for _ in row] for row in rows]
    return shuffled[0] if is_flat else shuffled


@dataclass(frozen=True)
class Information:
    """What a problem's cells tell about it.

    `chances`: how likely the answers to an unrelated problem have the right number, for each cell
    by step. `is_common`: the cells in which many have it. `peers`: answers to other texts, if the
    problem is one on texts.
    """

    chances: Mapping[str, Floats]
    is_common: Mapping[str, Bools]
    peers: TextPeers | None = None

    @classmethod
    def of(cls, problem: Problem, unrelated: list[Problem], decimals: int) -> "Information":
        """Compare the solution with those of unrelated problems."""
        chances, is_common = {}, {}
        for step in problem.asked_steps:
            exact = problem.exact_matrices[step.key].mid
            matrices = (other.exact_matrices.get(step.key) for other in unrelated)
            others = [m.mid for m in matrices if m is not None and m.mid.shape == exact.shape]
            hits = sum(
                (_is_same(exact, other, decimals).astype(float) for other in others),
                start=np.zeros(exact.shape),
            )
            chance = (hits + 0.5) / (len(others) + 1)
            chances[step.key] = np.maximum(chance, chance.mean())  # few problems show few hits
            is_common[step.key] = np.isneginf(exact) | (
                (hits >= _COMMON_SHARE * len(others)) & bool(others)
            )
        are_texts = bool(draw_other_texts(problem.table.get("given", {})))
        peers = TextPeers(problem, unrelated, decimals) if are_texts else None
        return cls(chances, is_common, peers)

    def find_informative(self, key: str, target: Floats) -> Bools:
        """Return the cells of a step that carry information, given its expected numbers."""
        return ~self.is_common[key] & ~find_most_frequent(target)


def uses_givens(problem: Problem, step: Step) -> bool:
    """Return True if a step is computed from a given matrix directly, or from given texts."""
    givens = problem.table.get("given", {})
    sources = [source.removeprefix("given.") for source in step.op.sources()]
    return not sources or any(source in givens for source in sources)


@np.errstate(invalid="ignore")
def _is_same(matrix: Floats, other: Floats, decimals: int) -> Bools:
    is_close = np.abs(matrix - other) <= 0.5 * 10.0**-decimals
    same: Bools = is_close | (np.isneginf(matrix) & np.isneginf(other))
    return same


def find_most_frequent(matrix: Floats) -> Bools:
    """Return the cells with the most frequent number, if it occurs more than once, and each −∞."""
    values, inverse, counts = np.unique(
        np.round(matrix, 9), return_inverse=True, return_counts=True
    )
    is_hidden: Bools = np.isneginf(matrix)
    if counts.max() == 1:
        return is_hidden
    frequent = (inverse.reshape(matrix.shape) == int(counts.argmax())) & bool(len(values))
    result: Bools = frequent | is_hidden
    return result


@dataclass(frozen=True)
class _StepWork:
    """The cells of a checked step that count, vectors as rows."""

    checked: CheckedStep
    is_right: Bools
    follows: Bools
    is_wrong: Bools
    is_informative: Bools
    is_copied: Bools  # following, and the same as in a step before
    is_weak: Bools  # may agree by chance more often than a right number from the givens
    is_evident: Bools  # right, or following, in a way that only these givens lead to


class AnswerWork:
    """What of an answer is work: the credited cells of each step.

    `answer`: the numbers of every step as the student wrote them, vectors as rows; NaN if blank.
    The report may lack some that have too few decimals. `has_unread`: some steps did not fit.
    """

    def __init__(
        self, report: Report, answer: Matrices, information: Information, has_unread: bool = False
    ) -> None:
        self._report, self._answer, self._information = report, answer, information
        self._unread_keys = self._find_unread_tables() if has_unread else []
        dominant, blanket = _find_blanket_values(report, answer)
        self._dominant = dominant
        self._steps = {c.step.key: self._examine(c, blanket) for c in report.steps}

    def _examine(self, checked: CheckedStep, blanket: NDArray[np.float64]) -> _StepWork:
        key, verdicts = checked.step.key, checked.verdicts
        is_blanket = np.isin(np.round(self._answer[key], 9), blanket)
        is_dominant = np.isin(np.round(self._answer[key], 9), self._dominant)
        exact = self._report.problem.exact_matrices[key].mid
        target = np.where(verdicts == "follows", checked.carried_matrix.mid, exact)
        is_right = np.isin(verdicts, ("right", "rounded")) & ~is_blanket
        follows = (verdicts == "follows") & ~is_blanket
        is_informative = self._information.find_informative(key, target)
        is_copied = follows & self._find_copied_cells(checked)
        # What is computed from claims alone may belong to other givens.
        carried, is_weak = checked.carried_matrix, follows
        if uses_givens(self._report.problem, checked.step):
            is_evident = is_right | follows
        else:
            is_weak = is_weak | ~carried.tainted  # the steps before it are the same evidence
            is_evident = is_right & ~(carried.tainted & checked.claimed_matrix.matches(carried))
        return _StepWork(
            checked,
            is_right,
            follows,
            ~np.isnan(self._answer[key]) & ~is_right & ~follows,
            is_informative,
            is_copied,
            is_weak,
            is_evident & is_informative & ~is_copied & ~is_dominant,
        )

    def _find_unread_tables(self) -> list[str]:
        """Return the blank tables that have another size for other texts: theirs did not fit."""
        peers, problem = self._information.peers, self._report.problem
        return [
            step.key
            for step in problem.asked_steps
            if peers is not None
            and peers.has_varying_size(step.key)
            and uses_givens(problem, step)
            and np.isnan(self._answer.get(step.key, np.full(1, np.nan))).all()
        ]

    def _find_copied_cells(self, checked: CheckedStep) -> Bools:
        """Return the cells that are those of a step before it: a copy follows without work."""
        values = checked.claimed_matrix.values
        copied: Bools = np.zeros(values.shape, dtype=np.bool_)
        sources = checked.step.op.sources()
        for other in self._report.steps:
            source = other.claimed_matrix.values
            if other.step.key in sources and source.shape == values.shape:
                copied |= source == values
        return copied

    @cached_property
    def _chance_factor(self) -> float:
        """How much right cells count: nothing if chance explains them better than work does."""
        return self._weigh_evidence({})

    @cached_property
    def _follow_factor(self) -> float:
        """How much cells that follow count: nothing without work on the givens."""
        if self._chance_factor == 1 or not any(s.follows.any() for s in self._steps.values()):
            return self._chance_factor
        explained = {
            wrong.key: wrong.causes[0].num_explained
            for wrong in self._report.wrong_cells
            if wrong.causes[0].result is not None  # a slip in one cell explains almost anything
            and wrong.causes[0].num_explained >= _MIN_EXPLAINED
            and not self._is_copy(wrong.key)
        }
        return self._weigh_evidence(explained)

    def _is_copy(self, key: str) -> bool:
        """Return True if most cells of a step are those of a step before it."""
        return bool(self._find_copied_cells(self._steps[key].checked).mean() >= _COPY_SHARE)

    def _weigh_evidence(self, num_explained: Mapping[str, int]) -> float:
        """Return 1 if the answer is more likely by work than by chance, 0 if less, or between.

        The logarithm of the likelihood ratio, from every cell that is right or wrong; a wrong cell
        that a mistake explains counts as one that is rarely right by chance.
        """
        evidence, has_wrong = 0.0, bool(self._unread_keys)
        for key, step in self._steps.items():
            chance = self._information.chances[key]
            is_wrong = step.is_wrong & ~self._information.is_common[key]
            has_wrong |= bool(step.is_wrong.any())
            against = np.log((1 - _WORK_SHARE) / (1 - chance[is_wrong]))
            explained = min(num_explained.get(key, 0), against.size)
            chance = np.where(step.is_weak, np.maximum(chance, _FOLLOW_CHANCE), chance)
            evidence += float(np.log(_WORK_SHARE / chance[step.is_evident]).sum())
            evidence += float(np.sort(against)[explained:].sum())
            evidence += explained * math.log(_WORK_SHARE / _EXPLAINED_CHANCE)
        if not has_wrong:
            return 1.0
        if self._is_constant():
            return 0.0
        by_peers = self._compare_with_peers()
        if by_peers is not None:
            return float(by_peers)
        return min(max(evidence - _MIN_EVIDENCE, 0.0), 1.0)

    def _is_constant(self) -> bool:
        """Return True if the same number is in every box: most numbers of some tables are 1."""
        numbers = np.concatenate([values.ravel() for values in self._answer.values()])
        numbers = numbers[~np.isnan(numbers)]
        return numbers.size > 1 and bool((numbers == numbers[0]).all())

    def _compare_with_peers(self) -> bool | None:
        """Return whether fewer numbers are wrong than in answers to other texts, or None.

        Only steps that are computed from the texts count: the others follow from claims.
        """
        peers = self._information.peers
        filled = {
            key: ~np.isnan(self._answer[key])
            for key, step in self._steps.items()
            if uses_givens(self._report.problem, step.checked.step)
        }
        if peers is None or not any(cells.any() for cells in filled.values()):
            return None
        num_wrong = sum(int(self._steps[key].is_wrong.sum()) for key in filled)
        for key in self._unread_keys:
            filled[key] = np.ones_like(self._information.is_common[key])
            num_wrong += filled[key].size
        return peers.is_better_than_most(filled, num_wrong)

    def credit_step(self, key: str, follows_share: float) -> tuple[float, bool]:
        """Return the share of a step's marks, and whether the step carries information.

        `follows_share`: how much a number that follows from a wrong one counts.
        """
        step = self._steps.get(key)
        if step is None:
            return 0.0, True
        credit = step.is_right * self._chance_factor
        credit = credit + step.follows * (follows_share * self._follow_factor)
        informative = step.is_informative
        if self._chance_factor < 1:  # without other work, a copy shows none
            informative = informative & ~step.is_copied
        if not informative.any():
            return float(credit.mean()), False
        return float(credit.mean() * min(1.0, 2 * credit[informative].mean())), True


def _find_blanket_values(
    report: Report, answer: Matrices
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number that fills most of an answer, and again if it is mostly wrong there."""
    values, right = [np.zeros(0)], [np.zeros(0, dtype=np.bool_)]
    for checked in report.steps:
        matrix = answer[checked.step.key]
        is_filled = ~np.isnan(matrix)
        values.append(np.round(matrix[is_filled], 9))
        right.append(np.isin(checked.verdicts[is_filled], ("right", "rounded")))
    all_values, all_right = np.concatenate(values), np.concatenate(right)
    numbers, inverse = np.unique(all_values, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(numbers))
    num_right = np.bincount(inverse, weights=all_right, minlength=len(numbers))
    dominant: NDArray[np.bool_] = counts > max(1.0, _BLANKET_SHARE * all_values.size)
    return numbers[dominant], numbers[dominant & (2 * num_right < counts)]
