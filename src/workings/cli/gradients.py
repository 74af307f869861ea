"""Show how far back the loss of language models reaches, side by side.

‖∂loss_t/∂h_(t−k)‖ against k, for recipes with fresh weights and for trained runs, with the spectral
radius of the recurrent matrices.
"""

import argparse

from workings.cli.output import PICTURED

HELP = "show how far back gradients reach"
CHANGES = True  # --section.key VALUE changes all recipes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "models", metavar="RECIPE", nargs="+", help="recipes (TOML), or the folders of runs"
    )
    parser.add_argument("--back", type=int, default=100, metavar="K", help="tokens (100)")
    parser.add_argument("--format", choices=PICTURED, help="default: as --out ends, or text")
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")


def run(arguments: argparse.Namespace) -> int:
    """Follow gradients back, and show how large they are."""
    from workings.cli.output import show
    from workings.lens.gradients import flows_of
    from workings.tasks.language import Modelling
    from workings.train.runs import open_as

    tasks = {name: open_as(Modelling, name, arguments.changes) for name in arguments.models}
    show(flows_of(tasks, back=arguments.back), arguments.format, arguments.out)
    return 0
