"""A solution as a picture."""

from xml.etree import ElementTree

from workings.problems.worked_problem import WorkedProblem
from workings.render.worked_picture import render_picture


def test_every_number_and_name_is_in_it(solution: WorkedProblem) -> None:
    root = ElementTree.fromstring(render_picture(solution).svg())  # noqa: S314
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for panel in (*solution.givens, *solution.steps):
        assert f"{panel.shape[0]} × {panel.shape[1]}" in words
        assert all(name in words for name in panel.row_names)
    assert {"−∞", "−12.25", "−20.0", "the", "scores = Q Kᵀ"} <= set(words)


def test_marks_are_seen(report: WorkedProblem) -> None:
    assert "✗" in render_picture(report).svg()
