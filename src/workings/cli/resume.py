"""Go on with a training that was stopped."""

import argparse

from workings.cli.train import add_modes

HELP = "go on with a training that was stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "--crew",
        choices=("replicated", "sharded"),
        help="with torchrun: how the processes hold the weights, if not as the recipe says",
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write the result and the curves here, too"
    )
    add_modes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Go on from the newest checkpoint."""
    from pathlib import Path

    from workings.train.loop import Interrupted
    from workings.train.runs import record, resume

    try:
        resume(arguments.run_folder, mode=arguments.mode, how=arguments.crew)
        if arguments.record:
            record(Path(arguments.run_folder), Path(arguments.record))
    except Interrupted as stopped:
        return stopped.exit_status
    return 0
