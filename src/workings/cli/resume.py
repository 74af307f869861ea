"""Go on with a training that was stopped."""

import argparse

from workings.cli.train import add_log_options

HELP = "go on with a training that was stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "--parallelism",
        choices=("ddp", "fsdp"),
        help="with torchrun: how the processes hold the weights, if not as the recipe says",
    )
    parser.add_argument(
        "--epochs", type=int, metavar="N", help="train for so many in all, in another folder"
    )
    parser.add_argument(
        "--out", metavar="RUN", help="that folder (default: the run's name and -extended)"
    )
    parser.add_argument(
        "--record", metavar="FILE", help="write the result and the curves here, too"
    )
    add_log_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Go on from the newest checkpoint."""
    from pathlib import Path

    from workings.cli.torchrun import report_on_local_rank_zero
    from workings.errors import UserError
    from workings.training.runs import restore_threads, resume, write_record
    from workings.training.trainer import TrainingInterrupt

    folder, epochs, out = Path(arguments.run_folder), arguments.epochs, arguments.out
    with report_on_local_rank_zero():
        if out is not None and epochs is None:
            raise UserError("--out is for a longer training: --epochs N beside it")
        if arguments.threads is None:
            restore_threads(folder)
    if epochs is not None:
        out = Path(out or folder.resolve().with_name(f"{folder.resolve().name}-extended"))
    try:
        resume(
            folder, mode=arguments.mode, parallelism=arguments.parallelism, epochs=epochs, out=out
        )
        if arguments.record:
            write_record(out or folder, Path(arguments.record))
    except TrainingInterrupt as stopped:
        return stopped.exit_status
    return 0
