"""Show how gradients vanish or explode over time in language models.

Plots ‖∂loss_t/∂h_(t−k)‖ against k, for untrained recipes and trained runs, with the spectral radius
of the recurrent matrices.
"""

import argparse

from workings.cli import (
    FIGURE_FORMATS,
    RECIPE_HELP,
    add_picture_options,
    read_picture_options,
    write_result,
)

HELP = "show gradient norms over time"
CHANGES = True  # --section.key VALUE changes all recipes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "models", metavar="RECIPE", nargs="+", help=f"{RECIPE_HELP}, or folder of a run"
    )
    parser.add_argument(
        "--max-lag",
        type=int,
        default=100,
        metavar="K",
        help="largest lag k, in tokens (default: 100)",
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure the gradient norms and write them."""
    from workings.interpret.gradients import measure_gradients
    from workings.tasks.language_modeling import LanguageModeling
    from workings.training.runs import open_as

    style = read_picture_options(arguments)
    tasks = {name: open_as(LanguageModeling, name, arguments.changes) for name in arguments.models}
    write_result(
        measure_gradients(tasks, max_lag=arguments.max_lag), arguments.format, arguments.out, style
    )
    return 0
