"""Say what a trained model makes of texts: a JSON object a line."""

import argparse

HELP = "say what a trained model makes of texts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "texts", metavar="TEXT", nargs="+", help="a text, a file, or - (a text a line)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Predict, a batch at a time, as the texts come in."""
    import json
    import sys

    from workings.tasks.classification import Classification
    from workings.training.runs import load_as

    task = load_as(Classification, arguments.run_folder)
    for prediction in task.predict_sources(arguments.texts):
        sys.stdout.write(json.dumps(prediction) + "\n")
        sys.stdout.flush()
    return 0
