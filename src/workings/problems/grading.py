"""Grade students' answers to a sheet.

answers/alice/problem-01.toml    one file per problem with a [claim]; other tables are ignored
answers/bob.toml                 or one file for all: [problem-01.claim], [problem-02.claim]

An answer that cannot be read is reported and does not affect the other answers.
"""

import csv
import io
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import UserError, did_you_mean
from workings.plain_text import to_one_line
from workings.problems.check import Report, WrongCell, check_problem
from workings.problems.judging import CheckedStep
from workings.problems.notation import format_decimal
from workings.problems.problem import Claim, Problem
from workings.problems.problem_file import parse_problem_toml, read_text_file, set_nested
from workings.problems.sheets.folder import read_manifest
from workings.problems.sheets.questions import MAX_POINTS
from workings.problems.sheets.rounded_solution import CellTexts, format_fixed, nest_claims
from workings.problems.solution import format_step_title
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD

CREDITED_VERDICTS = ("right", "rounded", "follows")
FINDING_COLUMNS = ("step", "cell", "mistake")  # graded on a sheet with mistakes to find
_IGNORED_NAMES = ("__MACOSX",)  # left in a folder by archives; names with a dot are ignored, too
_PROBLEM_FILE = re.compile(r"problem-\d{2,3}\.toml")
_FORMULA_PREFIXES = tuple("=+-@\t\r\n＝＋－＠")  # a spreadsheet computes such a cell


@dataclass
class Submission:
    """The answers of one student: a table per problem, and errors.

    `errors` are by problem, or by file if that belongs to no problem. `read_error` is set if
    nothing could be read.
    """

    student: str
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    read_error: str = ""


def read_submissions(folder: Path, problems: list[str]) -> Iterator[Submission]:
    """Yield the answers of every student, sorted by name."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder with one folder or file per student")
    entries = sorted(
        (p for p in folder.iterdir() if not _is_ignored(p)),
        key=lambda p: (p.stem if p.suffix == ".toml" else p.name, p.name),
    )
    seen: set[str] = set()
    for entry in entries:
        is_folder = entry.is_dir() and not entry.is_symlink()
        submission = Submission(entry.name if is_folder else entry.stem)
        try:
            if submission.student in seen:
                raise UserError(
                    f"{submission.student} has both a folder and a file: keep one of them"
                )
            if is_folder:
                _read_submission_folder(entry, problems, submission)
            else:
                _read_submission_file(entry, problems, submission)
        except (UserError, OSError) as error:
            submission.read_error = submission.errors[entry.name] = _format_read_error(error)
        seen.add(submission.student)
        yield submission


def _is_ignored(path: Path) -> bool:
    return path.name.startswith(".") or path.name in _IGNORED_NAMES


def _read_submission_folder(folder: Path, problems: list[str], submission: Submission) -> None:
    """Read a folder with one file per problem."""
    for path in sorted(folder.iterdir()):
        if _is_ignored(path):
            continue
        try:
            if path.suffix != ".toml" or path.stem not in problems:
                hint = did_you_mean(path.stem, problems)
                raise UserError(f"the sheet has no such problem: {hint}")
            submission.tables[path.stem] = read_problem_table(path)
        except (UserError, OSError) as error:
            name = path.stem if path.stem in problems else path.name
            submission.errors[name] = _format_read_error(error)


def _read_submission_file(path: Path, problems: list[str], submission: Submission) -> None:
    """Read a single file for all problems."""
    if path.suffix != ".toml":
        raise UserError("expected a .toml file with claims or a folder of such files")
    table = read_problem_table(path)
    if len(problems) == 1 and ("claim" in table or "found" in table):
        submission.tables[problems[0]] = table
        return
    for name, part in table.items():
        if name not in problems:
            hint = did_you_mean(name, problems)
            submission.errors[name] = f"the sheet has no such problem: {hint}"
        elif not isinstance(part, dict):
            submission.errors[name] = f"expected a table: [{name}.claim]"
        else:
            submission.tables[name] = part


def read_problem_table(path: Path) -> dict[str, Any]:
    """Read a TOML file, keeping written decimals; links and devices are an error."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UserError("expected a regular file, not a link or device")
    return parse_problem_toml(read_text_file(path))


def _format_read_error(error: Exception) -> str:
    return (error.strerror or "cannot be read") if isinstance(error, OSError) else str(error)


@dataclass
class GradeRow:
    """The points of one student for one problem."""

    student: str
    problem: str
    points: dict[str, float] = field(default_factory=dict)
    first_wrong_cell: str = ""
    causes: str = ""
    note: str = ""

    @property
    def total(self) -> float:
        """Points for the entire problem."""
        return sum(self.points.values())


@dataclass
class Grades:
    """The points for a sheet: one row per student and problem, and reading errors."""

    steps: list[str]  # the columns
    max_points: dict[str, int]  # by problem
    rows: list[GradeRow]
    errors: list[str]

    def to_csv(self) -> str:
        """Return the grades as CSV; text that a spreadsheet would compute is escaped."""
        out = io.StringIO()
        # All fields are quoted: a program that separates by ";" must not split a name.
        table = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
        tail = ("total", "out of", "first wrong", "likely causes", "note")
        table.writerow(["student", "problem", *map(_escape_spreadsheet_cell, self.steps), *tail])
        blanks, max_total = [""] * len(self.steps), str(sum(self.max_points.values()))
        for student, student_rows in groupby(self.rows, key=lambda row: row.student):
            rows = list(student_rows)
            table.writerows(self._format_row(row) for row in rows)
            name, total = _escape_spreadsheet_cell(student), sum(row.total for row in rows)
            table.writerow([name, "all", *blanks, _format_points(total), max_total, "", "", ""])
        return out.getvalue()

    def _format_row(self, row: GradeRow) -> list[str]:
        texts = (row.first_wrong_cell, row.causes, row.note)
        return [
            _escape_spreadsheet_cell(row.student),
            row.problem,
            *(_format_points(row.points[s]) if s in row.points else "" for s in self.steps),
            _format_points(row.total),
            str(self.max_points[row.problem]),
            *map(_escape_spreadsheet_cell, texts),
        ]


@dataclass(frozen=True)
class SheetProblem:
    """A problem of the sheet: its table without claims, and the points of the graded steps.

    `planted_report` is the report on the solution with a planted mistake, if the sheet has them.
    """

    name: str
    table: dict[str, Any]
    decimals: int
    points: dict[str, int]
    planted_report: Report | None


def grade(sheet: str | Path, answers: str | Path) -> Grades:
    """Grade every student's answers to a sheet."""
    problems = _read_problems(Path(sheet))
    names = [problem.name for problem in problems]
    rows, errors = [], []
    for submission in read_submissions(Path(answers), names):
        graded = [_grade_submission(submission, problem) for problem in problems]
        errors += [
            ": ".join(map(to_one_line, (submission.student, name, error)))
            for name, error in submission.errors.items()
        ]
        unassigned = [f"{n}: {e}" for n, e in submission.errors.items() if n not in names]
        if unassigned and not submission.read_error:  # noted once, with the first problem
            graded[0].note = "; ".join(filter(None, [graded[0].note, *unassigned]))
        rows += graded
    steps = list(dict.fromkeys(step for problem in problems for step in problem.points))
    max_points = {problem.name: sum(problem.points.values()) for problem in problems}
    return Grades(steps, max_points, rows, errors)


def _read_problems(folder: Path) -> list[SheetProblem]:
    """Read the problems of a sheet."""
    manifest = read_manifest(folder)
    decimals, entries = manifest.get("decimals"), manifest.get("problems")
    if not isinstance(decimals, int) or not 1 <= decimals <= 6:
        raise UserError(
            f"{folder}: sheet.json: decimals = {decimals!r:.20}: it must be from 1 to 6"
        )
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{folder}: sheet.json lists no problems")
    has_mistakes, is_hidden = (bool(manifest.get(key)) for key in ("mistakes", "hide_formulas"))
    # Without formulas, the students' files lack settings, which the key has.
    source = folder / "key" if is_hidden else folder
    return [_read_problem(folder, source, entry, decimals, has_mistakes) for entry in entries]


def _read_problem(
    folder: Path, source: Path, entry: Any, decimals: int, has_mistakes: bool
) -> SheetProblem:
    file = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(file, str) or not _PROBLEM_FILE.fullmatch(file):
        raise UserError(
            f"{folder}: sheet.json: {str(file)!r:.40} is not the name of a problem file"
        )
    try:
        table = {k: v for k, v in read_problem_table(source / file).items() if k != "claim"}
        problem, planted_report = Problem(**table), None
        if has_mistakes:
            claim = read_problem_table(folder / file).get("claim", {})
            planted_report = check_problem(Problem(**{**table, "claim": claim}))
    except UserError as error:
        raise UserError(f"{folder / file}: {error}") from None
    if planted_report is not None and planted_report.first is None:
        raise UserError(f"{folder / file}: the solution has no mistake to find")
    try:
        points = dict.fromkeys(FINDING_COLUMNS, 1) if has_mistakes else _read_points(problem, entry)
    except UserError as error:
        raise UserError(f"{folder}: sheet.json: {file}: {error}") from None
    return SheetProblem(file.removesuffix(".toml"), table, decimals, points, planted_report)


def _read_points(problem: Problem, entry: Mapping[str, Any]) -> dict[str, int]:
    """Return the points of the steps that the manifest asks for; all steps by default."""
    known = [step.key for step in problem.asked_steps]
    steps, points = entry.get("steps", known), entry.get("points", {})
    if not isinstance(steps, list) or not steps or not isinstance(points, Mapping):
        raise UserError("expected a list of steps, and points by step")
    for key in (*steps, *points):
        if key not in known:
            raise UserError(f"no step {str(key)!r:.40}: {did_you_mean(str(key), known)}")
    for value in points.values():
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_POINTS:
            raise UserError(f"points {value!r:.20}: it must be from 1 to {MAX_POINTS}")
    return {key: points.get(key, 1) for key in known if key in steps}


def _grade_submission(submission: Submission, sheet_problem: SheetProblem) -> GradeRow:
    """Grade one problem of one student."""
    points = dict.fromkeys(sheet_problem.points, 0.0)
    row = GradeRow(submission.student, sheet_problem.name, points)
    error_text = submission.errors.get(sheet_problem.name) or submission.read_error
    if error_text:
        row.note = f"could not be read: {error_text}"
        return row
    answer = submission.tables.get(sheet_problem.name)
    part = "claim" if sheet_problem.planted_report is None else "found"
    if answer is None or not answer.get(part):
        row.note = "nothing handed in" if answer is None else f"no [{part}]"
        return row
    try:
        if sheet_problem.planted_report is not None:
            _grade_finding(row, sheet_problem.planted_report, answer[part])
        else:
            _grade_claim(row, sheet_problem, answer[part])
    except UserError as error:
        submission.errors[sheet_problem.name] = str(error)
        row.note = f"could not be read: {error}"
    return row


def _grade_claim(row: GradeRow, sheet_problem: SheetProblem, claim: Any) -> None:
    """Grade a claim: the points of a step are spread over its cells.

    Steps that are not asked earn nothing, but numbers may follow from them.
    """
    claim, notes = _drop_unreadable_steps(sheet_problem, claim)
    report, coarse = _check_precise_claims(sheet_problem, claim)
    for checked_step in report.steps:
        key = checked_step.step.key
        if key in sheet_problem.points:
            is_credited = np.isin(checked_step.verdicts, CREDITED_VERDICTS)
            row.points[key] = sheet_problem.points[key] * float(is_credited.mean())
    first = report.first
    if first is not None:
        row.first_wrong_cell = _describe_wrong_cell(report, first)
        row.causes = "; ".join(cause.name for cause in first.causes)
    if coarse:
        notes.append(f"too few decimals, not counted: {', '.join(coarse)}")
    row.note = "; ".join(notes)


def _drop_unreadable_steps(sheet_problem: SheetProblem, claim: Any) -> tuple[Any, list[str]]:
    """Remove steps that cannot be read, so that the others still count; return notes on them."""
    try:
        Problem(**{**sheet_problem.table, "claim": claim})
    except UserError as error:
        if not isinstance(claim, Mapping):
            raise
        readable: dict[str, Any] = {}
        notes = []
        for path, value in _iterate_leaves(claim):
            try:
                Problem(**{**sheet_problem.table, "claim": set_nested({}, path, value)})
            except UserError as step_error:
                notes.append(f"not counted: {step_error}")
            else:
                set_nested(readable, path, value)
        if not readable:
            raise UserError(str(error)) from None
        return readable, notes
    return claim, []


def _iterate_leaves(
    table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and value of every entry that is not a table."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _iterate_leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _describe_wrong_cell(report: Report, wrong_cell: WrongCell) -> str:
    row, column = wrong_cell.cell
    title = format_step_title(report.problem.get_step(wrong_cell.key), report.problem)
    expected = wrong_cell.carried_value
    expected = wrong_cell.expected if expected is None else expected
    cell = f"{title}, row {row + 1}, column {column + 1}"
    return f"{cell}: {wrong_cell.claimed}, not {format_decimal(expected, 4)}"


def _check_precise_claims(sheet_problem: SheetProblem, claim: Any) -> tuple[Report, list[str]]:
    """Check a claim without numbers of too few decimals; return the report and those cells.

    A number matches whatever it may be rounded from; `1e9` matches so much that every number after
    it would count as following from it. One decimal less than the sheet asks for is accepted.
    """
    problem = Problem(**{**sheet_problem.table, "claim": claim})
    stated = {step.key for step in problem.asked_steps}
    texts = {
        c.key: _get_claim_texts(problem, c)
        for c in problem.claims
        if not c.reprint and c.key in stated
    }
    coarse: list[str] = []
    while True:  # terminates: each iteration changes cells that are not changed again
        problem = Problem(**{**sheet_problem.table, "claim": nest_claims(problem, texts)})
        report = check_problem(problem, sheet_problem.decimals)
        changed = [
            _blank_coarse_cells(problem, checked_step, texts, sheet_problem.decimals, coarse)
            for checked_step in report.steps
        ]
        if not any(changed):
            return report, coarse


def _get_claim_texts(problem: Problem, claim: Claim) -> CellTexts:
    texts = np.array([["?" if n is None else n.text for n in row] for row in claim.numbers])
    oriented: CellTexts = problem.orient(texts).tolist()
    return oriented


def _blank_coarse_cells(
    problem: Problem,
    checked_step: CheckedStep,
    texts: dict[str, CellTexts],
    decimals: int,
    coarse: list[str],
) -> bool:
    """Blank cells with too few decimals and add their names to `coarse`; return True if changed.

    A number that needs no more decimals is exact; it is written with all decimals instead.
    """
    key, claimed = checked_step.step.key, checked_step.claimed_matrix
    target, exact = checked_step.carried_matrix.mid, problem.exact_matrices[key].mid
    unit = np.where(claimed.units > 0, claimed.units, 1.0)
    with np.errstate(invalid="ignore"):
        is_exact = (np.abs(target - np.round(target / unit) * unit) <= 1e-9) & (unit <= 1)
    is_coarse = claimed.units > 10.0 ** (1 - decimals) * 1.001
    # A large negative number counts as −∞, which has no decimals.
    is_masked = np.isneginf(exact) & (claimed.values <= MINUS_INFINITY_THRESHOLD)
    to_blank = problem.orient(is_coarse & ~is_exact & ~is_masked & ~claimed.is_blank)
    lacks_decimals = claimed.units > 10.0**-decimals * 1.001
    to_extend = problem.orient(lacks_decimals & is_exact & ~claimed.is_integer)
    values = problem.orient(claimed.values)
    for i, j in np.argwhere(to_blank):
        coarse.append(f"{key} row {i + 1} column {j + 1}")
        texts[key][i][j] = "?"
    for i, j in np.argwhere(to_extend & ~to_blank):
        texts[key][i][j] = format_fixed(float(values[i, j]), decimals)
    return bool(to_blank.any() or to_extend.any())


def _grade_finding(row: GradeRow, report: Report, finding: Any) -> None:
    """Grade the answer to a planted mistake: its step, its cell and its name."""
    first = report.first
    assert first is not None, "a sheet with mistakes has one in every problem"
    if not isinstance(finding, dict):
        raise UserError('found: expected a table: [found] step = "scores", cell = [1, 2]')
    for key in finding:
        if key not in (*FINDING_COLUMNS, "head", "t"):
            raise UserError(f"found.{key[:40]}: expected step (and head or t), cell, mistake")
    part = finding.get("head", finding.get("t"))
    step = str(finding.get("step", "")) + (f".{part}" if part is not None else "")
    i, j = first.cell
    is_step = step == first.key
    is_cell = is_step and finding.get("cell") == [i + 1, j + 1]
    is_mistake = finding.get("mistake") in [cause.name for cause in first.causes]
    row.points |= {"step": float(is_step), "cell": float(is_cell), "mistake": float(is_mistake)}


def _format_points(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _escape_spreadsheet_cell(text: str) -> str:
    """Return text on one line, with a quote before it if a spreadsheet would compute it."""
    text = to_one_line(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA_PREFIXES) else text
