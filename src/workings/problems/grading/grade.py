"""Grade everything that was handed in for a sheet."""

from pathlib import Path

from workings.errors import UserError
from workings.problems.grading.hand_ins import Submission, read_hand_ins, read_submission
from workings.problems.grading.marking import ProblemMark, SheetProblem, mark_problem
from workings.problems.grading.marks import Grades, StudentMarks
from workings.problems.grading.policy import POLICY_FILE, Policy, read_policy
from workings.problems.grading.sheet_reader import read_problems
from workings.problems.sheets.folder import read_manifest


def grade(sheet: str | Path, answers: str | Path, policy: str | Path | None = None) -> Grades:
    """Grade every student's answers to a sheet; `policy` is a file other than the sheet's own."""
    folder = Path(sheet)
    if policy is not None and not Path(policy).is_file():
        raise UserError(f"{policy}: no such file: expected a policy (TOML)")
    rules = read_policy(folder / POLICY_FILE if policy is None else Path(policy))
    problems = read_problems(folder, rules)
    students = []
    for hand_in in read_hand_ins(Path(answers)):
        submission = read_submission(hand_in, problems)
        marks = [mark_submission(submission, problem, rules) for problem in problems]
        students.append(StudentMarks(submission.student, submission.id, marks, submission.errors))
    return Grades(problems, students, str(read_manifest(folder).get("title", "")))


def mark_submission(submission: Submission, problem: SheetProblem, policy: Policy) -> ProblemMark:
    """Mark one problem of one student; what cannot be read is noted."""
    answer, error_text = submission.tables.get(problem.name), submission.errors.get(problem.name)
    notes = [f"could not be read: {error_text}"] if error_text else []
    mark = ProblemMark(problem, dict.fromkeys(problem.points, 0.0))
    if answer:
        try:
            mark = mark_problem(problem, answer, policy)
        except UserError as error:
            submission.add_error(problem.name, str(error))
            notes.append(f"could not be read: {error}")
    elif answer is not None:
        notes = notes or [f"no [{problem.answer_table}]"]
    elif not notes:
        unread = [name for name in submission.errors if name not in submission.tables]
        notes = ["nothing that could be read" if unread else "nothing handed in"]
    mark.notes = notes + mark.notes
    return mark
