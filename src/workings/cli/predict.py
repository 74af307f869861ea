"""Predict the classes of texts with a trained classifier; print one JSON object per line."""

import argparse

HELP = "predict the classes of texts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "texts",
        metavar="TEXT",
        nargs="+",
        help="text, file with one text per line, or - for standard input",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print predictions batch by batch while the texts are read."""
    import json
    import sys

    from workings.tasks.classification import Classification
    from workings.training.runs import load

    task = load(arguments.run_folder, Classification)
    for prediction in task.predict_sources(arguments.texts):
        sys.stdout.write(json.dumps(prediction) + "\n")
        sys.stdout.flush()
    return 0
