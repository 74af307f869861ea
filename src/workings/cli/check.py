"""Check worked solutions: the first wrong number, its likely cause, and what merely follows."""

import argparse
import sys

HELP = "check worked solutions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("files", metavar="FILE", nargs="*", help="problem files with a [claim]")
    parser.add_argument(
        "--from",
        dest="slides",
        metavar="SLIDE",
        action="append",
        default=[],
        help="a slide to read matrices from: LaTeX, Markdown or prints (docs/problem-format.md)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object a file")
    parser.add_argument(
        "--format", choices=("text", "latex", "html", "json"), default="text", help="default: text"
    )
    parser.add_argument(
        "--full", action="store_true", help="show every step, also of several files"
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Check every file; exit 1 where something is wrong, 2 where a file cannot be read."""
    from workings.cli.output import supports_color, terminal_width, write_output
    from workings.errors import UserError
    from workings.plain_text import escape_control
    from workings.problems import Problem

    def load_slide(file: str) -> Problem:
        from workings.problems.documents.problem_text import load_problem_text

        problem = load_problem_text(file)
        if not problem.claims:
            raise UserError(f"{file}: nothing is claimed: name what was worked out, like Q = …")
        return problem

    form = "json" if arguments.json else arguments.format
    sources = [
        *((f, Problem.load) for f in arguments.files),
        *((f, load_slide) for f in arguments.slides),
    ]
    if not sources:
        raise UserError("nothing to check: give a problem file, or --from SLIDE")
    if form in ("html", "latex") and len(sources) > 1:
        raise UserError(f"--format {form}: one file at a time makes one page")
    status, written = 0, []
    for file, load in sources:
        try:
            report = load(file).check()
        except (UserError, OSError) as error:
            told = str(error) if isinstance(error, UserError) else f"{file}: {error.strerror}"
            sys.stderr.write(f"workings: {escape_control(told)}\n")
            status = 2
            continue
        status = max(status, 1 if report.verdict == "wrong" else 0)
        if form == "json":
            written.append(report.to_json(file))
        elif form == "text" and len(sources) > 1 and not arguments.full:
            written.append(f"{escape_control(file)}\n  {report.summarize()}")
        elif form == "text":
            color = arguments.out is None and supports_color()
            written.append(report.text(width=terminal_width(), color=color))
        elif form == "html":
            from workings.web.standalone_page import page

            written.append(page(report))
        else:
            written.append(report.latex())
    arguments.status = status  # also where nobody reads on to the end
    if written:
        write_output("\n".join(written), arguments.out)
    return status
