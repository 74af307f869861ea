"""Marks in the formats of learning platforms: Moodle, Canvas, Gradescope, nbgrader and otter."""

import json

from workings.errors import UserError
from workings.problems.grading.marking import ProblemMark
from workings.problems.grading.marks import Grades, StudentMarks, format_points, write_csv

EXPORTS = ("moodle", "canvas", "gradescope")


def export_marks(grades: Grades, target: str, assignment: str = "") -> dict[str, str]:
    """Return the files for a platform, by name; `assignment` is the name of the grade column."""
    name = assignment or grades.title or "Sheet"
    if target == "moodle":
        return {"moodle.csv": _format_moodle(grades, name)}
    if target == "canvas":
        return {"canvas.csv": _format_canvas(grades, name)}
    if target == "gradescope":
        return {
            f"gradescope/{number:03d}/results.json": format_gradescope(student)
            for number, student in enumerate(grades.students, start=1)
        }
    raise UserError(f"--export {target!r:.30}: expected one of {', '.join(EXPORTS)}")


def _format_moodle(grades: Grades, name: str) -> str:
    """Return a table for Grades, Import, CSV file: mapped by ID number."""
    rows = (
        [student.id, student.student, format_points(student.final), _summarize(student)]
        for student in grades.students
    )
    return write_csv(("ID number", "Full name", name, f"Feedback: {name}"), rows)


def _format_canvas(grades: Grades, name: str) -> str:
    """Return a gradebook for Grades, Import: Canvas finds students by ID."""
    possible = max((student.max_points for student in grades.students), default=0.0)
    rows = [["    Points Possible", "", "", format_points(possible)]]
    rows += [[s.student, s.id, "", format_points(s.final)] for s in grades.students]
    return write_csv(("Student", "ID", "Section", name), rows)


def format_gradescope(student: StudentMarks) -> str:
    """Return the results.json of a Gradescope autograder for one student."""
    tests = [
        {
            "name": f"{mark.problem.name} {step}",
            "score": round(mark.points.get(step, 0.0), 4),
            "max_score": worth,
            "output": mark.describe_first_mistake() if step == _get_wrong_step(mark) else "",
            "visibility": "visible",
        }
        for mark in student.marks
        for step, worth in mark.problem.points.items()
    ]
    return json.dumps(
        {
            "score": round(student.final, 4),
            "output": _summarize(student),
            "visibility": "visible",
            "tests": tests,
        },
        indent=1,
        ensure_ascii=False,
    )


def _get_wrong_step(mark: ProblemMark) -> str | None:
    return None if mark.first_mistake is None else mark.first_mistake.key


def _summarize(student: StudentMarks) -> str:
    """Return the first mistakes and notes in one line."""
    firsts = [f"{m.problem.name}: {m.describe_first_mistake()}" for m in student.marks]
    texts = [text for text in firsts if not text.endswith(": ")]
    return "; ".join([*texts, *student.list_notes()])
