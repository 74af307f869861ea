"""Check claims under the conventions that a problem leaves open.

A problem that does not declare its scale, say, is checked with the default. If numbers are wrong,
the other usual conventions are tried: no scale, √d_model, a causal mask, vectors as columns, a
sigmoid. One that explains all wrong numbers of a step, and makes no other number wrong, is not a
mistake: the report says under which assumption the numbers are right. A declared setting is never
overridden.
"""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from workings.errors import UserError
from workings.languages import gettext, ngettext
from workings.problems.check import Report, check_problem
from workings.problems.intervals import Bools, IntervalMatrix
from workings.problems.judging import CheckedStep
from workings.problems.kinds import Setting
from workings.problems.kinds.attention import resolve_scale
from workings.problems.problem import Problem
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD, ClaimedMatrix

_MIN_CELLS = 2  # wrong numbers that a convention must explain: one may agree by chance
_MAX_ASSUMPTIONS = 3
_MAX_PAIRS = 40
_MAX_MASK_CELLS = 16  # of a mask that is written out
_MAX_PADDING = 3  # columns that are tried if no weights are printed
_NO_KEYS: Mapping[str, str] = {}
_AFTER_SCORES = ("scaled", "masked", "exponentials", "sums", "weights", "mixed", "output")


@dataclass(frozen=True)
class Reading:
    """A problem under one convention that it leaves open.

    `min_steps` and `min_cells`: so many wrong steps and numbers it must explain.
    `original_keys`: the keys of claims that are read as another step.
    """

    description: str
    problem: Problem
    min_steps: int = 1
    min_cells: int = _MIN_CELLS
    original_keys: dict[str, str] = field(default_factory=dict)


def check_readings(problem: Problem) -> Report:
    """Check a problem; where it leaves conventions open, with those that its numbers follow."""
    report = check_problem(problem)
    assumptions = [problem.assumption] if problem.assumption else []
    while report.counts["wrong"] and len(assumptions) < _MAX_ASSUMPTIONS:
        readings = list(_list_readings(report))
        best = _select_readings(report, readings)
        if not best:  # none explains a step alone; two may
            pairs = (pair for one in readings for pair in _list_pairs(one))
            best = _select_readings(report, list(islice(pairs, _MAX_PAIRS)))[:1]
        if not best:
            break
        assumptions.append(gettext(" or ").join(reading.description for reading, _ in best))
        report = best[0][1]
    report.assumption = gettext("; and ").join(assumptions)
    return report


def _select_readings(report: Report, readings: list[Reading]) -> list[tuple[Reading, Report]]:
    """Return the readings that explain the most wrong numbers, with their reports."""
    explained = [
        (reading, other)
        for reading in readings
        if (other := _check(reading.problem)) is not None and _explains(reading, report, other)
    ]
    fewest = min((other.counts["wrong"] for _, other in explained), default=0)
    return [(reading, other) for reading, other in explained if other.counts["wrong"] == fewest]


def _list_pairs(one: Reading) -> Iterator[Reading]:
    """Yield a reading together with each convention that it still leaves open."""
    report = _check(one.problem)
    if report is None or not report.counts["wrong"] or one.min_steps > 1:
        return
    for other in _list_readings(report):
        description = gettext(
            "{description}; and {description_2}",
            description=one.description,
            description_2=other.description,
        )
        yield replace(
            other, description=description, original_keys=one.original_keys | other.original_keys
        )


def _check(problem: Problem) -> Report | None:
    """Check a reading; None if it cannot be computed, such as a sum of zero."""
    try:
        return check_problem(problem)
    except UserError:
        return None


def _explains(reading: Reading, before: Report, after: Report) -> bool:
    """Return True if every wrong number of some steps is explained, and no other became wrong."""
    wrong_before = _find_cells(before, "wrong")
    wrong_after = _find_cells(after, "wrong", reading.original_keys)
    num_steps = len(wrong_before) - len(wrong_after)
    if not set(wrong_after) < set(wrong_before) or num_steps < reading.min_steps:
        return False
    if any(wrong_after[claim].sum() > wrong_before[claim].sum() for claim in wrong_after):
        return False
    right = _find_cells(after, "right", reading.original_keys)
    explained = sum(
        int((cells & right[claim]).sum())
        for verdict in ("wrong", "follows")
        for claim, cells in _find_cells(before, verdict).items()
        if claim in right
    )
    return explained >= reading.min_cells or reading.problem.unjudged != before.problem.unjudged


def _find_cells(
    report: Report, verdict: str, keys: Mapping[str, str] = _NO_KEYS
) -> dict[tuple[str, int], Bools]:
    """Return the cells with a verdict by claim, in the problem's convention."""
    return {
        (keys.get(c.step.key, c.step.key), c.claim.reprint): report.problem.orient(
            c.verdicts == verdict
        )
        for c in report.steps
        if (c.verdicts == verdict).any()
    }


def _list_readings(report: Report) -> Iterator[Reading]:
    """Yield the conventions that may explain the wrong steps of a report."""
    problem = report.problem
    wrong = {c.step.name.rpartition(".")[2] for c in report.steps if c.verdict == "wrong"}
    is_attention = "scale" in problem.kind.settings
    yield from _list_reprinted_givens(problem)
    if "vectors" in problem.undeclared:
        yield from _list_vector_readings(problem)
    if is_attention and "scores" in wrong and "scale" in problem.undeclared:
        yield from _read_scores_as_scaled(problem)
    if is_attention and not wrong.isdisjoint(_AFTER_SCORES):
        if "scale" in problem.undeclared:
            yield from _list_scales(problem)
        if "mask" in problem.undeclared and problem.setting.mask is None:
            yield from _list_masks(problem)
        if "normalizer" in problem.undeclared:
            yield from _list_normalizers(problem)
    yield from _list_option_readings(problem, wrong)
    if "output" in wrong and problem.kind.name == "attention":
        yield from _read_output_as_projected(problem, report)


def _replace_setting(problem: Problem, name: str, **values: Any) -> Problem:
    """Return the problem with another setting; the claims stay as they are."""
    return _rebuild(problem, name, replace(problem.setting, **values))


def _rebuild(problem: Problem, decided: str, setting: Setting) -> Problem:
    other = copy.copy(problem)
    other.setting = setting
    other.steps = problem.kind.build(problem.sizes, setting)
    other.undeclared = problem.undeclared - {decided}
    other.__dict__.pop("exact_matrices", None)
    return other


def _list_reprinted_givens(problem: Problem) -> Iterator[Reading]:
    """Yield givens as they are printed the second time, from which steps may be computed."""
    for reprint in problem.given_reprints:
        numbers = [[math.nan if n is None else n.value for n in row] for row in reprint.numbers]
        other = _rebuild(problem, "", problem.setting)
        other.given = {**problem.given, reprint.key: IntervalMatrix.exact(numbers)}
        if np.isfinite(numbers).all():
            yield Reading(gettext("{key} is as reprinted", key=reprint.key), other, min_cells=1)


def _list_vector_readings(problem: Problem) -> Iterator[Reading]:
    """Yield vectors in the other convention, and weights that multiply as x Wᵀ."""
    vectors, what = (
        ("rows", gettext("row")) if problem.column_vectors else ("columns", gettext("column"))
    )
    try:
        other = Problem(**{**problem.table, "vectors": vectors})
    except UserError:  # the shapes do not fit
        pass
    else:
        other.undeclared = problem.undeclared - {"vectors"}
        other.unjudged = problem.unjudged
        description = gettext(
            'each token is a {what}: declare vectors = "{vectors}"', what=what, vectors=vectors
        )
        yield Reading(description, other)
    weights = {
        name: matrix
        for name, matrix in problem.given.items()
        if name.startswith(("W_", "U_")) and name in problem.kind.matrices
    }
    if len(weights) > 1 and all(m.shape[0] == m.shape[1] for m in weights.values()):
        other = _rebuild(problem, "vectors", problem.setting)
        other.given = {**problem.given, **{name: m.T for name, m in weights.items()}}
        names = ", ".join(weights)
        description = gettext("the weights multiply as x Wᵀ: write {names} transposed", names=names)
        yield Reading(description, other, min_steps=2)


def _list_scales(problem: Problem) -> Iterator[Reading]:
    """Yield the other usual divisors of the scores."""
    sizes, heads = problem.sizes, problem.setting.heads
    if "k" not in sizes.sizes:
        return
    d_k = sizes["k"] // heads
    widths = {sizes.sizes.get("d", sizes["k"]), sizes["k"]} - {d_k}
    options: list[tuple[str | float, str, str]] = [
        ("none", gettext("the scores are not scaled"), '"none"'),
        ("sqrt(d_k)", gettext("the scores are divided by √d_k = √{d_k}", d_k=d_k), '"sqrt(d_k)"'),
        (float(d_k), gettext("the scores are divided by d_k = {d_k}", d_k=d_k), f"{d_k}"),
        *(
            (
                math.sqrt(w),
                gettext("the scores are divided by √d_model = √{w}", w=w),
                f"{math.sqrt(w)!r}",
            )
            for w in sorted(widths)
        ),
    ]
    divisors = [resolve_scale(sizes, problem.setting)[0] or 1.0]
    for scale, description, declaration in options:
        divisor = resolve_scale(sizes, replace(problem.setting, scale=scale))[0] or 1.0
        if all(not math.isclose(divisor, other) for other in divisors):
            divisors.append(divisor)
            other = _replace_setting(problem, "scale", scale=scale)
            yield Reading(
                gettext(
                    "{description}: declare scale = {declaration}",
                    description=description,
                    declaration=declaration,
                ),
                other,
            )


def _read_scores_as_scaled(problem: Problem) -> Iterator[Reading]:
    """Yield the reading that the printed scores are divided already."""
    keys = {claim.key for claim in problem.claims}
    renamed = {
        step.key: step.key.replace("scores", "scaled")
        for step in problem.steps
        if step.name.rpartition(".")[2] == "scores"
    }
    divisor, radicand = resolve_scale(problem.sizes, problem.setting)
    if divisor is None or keys & set(renamed.values()):
        return
    other = _rebuild(problem, "", problem.setting)  # the scale itself is still open
    other.claims = [replace(c, key=renamed.get(c.key, c.key)) for c in problem.claims]
    by = f"√{radicand:g}" if radicand is not None else f"{divisor:g}"
    description = gettext("scores are divided by {by}: claim them as scaled", by=by)
    original_keys = {new: old for old, new in renamed.items()}
    yield Reading(description, other, original_keys=original_keys)


def _list_masks(problem: Problem) -> Iterator[Reading]:
    """Yield a causal mask, hidden columns (padding) and both, where the printed zeros allow it."""
    if _has_hard_weights(problem):
        return
    shape = (problem.sizes["n"], problem.sizes["m"])
    visible = _find_printed_cells(problem)
    causal: Bools = np.tril(np.ones(shape, dtype=np.bool_), shape[1] - shape[0])
    seen: list[Bools] = []
    for hidden in _list_hidden_columns(visible, shape[1]):
        columns = np.isin(np.arange(shape[1]), hidden)
        for is_causal in (True, False):
            mask = (causal if is_causal else np.ones_like(causal)) & ~columns
            is_new = not any((mask == other).all() for other in seen)
            if is_new and not mask.all() and not (visible is not None and (visible & ~mask).any()):
                seen.append(mask)
                description = _describe_mask(problem, mask, is_causal, hidden)
                is_plain = is_causal and not hidden
                other = _replace_setting(problem, "mask", mask=mask, causal=is_plain)
                min_cells = 1 if problem.has_unknown_mask else _MIN_CELLS
                yield Reading(description, other, min_cells=min_cells)


def _has_hard_weights(problem: Problem) -> bool:
    """Return True if weights are claimed as 0 and 1 only: an argmax, which shows no mask."""
    return any(
        all(n is None or n.is_integer for row in claim.numbers for n in row)
        for claim in problem.claims
        if problem.get_step(claim.key).name.rpartition(".")[2] == "weights"
    )


def _find_printed_cells(problem: Problem) -> Bools | None:
    """Return which cells of the scores or weights are certainly visible; None if none is printed.

    That is where a weight is not 0 and a score not −∞.
    """
    visible: Bools | None = None
    for claim in problem.claims:
        name = problem.get_step(claim.key).name.rpartition(".")[2]
        if name not in ("scaled", "masked", "weights"):
            continue
        values = ClaimedMatrix.from_numbers(claim.numbers).values
        is_printed = ~np.isnan(values)
        is_hidden = values == 0 if name == "weights" else values <= MINUS_INFINITY_THRESHOLD
        if name == "weights" or is_hidden.any():
            printed = is_printed & ~is_hidden
            visible = printed if visible is None else visible | printed
    return visible


def _list_hidden_columns(visible: Bools | None, count: int) -> list[list[int]]:
    """Return the sets of columns that padding may hide: none, or those without a printed cell."""
    if visible is None:
        return [
            [],
            *(list(range(count - k, count)) for k in range(1, min(_MAX_PADDING, count - 1) + 1)),
        ]
    hidden = [k for k in range(count) if not visible[:, k].any()]
    return [[], hidden] if hidden and len(hidden) < count else [[]]


def _describe_mask(problem: Problem, mask: Bools, is_causal: bool, hidden: list[int]) -> str:
    columns = ", ".join(str(k + 1) for k in hidden)
    keys = ngettext("key {columns}", "keys {columns}", len(hidden), columns=columns)
    if not hidden:
        return gettext('the mask is causal: declare mask = "causal"')
    what = (
        gettext("the mask is causal and hides {keys}", keys=keys)
        if is_causal
        else gettext("the mask hides {keys}", keys=keys)
    )
    rows = problem.orient(mask).astype(int).tolist()
    declaration = (
        f"mask = {rows}" if mask.size <= _MAX_MASK_CELLS else gettext("it as a 0/1 matrix")
    )
    return gettext("{what}: declare {declaration}", what=what, declaration=declaration)


def _list_normalizers(problem: Problem) -> Iterator[Reading]:
    """Yield a softmax or a sigmoid; dividing by the sum is always declared."""
    for name, description in (
        ("softmax", gettext("the weights are a softmax")),
        ("sigmoid", gettext("the weights are a sigmoid")),
    ):
        if name != problem.setting.normalizer:
            other = _replace_setting(problem, "normalizer", normalizer=name)
            yield Reading(
                gettext(
                    '{description}: declare normalizer = "{name}"',
                    description=description,
                    name=name,
                ),
                other,
            )


def _list_option_readings(problem: Problem, wrong: set[str]) -> Iterator[Reading]:
    """Yield the other values of options that belong to the kind and are not declared."""
    for name, option in problem.kind.options.items():
        for alternative in option.alternatives if name in problem.undeclared else ():
            if wrong.isdisjoint(alternative.steps):
                continue
            options = {**problem.setting.options, name: alternative.value}
            try:
                other = _replace_setting(problem, name, options=options)
            except UserError:  # the givens do not allow it
                continue
            if [step.op for step in other.steps] != [step.op for step in problem.steps]:
                declaration = gettext(
                    'declare {name} = "{value}"', name=name, value=alternative.value
                )
                description = gettext(
                    "{description}: {declaration}",
                    description=gettext(alternative.description),
                    declaration=declaration,
                )
                yield Reading(description, other, min_steps=alternative.min_steps)


def _read_output_as_projected(problem: Problem, report: Report) -> Iterator[Reading]:
    """Yield the reading that the output is a product with a W_O that is not given."""
    steps = {(c.step.key, c.claim.reprint): c for c in report.steps}
    mixed, output = steps.get(("mixed", 0)), steps.get(("output", 0))
    if {"W_O", "b_O"} & set(problem.given) or mixed is None or output is None:
        return
    is_known = mixed.verdict in ("right", "rounded") and not mixed.claimed_matrix.is_blank.any()
    if is_known and (output.verdicts == "wrong").all() and _is_projection(mixed, output):
        other = _rebuild(problem, "W_O", problem.setting)
        other.claims = [claim for claim in problem.claims if claim.key != "output"]
        other.unjudged = {**problem.unjudged, "output": gettext("W_O is not given")}
        yield Reading(gettext("output = mixed W_O with a W_O that is not given: give W_O"), other)


def _is_projection(mixed: CheckedStep, output: CheckedStep) -> bool:
    """Return True if some W_O leads from the claimed mixed vectors to the claimed output.

    There must be more vectors than W_O has rows: it leads from fewer to any output.
    """
    x, y = mixed.claimed_matrix, output.claimed_matrix
    if len(np.unique(x.values, axis=0)) <= x.values.shape[1]:
        return False
    weights = np.linalg.lstsq(x.values, y.values, rcond=None)[0]
    tolerance = y.units + x.units @ np.abs(weights) + 1e-9 * (1 + np.abs(y.values))
    return bool((np.abs(x.values @ weights - y.values) <= tolerance).all())
