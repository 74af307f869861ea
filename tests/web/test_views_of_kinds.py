"""Every kind of sheet can be shown on the page: solved, checked, and each cell written out."""

import pytest

from workings import Problem
from workings.problems.sheets import make_sheet
from workings.problems.sheets.sheet_kinds import SHEET_KINDS
from workings.web.problem_views import build_solution_view


@pytest.mark.slow  # the tests of the routes open every kind of the menu
@pytest.mark.parametrize("kind", SHEET_KINDS)
def test_the_page_shows_every_kind(kind: str) -> None:
    (exercise,) = make_sheet(kind, SHEET_KINDS[kind].sizes[0], count=1, seed=1).exercises
    problem: Problem = exercise.problem
    view = build_solution_view(problem, 3)
    assert [step.key for step in view.steps] == [step.key for step in problem.asked_steps]
    given = {matrix.key for matrix in view.given}
    assert given <= set(problem.kind.matrices)
