"""Files for students to fill in: answers.toml and answers.csv, with "?" in every cell."""

import csv
import io
from typing import Any

from workings.languages import gettext, gettext_noop
from workings.problems.problem_file import format_toml
from workings.problems.sheets.rounded_solution import CellTexts, nest_claims
from workings.problems.sheets.sheet import Exercise, Sheet

_FINDING = {"step": "?", "row": "?", "column": "?", "mistake": "?", "should": "?"}
_COMMENT = gettext_noop(
    'Replace each "?" with a number: 0.5, "1/2" or "-inf". A "?" that stays is a blank.'
)
_FINDING_COMMENT = gettext_noop(
    'Replace each "?": the step, row and column of the first wrong number, the name of the mistake,'
    "\nand the number that should stand there."
)


def format_answer_files(sheet: Sheet) -> dict[str, str]:
    """Return the files to fill in, by name."""
    if sheet.mistakes:
        tables = {exercise.name: {"found": _FINDING} for exercise in sheet.exercises}
        comment = _FINDING_COMMENT
    else:
        tables = {e.name: {"claim": _make_blank_claim(e, sheet)} for e in sheet.exercises}
        comment = _COMMENT
    return {
        "answers.toml": format_toml(tables, gettext(comment)),
        "answers.csv": _format_csv(sheet),
    }


def _list_blanks(exercise: Exercise, sheet: Sheet) -> dict[str, CellTexts]:
    problem = exercise.problem
    shapes = {
        key: problem.orient(problem.exact_matrices[key].mid).shape
        for key in sheet.get_asked_steps(exercise)
    }
    return {key: [["?"] * width for _ in range(height)] for key, (height, width) in shapes.items()}


def _make_blank_claim(exercise: Exercise, sheet: Sheet) -> dict[str, Any]:
    return nest_claims(exercise.problem, _list_blanks(exercise, sheet))


def _format_csv(sheet: Sheet) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    if sheet.mistakes:
        table.writerow(["problem", *_FINDING])
        table.writerows([exercise.name, *_FINDING.values()] for exercise in sheet.exercises)
        return out.getvalue()
    rows = [
        [exercise.name, key, number, *cells]
        for exercise in sheet.exercises
        for key, matrix in _list_blanks(exercise, sheet).items()
        for number, cells in enumerate(matrix, start=1)
    ]
    width = max(map(len, rows)) - 3
    table.writerow(["problem", "step", "row", *range(1, width + 1)])
    table.writerows(rows)
    return out.getvalue()
