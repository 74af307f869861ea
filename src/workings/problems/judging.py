"""Judge every claimed number: recompute each step from the claims before it, with rounding.

Numbers that are not claimed may have been rounded, too; what the claims do not show is tried out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from workings.problems.intervals import Floats, IntervalMatrix
from workings.problems.kinds import Step
from workings.problems.kinds.loss import Accuracy
from workings.problems.ops import Env, Normalization, Scaling, format_own_claim_key
from workings.problems.problem import Claim, Problem
from workings.problems.verdicts import (
    WORST_FIRST,
    ClaimedMatrix,
    Verdicts,
    find_significant_digits,
)

_MAX_ROUTES = 32  # combinations of repeated claims that are followed
_COARSEST_HIDDEN_UNIT = 0.1  # numbers that are not written are hardly rounded to integers
_ROOT_SCALES = (10, 100, 1_000, 10_000)  # square roots are rounded to one to four decimals
_SOFTMAX_INPUTS = ("scores", "scaled", "masked")  # where a −∞ leads to a weight of zero


@dataclass(frozen=True)
class CheckedStep:
    """A claimed step with its verdicts, vectors as rows."""

    step: Step
    claim: Claim
    claimed_matrix: ClaimedMatrix
    carried_matrix: IntervalMatrix
    verdicts: Verdicts

    @property
    def verdict(self) -> str:
        """The worst verdict of its cells."""
        return next(v for v in WORST_FIRST if (self.verdicts == v).any())

    @property
    def follows_carried(self) -> bool:
        """True if every claimed cell is the carried value, up to rounding."""
        claimed, carried = self.claimed_matrix, self.carried_matrix
        fits = claimed.matches(carried) | claimed.is_near(carried.mid, 1.0) | claimed.is_blank
        return bool(fits.all())

    @property
    def copyable_values(self) -> Floats:
        """The numbers that may have been copied into another step, NaN elsewhere.

        A wrong number is no source, and one that follows from it was written after it.
        """
        is_copyable = (self.verdicts == "right") | (self.verdicts == "rounded")
        return np.where(is_copyable, self.claimed_matrix.values, np.nan)


@dataclass(frozen=True)
class _Arithmetic:
    """The claims, and how their numbers were computed as far as they do not show it.

    `claims`: the claimed matrices by the key of their step and their reprint. `hidden_units`: the
    unit that numbers which are not claimed were rounded to, by the key of their step; empty if they
    are not rounded. `divisors`: the rounded square roots that scores were divided by, by step.
    """

    claims: Mapping[tuple[str, int], ClaimedMatrix]
    hidden_units: Mapping[str, float] = field(default_factory=dict)
    divisors: Mapping[str, float] = field(default_factory=dict)

    def compute(self, step: Step, env: Env) -> IntervalMatrix:
        """Compute a step; the ranges include rounded roots and powers."""
        divisor = self.divisors.get(step.key)
        op = step.op if divisor is None else replace(step.op, divisor=divisor)  # type: ignore[type-var]
        unit = self.hidden_units.get(step.key, 0.0)
        return op.compute_rounded(env, unit) if unit else op.compute(env)

    def hide(self, step: Step, matrix: IntervalMatrix) -> IntervalMatrix:
        """Return the matrix of a step that is not claimed, with ranges that include rounding."""
        unit = self.hidden_units.get(step.key, 0.0) if step.is_claimable else 0.0
        return matrix.round_to(unit)


def check_claims(
    problem: Problem, decimals: int | None
) -> tuple[list[CheckedStep], dict[str, IntervalMatrix]]:
    """Check every claim; if numbers are wrong, allow for rounding that the claims do not show.

    First for square roots that are rounded alike everywhere, then for the numbers between claims.
    """
    numbers = [
        n
        for c in problem.claims
        if not problem.get_step(c.key).labels
        for row in c.numbers
        for n in row
        if n is not None
    ]
    digits = find_significant_digits(numbers)
    claims = {(c.key, c.reprint): _make_matrix(problem, c, digits) for c in problem.claims}
    arithmetic = _Arithmetic(claims)
    best = _check_routes(problem, arithmetic)
    wrong = [checked.step for checked in best[0] if checked.verdict == "wrong"]
    if not wrong:
        return best
    steps = list_unclaimed_sources(problem, wrong)
    hidden_units = _find_hidden_units(problem, claims, decimals, bool(digits))
    for other in _list_alternatives(problem, arithmetic, steps, hidden_units):
        result = _check_routes(problem, other)
        if _is_better(result[0], best[0], by_step=bool(other.divisors)):
            best = result
            if not any(checked.verdict == "wrong" for checked in best[0]):
                break
    return best


def _make_matrix(problem: Problem, claim: Claim, significant_digits: int | None) -> ClaimedMatrix:
    is_share = isinstance(problem.get_step(claim.key).op, Normalization | Accuracy)
    integer_unit = 0.1 if is_share else 1.0
    return ClaimedMatrix.from_numbers(claim.numbers, significant_digits, integer_unit)


def list_unclaimed_sources(problem: Problem, steps: Iterable[Step]) -> list[Step]:
    """Return the steps, and the steps with unclaimed cells that they are computed from."""
    claimed, keys = _find_complete_claims(problem), {step.key for step in steps}
    result = []
    for step in reversed(problem.steps):
        if step.key in keys:
            result.append(step)
            keys.update(key for key in step.op.sources() if key not in claimed)
    return result[::-1]


def _find_complete_claims(problem: Problem) -> set[str]:
    """Return the keys of the steps of which every cell is claimed."""
    return {c.key for c in problem.claims if all(None not in row for row in c.numbers)}


def _list_alternatives(
    problem: Problem, arithmetic: _Arithmetic, steps: list[Step], hidden_units: Mapping[str, float]
) -> Iterator[_Arithmetic]:
    """Yield other arithmetic that may have led to wrong steps, the more precise first.

    `steps` are the wrong steps and the unclaimed ones before them.
    """
    roots = list(_list_rounded_roots(steps))
    yield from (replace(arithmetic, divisors=divisors) for divisors in roots)
    claimed = _find_complete_claims(problem)
    has_hidden = any(step.key not in claimed and step.is_claimable for step in steps)
    if has_hidden or any(step.op.rounds_inside for step in steps):
        hidden = replace(arithmetic, hidden_units=hidden_units)
        yield hidden
        yield from (replace(hidden, divisors=divisors) for divisors in roots)


def _is_better(after: list[CheckedStep], before: list[CheckedStep], *, by_step: bool) -> bool:
    """Return True if fewer cells are wrong and no others.

    `by_step`: a step is without any, and all its numbers are as computed with the rounded roots.
    """
    if by_step:
        wrong_before = {id(c.claim) for c in before if c.verdict == "wrong"}
        wrong_after = {id(c.claim) for c in after if c.verdict == "wrong"}
        explained = [c for c in after if id(c.claim) in wrong_before - wrong_after]
        return wrong_after < wrong_before and all(c.follows_carried for c in explained)
    cells_after, cells_before = (
        np.concatenate([(c.verdicts == "wrong").ravel() for c in steps])
        for steps in (after, before)
    )
    return bool(cells_after.sum() < cells_before.sum() and (cells_before | ~cells_after).all())


def _list_rounded_roots(steps: list[Step]) -> Iterator[dict[str, float]]:
    """Yield the irrational square roots that scores are divided by, rounded to some decimals."""
    roots = {
        step.key: step.op.divisor
        for step in steps
        if isinstance(step.op, Scaling) and step.op.radicand is not None
    }
    seen = [roots]
    for scale in _ROOT_SCALES:
        for to_integer in (np.round, np.trunc):
            rounded = {key: float(to_integer(root * scale) / scale) for key, root in roots.items()}
            if rounded not in seen:
                seen.append(rounded)
                yield rounded


def _find_hidden_units(
    problem: Problem,
    claims: Mapping[tuple[str, int], ClaimedMatrix],
    decimals: int | None,
    has_significant_digits: bool,
) -> dict[str, float]:
    """Return the unit that the numbers of each step are rounded to if they are not claimed.

    That is the unit of the claims that are computed from it; of a sheet, at least what it asks for.
    """
    least = 0.0 if decimals is None else 10.0**-decimals
    claimed: dict[str, float] = {}
    for (key, _), matrix in claims.items():
        units = matrix.units[matrix.units > 0]
        # With fixed decimals, a number that has fewer has dropped its zeros.
        unit = units.max(initial=0.0) if has_significant_digits else units.min(initial=np.inf)
        if units.size and not problem.get_step(key).labels:  # a token shows no decimals
            unit = max(min(float(unit), _COARSEST_HIDDEN_UNIT), least)
            claimed[key] = max(unit, claimed.get(key, 0.0))
    hidden = dict.fromkeys((step.key for step in problem.steps), 0.0)
    for step in reversed(problem.steps):
        hidden[step.key] = own = claimed.get(step.key, hidden[step.key])
        for source in step.op.sources():
            if source in hidden:
                hidden[source] = max(hidden[source], own)
    return hidden


def _check_routes(
    problem: Problem, arithmetic: _Arithmetic
) -> tuple[list[CheckedStep], dict[str, IntervalMatrix]]:
    """Check each claim along every route that may have led to it; the best verdict counts.

    A route takes one claim of every step. There are several routes only if a step is repeated.
    """
    results = [_follow_route(problem, route, arithmetic) for route in _list_routes(problem.claims)]
    first, env = results[0]
    if len(results) == 1:
        return list(first.values()), env
    checked_steps = []
    for step in problem.steps:
        for claim in problem.claims:
            if claim.key == step.key:
                candidates = [
                    _check_claim(
                        problem, step, claim, checked[step.key].carried_matrix, env, arithmetic
                    )
                    for checked, env in results
                ]
                checked_steps.append(_select_best_verdicts(candidates))
    return checked_steps, env


def _list_routes(claims: list[Claim]) -> list[dict[str, Claim]]:
    """Return the combinations of repeated claims: all of them, or the k-th of each if too many."""
    repeats: dict[str, list[Claim]] = {}
    for claim in claims:
        repeats.setdefault(claim.key, []).append(claim)
    if math.prod(map(len, repeats.values())) > _MAX_ROUTES:
        count = max(map(len, repeats.values()))
        return [{key: r[min(k, len(r) - 1)] for key, r in repeats.items()} for k in range(count)]
    return [dict(zip(repeats, route, strict=True)) for route in product(*repeats.values())]


def _follow_route(
    problem: Problem, route: dict[str, Claim], arithmetic: _Arithmetic
) -> tuple[dict[str, CheckedStep], dict[str, IntervalMatrix]]:
    """Compute each step from the claims before it; return checked steps and matrices as claimed."""
    env, checked_steps = dict(problem.given), {}
    for step in problem.steps:
        if step.op.reads_own_claim and step.key in route:
            own = arithmetic.claims[step.key, route[step.key].reprint]
            env[format_own_claim_key(step.key)] = IntervalMatrix.exact(own.values)
        matrix = arithmetic.compute(step, env)
        if step.key in route:
            checked = _check_claim(problem, step, route[step.key], matrix, env, arithmetic)
            matrix = checked.claimed_matrix.to_intervals(
                problem.exact_matrices[step.key],
                matrix,
                checked.verdicts,
                arithmetic.hide(step, matrix),
                allows_minus_infinity=step.op.allows_minus_infinity
                or step.name.rpartition(".")[2] in _SOFTMAX_INPUTS,
            )
            checked_steps[step.key] = checked
        else:
            matrix = arithmetic.hide(step, matrix)
        env[step.key] = matrix
    return checked_steps, env


def _check_claim(
    problem: Problem,
    step: Step,
    claim: Claim,
    carried_matrix: IntervalMatrix,
    env: Env,
    arithmetic: _Arithmetic,
) -> CheckedStep:
    claimed = arithmetic.claims[claim.key, claim.reprint]
    sums_to_one = isinstance(step.op, Normalization) and step.op.normalizer == "softmax"
    exact_env = problem.exact_matrices
    verdicts = claimed.assign_verdicts(
        step.op.close_gaps(exact_env[step.key], exact_env, claimed.values),
        step.op.close_gaps(carried_matrix, env, claimed.values),
        sums_to_one=sums_to_one,
    )
    return CheckedStep(step, claim, claimed, carried_matrix, verdicts)


def _select_best_verdicts(candidates: list[CheckedStep]) -> CheckedStep:
    """Return the best verdict of each cell; the rest is from the route with the best sum."""
    ranks = np.array(
        [[[WORST_FIRST.index(v) for v in row] for row in c.verdicts] for c in candidates]
    )
    verdicts = np.array(WORST_FIRST)[ranks.max(0)]
    best = int(ranks.sum((1, 2)).argmax())
    return replace(candidates[best], verdicts=verdicts)
