"""A simulated class: marks equal those of an independent marker, whatever was handed in."""

import json
import re
from pathlib import Path

import pytest
from simulated_class import MISTAKES, hand_in, make_students

from workings.problems.grading import grade, score_claim
from workings.problems.grading.class_summary import summarize_class
from workings.problems.grading.exports import export_marks
from workings.problems.sheets import make_sheet
from workings.render.feedback import CLASS_PAGE, write_feedback
from workings.render.sheets import write_sheet


def check_class(folder: Path, count: int, size: str, num_problems: int) -> None:
    sheet = make_sheet("masked", size, num_problems, 5)
    write_sheet(sheet, folder / "sheet")
    (folder / "answers").mkdir()
    expected = hand_in(folder / "answers", sheet, make_students(count))
    broken = {"broken1.toml": b"?", "broken2.pdf": b"%PDF", "broken3.ipynb": b"{"}
    for name, content in broken.items():
        (folder / "answers" / name).write_bytes(content)
    grades = grade(folder / "sheet", folder / "answers")
    points = {s.student: s.total for s in grades.students if not s.student.startswith("broken")}
    assert points.keys() == expected.keys()
    assert {s: (p, points[s]) for s, p in expected.items() if abs(points[s] - p) > 0.5} == {}
    assert len(grades.errors) == len(broken)
    names = write_feedback(grades, folder / "feedback")
    assert len(names) == count + len(broken) + 1
    for name in names:
        assert "<script>" not in (folder / "feedback" / name).read_text()


def test_marks_equal_those_of_an_independent_marker(tmp_path: Path) -> None:
    check_class(tmp_path, count=14, size="2x3", num_problems=1)


@pytest.mark.slow
def test_marks_of_a_class_of_200(tmp_path: Path) -> None:
    assert len(MISTAKES) == 25
    check_class(tmp_path, count=200, size="3x4", num_problems=3)


def test_feedback_and_summary(tmp_path: Path) -> None:
    """The page of a student has the cause in words and the right working from there."""
    sheet = make_sheet("masked", "2x3", 1, 5)
    write_sheet(sheet, tmp_path / "sheet")
    (tmp_path / "answers").mkdir()
    students = make_students(28)
    chosen = [students[10], students[11], students[25]]
    hand_in(tmp_path / "answers", sheet, chosen)
    (tmp_path / "answers" / "<b>.toml").write_text("[problem-01.claim]\nQ = [[1, 2")
    grades = grade(tmp_path / "sheet", tmp_path / "answers")
    names = write_feedback(grades, tmp_path / "feedback")
    pages = {name: (tmp_path / "feedback" / name).read_text() for name in names}
    page = pages["student010.html"]
    assert "not-scaled" in page
    assert "The right working from scaled on" in page
    assert "8 of 8 points" in pages["student025.html"]
    assert "line 2: Q: 2 brackets too few" in pages["b.html"]
    assert "<b>.toml" not in pages["b.html"]
    assert "not-scaled" in pages[CLASS_PAGE]
    summary = summarize_class(grades)
    assert {m.name: len(m.students) for m in summary.mistakes}["not-scaled"] == 1
    assert sum(count for _, count in summary.histogram) == 4
    assert all(re.fullmatch(r"[\w\-]+\.html", name) for name in names)


def test_exports(tmp_path: Path) -> None:
    sheet = make_sheet("masked", "2x3", 1, 5)
    write_sheet(sheet, tmp_path / "sheet")
    (tmp_path / "answers").mkdir()
    hand_in(tmp_path / "answers", sheet, [make_students(28)[27], make_students(11)[10]])
    grades = grade(tmp_path / "sheet", tmp_path / "answers")
    moodle = export_marks(grades, "moodle")["moodle.csv"].splitlines()
    assert moodle[0] == (
        '"ID number","Full name","Masked self-attention","Feedback: Masked self-attention"'
    )
    canvas = export_marks(grades, "canvas", "Week 3")["canvas.csv"].splitlines()
    assert canvas[:2] == ['"Student","ID","Section","Week 3"', '"    Points Possible","","","8"']
    files = export_marks(grades, "gradescope")
    assert len(files) == 2
    results = json.loads(files["gradescope/001/results.json"])
    assert results["score"] == pytest.approx(sum(test["score"] for test in results["tests"]))
    assert sum(test["max_score"] for test in results["tests"]) == 8


def test_grader_cell_gives_no_points_to_what_is_no_claim() -> None:
    """A cell of a student may hold anything; an error would stop the other cells."""
    given = {"X": [[1, 0], [0, 2]], "scale": "none"}
    for claim in ("none", None, 3, {}, {"Q": "?"}, {"scores": [["x"]]}):
        assert score_claim(given, claim, points=6) == 0  # type: ignore[arg-type]
    assert score_claim(given, {"scores": [[1, 0], [0, 4]]}, points=6) == pytest.approx(1)
