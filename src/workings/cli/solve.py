"""Solve a problem step by step."""

import argparse
from typing import TYPE_CHECKING

from workings.builtin import builtin_lectures
from workings.cli import supports_color, terminal_width, write_output

if TYPE_CHECKING:
    from workings.problems import Problem

HELP = "solve a problem step by step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", metavar="PROBLEM", help="problem file (TOML), or the name of a lecture"
    )
    parser.add_argument(
        "--decimals", type=int, default=3, metavar="N", help="decimals to show (default: 3)"
    )
    parser.add_argument(
        "--format",
        choices=("text", "latex", "html", "json"),
        default="text",
        help="output format (default: text)",
    )
    parser.add_argument(
        "--cell",
        metavar="STEP,ROW,COLUMN",
        help="show one cell's computation, counted from 1: scores,2,3 (head 1: scores.1,2,3)",
    )
    parser.add_argument(
        "--tree",
        action="store_true",
        help="draw the tree of a beam search; with --out, as .svg or .png",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    parser.epilog = f"lectures: {', '.join(builtin_lectures())}"


def run(arguments: argparse.Namespace) -> int:
    """Solve the problem and write the solution or one cell."""
    from workings.errors import UserError
    from workings.problems import Problem
    from workings.problems.notation import LatexNotation, MathMLNotation, TextNotation

    solution = Problem.load(arguments.file).solve(arguments.decimals)
    if arguments.tree:
        _draw_tree(solution.problem, arguments)
    elif arguments.cell is not None:
        step, row, column = parse_cell(arguments.cell)
        if arguments.format == "json":
            raise UserError("--cell writes text, latex or html, not json")
        kind = {"latex": LatexNotation, "html": MathMLNotation}.get(arguments.format, TextNotation)
        working = solution.cell(step, row, column, kind(arguments.decimals))
        write_output(
            f"<math>{working}</math>" if kind is MathMLNotation else working, arguments.out
        )
    elif arguments.format == "text":
        color = arguments.out is None and supports_color()
        write_output(solution.text(width=terminal_width(), color=color), arguments.out)
    elif arguments.format == "html":
        from workings.web.standalone_page import page

        write_output(page(solution), arguments.out)
    elif arguments.format == "latex":
        write_output(solution.latex(), arguments.out)
    else:
        write_output(solution.to_json(), arguments.out)
    return 0


def _draw_tree(problem: "Problem", arguments: argparse.Namespace) -> None:
    """Print the tree of a search, or save it as a picture."""
    from workings.errors import UserError
    from workings.problems.search_tree import build_search_tree

    if arguments.cell is not None or arguments.format != "text":
        raise UserError("--tree draws text, .svg or .png: it excludes --cell and --format")
    tree = build_search_tree(problem)
    if arguments.out is not None and arguments.out.endswith((".svg", ".png")):
        tree.picture().save(arguments.out)
        return
    color = arguments.out is None and supports_color()
    write_output(tree.text(width=terminal_width(), color=color), arguments.out)


def parse_cell(text: str) -> tuple[str, int, int]:
    """Return the step, row and column of --cell."""
    from workings.errors import UserError

    step, *indices = text.split(",")
    if len(indices) != 2 or not all(index.strip().isdecimal() for index in indices):
        raise UserError(f"--cell {text!r}: expected STEP,ROW,COLUMN like scores,2,3")
    row, column = (int(index) for index in indices)
    return step, row, column
