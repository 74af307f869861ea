"""Measure a trained model: a classifier on labelled examples, a language model on a text."""

import argparse

HELP = "measure a trained model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="a named set's test part, a named text, or a file (default: what the run held out)",
    )
    parser.add_argument(
        "--images",
        metavar="PLACE",
        help="where the pictures of a captioner's DATA are: a folder or a ZIP archive (default: "
        "where the captions are)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print."""
    import json
    import sys
    from pathlib import Path

    from workings.errors import UserError
    from workings.tasks.caption import Captioning
    from workings.tasks.memory import memory_told
    from workings.train.log import told
    from workings.train.runs import load

    with memory_told("in reading the run and the data"):
        task = load(arguments.run_folder)
        if arguments.images is None:
            measured = task.evaluate_on(arguments.data)
        elif isinstance(task, Captioning) and arguments.data is not None:
            measured = task.evaluate_on(arguments.data, Path(arguments.images))
        else:
            raise UserError("--images is for a captioner and other pictures: with --data")
    if not measured:
        raise UserError(f"{arguments.run_folder}: nothing was held out to measure on: give --data")
    if arguments.json:
        sys.stdout.write(json.dumps(measured) + "\n")
    else:
        sys.stdout.write(told(measured).replace(" · ", "\n") + "\n")
    return 0
