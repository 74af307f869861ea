"""Show where the attention heads of a trained model look while it reads a text."""

import argparse

from workings.cli.output import FIGURE_FORMATS, add_layer_and_head_options

HELP = "show where attention heads look"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument("text", metavar="TEXT", help="a text, or - for standard input")
    add_layer_and_head_options(parser, "all")
    parser.add_argument("--format", choices=FIGURE_FORMATS, help="default: as --out ends, or text")
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Look, and show."""
    import sys

    from workings.cli.output import write_result
    from workings.interpret.attention_maps import compute_attention_maps
    from workings.training.runs import load

    task, text = load(arguments.run_folder), arguments.text
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace").rstrip("\r\n")
    found = compute_attention_maps(task, text, layers=arguments.layer, heads=arguments.head)
    write_result(found, arguments.format, arguments.out)
    return 0
