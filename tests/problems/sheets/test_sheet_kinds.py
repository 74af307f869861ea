"""The registry of sheets: every kind works at each of its levels, and refuses with a reason."""

from random import Random

import numpy as np
import pytest
from kinds_of_sheets import make_sheet_of_one

from workings.cli.make import _SIZE_OPTIONS
from workings.errors import UserError
from workings.problems import Problem
from workings.problems.kinds import KINDS
from workings.problems.sheets import make_sheet
from workings.problems.sheets.layout import make_printed_sheet
from workings.problems.sheets.mistake_space import MistakeSpace, find_confusions
from workings.problems.sheets.plan import make_plan
from workings.problems.sheets.sheet_kinds import SHEET_KINDS


def test_every_kind_is_complete() -> None:
    for name, kind in SHEET_KINDS.items():
        assert name == kind.name
        assert kind.problem_kind in KINDS
        assert (kind.draw is None) != (kind.list_fields is None)
        assert kind.title
        assert len(kind.picture) <= 100
        assert set(kind.options) <= set(_SIZE_OPTIONS)


def test_every_kind_of_problem_has_a_sheet() -> None:
    with_sheets = {kind.problem_kind for kind in SHEET_KINDS.values()}
    assert set(KINDS) - with_sheets == set()


def test_zeros_are_not_said_to_be_correct() -> None:
    """The ReLU of a gate with negative sums is zero: a sheet must not call that correct."""
    table = {"kind": "lstm", "given": {"X": [[1]], "W_x": [[-1] * 4], "W_h": [[0.5] * 4]}}
    problem = Problem(**table)
    space = MistakeSpace.of_arbitrary_numbers({**table, "given": {**table["given"], "X": [[-1]]}})
    relu_of_i = ("i.1", "wrong-activation", "used the ReLU, not the sigmoid")
    space.mistakes |= {relu_of_i}
    assert "wrong-activation leads to the correct i.1" not in find_confusions(problem, 3, space)


@pytest.mark.parametrize("name", SHEET_KINDS)
def test_every_level_has_a_size_that_works(name: str) -> None:
    sizes = [make_plan(name, level=level) for level in (1, 2, 3)]
    cells = [plan.tokens * plan.width for plan in sizes]
    assert cells == sorted(cells)
    assert make_plan(name) == sizes[1]


@pytest.mark.parametrize("name", SHEET_KINDS)
def test_printed_givens_are_those_of_the_file(name: str) -> None:
    sheet = make_sheet_of_one(name)
    problem, (printed,) = sheet.exercises[0].problem, make_printed_sheet(sheet).problems
    for panel in printed.givens:
        if panel.name in problem.given:
            texts = [[cell.text.replace("−", "-") for cell in row] for row in panel.cells]
            given = problem.given[panel.name].mid
            np.testing.assert_array_equal(np.array(texts, dtype=float), given, panel.name)


@pytest.mark.parametrize("name", SHEET_KINDS)
def test_level_3_makes_a_problem_without_infinite_numbers(name: str) -> None:
    (exercise,) = make_sheet(name, count=1, seed=2, level=3).exercises
    solution = exercise.problem.solve()
    for key in solution.keys():  # noqa: SIM118
        assert not np.isnan(solution[key]).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", SHEET_KINDS)
def test_make_refuses_nothing_it_offers(name: str) -> None:
    kind, rng = SHEET_KINDS[name], Random(name)  # noqa: S311
    (low_1, low_2), (high_1, high_2) = kind.min_size, kind.max_size
    sizes = [(a, b) for a in range(low_1, high_1 + 1) for b in range(low_2, high_2 + 1)]
    offered = [size for size in sizes if not kind.check_size(*size)]
    for size in rng.sample(offered, min(len(offered), 12)):
        assert len(make_sheet(name, size, count=1, seed=rng.randrange(999)).exercises) == 1


def test_unknown_level_and_size_are_rejected() -> None:
    with pytest.raises(UserError, match="--level 4: it must be from 1 to 3"):
        make_plan("self", level=4)
    with pytest.raises(UserError, match="--size 'wide': expected TOKENSxWIDTH, like 3x4"):
        make_plan("self", "wide")
    with pytest.raises(UserError, match=r"--hidden-size is for --kind .*not for self"):
        make_plan("self", hidden_size=3)
    with pytest.raises(UserError, match=r"--scale is for --kind self, .*not for rnn"):
        make_plan("rnn", scale="none")
