"""Students' answers to a sheet, read from a folder; nobody's can spoil another's, or the sheet.

answers/alice/problem-01.toml    a file a problem, with a [claim] (and anything else, unread)
answers/bob.toml                 or one file for all: [problem-01.claim], [problem-02.claim]
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
from workings.problems.check import CheckedStep, Report, WrongCell
from workings.problems.notation import format_decimal
from workings.problems.problem import Claim, Problem
from workings.problems.problem_file import parse_problem_toml, read_text_file
from workings.problems.sheets.folder import read_manifest
from workings.problems.sheets.rounded_solution import (
    CellTexts,
    format_fixed,
    list_asked_steps,
    nest_claims,
)
from workings.problems.solution import format_step_title
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD

_IGNORED_NAMES = (
    "__MACOSX",
)  # what archives and desktops leave behind; and what starts with a dot


@dataclass
class Submission:
    """What one student handed in: a table a problem, and what could not be read.

    `errors` are by problem, or by file where that belongs to none; `unread`: nothing could be read.
    """

    student: str
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    read_error: str = ""


def read_submissions(folder: Path, problems: list[str]) -> Iterator[Submission]:
    """Read every student's answers, in the order of their names."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder with a folder or a file for each student")
    entries = sorted(
        (p for p in folder.iterdir() if not _is_ignored(p)),
        key=lambda p: (p.stem if p.suffix == ".toml" else p.name, p.name),
    )
    seen: set[str] = set()
    for entry in entries:
        is_folder = entry.is_dir() and not entry.is_symlink()
        hand_in = Submission(entry.name if is_folder else entry.stem)
        try:
            if hand_in.student in seen:
                raise UserError(f"{hand_in.student} is there twice, as a folder and as a file")
            if is_folder:
                _read_submission_folder(entry, problems, hand_in)
            else:
                _read_submission_file(entry, problems, hand_in)
        except (UserError, OSError) as error:
            hand_in.read_error = hand_in.errors[entry.name] = _format_read_error(error)
        seen.add(hand_in.student)
        yield hand_in


def _is_ignored(path: Path) -> bool:
    return path.name.startswith(".") or path.name in _IGNORED_NAMES


def _read_submission_folder(folder: Path, problems: list[str], submission: Submission) -> None:
    """Read a file a problem."""
    for path in sorted(folder.iterdir()):
        if _is_ignored(path):
            continue
        try:
            if path.suffix != ".toml" or path.stem not in problems:
                hint = did_you_mean(path.stem, problems)
                raise UserError(f"no problem of this sheet is called so: {hint}")
            submission.tables[path.stem] = read_problem_table(path)
        except (UserError, OSError) as error:
            name = path.stem if path.stem in problems else path.name
            submission.errors[name] = _format_read_error(error)


def _read_submission_file(path: Path, problems: list[str], submission: Submission) -> None:
    """Read one file for all problems."""
    if path.suffix != ".toml":
        raise UserError("not a .toml file with claims, nor a folder of them")
    table = read_problem_table(path)
    if len(problems) == 1 and ("claim" in table or "found" in table):
        submission.tables[problems[0]] = table
        return
    for name, part in table.items():
        if name not in problems:
            hint = did_you_mean(name, problems)
            submission.errors[name] = f"no problem of this sheet is called so: {hint}"
        elif not isinstance(part, dict):
            submission.errors[name] = f"expected a table: [{name}.claim]"
        else:
            submission.tables[name] = part


def read_problem_table(path: Path) -> dict[str, Any]:
    """Read a TOML file with its decimals as they are written; links and devices are refused."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UserError("a link or a device, not a file")
    return parse_problem_toml(read_text_file(path))


def _format_read_error(error: Exception) -> str:
    return (error.strerror or "cannot be read") if isinstance(error, OSError) else str(error)


CREDITED_VERDICTS = ("right", "rounded", "follows")
FINDING_COLUMNS = ("step", "cell", "mistake")  # what is marked where a mistake is to be found
_PROBLEM_FILE = re.compile(r"problem-\d{2,3}\.toml")
_FORMULA_PREFIXES = tuple("=+-@\t\r\n＝＋－＠")  # what makes a spreadsheet compute


@dataclass
class GradeRow:
    """One student's marks for one problem."""

    student: str
    problem: str
    points: dict[str, float] = field(default_factory=dict)
    first_wrong_cell: str = ""
    causes: str = ""
    note: str = ""

    @property
    def total(self) -> float:
        """All marks of the problem."""
        return sum(self.points.values())


@dataclass
class Grades:
    """A sheet's marks: a line a student and problem, and what could not be read."""

    steps: list[str]  # the columns
    max_points: dict[str, int]  # by problem
    rows: list[GradeRow]
    errors: list[str]

    def to_csv(self) -> str:
        """Write a table for a spreadsheet; nothing in it is a formula."""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        tail = ("total", "out of", "first wrong", "likely causes", "note")
        table.writerow(["student", "problem", *map(_escape_spreadsheet_cell, self.steps), *tail])
        for student, lines in groupby(self.rows, key=lambda line: line.student):
            total = 0.0
            for line in lines:
                table.writerow(self._format_row(line))
                total += line.total
            most = str(sum(self.max_points.values()))
            blanks = [""] * len(self.steps)
            table.writerow(
                [
                    _escape_spreadsheet_cell(student),
                    "all",
                    *blanks,
                    _format_points(total),
                    most,
                    "",
                    "",
                    "",
                ]
            )
        return out.getvalue()

    def _format_row(self, grade_row: GradeRow) -> list[str]:
        marks = [
            _format_points(grade_row.points[s]) if s in grade_row.points else "" for s in self.steps
        ]
        told = [
            _escape_spreadsheet_cell(text)
            for text in (grade_row.first_wrong_cell, grade_row.causes, grade_row.note)
        ]
        total, most = _format_points(grade_row.total), str(self.max_points[grade_row.problem])
        return [
            _escape_spreadsheet_cell(grade_row.student),
            grade_row.problem,
            *marks,
            total,
            most,
            *told,
        ]


@dataclass(frozen=True)
class SheetProblem:
    """A problem of the sheet: its table without claims, and what is marked in it.

    `planted`: the report on the work in which a mistake is to be found, on such a sheet.
    """

    name: str
    table: dict[str, Any]
    decimals: int
    graded_steps: list[str]
    planted_report: Report | None


def grade(sheet: str | Path, answers: str | Path) -> Grades:
    """Mark every student's answers to a sheet."""
    posed = _read_problems(Path(sheet))
    lines, errors = [], []
    for hand_in in read_submissions(Path(answers), [one.name for one in posed]):
        marked = [_grade_submission(hand_in, one) for one in posed]
        student = to_one_line(hand_in.student)
        errors += [
            f"{student}: {to_one_line(n)}: {to_one_line(e)}" for n, e in hand_in.errors.items()
        ]
        names = [one.name for one in posed]
        strange = [f"{n}: {e}" for n, e in hand_in.errors.items() if n not in names]
        if strange and not hand_in.read_error:  # told once, for the files that belong to no problem
            marked[0].note = "; ".join(filter(None, [marked[0].note, *strange]))
        lines += marked
    columns = list(dict.fromkeys(step for one in posed for step in one.graded_steps))
    return Grades(columns, {one.name: len(one.graded_steps) for one in posed}, lines, errors)


def _read_problems(folder: Path) -> list[SheetProblem]:
    """Read the sheet's own problems."""
    manifest = read_manifest(folder)
    decimals, listed = manifest.get("decimals"), manifest.get("problems")
    if not isinstance(decimals, int) or not 1 <= decimals <= 6:
        raise UserError(f"{folder}: sheet.json: decimals = {decimals!r:.20}: from 1 to 6")
    if not isinstance(listed, list) or not listed:
        raise UserError(f"{folder}: sheet.json lists no problems")
    finds = bool(manifest.get("mistakes"))
    return [_read_problem(folder, one, decimals, finds) for one in listed]


def _read_problem(folder: Path, entry: Any, decimals: int, has_mistakes: bool) -> SheetProblem:
    file = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(file, str) or not _PROBLEM_FILE.fullmatch(file):
        raise UserError(f"{folder}: sheet.json: {str(file)!r:.40} is no name of a problem")
    try:
        whole = read_problem_table(folder / file)
        table = {key: value for key, value in whole.items() if key != "claim"}
        steps = [step.key for step in list_asked_steps(Problem(**table))]
        planted = Problem(**whole).check() if has_mistakes else None
    except UserError as error:
        raise UserError(f"{folder / file}: {error}") from None
    if planted is not None and planted.first is None:
        raise UserError(f"{folder / file}: there is no mistake in it to be found")
    columns = list(FINDING_COLUMNS) if has_mistakes else steps
    return SheetProblem(file.removesuffix(".toml"), table, decimals, columns, planted)


def _grade_submission(submission: Submission, sheet_problem: SheetProblem) -> GradeRow:
    """Mark one problem of one student."""
    line = GradeRow(
        submission.student, sheet_problem.name, dict.fromkeys(sheet_problem.graded_steps, 0.0)
    )
    unread = submission.errors.get(sheet_problem.name) or submission.read_error
    if unread:
        line.note = f"could not be read: {unread}"
        return line
    answer = submission.tables.get(sheet_problem.name, {})
    part = "claim" if sheet_problem.planted_report is None else "found"
    if not answer.get(part):
        line.note = (
            "nothing handed in" if sheet_problem.name not in submission.tables else f"no [{part}]"
        )
        return line
    try:
        if sheet_problem.planted_report is not None:
            _grade_finding(line, sheet_problem.planted_report, answer[part])
        else:
            _grade_claim(line, sheet_problem, answer[part])
    except UserError as error:
        submission.errors[sheet_problem.name] = str(error)
        line.note = f"could not be read: {error}"
    return line


def _grade_claim(grade_row: GradeRow, sheet_problem: SheetProblem, claim: Any) -> None:
    claim, unread = _drop_unreadable_steps(sheet_problem, claim)
    report, coarse = _check_precise_claims(sheet_problem, claim)
    for one in report.steps:
        credited = np.isin(one.verdicts, CREDITED_VERDICTS)
        grade_row.points[one.step.key] = float(credited.mean())
    first = report.first
    if first is not None:
        grade_row.first_wrong_cell = _describe_wrong_cell(report, first)
        grade_row.causes = "; ".join(cause.name for cause in first.causes)
    if coarse:
        unread.append(f"too few decimals, not counted: {', '.join(coarse)}")
    grade_row.note = "; ".join(unread)


def _drop_unreadable_steps(sheet_problem: SheetProblem, claim: Any) -> tuple[Any, list[str]]:
    """Leave out the steps that cannot be read, so that one of them does not cost the others."""
    try:
        Problem(**{**sheet_problem.table, "claim": claim})
    except UserError as error:
        if not isinstance(claim, Mapping):
            raise
        kept: dict[str, Any] = {}
        told = []
        for path, value in _iterate_leaves(claim):
            try:
                Problem(**{**sheet_problem.table, "claim": _set_nested({}, path, value)})
            except UserError as wrong:
                told.append(f"not counted: {wrong}")
            else:
                _set_nested(kept, path, value)
        if not kept:
            raise UserError(str(error)) from None
        return kept, told
    return claim, []


def _iterate_leaves(
    table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[Any, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _iterate_leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _set_nested(table: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    place = table
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value
    return table


def _describe_wrong_cell(report: Report, wrong_cell: WrongCell) -> str:
    row, column = wrong_cell.cell
    title = format_step_title(report.problem.get_step(wrong_cell.key), report.problem)
    should = wrong_cell.expected if wrong_cell.carried_value is None else wrong_cell.carried_value
    return f"{title}, row {row + 1}, column {column + 1}: {wrong_cell.claimed}, not {format_decimal(should, 4)}"


def _check_precise_claims(sheet_problem: SheetProblem, claim: Any) -> tuple[Report, list[str]]:
    """Check a claim, leaving out numbers that are written too coarsely to tell anything.

    A number stands for whatever it may have been rounded from; `1e9` stands for so much that all
    that comes after it would follow. One decimal less than the sheet asks for is let pass.
    """
    problem = Problem(**{**sheet_problem.table, "claim": claim})
    flat = {
        c.key: _get_claim_texts(problem, c)
        for c in problem.claims
        if not c.reprint and c.key in sheet_problem.graded_steps
    }
    coarse: list[str] = []
    while True:  # each time round, something that was written too coarsely no longer is
        problem = Problem(**{**sheet_problem.table, "claim": nest_claims(problem, flat)})
        report = problem.check()
        changed = [
            _blank_coarse_cells(problem, one, flat, sheet_problem.decimals, coarse)
            for one in report.steps
        ]
        if not any(changed):
            return report, coarse


def _get_claim_texts(problem: Problem, claim: Claim) -> CellTexts:
    texts = np.array([["?" if n is None else n.text for n in row] for row in claim.numbers])
    turned: CellTexts = problem.orient(texts).tolist()
    return turned


def _blank_coarse_cells(
    problem: Problem,
    checked_step: CheckedStep,
    flat: dict[str, CellTexts],
    decimals: int,
    coarse: list[str],
) -> bool:
    """Blank the cells that are too coarse. Say whether any cell changed.

    A number of few decimals is none of these where no more were needed: it is written out, because
    nothing was rounded.
    """
    written, target = checked_step.claimed_matrix, checked_step.carried_matrix.mid
    unit = np.where(written.units > 0, written.units, 1.0)
    with np.errstate(invalid="ignore"):
        enough = (np.abs(target - np.round(target / unit) * unit) <= 1e-9) & (unit <= 1)
    vague = written.units > 10.0 ** (1 - decimals) * 1.001
    # An infinity in a finite place leads anywhere: after it, everything would follow.
    endless = np.isinf(written.values) & np.isfinite(
        problem.exact_matrices[checked_step.step.key].mid
    )
    # A large negative number stands for −∞ where that is right, as precisely as can be.
    hidden = np.isneginf(problem.exact_matrices[checked_step.step.key].mid) & (
        written.values <= MINUS_INFINITY_THRESHOLD
    )
    blank = problem.orient(((vague & ~enough & ~hidden) | endless) & ~written.is_blank)
    write_out = problem.orient(
        (written.units > 10.0**-decimals * 1.001) & enough & ~written.is_integer
    )
    value = problem.orient(written.values)
    for i, j in np.argwhere(blank):
        coarse.append(f"{checked_step.step.key} row {i + 1} column {j + 1}")
        flat[checked_step.step.key][i][j] = "?"
    for i, j in np.argwhere(write_out & ~blank):
        flat[checked_step.step.key][i][j] = format_fixed(float(value[i, j]), decimals)
    return bool(blank.any() or write_out.any())


def _grade_finding(grade_row: GradeRow, report: Report, finding: Any) -> None:
    """Mark what somebody found: the step, the cell in it, and the name of the mistake."""
    first = report.first
    assert first is not None, "a sheet to find mistakes in has one in every problem"
    if not isinstance(finding, dict):
        raise UserError('found: expected a table: [found] step = "scores", cell = [1, 2]')
    for key in finding:
        if key not in (*FINDING_COLUMNS, "head", "t"):
            raise UserError(f"found.{key[:40]}: expected step (and head or t), cell, mistake")
    part = finding.get("head", finding.get("t"))
    step = str(finding.get("step", "")) + (f".{part}" if part is not None else "")
    row, column = first.cell
    right = step == first.key
    grade_row.points["step"] = float(right)
    grade_row.points["cell"] = float(right and finding.get("cell") == [row + 1, column + 1])
    grade_row.points["mistake"] = float(
        finding.get("mistake") in [cause.name for cause in first.causes]
    )


def _format_points(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _escape_spreadsheet_cell(text: str) -> str:
    """Make text fit for a cell: one line, and no formula."""
    text = to_one_line(text)
    return f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text
