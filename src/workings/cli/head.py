"""Show one attention head of a trained model on a text as a worked problem.

With --cell, one number: its largest terms, the sum of the rest, and the value that the model itself
computes.
"""

import argparse

from workings.cli import (
    FIGURE_FORMATS,
    add_picture_options,
    read_picture_options,
    read_text_argument,
    write_output,
    write_result,
)

HELP = "show an attention head as a worked problem"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "text", metavar="TEXT", help="text (for a translator the source), or - for standard input"
    )
    for name in ("layer", "head"):
        parser.add_argument(
            f"--{name}", type=int, default=1, metavar="N", help=f"{name}, from 1 (default: 1)"
        )
    parser.add_argument(
        "--part",
        metavar="PART",
        help="for a translator: encoder, decoder or cross (default: cross)",
    )
    parser.add_argument("--target", metavar="TEXT", help="translation (default: the model's)")
    parser.add_argument(
        "--cell",
        metavar="STEP,ROW,COLUMN",
        help="derive one cell, counted from 1, like weights,3,5 (steps: Q, K, V, scores, scaled, "
        "masked, weights, mixed)",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=5,
        metavar="K",
        help="number of largest terms of a cell (default: 5)",
    )
    parser.add_argument(
        "--decimals", type=int, default=4, metavar="N", help="decimals to show (default: 4)"
    )
    parser.add_argument(
        "--projected",
        action="store_true",
        help="start from Q, K and V instead of X and its projections",
    )
    parser.add_argument(
        "--problem", metavar="FILE", help="save the head as a problem for workings solve and check"
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the head; write it or one of its cells, or save it as a problem."""
    from workings.cli.solve import parse_cell
    from workings.interpret.heads import read_head
    from workings.training.runs import load

    style = read_picture_options(arguments)
    cell = None if arguments.cell is None else parse_cell(arguments.cell)
    task, text = load(arguments.run_folder), read_text_argument(arguments.text)
    head = read_head(
        task,
        text,
        arguments.layer,
        arguments.head,
        part=arguments.part,
        target=arguments.target,
        projected=arguments.projected,
        top=arguments.top,
        decimals=arguments.decimals,
    )
    if arguments.problem is not None:
        write_output(head.to_file(), arguments.problem)
    if cell is not None:
        write_result(head.cell(*cell), arguments.format, arguments.out, style)
    elif arguments.problem is None or arguments.out is not None:
        write_result(head, arguments.format, arguments.out, style)
    return 0
