"""Check worked solutions: the first wrong number, its likely cause, and carried errors."""

import argparse
import sys

from workings.builtin import builtin_lectures
from workings.cli import supports_color, terminal_width, write_output

HELP = "check worked solutions"
_NO_CLAIMS = "it claims no numbers: give those to check in a [claim] table"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "files",
        metavar="PROBLEM",
        nargs="*",
        help="problem files with a [claim], or names of lectures",
    )
    parser.add_argument(
        "--lectures", action="store_true", help="check the worked examples of all lectures"
    )
    parser.add_argument(
        "--from",
        dest="slides",
        metavar="SLIDE",
        action="append",
        default=[],
        help="slide to read matrices from: LaTeX, Markdown or program output "
        "(docs/problem-format.md)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per file")
    parser.add_argument(
        "--format",
        choices=("text", "latex", "html", "json"),
        default="text",
        help="output format (default: text)",
    )
    parser.add_argument(
        "--full", action="store_true", help="show every step, even for several files"
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    parser.epilog = f"lectures: {', '.join(builtin_lectures())}"


def run(arguments: argparse.Namespace) -> int:
    """Check every file; return 1 if a number is wrong, 2 if a file has none to check."""
    from workings.errors import UserError
    from workings.plain_text import escape_control
    from workings.problems import Problem

    lectures = builtin_lectures()

    def load_lecture(name: str) -> Problem:
        return Problem.load(lectures[name])

    def load_slide(file: str) -> Problem:
        from workings.problems.documents.problem_text import load_problem_text

        problem = load_problem_text(file)
        if not problem.claims:
            raise UserError(f"{file}: no claims: name the computed matrices, like Q = …")
        return problem

    file_format = "json" if arguments.json else arguments.format
    sources = [
        *((f, Problem.load) for f in arguments.files),
        *((name, load_lecture) for name in (lectures if arguments.lectures else ())),
        *((f, load_slide) for f in arguments.slides),
    ]
    if not sources:
        raise UserError("nothing to check: give a problem file, --lectures or --from SLIDE")
    if file_format in ("html", "latex") and len(sources) > 1:
        raise UserError(f"--format {file_format}: takes one file")
    status, outputs = 0, []
    for file, load in sources:
        try:
            report = load(file).check()
        except (UserError, OSError) as error:
            message = str(error) if isinstance(error, UserError) else f"{file}: {error.strerror}"
            sys.stderr.write(f"workings: {escape_control(message)}\n")
            status = 2
            continue
        if report.verdict == "blank":
            sys.stderr.write(f"workings: {escape_control(file)}: nothing to check: {_NO_CLAIMS}\n")
        status = max(status, {"right": 0, "wrong": 1, "blank": 2}[report.verdict])
        if file_format == "json":
            outputs.append(report.to_json(file))
        elif file_format == "text" and len(sources) > 1 and not arguments.full:
            outputs.append(f"{escape_control(file)}\n  {report.summarize()}")
        elif file_format == "text":
            color = arguments.out is None and supports_color()
            outputs.append(report.text(width=terminal_width(), color=color))
        elif file_format == "html":
            from workings.web.standalone_page import page

            outputs.append(page(report))
        else:
            outputs.append(report.latex())
    arguments.status = status  # returned even if the reader closes the pipe early
    if outputs:
        write_output("\n".join(outputs), arguments.out)
    return status
