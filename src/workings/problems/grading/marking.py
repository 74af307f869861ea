"""Mark one problem of one student: the points of every step, the first mistake and its causes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from workings.errors import UserError
from workings.languages import gettext, localize_number
from workings.problems.check import Report, WrongCell, check_problem
from workings.problems.diagnosis import UNKNOWN
from workings.problems.grading.findings import FINDING_COLUMNS, mark_finding
from workings.problems.grading.policy import Policy
from workings.problems.grading.work import AnswerWork, Information
from workings.problems.intervals import Floats
from workings.problems.judging import CheckedStep
from workings.problems.notation import format_decimal
from workings.problems.numbers import Number
from workings.problems.problem import Claim, Problem
from workings.problems.problem_file import set_nested
from workings.problems.sheets.rounded_solution import CellTexts, format_fixed, nest_claims
from workings.problems.solution import format_step_title
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD

CREDITED_VERDICTS = ("right", "rounded", "follows")
_MAX_COMPLETED = 1e12  # a larger number is left blank
_MAX_NAMED_CELLS = 6  # in a note
_MAX_TRIED_CELLS = 400  # one by one, if one of them cannot be read


@dataclass(frozen=True)
class SheetProblem:
    """A problem of the sheet: its table without claims, and what its parts are worth.

    `planted_report` is the report on the solution with a planted mistake, if the sheet has them.
    """

    name: str
    table: dict[str, Any]
    problem: Problem  # without claims
    decimals: int
    points: dict[str, float]  # by the key of a step, or by the parts of a finding
    information: Information
    planted_report: Report | None = None

    @property
    def max_points(self) -> float:
        """Points for the entire problem."""
        return sum(self.points.values())

    @property
    def answer_table(self) -> str:
        """The table of a file that holds the answer."""
        return "claim" if self.planted_report is None else "found"


@dataclass
class ProblemMark:
    """The points of one student for one problem; `report` is None if nothing could be judged."""

    problem: SheetProblem
    points: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    report: Report | None = None
    penalty: float = 0.0

    @property
    def total(self) -> float:
        """Points for the entire problem."""
        return max(0.0, sum(self.points.values()) - self.penalty)

    @property
    def first_mistake(self) -> WrongCell | None:
        """The first wrong number."""
        return self.report.first if self.report is not None else None

    def describe_first_mistake(self) -> str:
        """Return the first wrong number in words; "" if there is none."""
        first = self.first_mistake
        if self.report is None or first is None:
            return ""
        row, column = first.cell
        title = format_step_title(self.report.problem.get_step(first.key), self.report.problem)
        expected = format_decimal(first.judged_value, first.distinguishing_decimals(4))
        return gettext(
            "{step}, row {row}, column {column}: {claimed}, not {expected}",
            step=title,
            row=row + 1,
            column=column + 1,
            claimed=first.claimed,
            expected=localize_number(expected),
        )

    def list_causes(self) -> list[str]:
        """Return the names of the mistakes that explain the first wrong number."""
        first = self.first_mistake
        return [] if first is None else [cause.name for cause in first.causes]


def mark_problem(problem: SheetProblem, answer: Mapping[str, Any], policy: Policy) -> ProblemMark:
    """Mark an answer, the table of a problem file; an answer that cannot be read is a UserError."""
    mark = ProblemMark(problem, dict.fromkeys(problem.points, 0.0))
    content = answer.get(problem.answer_table)
    if not content:
        mark.notes.append(gettext("no [{table}]", table=problem.answer_table))
    elif problem.planted_report is not None:
        shares = mark_finding(problem.planted_report, content)
        mark.points = {part: shares[part] * problem.points[part] for part in FINDING_COLUMNS}
    else:
        _mark_claim(mark, content, policy)
    return mark


def _mark_claim(mark: ProblemMark, claim: Any, policy: Policy) -> None:
    """Mark a claim: the points of a step are spread over its cells.

    Steps that are not asked earn nothing, but numbers may follow from them.
    """
    problem = mark.problem
    answer, notes = _read_claimed_steps(problem, claim)
    report, coarse = _check_precise_claims(problem, answer, policy.fewer_decimals)
    mark.report = report
    work = AnswerWork(report, _get_values(answer), problem.information, bool(notes))
    shares = {key: work.credit_step(key, policy.follows) for key in problem.points}
    informative = {
        key: credit for key, (credit, is_informative) in shares.items() if is_informative
    }
    worth = sum(problem.points[key] for key in informative)
    earned = sum(informative[key] * problem.points[key] for key in informative)
    for key, (credit, is_informative) in shares.items():
        # Cells that carry no information count if half of the rest of the problem does.
        factor = 1.0 if is_informative or not worth else min(1.0, 2 * earned / worth)
        mark.points[key] = problem.points[key] * credit * factor
    coarse_keys = {key for key, _, _ in coarse}
    missing = [k for k in problem.points if _is_missing(report, k) and k not in coarse_keys]
    mark.penalty = policy.missing_penalty * len(missing)
    if missing:
        notes.append(gettext("left out: {steps}", steps=", ".join(missing)))
    # Where a mistake explains the numbers, their decimals are not what is wrong with them.
    explained = {w.key for w in report.wrong_cells if w.causes[0].name != UNKNOWN}
    cells = [
        gettext("{step} row {row} column {column}", step=key, row=row, column=column)
        for key, row, column in coarse
        if key not in explained
    ]
    if cells:
        text = ", ".join(cells[:_MAX_NAMED_CELLS])
        if len(cells) > _MAX_NAMED_CELLS:
            count = len(cells) - _MAX_NAMED_CELLS
            text = gettext("{names} and {count} more", names=text, count=count)
        notes.append(gettext("too few decimals, not counted: {cells}", cells=text))
    mark.notes += notes


def _is_missing(report: Report, key: str) -> bool:
    return not any(c.step.key == key and c.verdict != "blank" for c in report.steps)


def _read_claimed_steps(sheet_problem: SheetProblem, claim: Any) -> tuple[Problem, list[str]]:
    """Return the problem with what can be read of a claim, and notes on steps that cannot."""

    def read(claim: Any) -> Problem:
        return Problem(**{**sheet_problem.table, "claim": claim})

    try:
        return read(claim), []
    except UserError as error:
        if not isinstance(claim, Mapping):
            raise
        readable: dict[str, Any] = {}
        notes = []
        for path, value in iterate_leaves(claim):
            try:
                read(set_nested({}, path, value))
            except UserError as step_error:
                notes.append(gettext("not counted: {reason}", reason=step_error))
                rows = _blank_unreadable(partial(_read_step, read, path), value)
                if rows is not None:
                    set_nested(readable, path, rows)
            else:
                set_nested(readable, path, value)
        if not readable:
            raise UserError(str(error)) from None
        return read(readable), notes


def _read_step(read: Callable[[Any], Problem], path: tuple[str, ...], value: Any) -> Problem:
    return read(set_nested({}, path, value))


def _blank_unreadable(read: Callable[[Any], Problem], value: Any) -> list[list[Any]] | None:
    """Return a matrix with "?" for the cells that cannot be read; None if there are no others."""
    is_matrix = isinstance(value, list) and all(isinstance(row, list) for row in value)
    if not is_matrix or sum(map(len, value)) > _MAX_TRIED_CELLS:
        return None
    rows: list[list[Any]] = [["?"] * len(row) for row in value]
    try:
        read(rows)
    except UserError:
        return None
    for row, cells in zip(rows, value, strict=True):
        for j, cell in enumerate(cells):
            row[j] = cell
            try:
                read(rows)
            except UserError:
                row[j] = "?"
    return rows if any(cell != "?" for row in rows for cell in row) else None


def iterate_leaves(
    table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and value of every entry that is not a table."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from iterate_leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _check_precise_claims(
    sheet_problem: SheetProblem, problem: Problem, fewer_decimals: int
) -> tuple[Report, list[tuple[str, int, int]]]:
    """Check a claim with all its decimals; return the report and the cells that have too few.

    A number matches whatever it may be rounded from; `1e9` matches so much that every number after
    it would count as following from it. `fewer_decimals` less than the sheet asks for are accepted.
    """
    known_keys = {step.key for step in problem.asked_steps}
    claims = [c for c in problem.claims if not c.reprint and c.key in known_keys]
    original_texts = {c.key: _format_claim(problem, c, lambda number: number.text) for c in claims}
    remove_zeros = partial(_remove_zeros, decimals=sheet_problem.decimals)
    texts = {c.key: _format_claim(problem, c, remove_zeros) for c in claims}
    coarse: list[tuple[str, int, int]] = []
    places = (sheet_problem.decimals, sheet_problem.decimals - fewer_decimals)
    while True:  # terminates: each iteration changes cells that are not changed again
        problem = Problem(**{**sheet_problem.table, "claim": nest_claims(problem, texts)})
        report = check_problem(problem, sheet_problem.decimals)
        changed = [
            _complete_decimals(problem, checked_step, texts, places, coarse)
            for checked_step in report.steps
        ]
        if not any(changed):
            _restore_texts(problem, original_texts)
            return report, coarse


def _get_values(problem: Problem) -> dict[str, Floats]:
    """Return the claimed numbers by step, vectors as rows; NaN if blank."""
    return {
        claim.key: np.array([[np.nan if n is None else n.value for n in r] for r in claim.numbers])
        for claim in problem.claims
        if not claim.reprint
    }


def _format_claim(
    problem: Problem, claim: Claim, format_number: Callable[[Number], str]
) -> CellTexts:
    texts = np.array(
        [["?" if n is None else format_number(n) for n in row] for row in claim.numbers]
    )
    oriented: CellTexts = problem.orient(texts).tolist()
    return oriented


def _remove_zeros(number: Number, decimals: int) -> str:
    """Return a rounded number without the zeros that a program adds to it: 0.333 for 0.333000."""
    if number.places is None or number.places <= decimals:
        return number.text
    text = format_fixed(number.value, decimals)
    is_rounded = abs(float(text) - number.value) <= 1e-12 * abs(number.value)
    return text if is_rounded else number.text


def _restore_texts(problem: Problem, original_texts: Mapping[str, CellTexts]) -> None:
    """Quote the numbers as the student wrote them, where they were completed with zeros."""
    for claim in problem.claims:
        texts = problem.orient(np.array(original_texts[claim.key])).tolist()
        for row, row_texts in zip(claim.numbers, texts, strict=True):
            row[:] = [
                None if number is None else replace(number, text=text)
                for number, text in zip(row, row_texts, strict=True)
            ]


def _complete_decimals(
    problem: Problem,
    checked_step: CheckedStep,
    texts: dict[str, CellTexts],
    places: tuple[int, int],
    coarse: list[tuple[str, int, int]],
) -> bool:
    """Complete numbers of too few decimals with zeros; return True if any changed.

    Some need no more decimals. The others are wrong then, and later numbers follow from them as
    they are written; those that would have been right with more decimals are added to `coarse`.
    `places`: the decimals that the sheet asks for, and the fewest that it accepts.
    """
    key, claimed = checked_step.step.key, checked_step.claimed_matrix
    decimals, fewest = places
    target, exact = checked_step.carried_matrix.mid, problem.exact_matrices[key].mid
    unit = np.where(claimed.units > 0, claimed.units, 1.0)
    with np.errstate(invalid="ignore"):
        is_exact = (np.abs(target - np.round(target / unit) * unit) <= 1e-9) & (unit <= 1)
        # Or a spreadsheet dropped the zeros at the end: 0.4 for 0.400, or for 0.40.
        distance = np.abs(target - claimed.values)
        is_exact |= distance <= 0.5 * 10.0**-decimals * 1.001
        is_coarse = claimed.units > 10.0**-fewest * 1.001
        is_short = is_coarse & ~is_exact & (distance <= 10.0**-fewest)
        # Rounded from the exact number to fewer decimals, whatever follows from the others.
        from_exact = np.abs(exact - claimed.values)
        is_exact &= ~((from_exact > 0.5 * 10.0**-decimals) & (from_exact <= 0.5 * unit))
    # A large negative number counts as −∞, which has no decimals.
    is_masked = np.isneginf(exact) & (claimed.values <= MINUS_INFINITY_THRESHOLD)
    is_vague = is_coarse & ~is_exact & ~is_short & ~is_masked & ~claimed.is_blank
    is_credited = np.isin(checked_step.verdicts, CREDITED_VERDICTS)
    to_blank = problem.orient(is_vague & ~(np.abs(claimed.values) < _MAX_COMPLETED))
    lacks_decimals = claimed.units > 10.0**-decimals * 1.001
    to_extend = lacks_decimals & is_exact & ~claimed.is_integer
    to_extend = problem.orient(to_extend | is_vague) & ~to_blank
    values = problem.orient(claimed.values)
    for i, j in np.argwhere(to_blank | problem.orient(is_vague & is_credited)):
        coarse.append((key, int(i) + 1, int(j) + 1))
    for i, j in np.argwhere(to_blank):
        texts[key][i][j] = "?"
    for i, j in np.argwhere(to_extend):
        texts[key][i][j] = format_fixed(float(values[i, j]), decimals)
    is_short = problem.orient(is_short)
    for i, j in np.argwhere(is_short):
        texts[key][i][j] = format_fixed(float(values[i, j]), fewest)
    return bool(to_blank.any() or to_extend.any() or is_short.any())
