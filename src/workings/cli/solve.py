"""Work a problem step by step."""

import argparse

HELP = "work a problem step by step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("file", metavar="FILE", help="a problem file (TOML)")
    parser.add_argument(
        "--decimals", type=int, default=3, metavar="N", help="decimals to show (default: 3)"
    )
    parser.add_argument(
        "--format", choices=("text", "latex", "html", "json"), default="text", help="default: text"
    )
    parser.add_argument(
        "--cell",
        metavar="STEP,ROW,COLUMN",
        help="write one cell's working out, counted from 1: scores,2,3 (a head's: scores.1,2,3)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Solve, and show."""
    from workings.cli.output import deliver, in_color, width
    from workings.errors import UserError
    from workings.problems import Problem
    from workings.views.notation import Latex, MathML, Text

    solution = Problem.load(arguments.file).solve(arguments.decimals)
    if arguments.cell is not None:
        step, row, column = cell_named(arguments.cell)
        if arguments.format == "json":
            raise UserError("--cell writes text, latex or html, not json")
        kind = {"latex": Latex, "html": MathML}.get(arguments.format, Text)
        written = solution.cell(step, row, column, kind(arguments.decimals))
        deliver(f"<math>{written}</math>" if kind is MathML else written, arguments.out)
    elif arguments.format == "text":
        color = arguments.out is None and in_color()
        deliver(solution.text(width=width(), color=color), arguments.out)
    elif arguments.format == "html":
        from workings.web.one_file import page

        deliver(page(solution), arguments.out)
    else:
        deliver(getattr(solution, arguments.format)(), arguments.out)
    return 0


def cell_named(given: str) -> tuple[str, int, int]:
    """Read what was given as --cell."""
    from workings.errors import UserError

    step, *place = given.split(",")
    if len(place) != 2 or not all(part.strip().isdecimal() for part in place):
        raise UserError(f"--cell {given!r}: expected STEP,ROW,COLUMN like scores,2,3")
    row, column = (int(part) for part in place)
    return step, row, column
