"""Show the gates and states of a recurrent layer over the tokens of a text.

An LSTM has the gates i, f and o, the candidate g, the cell state c and the hidden state h; a GRU
the gates r and z, the candidate n and h; a plain RNN only h.
"""

import argparse

from workings.cli import (
    FIGURE_FORMATS,
    add_picture_options,
    read_picture_options,
    read_text_argument,
    write_result,
)

HELP = "show the gates of an LSTM or GRU over time"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument("text", metavar="TEXT", help="text, or - for standard input")
    parser.add_argument(
        "--layer", type=int, default=1, metavar="N", help="recurrent layer, from 1 (default: 1)"
    )
    parser.add_argument(
        "--units",
        type=int,
        default=12,
        metavar="N",
        help="number of units: those whose state varies most (default: 12)",
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the gates and write them."""
    from workings.interpret.gates import read_gates
    from workings.training.runs import load

    style = read_picture_options(arguments)
    task, text = load(arguments.run_folder), read_text_argument(arguments.text)
    gates = read_gates(task, text, arguments.layer, arguments.units)
    write_result(gates, arguments.format, arguments.out, style)
    return 0
