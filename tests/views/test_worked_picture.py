"""A solution as a picture."""

from xml.etree import ElementTree

from workings.views.worked import Worked
from workings.views.worked_picture import picture


def test_every_number_and_name_is_in_it(solution: Worked) -> None:
    root = ElementTree.fromstring(picture(solution).svg())  # noqa: S314
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for panel in (*solution.givens, *solution.steps):
        assert f"{panel.shape[0]} × {panel.shape[1]}" in words
        assert all(name in words for name in panel.row_names)
    assert {"−∞", "−12.25", "−20.0", "the", "scores = Q Kᵀ"} <= set(words)


def test_marks_are_seen(report: Worked) -> None:
    assert "✗" in picture(report).svg()
