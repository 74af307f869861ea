"""Read the problems of a sheet's folder for marking."""

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError, did_you_mean
from workings.problems.check import check_problem
from workings.problems.grading.findings import FINDING_COLUMNS
from workings.problems.grading.marking import SheetProblem
from workings.problems.grading.policy import Policy
from workings.problems.grading.work import Information, list_unrelated_problems
from workings.problems.problem import Problem
from workings.problems.problem_file import parse_problem_toml, prefix_errors, read_text_file
from workings.problems.sheets.folder import read_manifest
from workings.problems.sheets.questions import MAX_POINTS

_PROBLEM_FILE = re.compile(r"problem-\d{2,3}\.toml")


def read_problems(folder: Path, policy: Policy, key: Path | None = None) -> list[SheetProblem]:
    """Read the problems of a sheet, and what their steps are worth.

    `key` is the folder of its key, if that is not in the folder of the sheet.
    """
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
    source = (key or folder / "key") if is_hidden else folder
    tables = {}
    for entry in entries:
        file = _get_file_name(folder, entry)
        tables[file] = _remove_claim(_read_problem_table(source / file))
    if has_mistakes:
        return [_make_finding(folder, file, tables[file], decimals) for file in tables]
    problems = {file: _make_problem(folder / file, tables[file]) for file in tables}
    policy.check_steps(step.key for p in problems.values() for step in p.asked_steps)
    sheet_problems = []
    for entry, (file, table) in zip(entries, tables.items(), strict=True):
        others = [other for name, other in problems.items() if name != file]
        information = Information.of(
            problems[file], list_unrelated_problems(table, others), decimals
        )
        try:
            points = _read_points(problems[file], entry, policy)
        except UserError as error:
            raise UserError(f"{folder}: sheet.json: {file}: {error}") from None
        name = file.removesuffix(".toml")
        sheet_problems.append(
            SheetProblem(name, table, problems[file], decimals, points, information)
        )
    return sheet_problems


def _get_file_name(folder: Path, entry: Any) -> str:
    file = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(file, str) or not _PROBLEM_FILE.fullmatch(file):
        raise UserError(
            f"{folder}: sheet.json: {str(file)!r:.40} is not the name of a problem file"
        )
    return file


def _read_problem_table(path: Path) -> dict[str, Any]:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UserError("expected a regular file, not a link or device")
        return parse_problem_toml(read_text_file(path))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or 'cannot be read'}") from None


def _make_problem(path: Path, table: dict[str, Any]) -> Problem:
    with prefix_errors(path):
        return Problem(**table)


def _read_points(problem: Problem, entry: Mapping[str, Any], policy: Policy) -> dict[str, float]:
    """Return the points of the steps that the manifest asks for; all steps by default.

    The policy comes before the points that the sheet was made with.
    """
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
    return {key: policy.get_points(key, points.get(key, 1)) for key in known if key in steps}


def _remove_claim(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "claim"}


def _make_finding(folder: Path, file: str, table: dict[str, Any], decimals: int) -> SheetProblem:
    """Return a problem with a planted mistake to find."""
    claim = _read_problem_table(folder / file).get("claim", {})
    problem = _make_problem(folder / file, table)
    report = check_problem(_make_problem(folder / file, {**table, "claim": claim}))
    if report.first is None:
        raise UserError(f"{folder / file}: the solution has no mistake to find")
    points, name = dict.fromkeys(FINDING_COLUMNS, 1.0), file.removesuffix(".toml")
    return SheetProblem(name, table, problem, decimals, points, Information({}, {}), report)
