"""Worked problems as a picture."""

from xml.etree import ElementTree

from workings.problems.worked_problem import WorkedProblem
from workings.render.worked_picture import render_picture


def test_picture_has_every_number_and_name(solution: WorkedProblem) -> None:
    root = ElementTree.fromstring(render_picture(solution).svg())  # noqa: S314
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for panel in (*solution.givens, *solution.steps):
        assert f"{panel.shape[0]} × {panel.shape[1]}" in texts
        assert all(name in texts for name in panel.row_names)
    assert {"−∞", "−12.25", "−20.0", "the", "scores = Q Kᵀ"} <= set(texts)


def test_marks_are_drawn(report: WorkedProblem) -> None:
    assert "✗" in render_picture(report).svg()
