"""What is left out of large matrices, and what never is."""

from hypothesis import given
from hypothesis import strategies as st

from workings.problems.worked_problem import WorkedProblem
from workings.render.matrix import truncate_matrix, visible_indices


@given(st.integers(1, 200), st.integers(4, 20), st.data())
def test_ends_and_focus_are_kept(count: int, most: int, data: st.DataObject) -> None:
    focus = data.draw(st.none() | st.integers(0, count - 1))
    chosen = visible_indices(count, focus, most)
    shown = [k for k in chosen if k is not None]
    assert len(shown) <= most
    assert shown == sorted(set(shown))
    assert shown[0] == 0
    assert shown[-1] == count - 1
    assert focus is None or focus in shown
    for before, here, after in zip(chosen, chosen[1:], chosen[2:], strict=False):
        if here is None:
            assert before is not None
            assert after is not None
            assert after - before > 1


def test_the_first_wrong_cell_survives(large: WorkedProblem) -> None:
    panel = large.steps[0]
    small = truncate_matrix(panel, 12, 12)
    assert small.first_wrong is not None
    row, column = small.first_wrong
    assert small.cells[row][column] is panel.cells[21][22]
    assert small.row_names[row] == "22"
    assert all(len(line) == len(small.column_names) for line in small.cells)


def test_small_matrices_are_left_alone(large: WorkedProblem) -> None:
    assert truncate_matrix(large.steps[0], 40, 40) is large.steps[0]
