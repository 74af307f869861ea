"""Show a part of a trained model on a text as a worked problem, beside the model's own numbers.

--at names the part; layers, units, tokens, rows and columns are counted from 1, and a token that is
left out is the last:

neuron,LAYER,UNIT,TOKEN (a neuron of a feed-forward layer); norm,NUMBER,TOKEN (a layer norm or
RMSNorm); cell,LAYER,TIME (a cell of an LSTM, GRU or RNN at one time step);
gradient,LAYER,ROW,COLUMN (the gradient of the loss with respect to one weight of a linear layer, by
its name); beam,STEP,BEAMS (one step of a beam search).

For attention heads, see `workings head`.
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

HELP = "show a neuron, norm, recurrent cell, gradient or beam step as a worked problem"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "text", metavar="TEXT", help="text (for a translator the source), or - for standard input"
    )
    parser.add_argument(
        "--at",
        required=True,
        metavar="PART,N,…",
        help="the part, like neuron,1,5 or norm,2,3 or cell,1,4 or gradient,head,1,2",
    )
    parser.add_argument(
        "--target",
        metavar="TEXT",
        help="label of a classifier, or translation (default: the model's own)",
    )
    parser.add_argument(
        "--cell", metavar="STEP,ROW,COLUMN", help="derive one cell, counted from 1, like c.1,1,7"
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
        "--problem", metavar="FILE", help="save the part as a problem for workings solve and check"
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the part; write it or one of its cells, or save it as a problem."""
    from workings.cli.solve import parse_cell
    from workings.interpret.worked_parts import work_part
    from workings.training.runs import load

    style = read_picture_options(arguments)
    cell = None if arguments.cell is None else parse_cell(arguments.cell)
    part = work_part(
        load(arguments.run_folder),
        read_text_argument(arguments.text),
        arguments.at,
        target=arguments.target,
        top=arguments.top,
        decimals=arguments.decimals,
    )
    if arguments.problem is not None:
        write_output(part.to_file(), arguments.problem)
    if cell is not None:
        write_result(part.cell(*cell), arguments.format, arguments.out, style)
    elif arguments.problem is None or arguments.out is not None:
        write_result(part, arguments.format, arguments.out, style)
    return 0
