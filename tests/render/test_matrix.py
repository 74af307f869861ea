"""Cells of a matrix: formatting, and the part of a large matrix that is shown."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from workings.problems.worked_problem import Cell, WorkedProblem
from workings.render.matrix import (
    format_cells,
    is_number,
    max_abs_cell,
    truncate_matrix,
    used_marks,
    visible_indices,
)


def test_numbers_are_padded_to_the_same_decimals(solution: WorkedProblem) -> None:
    assert format_cells(solution.givens[1], 3) == [["0.50", "1.00"], ["-12.25", "0.00"]]


def test_fractions_do_not_lengthen_other_numbers(solution: WorkedProblem) -> None:
    third = Cell("0.333333333333", 1 / 3)
    panel = replace(solution.givens[1], cells=[[third, Cell("2", 2)], [Cell("0.5", 0.5), third]])
    assert format_cells(panel, 3) == [["0.333333333333", "2.0"], ["0.5", "0.333333333333"]]


def test_rounded_numbers_get_no_further_digits(solution: WorkedProblem) -> None:
    # 0.0004 has four decimals although three are asked for; 0.468 was rounded to three.
    panel = replace(solution.steps[0], cells=[[Cell("0.0004", 0.0004), Cell("0.468", 0.46838)]])
    assert format_cells(panel, 3) == [["0.0004", "0.468"]]


def test_claims_stay_as_they_were_typed(report: WorkedProblem) -> None:
    assert format_cells(report.steps[1], 3) == [["0.06", "0.468"], ["0.000007", "3"]]


def test_largest_value_ignores_infinity(solution: WorkedProblem) -> None:
    assert max_abs_cell(solution.steps[0]) == 1.0


def test_used_marks_are_listed_worst_first(report: WorkedProblem) -> None:
    assert used_marks(report.steps) == ["wrong", "follows", "rounded", "blank"]


def test_is_number() -> None:
    assert all(map(is_number, ["1", "-0.5", "−∞", "-inf", "7.9e-32", ".5", "0,5", "1."]))
    assert not any(map(is_number, ["", "?", "1/2", "nan", "1e", "--1", "1.2.3", "\\input"]))


@given(st.integers(1, 200), st.integers(4, 20), st.data())
def test_visible_indices_keep_both_ends_and_the_focus(
    count: int, max_count: int, data: st.DataObject
) -> None:
    focus = data.draw(st.none() | st.integers(0, count - 1))
    indices = visible_indices(count, focus, max_count)
    visible = [k for k in indices if k is not None]
    assert len(visible) <= max_count
    assert visible == sorted(set(visible))
    assert visible[0] == 0
    assert visible[-1] == count - 1
    assert focus is None or focus in visible
    for previous, index, following in zip(indices, indices[1:], indices[2:], strict=False):
        if index is None:
            assert previous is not None
            assert following is not None
            assert following - previous > 1


def test_truncation_keeps_the_first_wrong_cell(large: WorkedProblem) -> None:
    panel = large.steps[0]
    truncated = truncate_matrix(panel, 12, 12)
    assert truncated.first_wrong is not None
    row, column = truncated.first_wrong
    assert truncated.cells[row][column] is panel.cells[21][22]
    assert truncated.row_names[row] == "22"
    assert all(len(line) == len(truncated.column_names) for line in truncated.cells)


def test_small_matrices_are_not_truncated(large: WorkedProblem) -> None:
    assert truncate_matrix(large.steps[0], 40, 40) is large.steps[0]
