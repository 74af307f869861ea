"""Grade students' answers to a sheet, with credit for numbers that follow from a mistake.

ANSWERS has one folder per student (alice/problem-01.toml, …) or one file per student (alice.toml
with [problem-01.claim], …). The given matrices are those of the sheet. A step is worth one mark, or
as many as `workings make --points` gave it, divided among its cells; steps that were not asked earn
none. On a sheet with planted mistakes, students hand in
[found] step = "scores", cell = [1, 2], mistake = "not-scaled"; each is worth one mark.
"""

import argparse
import sys

from workings.cli import write_output

HELP = "grade students' answers to a sheet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "sheet", metavar="SHEET", help="folder of the sheet, written by workings make"
    )
    parser.add_argument("answers", metavar="ANSWERS", help="folder with the students' answers")
    parser.add_argument(
        "--out", metavar="FILE", help="write the marks (CSV) to a file instead of the terminal"
    )


def run(arguments: argparse.Namespace) -> int:
    """Grade all readable answers; return 2 if some could not be read."""
    from workings.plain_text import escape_control
    from workings.problems.grading import grade

    marks = grade(arguments.sheet, arguments.answers)
    write_output(marks.to_csv(), arguments.out)
    for error in marks.errors:
        sys.stderr.write(f"workings: {escape_control(error)}\n")
    return 2 if marks.errors else 0
