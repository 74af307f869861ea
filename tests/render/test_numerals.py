"""Numbers as they stand in a matrix."""

from dataclasses import replace

from workings.problems.worked_problem import Cell, WorkedProblem
from workings.render.matrix import format_cells, is_number, max_abs_cell, used_marks


def test_worked_out_numbers_get_as_many_decimals(solution: WorkedProblem) -> None:
    assert format_cells(solution.givens[1], 3) == [["0.50", "1.00"], ["-12.25", "0.00"]]


def test_a_fraction_lengthens_no_other(solution: WorkedProblem) -> None:
    third = Cell("0.333333333333", 1 / 3)
    panel = replace(solution.givens[1], cells=[[third, Cell("2", 2)], [Cell("0.5", 0.5), third]])
    assert format_cells(panel, 3) == [["0.333333333333", "2.0"], ["0.5", "0.333333333333"]]


def test_no_digit_is_invented(solution: WorkedProblem) -> None:
    # 0.0004 gets four decimals where three are asked for; the others were rounded to three.
    panel = replace(solution.steps[0], cells=[[Cell("0.0004", 0.0004), Cell("0.468", 0.46838)]])
    assert format_cells(panel, 3) == [["0.0004", "0.468"]]


def test_claims_stay_as_they_were_written(report: WorkedProblem) -> None:
    assert format_cells(report.steps[1], 3) == [["0.06", "0.468"], ["0.000007", "3"]]


def test_infinity_is_no_size(solution: WorkedProblem) -> None:
    assert max_abs_cell(solution.steps[0]) == 1.0


def test_marks_in_order_of_weight(report: WorkedProblem) -> None:
    assert used_marks(report.steps) == ["wrong", "follows", "rounded", "blank"]


def test_is_number() -> None:
    assert all(map(is_number, ["1", "-0.5", "−∞", "-inf", "7.9e-32", ".5", "0,5", "1."]))
    assert not any(map(is_number, ["", "?", "1/2", "nan", "1e", "--1", "1.2.3", "\\input"]))
