"""Show the attention weights of a trained model on a text."""

import argparse

from workings.cli import (
    FIGURE_FORMATS,
    add_layer_and_head_options,
    add_picture_options,
    read_picture_options,
    read_text_argument,
    write_result,
)

HELP = "show attention weights"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument("text", metavar="TEXT", help="text, or - for standard input")
    add_layer_and_head_options(parser, "all")
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compute the attention maps and write them."""
    from workings.interpret.attention import compute_attention_maps
    from workings.training.runs import load

    style = read_picture_options(arguments)
    task, text = load(arguments.run_folder), read_text_argument(arguments.text)
    maps = compute_attention_maps(task, text, layers=arguments.layer, heads=arguments.head)
    write_result(maps, arguments.format, arguments.out, style)
    return 0
