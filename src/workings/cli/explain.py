"""Say which words decided what a trained model makes of a text.

By occlusion (leave a word out), gradient (× input) and, where the model has any, attention.
"""

import argparse

HELP = "say which words decided"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument("text", metavar="TEXT", help="a text, or - for standard input")
    parser.add_argument(
        "--method",
        metavar="METHOD",
        action="append",
        help="occlusion, gradient or attention; may be given several times (default: all)",
    )
    parser.add_argument(
        "--format", choices=("text", "html", "json"), default="text", help="default: text"
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Explain, and show."""
    import sys

    from workings.cli.output import write_result
    from workings.errors import UserError
    from workings.interpret.attribution import explain
    from workings.io import existing_path
    from workings.tasks.classification import Classification
    from workings.training.runs import load_as

    text = arguments.text
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")
    elif (path := existing_path(text)) and path.is_file():
        raise UserError(
            f"{text} is a file: explain takes a text, or - for standard input; "
            f"workings predict {arguments.run_folder} {text} reads it"
        )
    task = load_as(Classification, arguments.run_folder)
    write_result(explain(task, text, methods=arguments.method), arguments.format, arguments.out)
    return 0
