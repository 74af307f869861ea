"""Draw the problems of a sheet as the tables of their files."""

from random import Random
from typing import Any

import numpy as np

from workings.errors import UserError
from workings.languages import gettext, lower_first
from workings.problems.kinds import KINDS
from workings.problems.kinds.layers import Variance
from workings.problems.ops import Normalization
from workings.problems.problem import Problem
from workings.problems.sheets.sampling import softmax_penalty
from workings.problems.sheets.sentences import choose_sentence
from workings.problems.sheets.sheet_kind import Fields, SheetPlan

_MIN_VARIANCE = 0.2


def draw_problem_table(plan: SheetPlan, rng: Random, seed: int, number: int) -> dict[str, Any]:
    """Draw a problem and return the table of its file."""
    table: dict[str, Any] = {
        "title": gettext(
            "Problem {number}: {title}",
            number=number,
            title=lower_first(gettext(plan.kind.title)),
        ),
        "kind": plan.kind.problem_kind,
        "vectors": "columns" if plan.column_vectors else "rows",
        **plan.kind.make_settings(plan),
    }
    if plan.kind.sentence != "none":
        table["tokens"], context = choose_sentence(seed, number, plan.tokens, plan.context)
        if context:
            table["context_tokens"] = context
    fields = dict(_draw_fields(plan, rng, seed, number))
    given = dict(fields.pop("given", {}))
    matrices = KINDS[plan.kind.problem_kind].matrices
    given |= {name: fields.pop(name) for name in list(fields) if name in matrices}
    return {
        **table,
        **fields,
        "given": {name: _to_plain(value, plan.column_vectors) for name, value in given.items()},
    }


def _draw_fields(plan: SheetPlan, rng: Random, seed: int, number: int) -> Fields:
    """Return what differs from problem to problem: drawn, or the next of a list in random order."""
    if plan.kind.draw is not None:
        return plan.kind.draw(rng, plan)
    assert plan.kind.list_fields is not None
    problems = list(plan.kind.list_fields(plan))
    if number > len(problems):
        raise UserError(
            f"--count: there are only {len(problems)} different {plan.kind.name} problems of one"
            " size"
        )
    Random(f"{plan.kind.name} {seed}").shuffle(problems)  # noqa: S311
    return problems[number - 1]


def _to_plain(value: Any, column_vectors: bool) -> Any:
    """Convert a matrix to lists in the file's convention; integral floats become ints."""
    if not isinstance(value, np.ndarray):
        return value
    oriented = value.T if column_vectors else value
    return [[int(v) if v == int(v) else v for v in row] for row in oriented.tolist()]


def is_well_conditioned(problem: Problem) -> bool:
    """Return True if no softmax is saturated or uniform and no variance is close to zero."""
    exact = problem.exact_matrices
    for step in problem.steps:
        if isinstance(step.op, Normalization):
            scores = exact[step.op.x].mid
            if softmax_penalty(scores, np.isfinite(scores)) > 0:
                return False
        elif isinstance(step.op, Variance) and exact[step.key].mid.min() < _MIN_VARIANCE:
            return False
    return True
