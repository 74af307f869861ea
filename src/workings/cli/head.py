"""Write out what one attention head of a trained model does with a text, as a worked problem.

With --cell, one number: its largest terms, what the others come to, and the same number as the
model itself has it.
"""

import argparse

HELP = "write an attention head out as a worked problem"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "text", metavar="TEXT", help="a text (a translator's source), or - for standard input"
    )
    for what in ("layer", "head"):
        parser.add_argument(
            f"--{what}", type=int, default=1, metavar="N", help=f"the {what}, from 1 (default: 1)"
        )
    parser.add_argument(
        "--part",
        metavar="PART",
        help="of a translator: encoder, decoder or cross (default: cross)",
    )
    parser.add_argument("--target", metavar="TEXT", help="a translation (default: the model's own)")
    parser.add_argument(
        "--cell",
        metavar="STEP,ROW,COLUMN",
        help="derive one cell, counted from 1: weights,3,5 (steps: Q, K, V, scores, scaled, "
        "masked, weights, mixed)",
    )
    parser.add_argument(
        "--top", type=int, default=5, metavar="K", help="largest terms of a cell (default: 5)"
    )
    parser.add_argument(
        "--decimals", type=int, default=4, metavar="N", help="decimals to show (default: 4)"
    )
    parser.add_argument(
        "--projected", action="store_true", help="start from Q, K and V, not from X and weights"
    )
    parser.add_argument("--problem", metavar="FILE", help="save it for workings solve and check")
    parser.add_argument(
        "--format", choices=("text", "html", "json"), help="default: as --out ends, or text"
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Read the head, and show it, or a cell of it, or save it."""
    import sys

    from workings.cli.output import write_output, write_result
    from workings.cli.solve import parse_cell
    from workings.interpret.heads import read_head
    from workings.training.runs import load

    cell = None if arguments.cell is None else parse_cell(arguments.cell)
    task, text = load(arguments.run_folder), arguments.text
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")
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
        write_result(head.cell(*cell), arguments.format, arguments.out)
    elif arguments.problem is None or arguments.out is not None:
        write_result(head, arguments.format, arguments.out)
    return 0
