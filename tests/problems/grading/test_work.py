"""No credit without work: constants, copies and other answers earn nothing on any kind of sheet."""

from collections.abc import Iterator
from itertools import combinations, cycle, islice
from random import Random
from typing import Any

import numpy as np
import pytest
from kinds_of_sheets import ONE_OF_EACH_FAMILY

from workings.errors import UserError
from workings.problems.grading.marking import SheetProblem, mark_problem
from workings.problems.grading.policy import Policy
from workings.problems.grading.work import Information, list_unrelated_problems
from workings.problems.problem import Problem
from workings.problems.sheets.plan import make_plans
from workings.problems.sheets.problem_tables import draw_problem_table, is_well_conditioned
from workings.problems.sheets.rounded_solution import (
    CellTexts,
    format_matrix,
    format_step,
    make_answer_key,
    nest_claims,
    solve_rounded,
)
from workings.problems.sheets.sampling import SamplingError
from workings.problems.sheets.sheet_kinds import SHEET_KINDS

FEW_CONSTANTS = ("0", "1", "0.5")
CONSTANTS = (*FEW_CONSTANTS, "-1", "2", "0.333", "0.250", "-inf")
MAX_SHARE = 0.05
DECIMALS = 3


def read_problems(tables: list[dict[str, Any]]) -> list[SheetProblem]:
    problems = [Problem(**table) for table in tables]
    sheet_problems = []
    for table, problem in zip(tables, problems, strict=True):
        unrelated = list_unrelated_problems(table, [p for p in problems if p is not problem])
        information = Information.of(problem, unrelated, DECIMALS)
        points = {step.key: 1.0 for step in problem.asked_steps}
        sheet_problems.append(
            SheetProblem("problem-01", table, problem, DECIMALS, points, information)
        )
    return sheet_problems


def mark_share(problem: SheetProblem, claims: dict[str, CellTexts]) -> float:
    claim = nest_claims(problem.problem, claims)
    return mark_problem(problem, {"claim": claim}, Policy()).total / problem.max_points


def fill(problem: SheetProblem, texts: list[str]) -> dict[str, CellTexts]:
    """Fill every step with texts that repeat."""
    claims = {}
    for key in problem.points:
        height, width = problem.problem.orient(problem.problem.exact_matrices[key].mid).shape
        cells = list(islice(cycle(texts), height * width))
        claims[key] = [cells[i * width : (i + 1) * width] for i in range(height)]
    return claims


def list_copies(problem: SheetProblem) -> Iterator[tuple[str, list[str]]]:
    for name, matrix in problem.table["given"].items():
        if isinstance(matrix, list):
            rows = matrix if isinstance(matrix[0], list) else [matrix]
            cells = [cell for row in rows for cell in row]
            if all(isinstance(cell, int | float) for cell in cells):
                yield name, [str(cell) for cell in cells]


def solve_by_hand(problem: Problem) -> dict[str, CellTexts]:
    env = solve_rounded(problem, DECIMALS)
    return {
        step.key: format_matrix(problem.orient(env[step.key].mid), DECIMALS)
        for step in problem.asked_steps
    }


def draw_tables(kind: str, count: int, level: int, seed: int) -> list[dict[str, Any]]:
    """Draw problems as a sheet does, without the search for those that tell mistakes apart."""
    (plan,) = make_plans(kind, level=level)
    rng, tables = Random(seed), list[dict[str, Any]]()  # noqa: S311
    while len(tables) < count:
        try:
            table = draw_problem_table(plan, rng, seed, len(tables) + 1)
            if is_well_conditioned(Problem(**table)):
                tables.append(table)
        except (SamplingError, UserError):
            continue
    return tables


def check_kind(kind: str, count: int, level: int, constants: tuple[str, ...]) -> None:
    problems = read_problems(draw_tables(kind, count, level, seed=11))
    shares: dict[str, list[float]] = {}
    for problem, table in zip(problems, draw_tables(kind, count, level, seed=12), strict=True):
        assert mark_share(problem, make_answer_key(problem.problem, DECIMALS)) == 1
        assert mark_share(problem, solve_by_hand(problem.problem)) == 1
        for constant in constants:
            shares.setdefault(f"all {constant}", []).append(
                mark_share(problem, fill(problem, [constant]))
            )
        for name, cells in list_copies(problem):
            shares.setdefault(f"copy of {name}", []).append(
                mark_share(problem, fill(problem, cells))
            )
        unrelated = solve_by_hand(Problem(**table))
        if unrelated != solve_by_hand(problem.problem):  # two problems may have the same answers
            shares.setdefault("another seed", []).append(mark_share(problem, unrelated))
    for name, values in shares.items():
        assert sum(values) / len(values) <= MAX_SHARE, (kind, name, values)


def test_rows_of_an_rms_norm_rarely_have_the_squares_of_another_sheet() -> None:
    """A row with the same squares has the same root and, but for signs, the same answers."""
    squares = [
        np.square(draw_tables("rms_norm", 1, 1, seed)[0]["given"]["X"]) for seed in range(60)
    ]
    pairs = [(a == b).all(1).mean() for a, b in combinations(squares, 2)]
    assert np.mean(pairs) < 0.01


def test_a_right_row_counts_beside_a_wrong_one() -> None:
    """One wrong number and what follows from it costs that number only; so do blanks after it."""
    table = {"kind": "rms_norm", "given": {"X": [[-2, -1, 5], [2, -1, -1]], "gamma": [[2, 2, 3]]}}
    (problem,) = read_problems([table])
    claims = solve_by_hand(problem.problem)
    claims["mean_square"][1] = ["5"]
    claims["rms"][1] = ["2.236"]
    claims["normalised"][1] = ["0.894", "-0.447", "-0.447"]
    claims["output"][1] = ["1.788", "-0.894", "-1.341"]
    assert mark_share(problem, claims) == pytest.approx(3.5 / 4)
    for key in ("rms", "normalised", "output"):
        claims[key][1] = ["?"] * len(claims[key][1])
    assert mark_share(problem, claims) == pytest.approx(0.5)


def test_cells_that_do_not_depend_on_the_words_carry_no_information() -> None:
    """The distances from the empty text are the same for every pair of texts."""
    given = {"reference": "a dog sat under", "hypothesis": "a dog under"}
    (problem,) = read_problems([{"kind": "edit_distance", "given": given}])
    (is_common,) = (m for m in problem.information.is_common.values() if min(m.shape) > 1)
    assert is_common[0].all()
    assert is_common[:, 0].all()
    assert not is_common.all()


@pytest.mark.parametrize("kind", ["softmax_jacobian", "mlp_gradient", "multi-head", "lm_head"])
@pytest.mark.parametrize("decimals", [2, 3, 5])
def test_honest_answers_in_every_rounding_get_all_points(kind: str, decimals: int) -> None:
    """One decimal fewer than asked or more, from exact or from rounded numbers, zeros dropped."""
    (sheet_problem,) = read_problems(draw_tables(kind, 1, level=1, seed=21))
    problem = sheet_problem.problem
    for env in (problem.exact_matrices, solve_rounded(problem, decimals)):
        for drop in ("", "0"):
            claims = {
                step.key: format_step(
                    step,
                    problem.orient(env[step.key].mid),
                    decimals,
                    lambda matrix, places: [
                        [f"{v:.{places}f}".rstrip(drop).rstrip("." if drop else "") for v in row]  # noqa: B023
                        for row in matrix
                    ],
                )
                for step in problem.asked_steps
            }
            assert mark_share(sheet_problem, claims) == pytest.approx(1)


@pytest.mark.parametrize("kind", ["edit_distance", "bleu"])
def test_one_slip_in_a_table_of_texts_costs_one_cell(kind: str) -> None:
    """Most numbers are right by chance in the answers to other texts, but hardly all."""
    shares = []
    for problem in read_problems(draw_tables(kind, 3, level=3, seed=5)):
        claims = solve_by_hand(problem.problem)
        table = next(iter(claims.values()))
        table[-1][-2] = str(int(table[-1][-2]) + 1)
        shares.append(mark_share(problem, claims))
    assert min(shares) > 0.9


def test_answers_to_other_texts_hardly_ever_get_points() -> None:
    """One pair in thirty or so has tables that differ in one number and what follows from it."""
    tables = draw_tables("rouge_l", 8, level=2, seed=5)
    pairs = zip(read_problems(tables), [*tables[1:], tables[0]], strict=True)
    shares = [mark_share(problem, solve_by_hand(Problem(**other))) for problem, other in pairs]
    assert sum(share > 0 for share in shares) <= 1


def test_a_number_that_fills_most_of_a_table_is_no_work_by_itself() -> None:
    """Most counts of this BLEU table are 1."""
    for problem in read_problems(draw_tables("bleu", 2, level=3, seed=11)):
        assert mark_share(problem, fill(problem, ["1"])) == 0


@pytest.mark.parametrize("kind", ONE_OF_EACH_FAMILY)
def test_answers_without_work_get_no_points(kind: str) -> None:
    check_kind(kind, count=2, level=1, constants=FEW_CONSTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHEET_KINDS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_answers_without_work_get_no_points_on_long_sheets(kind: str, level: int) -> None:
    check_kind(kind, count=2, level=level, constants=CONSTANTS)
