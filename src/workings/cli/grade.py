"""Grade students' answers to a sheet, with credit for numbers that follow from a mistake.

ANSWERS has one folder or file per student, or is a download of Moodle or Canvas, also as a ZIP
archive: problem files (TOML), the sheet's notebook, answers.csv, a spreadsheet, LaTeX, Markdown or
text. The given matrices are those of the sheet. A step is worth one mark, or as many as
`workings make --points` or policy.toml beside the sheet gives it, divided among its cells; steps
that were not asked earn none. On a sheet with planted mistakes, students hand in
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
    parser.add_argument(
        "answers", metavar="ANSWERS", help="folder or ZIP archive with the students' answers"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the marks (CSV) to a file; marks set by hand in it are kept, and what changed"
        " is printed",
    )
    parser.add_argument(
        "--details", metavar="FILE", help="write the points of every problem and step (CSV)"
    )
    parser.add_argument(
        "--feedback",
        metavar="FOLDER",
        help="write a page for each student and class.html (HTML, ready to print)",
    )
    parser.add_argument(
        "--export",
        metavar="moodle|canvas|gradescope",
        help="also write the marks for a learning platform, beside --out",
    )
    parser.add_argument(
        "--policy", metavar="FILE", help="points and rules (default: policy.toml of the sheet)"
    )
    parser.add_argument(
        "--language",
        metavar="CODE",
        help="language of the feedback: en, de, fr, vi or zh (default: that of the sheet)",
    )
    parser.add_argument(
        "--bom", action="store_true", help="begin CSV files with a byte order mark, for Excel"
    )


def run(arguments: argparse.Namespace) -> int:
    """Grade all readable answers; return 2 if some could not be read."""
    from pathlib import Path

    from workings.languages import use_language
    from workings.problems.sheets.folder import read_sheet_language

    if arguments.language is None:
        arguments.language = read_sheet_language(Path(arguments.sheet))
    with use_language(arguments.language):
        return _grade(arguments)


def _grade(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from workings.plain_text import escape_control
    from workings.problems.grading import grade
    from workings.problems.grading.exports import export_marks
    from workings.problems.grading.marks import keep_hand_marks, list_changes, read_marks

    grades = grade(arguments.sheet, arguments.answers, arguments.policy)
    changes: list[str] = []
    if arguments.out and Path(arguments.out).is_file():
        earlier = read_marks(Path(arguments.out))
        keep_hand_marks(grades, earlier)
        changes = list_changes(grades, earlier)
    mark = "\ufeff" if arguments.bom else ""
    write_output(mark + grades.to_csv(), arguments.out)
    if arguments.details:
        write_output(mark + grades.to_details_csv(), arguments.details)
    if arguments.export:
        folder = Path(arguments.out).parent if arguments.out else Path()
        for name, text in export_marks(grades, arguments.export).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            prefix = mark if name.endswith(".csv") else ""
            write_output(prefix + text, str(folder / name))
    if arguments.feedback:
        from workings.render.feedback import write_feedback

        names = write_feedback(grades, arguments.feedback)
        sys.stdout.write(escape_control(f"{arguments.feedback}: {len(names)} pages") + "\n")
    for line in changes:
        sys.stdout.write(escape_control(line) + "\n")
    for error in grades.errors:
        sys.stderr.write(f"workings: {escape_control(error)}\n")
    return 2 if grades.errors else 0
