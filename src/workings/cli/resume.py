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
        "--epochs", type=int, metavar="N", help="train for so many in all, in another folder"
    )
    parser.add_argument(
        "--out", metavar="RUN", help="that folder (default: the run's name and -longer)"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write the result and the curves here, too"
    )
    add_modes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Go on from the newest checkpoint."""
    from pathlib import Path

    from workings.cli.together import told_by_one
    from workings.errors import UserError
    from workings.train.again import keep_threads
    from workings.train.loop import Interrupted
    from workings.train.runs import record, resume

    folder, epochs, out = Path(arguments.run_folder), arguments.epochs, arguments.out
    with told_by_one():
        if out is not None and epochs is None:
            raise UserError("--out is for a longer training: --epochs N beside it")
        if arguments.threads is None:
            keep_threads(folder)
    if epochs is not None:
        out = Path(out or folder.resolve().with_name(f"{folder.resolve().name}-longer"))
    try:
        resume(folder, mode=arguments.mode, how=arguments.crew, epochs=epochs, out=out)
        if arguments.record:
            record(out or folder, Path(arguments.record))
    except Interrupted as stopped:
        return stopped.exit_status
    return 0
