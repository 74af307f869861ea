"""Grade everything that was handed in for a sheet."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError
from workings.languages import gettext
from workings.problems.grading.answer_tables import transpose_squares
from workings.problems.grading.download import open_answers
from workings.problems.grading.hand_ins import (
    HandIn,
    Submission,
    read_hand_ins,
    read_submission,
)
from workings.problems.grading.marking import ProblemMark, SheetProblem, mark_problem
from workings.problems.grading.marks import Grades, StudentMarks
from workings.problems.grading.policy import POLICY_FILE, Policy, read_policy
from workings.problems.grading.sheet_reader import read_problems
from workings.problems.sheets.folder import read_manifest

_MAX_SHARE = 0.6  # of the points, from which an answer is read as it stands
_MIN_GAIN = 0.3  # of the points, from which another reading counts


def grade(sheet: str | Path, answers: str | Path, policy: str | Path | None = None) -> Grades:
    """Grade every student's answers to a sheet; `policy` is a file other than the sheet's own.

    `answers` is a folder, or a ZIP archive of one.
    """
    folder = Path(sheet)
    if policy is not None and not Path(policy).is_file():
        raise UserError(f"{policy}: no such file: expected a policy (TOML)")
    rules = read_policy(folder / POLICY_FILE if policy is None else Path(policy))
    manifest = read_manifest(folder)
    sheets = StudentSheets(folder, rules, manifest.get("students"))
    with open_answers(Path(answers)) as root:
        students = [_mark_student(hand_in, sheets, rules) for hand_in in read_hand_ins(root)]
    return Grades(sheets.first_problems, students, str(manifest.get("title", "")))


def _mark_student(hand_in: HandIn, sheets: "StudentSheets", rules: Policy) -> StudentMarks:
    try:
        problems = sheets.get_problems(hand_in.student, hand_in.id)
    except UserError as error:
        problems = sheets.first_problems
        submission = Submission(hand_in.student, hand_in.id, errors={"sheet": str(error)})
    else:
        submission = read_submission(hand_in, problems)
    marks = [mark_submission(submission, problem, rules) for problem in problems]
    return StudentMarks(submission.student, submission.id, marks, submission.errors)


class StudentSheets:
    """The problems of each student: the same for all, or those of a sheet of their own."""

    def __init__(self, folder: Path, policy: Policy, entries: Any) -> None:
        self._folder, self._policy = folder, policy
        self._folders: dict[str, str] | None = None
        if entries is None:
            self.first_problems = read_problems(folder, policy)
            return
        self._folders = _read_folders(folder, entries)
        self.first_problems = self._read(next(iter(self._folders.values())))

    def _read(self, name: str) -> list[SheetProblem]:
        return read_problems(
            self._folder / "students" / name, self._policy, self._folder / "key" / name
        )

    def get_problems(self, student: str, student_id: str) -> list[SheetProblem]:
        """Return the problems of a student, found by id, name or folder."""
        if self._folders is None:
            return self.first_problems
        for name in (student_id, student):
            if name.casefold() in self._folders:
                return self._read(self._folders[name.casefold()])
        raise UserError("no sheet was made for this student: expected an id or name of the list")


def _read_folders(folder: Path, entries: Any) -> dict[str, str]:
    """Return the folder of each student by id, name and folder, without case."""
    folders: dict[str, str] = {}
    for entry in entries if isinstance(entries, list) else ():
        fields = entry if isinstance(entry, dict) else {}
        names = [str(fields.get(name, "")) for name in ("id", "name", "folder")]
        if not all(names) or not re.fullmatch(r"[\w\-]+", names[2]):
            raise UserError(f"{folder}: sheet.json: expected id, name and folder of each student")
        for name in names:
            folders.setdefault(name.casefold(), names[2])
    if not folders:
        raise UserError(f"{folder}: sheet.json lists no students")
    return folders


def _mark_either_way(
    problem: SheetProblem, answer: Mapping[str, Any], policy: Policy
) -> ProblemMark:
    """Mark an answer whose matrices are all square also with rows and columns exchanged.

    A student who writes tokens as columns writes every matrix so; the better reading counts if it
    is far better. Matrices that are not square tell which it is by their shape.
    """
    mark = mark_problem(problem, answer, policy)
    exchanged = transpose_squares(answer.get("claim"))
    if exchanged is None or mark.total >= _MAX_SHARE * problem.max_points:
        return mark
    other = mark_problem(problem, {"claim": exchanged}, policy)
    if other.total < mark.total + _MIN_GAIN * problem.max_points:
        return mark
    other.notes.append(gettext("read with rows and columns exchanged"))
    return other


def mark_submission(submission: Submission, problem: SheetProblem, policy: Policy) -> ProblemMark:
    """Mark one problem of one student; what cannot be read is noted."""
    answer, error_text = submission.tables.get(problem.name), submission.errors.get(problem.name)
    notes = [gettext("could not be read: {reason}", reason=error_text)] if error_text else []
    mark = ProblemMark(problem, dict.fromkeys(problem.points, 0.0))
    if answer:
        try:
            mark = _mark_either_way(problem, answer, policy)
        except UserError as error:
            submission.add_error(problem.name, str(error))
            notes.append(gettext("could not be read: {reason}", reason=error))
    elif answer is not None:
        notes = notes or [gettext("no [{table}]", table=problem.answer_table)]
    elif not notes:
        unread = [name for name in submission.errors if name not in submission.tables]
        notes = [gettext("nothing that could be read") if unread else gettext("nothing handed in")]
    mark.notes = notes + mark.notes
    return mark
