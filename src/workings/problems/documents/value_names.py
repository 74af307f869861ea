"""Name matrices that nothing else names: by their shape and their numbers."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from workings.errors import UserError
from workings.problems.documents.chains import Statement
from workings.problems.documents.matrices import Rows
from workings.problems.numbers import Number, read_number
from workings.problems.problem import Problem
from workings.problems.problem_file import format_claim_path, remove_part_index

_MIN_SHARE = 0.6  # of the numbers must be those of the step: the others may be wrong
_MIN_LEAD = 0.3  # over the next step


def name_by_value(
    problem: Problem,
    statements: Sequence[Statement],
    allowed: Callable[[Statement], Collection[str]],
) -> list[tuple[str, Statement]]:
    """Return the paths of the steps that unnamed matrices show, with their statements.

    `allowed` returns the steps that the letter of a statement may be; none if it may be any.
    """
    claimed = {claim.key for claim in problem.claims}
    names: list[tuple[str, Statement]] = []
    for statement in statements:
        if statement.value is None or statement.value_grid < 0:
            continue
        shares = []
        roles = allowed(statement)
        for step in problem.steps:
            if roles and remove_part_index(step.key) not in roles:
                continue
            if step.is_claimable and step.is_shown and step.key not in claimed:
                exact = problem.orient(problem.exact_matrices[step.key].mid)
                shares.append((compute_share(statement.value, exact), step.key))
        shares.sort(reverse=True)
        if shares and is_leading([share for share, _ in shares]):
            claimed.add(shares[0][1])
            names.append((format_claim_path(problem.kind, shares[0][1]), statement))
    return names


def is_leading(shares: Sequence[float]) -> bool:
    """Return True if the first of several shares is high enough, and far above the second."""
    runner_up = shares[1] if len(shares) > 1 else 0.0
    return shares[0] >= _MIN_SHARE and shares[0] - runner_up >= _MIN_LEAD


def list_possible_steps(problem: Problem, statement: Statement) -> list[str]:
    """Return the paths of steps that are not claimed and have the shape of a matrix."""
    rows = statement.value
    if rows is None:
        return []
    claimed = {claim.key for claim in problem.claims}
    return [
        format_claim_path(problem.kind, step.key)
        for step in problem.steps
        if step.is_claimable and step.is_shown and step.key not in claimed
        and problem.orient(problem.exact_matrices[step.key].mid).shape == (len(rows), len(rows[0]))
    ]  # fmt: skip


def may_be_a_step(problem: Problem, rows: Rows) -> bool:
    """Return True if a matrix has the shape of a step that is not claimed."""
    claimed = {claim.key for claim in problem.claims}
    shape = (len(rows), len(rows[0]))
    return any(
        problem.orient(problem.exact_matrices[step.key].mid).shape == shape
        for step in problem.steps
        if step.is_claimable and step.is_shown and step.key not in claimed
    )


def compute_share(rows: Rows, exact: np.ndarray) -> float:
    """Return the share of printed numbers that are the exact ones, as far as they are written."""
    if (len(rows), len(rows[0])) != exact.shape:
        return 0.0
    try:
        numbers = [[read_number(cell, "") for cell in row] for row in rows]
    except UserError:
        return 0.0
    hidden = [[n is not None and not np.isfinite(n.value) for n in row] for row in numbers]
    if not np.array_equal(hidden, ~np.isfinite(exact)):
        return 0.0  # masked and scaled scores differ in what is hidden
    return count_fits(numbers, exact) / exact.size


def count_fits(numbers: Sequence[Sequence[Number | None]], exact: np.ndarray) -> int:
    """Return how many printed numbers are the exact ones, to one unit of the last digit."""
    return sum(
        number is not None and _fits(number, float(exact[i, j]))
        for i, row in enumerate(numbers)
        for j, number in enumerate(row)
    )


def _fits(number: Number, exact: float) -> bool:
    if not np.isfinite(number.value) or not np.isfinite(exact):
        return number.value == exact
    if number.places == 0:
        return number.value == round(exact)
    return abs(number.value - exact) <= 10.0 ** -(number.places or 9)
