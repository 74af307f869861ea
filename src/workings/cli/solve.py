"""Solve a problem step by step."""

import argparse
from typing import TYPE_CHECKING

from workings.builtin import builtin_lectures
from workings.cli import (
    add_picture_options,
    find_picture_format,
    read_picture_options,
    supports_color,
    terminal_width,
    write_output,
    write_picture,
)

if TYPE_CHECKING:
    from workings.problems import Problem
    from workings.render.picture_style import PictureStyle

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
        help="draw the tree of a beam search",
    )
    parser.add_argument(
        "--language",
        default="en",
        metavar="CODE",
        help="language of the solution: en, de, fr, vi or zh (default: en)",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write to a file instead of the terminal; .svg, .pdf and .png: a picture of all steps",
    )
    add_picture_options(parser)
    parser.epilog = f"lectures: {', '.join(builtin_lectures())}"


def run(arguments: argparse.Namespace) -> int:
    """Solve the problem and write the solution or one cell."""
    from workings.errors import UserError
    from workings.problems import Problem
    from workings.problems.notation import LatexNotation, MathMLNotation, TextNotation

    picture_format = find_picture_format(arguments)
    style = read_picture_options(arguments)
    if picture_format and (arguments.cell is not None or arguments.format != "text"):
        raise UserError(f"--out {arguments.out} is a picture: it excludes --cell and --format")
    solution = Problem.load(arguments.file).solve(arguments.decimals)
    if arguments.tree:
        _draw_tree(solution.problem, arguments, picture_format, style)
    elif picture_format:
        write_picture(solution.picture(), picture_format, arguments.out, style)
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


def _draw_tree(
    problem: "Problem",
    arguments: argparse.Namespace,
    picture_format: str | None,
    style: "PictureStyle",
) -> None:
    """Print the tree of a search, or save it as a picture."""
    from workings.errors import UserError
    from workings.problems.search_tree import build_search_tree

    if arguments.cell is not None or arguments.format != "text":
        raise UserError("--tree draws text or a picture: it excludes --cell and --format")
    tree = build_search_tree(problem)
    if picture_format:
        write_picture(tree.picture(), picture_format, arguments.out, style)
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
