"""Show where the attention heads of a trained model look while it reads a text."""

import argparse

from workings.cli.output import PICTURED, add_layers_and_heads

HELP = "show where attention heads look"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument("text", metavar="TEXT", help="a text, or - for standard input")
    add_layers_and_heads(parser, "all")
    parser.add_argument("--format", choices=PICTURED, help="default: as --out ends, or text")
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Look, and show."""
    import sys

    from workings.cli.output import show
    from workings.lens.attention_maps import attention_maps
    from workings.train.runs import load

    task, text = load(arguments.run_folder), arguments.text
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")
    found = attention_maps(task, text, layers=arguments.layer, heads=arguments.head)
    show(found, arguments.format, arguments.out)
    return 0
