"""Write the log of a run to an experiment tracker: TensorBoard, Weights & Biases or MLflow."""

import argparse

from workings.cli.train import TRACKERS

HELP = "write the log of a run to an experiment tracker"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument("--to", choices=TRACKERS, required=True, help="the tracker")
    parser.add_argument(
        "--out", metavar="DIR", help="tensorboard: folder of its files (default: RUN/tensorboard)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Export the log."""
    import sys
    from pathlib import Path

    from workings.cli.verify import warn_of_damaged_log
    from workings.training.run_folder import read_run_recipe
    from workings.training.trackers import export_log

    folder, out = Path(arguments.run_folder), arguments.out and Path(arguments.out)
    warn_of_damaged_log(folder)
    count = export_log(folder, read_run_recipe(folder), arguments.to, out)
    target = out or folder / "tensorboard" if arguments.to == "tensorboard" else arguments.to
    sys.stdout.write(f"{count} records of {folder / 'log.jsonl'} → {target}\n")
    return 0
