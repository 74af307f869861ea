"""Mark a folder of students' answers to a sheet, with credit for what follows from a mistake.

Answers are a folder a student (alice/problem-01.toml, …) or a file a student (alice.toml with
[problem-01.claim], …). What is given is taken from the sheet, whatever a student's file says.
A step is worth one mark, shared out over its cells. On a sheet of planted mistakes, students hand
in [found] step = "scores", cell = [1, 2], mistake = "not-scaled"; each is worth one mark.
"""

import argparse
import sys

HELP = "mark students' answers to a sheet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("sheet", metavar="SHEET", help="the sheet's folder, as `make` wrote it")
    parser.add_argument("answers", metavar="ANSWERS", help="the folder with the students' answers")
    parser.add_argument(
        "--out", metavar="FILE", help="write the marks (CSV) to a file instead of the terminal"
    )


def run(arguments: argparse.Namespace) -> int:
    """Mark everything that can be read; exit 2 where something could not be."""
    from workings.cli.output import write_output
    from workings.plain_text import escape_control
    from workings.problems.grading import grade

    marks = grade(arguments.sheet, arguments.answers)
    write_output(marks.to_csv(), arguments.out)
    for error in marks.errors:
        sys.stderr.write(f"workings: {escape_control(error)}\n")
    return 2 if marks.errors else 0
