"""Resume a training from its newest checkpoint."""

import argparse

from workings.cli import count_cores, report_on_local_rank_zero
from workings.cli.train import add_log_options

HELP = "resume a training"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--parallelism",
        choices=("ddp", "fsdp"),
        help="with torchrun: ddp or fsdp (default: the recipe's)",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        metavar="N",
        help="extend the training to N epochs in total, in another folder",
    )
    parser.add_argument("--out", metavar="RUN", help="folder for --epochs (default: RUN-extended)")
    parser.add_argument(
        "--record", metavar="FILE", help="also write the result and the curves to a file"
    )
    add_log_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Resume from the newest checkpoint."""
    from pathlib import Path

    from workings.errors import UserError
    from workings.training.runs import restore_threads, resume, write_record
    from workings.training.trainer import TrainingInterrupt

    folder, epochs, out = Path(arguments.run_folder), arguments.epochs, arguments.out
    with report_on_local_rank_zero():
        if out is not None and epochs is None:
            raise UserError("--out needs --epochs N")
        if arguments.threads is None:
            restore_threads(folder, count_cores())
    if epochs is not None:
        out = Path(out or folder.resolve().with_name(f"{folder.resolve().name}-extended"))
    try:
        resume(
            folder,
            mode=arguments.mode,
            parallelism=arguments.parallelism,
            epochs=epochs,
            out=out,
            trackers=arguments.trackers,
        )
        if arguments.record:
            write_record(out or folder, Path(arguments.record))
    except TrainingInterrupt as interrupt:
        return interrupt.exit_status
    return 0
