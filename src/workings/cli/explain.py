"""Attribute the prediction of a trained classifier to input tokens.

Methods: occlusion (leave a token out), gradient × input and, if the model has it, attention.
"""

import argparse

from workings.cli import (
    FIGURE_FORMATS,
    add_picture_options,
    read_picture_options,
    read_text_argument,
    write_result,
)

HELP = "attribute the prediction to input tokens"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument("text", metavar="TEXT", help="text, or - for standard input")
    parser.add_argument(
        "--method",
        metavar="METHOD",
        action="append",
        help="occlusion, gradient or attention; may be given several times (default: all)",
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compute the attribution and write it."""
    from workings.errors import UserError
    from workings.interpret.attribution import explain
    from workings.io import existing_path
    from workings.tasks.classification import Classification
    from workings.training.runs import load

    text = read_text_argument(arguments.text)
    if (path := existing_path(arguments.text)) and path.is_file():
        raise UserError(
            f"{text} is a file: explain takes a text, or - for standard input; "
            f"workings predict {arguments.run_folder} {text} reads files"
        )
    style = read_picture_options(arguments)
    task = load(arguments.run_folder, Classification)
    write_result(
        explain(task, text, methods=arguments.method), arguments.format, arguments.out, style
    )
    return 0
