"""Marking a folder of students' answers to a sheet, with credit for what follows from a mistake.

A step is worth one mark, shared out evenly over its cells: a cell that is right, rounded or follows
has its share, a wrong or blank one has none. What is given is always taken from the sheet.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import UserError
from workings.problems.answers import HandIn, hand_ins, read_table
from workings.problems.check import First, Judged, Report
from workings.problems.make.by_hand import Texts, asked, fixed, nested
from workings.problems.make.folder import read_manifest
from workings.problems.problem import Claim, Problem
from workings.problems.solve import title_of
from workings.problems.verdicts import MINUS_INFINITY
from workings.views.notation import decimal
from workings.views.plain import one_line

CREDITED = ("right", "rounded", "follows")
FOUND = ("step", "cell", "mistake")  # what is marked where a mistake is to be found
_PROBLEM = re.compile(r"problem-\d{2,3}\.toml")
_RISKY = tuple("=+-@\t\r\n＝＋－＠")  # what makes a spreadsheet compute


@dataclass
class Line:
    """One student's marks for one problem."""

    student: str
    problem: str
    marks: dict[str, float] = field(default_factory=dict)
    first: str = ""
    causes: str = ""
    note: str = ""

    @property
    def total(self) -> float:
        """All marks of the problem."""
        return sum(self.marks.values())


@dataclass
class Marks:
    """A sheet's marks: a line a student and problem, and what could not be read."""

    steps: list[str]  # the columns
    out_of: dict[str, int]  # by problem
    lines: list[Line]
    errors: list[str]

    def csv(self) -> str:
        """Write a table for a spreadsheet; nothing in it is a formula."""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        tail = ("total", "out of", "first wrong", "likely causes", "note")
        table.writerow(["student", "problem", *map(_safe, self.steps), *tail])
        for student, lines in groupby(self.lines, key=lambda line: line.student):
            total = 0.0
            for line in lines:
                table.writerow(self._row(line))
                total += line.total
            most = str(sum(self.out_of.values()))
            blanks = [""] * len(self.steps)
            table.writerow([_safe(student), "all", *blanks, _number(total), most, "", "", ""])
        return out.getvalue()

    def _row(self, line: Line) -> list[str]:
        marks = [_number(line.marks[s]) if s in line.marks else "" for s in self.steps]
        told = [_safe(text) for text in (line.first, line.causes, line.note)]
        total, most = _number(line.total), str(self.out_of[line.problem])
        return [_safe(line.student), line.problem, *marks, total, most, *told]


@dataclass(frozen=True)
class Posed:
    """A problem of the sheet: its table without claims, and what is marked in it.

    `planted`: the report on the work in which a mistake is to be found, on such a sheet.
    """

    name: str
    table: dict[str, Any]
    decimals: int
    columns: list[str]
    planted: Report | None


def grade(sheet: str | Path, answers: str | Path) -> Marks:
    """Mark every student's answers to a sheet."""
    posed = _posed(Path(sheet))
    lines, errors = [], []
    for hand_in in hand_ins(Path(answers), [one.name for one in posed]):
        marked = [_line(hand_in, one) for one in posed]
        student = one_line(hand_in.student)
        errors += [f"{student}: {one_line(n)}: {one_line(e)}" for n, e in hand_in.errors.items()]
        names = [one.name for one in posed]
        strange = [f"{n}: {e}" for n, e in hand_in.errors.items() if n not in names]
        if strange and not hand_in.unread:  # told once, for the files that belong to no problem
            marked[0].note = "; ".join(filter(None, [marked[0].note, *strange]))
        lines += marked
    columns = list(dict.fromkeys(step for one in posed for step in one.columns))
    return Marks(columns, {one.name: len(one.columns) for one in posed}, lines, errors)


def _posed(folder: Path) -> list[Posed]:
    """Read the sheet's own problems."""
    manifest = read_manifest(folder)
    decimals, listed = manifest.get("decimals"), manifest.get("problems")
    if not isinstance(decimals, int) or not 1 <= decimals <= 6:
        raise UserError(f"{folder}: sheet.json: decimals = {decimals!r:.20}: from 1 to 6")
    if not isinstance(listed, list) or not listed:
        raise UserError(f"{folder}: sheet.json lists no problems")
    finds = bool(manifest.get("mistakes"))
    return [_one_posed(folder, one, decimals, finds) for one in listed]


def _one_posed(folder: Path, listed: Any, decimals: int, finds: bool) -> Posed:
    file = listed.get("file") if isinstance(listed, dict) else None
    if not isinstance(file, str) or not _PROBLEM.fullmatch(file):
        raise UserError(f"{folder}: sheet.json: {str(file)!r:.40} is no name of a problem")
    try:
        whole = read_table(folder / file)
        table = {key: value for key, value in whole.items() if key != "claim"}
        steps = [step.key for step in asked(Problem(**table))]
        planted = Problem(**whole).check() if finds else None
    except UserError as error:
        raise UserError(f"{folder / file}: {error}") from None
    if planted is not None and planted.first is None:
        raise UserError(f"{folder / file}: there is no mistake in it to be found")
    columns = list(FOUND) if finds else steps
    return Posed(file.removesuffix(".toml"), table, decimals, columns, planted)


def _line(hand_in: HandIn, posed: Posed) -> Line:
    """Mark one problem of one student."""
    line = Line(hand_in.student, posed.name, dict.fromkeys(posed.columns, 0.0))
    unread = hand_in.errors.get(posed.name) or hand_in.unread
    if unread:
        line.note = f"could not be read: {unread}"
        return line
    answer = hand_in.tables.get(posed.name, {})
    part = "claim" if posed.planted is None else "found"
    if not answer.get(part):
        line.note = "nothing handed in" if posed.name not in hand_in.tables else f"no [{part}]"
        return line
    try:
        if posed.planted is not None:
            _mark_found(line, posed.planted, answer[part])
        else:
            _mark_claim(line, posed, answer[part])
    except UserError as error:
        hand_in.errors[posed.name] = str(error)
        line.note = f"could not be read: {error}"
    return line


def _mark_claim(line: Line, posed: Posed, claim: Any) -> None:
    claim, unread = _readable(posed, claim)
    report, coarse = _careful(posed, claim)
    for one in report.steps:
        credited = np.isin(one.verdicts, CREDITED)
        line.marks[one.step.key] = float(credited.mean())
    first = report.first
    if first is not None:
        line.first = _where(report, first)
        line.causes = "; ".join(cause.name for cause in first.causes)
    if coarse:
        unread.append(f"too few decimals, not counted: {', '.join(coarse)}")
    line.note = "; ".join(unread)


def _readable(posed: Posed, claim: Any) -> tuple[Any, list[str]]:
    """Leave out the steps that cannot be read, so that one of them does not cost the others."""
    try:
        Problem(**{**posed.table, "claim": claim})
    except UserError as error:
        if not isinstance(claim, Mapping):
            raise
        kept: dict[str, Any] = {}
        told = []
        for path, value in _leaves(claim):
            try:
                Problem(**{**posed.table, "claim": _planted_in({}, path, value)})
            except UserError as wrong:
                told.append(f"not counted: {wrong}")
            else:
                _planted_in(kept, path, value)
        if not kept:
            raise UserError(str(error)) from None
        return kept, told
    return claim, []


def _leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _planted_in(table: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    place = table
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = value
    return table


def _where(report: Report, first: First) -> str:
    row, column = first.cell
    title = title_of(report.problem.step(first.key), report.problem)
    should = first.expected if first.carried is None else first.carried
    return f"{title}, row {row + 1}, column {column + 1}: {first.claimed}, not {decimal(should, 4)}"


def _careful(posed: Posed, claim: Any) -> tuple[Report, list[str]]:
    """Check a claim, leaving out numbers that are written too coarsely to tell anything.

    A number stands for whatever it may have been rounded from; `1e9` stands for so much that all
    that comes after it would follow. One decimal less than the sheet asks for is let pass.
    """
    problem = Problem(**{**posed.table, "claim": claim})
    flat = {
        c.key: _texts(problem, c) for c in problem.claims if not c.again and c.key in posed.columns
    }
    coarse: list[str] = []
    while True:  # each time round, something that was written too coarsely no longer is
        problem = Problem(**{**posed.table, "claim": nested(problem, flat)})
        report = problem.check()
        changed = [_sharpen(problem, one, flat, posed.decimals, coarse) for one in report.steps]
        if not any(changed):
            return report, coarse


def _texts(problem: Problem, claim: Claim) -> Texts:
    texts = np.array([["?" if n is None else n.text for n in row] for row in claim.numbers])
    turned: Texts = problem.turn(texts).tolist()
    return turned


def _sharpen(
    problem: Problem, one: Judged, flat: dict[str, Texts], decimals: int, coarse: list[str]
) -> bool:
    """Blank the cells that are too coarse. Say whether any cell changed.

    A number of few decimals is none of these where no more were needed: it is written out, because
    nothing was rounded.
    """
    written, target = one.written, one.carried.mid
    unit = np.where(written.unit > 0, written.unit, 1.0)
    with np.errstate(invalid="ignore"):
        enough = (np.abs(target - np.round(target / unit) * unit) <= 1e-9) & (unit <= 1)
    vague = written.unit > 10.0 ** (1 - decimals) * 1.001
    # An infinity in a finite place leads anywhere: after it, everything would follow.
    endless = np.isinf(written.value) & np.isfinite(problem.exact[one.step.key].mid)
    # A large negative number stands for −∞ where that is right, as precisely as can be.
    hidden = np.isneginf(problem.exact[one.step.key].mid) & (written.value <= MINUS_INFINITY)
    blank = problem.turn(((vague & ~enough & ~hidden) | endless) & ~written.blank)
    write_out = problem.turn((written.unit > 10.0**-decimals * 1.001) & enough & ~written.whole)
    value = problem.turn(written.value)
    for i, j in np.argwhere(blank):
        coarse.append(f"{one.step.key} row {i + 1} column {j + 1}")
        flat[one.step.key][i][j] = "?"
    for i, j in np.argwhere(write_out & ~blank):
        flat[one.step.key][i][j] = fixed(float(value[i, j]), decimals)
    return bool(blank.any() or write_out.any())


def _mark_found(line: Line, report: Report, found: Any) -> None:
    """Mark what somebody found: the step, the cell in it, and the name of the mistake."""
    first = report.first
    assert first is not None, "a sheet to find mistakes in has one in every problem"
    if not isinstance(found, dict):
        raise UserError('found: expected a table: [found] step = "scores", cell = [1, 2]')
    for key in found:
        if key not in (*FOUND, "head", "t"):
            raise UserError(f"found.{key[:40]}: expected step (and head or t), cell, mistake")
    part = found.get("head", found.get("t"))
    step = str(found.get("step", "")) + (f".{part}" if part is not None else "")
    row, column = first.cell
    right = step == first.key
    line.marks["step"] = float(right)
    line.marks["cell"] = float(right and found.get("cell") == [row + 1, column + 1])
    line.marks["mistake"] = float(found.get("mistake") in [cause.name for cause in first.causes])


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _safe(text: str) -> str:
    """Make text fit for a cell: one line, and no formula."""
    text = one_line(text)
    return f"'{text}" if text.startswith(_RISKY) else text
