"""The marks of a class: one row per student, and a table of every problem and step."""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems.grading.marking import ProblemMark, SheetProblem
from workings.problems.problem_file import prefix_errors, read_text_file

_FORMULA_PREFIXES = tuple("=+-@\t\r\n＝＋－＠")  # a spreadsheet computes such a cell
BY_HAND = "by hand"  # the column for the teacher's own mark
_LEADING = ("id", "student")


@dataclass
class StudentMarks:
    """The marks of one student, problem by problem.

    `errors` are by problem, or by file if that belongs to no problem. `hand_mark` is the total that
    the teacher set instead of the computed one.
    """

    student: str
    id: str
    marks: list[ProblemMark]
    errors: dict[str, str] = field(default_factory=dict)
    hand_mark: float | None = None

    @property
    def total(self) -> float:
        """The computed points."""
        return sum(mark.total for mark in self.marks)

    @property
    def max_points(self) -> float:
        """The points for a sheet without mistakes."""
        return sum(mark.problem.max_points for mark in self.marks)

    @property
    def final(self) -> float:
        """The points that count."""
        return self.total if self.hand_mark is None else self.hand_mark

    def list_notes(self) -> list[str]:
        """Return the remarks on all problems, and on files that belong to none."""
        names = {mark.problem.name for mark in self.marks}
        notes = [f"{m.problem.name}: {'; '.join(m.notes)}" for m in self.marks if m.notes]
        return notes + [f"{name}: {e}" for name, e in self.errors.items() if name not in names]


@dataclass
class Grades:
    """The marks for a sheet, and what could not be read."""

    problems: list[SheetProblem]
    students: list[StudentMarks]
    title: str = ""

    @property
    def errors(self) -> list[str]:
        """The lines on files and answers that could not be read."""
        return [
            ": ".join(map(to_one_line, (student.student, name, error)))
            for student in self.students
            for name, error in student.errors.items()
        ]

    def to_csv(self) -> str:
        """Return one row per student; text that a spreadsheet would compute is escaped."""
        names = [problem.name for problem in self.problems]
        tail = ("total", "out of", BY_HAND, "final", "first mistakes", "likely causes", "notes")
        return write_csv([*_LEADING, *names, *tail], map(self._format_student, self.students))

    def _format_student(self, student: StudentMarks) -> list[str]:
        firsts = [(m.problem.name, m.describe_first_mistake()) for m in student.marks]
        causes = [(m.problem.name, " or ".join(m.list_causes())) for m in student.marks]
        return [
            student.id,
            student.student,
            *(format_points(mark.total) for mark in student.marks),
            format_points(student.total),
            format_points(student.max_points),
            "" if student.hand_mark is None else format_points(student.hand_mark),
            format_points(student.final),
            *("; ".join(f"{n}: {t}" for n, t in texts if t) for texts in (firsts, causes)),
            "; ".join(student.list_notes()),
        ]

    def to_details_csv(self) -> str:
        """Return one row per student and problem, with the points of every step."""
        steps = list(dict.fromkeys(key for problem in self.problems for key in problem.points))
        tail = ("total", "out of", "first mistake", "likely causes", "note")
        rows = (
            [
                student.id,
                student.student,
                mark.problem.name,
                *(format_points(mark.points[s]) if s in mark.points else "" for s in steps),
                format_points(mark.total),
                format_points(mark.problem.max_points),
                mark.describe_first_mistake(),
                "; ".join(mark.list_causes()),
                "; ".join(mark.notes),
            ]
            for student in self.students
            for mark in student.marks
        )
        return write_csv([*_LEADING, "problem", *steps, *tail], rows)


def write_csv(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a CSV table with every field quoted and formulas escaped."""
    out = io.StringIO()
    # All fields are quoted: a program that separates by ";" must not split a name.
    table = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    table.writerow([escape_spreadsheet_cell(cell) for cell in header])
    table.writerows([escape_spreadsheet_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def format_points(value: float) -> str:
    """Format points with up to two decimals: 7.5, 8."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def escape_spreadsheet_cell(text: str) -> str:
    """Return text on one line, with a quote before it if a spreadsheet would compute it."""
    text = to_one_line(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA_PREFIXES) else text


def read_marks(path: Path) -> list[dict[str, str]]:
    """Read the table of marks that an earlier call wrote; a separator `;` is understood, too."""
    with prefix_errors(path):
        text = read_text_file(path)
        separator = ";" if text.partition("\n")[0].count(";") > 2 else ","
        rows = list(csv.DictReader(io.StringIO(text), delimiter=separator))
        if not rows or any(name not in rows[0] for name in (*_LEADING, "final", BY_HAND)):
            raise UserError("not a table of marks: delete it, or use another --out")
        return rows


def keep_hand_marks(grades: Grades, earlier: Iterable[Mapping[str, str]]) -> None:
    """Take over the marks that the teacher set by hand in an earlier table."""
    rows_by_id = {_unescape(row["id"]): row for row in earlier}
    for student in grades.students:
        text = (rows_by_id.get(to_one_line(student.id), {}).get(BY_HAND) or "").strip()
        if text:
            student.hand_mark = _parse_points(text, student.student)


def _parse_points(text: str, student: str) -> float:
    try:
        points = float(text.replace(",", "."))
    except ValueError:
        points = math.nan
    if not math.isfinite(points):
        raise UserError(f"{student}: {BY_HAND} = {text!r:.30}: expected a number")
    return points


def list_changes(grades: Grades, earlier: Iterable[Mapping[str, str]]) -> list[str]:
    """Return what differs from an earlier table, a line per student."""
    before = {_unescape(row["id"]): row["final"] for row in earlier}
    now = {to_one_line(s.id): (s.student, format_points(s.final)) for s in grades.students}
    changes = [
        f"{name}: {before[key]} → {points}"
        for key, (name, points) in now.items()
        if key in before and before[key].strip() != points
    ]
    changes += [f"{name}: new, {points}" for k, (name, points) in now.items() if k not in before]
    return changes + [f"{key}: no longer there" for key in before if key not in now]


def _unescape(text: str) -> str:
    """Return the text of a cell that `escape_spreadsheet_cell` may have put a quote before."""
    return text[1:] if text.startswith("'") and text[1:].lstrip()[:1] in _FORMULA_PREFIXES else text
