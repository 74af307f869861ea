"""Score one problem inside a notebook: a grader cell for nbgrader, otter and the like."""

from collections.abc import Mapping
from typing import Any

from workings.errors import UserError
from workings.problems.grading.marking import SheetProblem, mark_problem
from workings.problems.grading.policy import Policy
from workings.problems.grading.work import Information, list_unrelated_problems
from workings.problems.problem import Problem


def score_claim(
    given: Mapping[str, Any], claim: Mapping[str, Any], points: float = 1.0, decimals: int = 3
) -> float:
    """Return the points for a claim as `workings grade` gives them; 0 if it cannot be read.

    `given` are the fields of the problem, as in the sheet's notebook.

    >>> problem = dict(X=[[1, 0], [0, 2]], scale="none")
    >>> score_claim(problem, {"scores": [[1, 0], [0, 4]]}, points=6)  # one of six steps
    1.0
    """
    if not isinstance(claim, Mapping):
        return 0.0
    problem = Problem(**given)
    table = dict(problem.table)
    information = Information.of(problem, list_unrelated_problems(table, []), decimals)
    steps = [step.key for step in problem.asked_steps]
    worth = {key: points / len(steps) for key in steps}
    sheet_problem = SheetProblem("problem", table, problem, decimals, worth, information)
    try:
        return mark_problem(sheet_problem, {"claim": dict(claim)}, Policy()).total
    except UserError:
        return 0.0
