"""Evaluate a trained model on its test data or on other data."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from workings.tasks.base import Task

HELP = "evaluate a trained model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="named data set (its test split), named text or file (default: the run's test data)",
    )
    parser.add_argument(
        "--with",
        dest="others",
        action="append",
        default=[],
        metavar="RUN",
        help="evaluate the mean of the probabilities of this classifier and RUN's; repeatable",
    )
    parser.add_argument(
        "--images",
        metavar="PATH",
        help="folder or ZIP archive with the pictures of a captioner's DATA (default: beside it)",
    )
    parser.add_argument("--beams", type=int, metavar="N", help="beam size (default: the recipe's)")
    parser.add_argument(
        "--length-penalty",
        type=float,
        metavar="A",
        help="length penalty of beam search; 0: none (default: the recipe's)",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="write the run's result with these metrics, and its curves, to a file",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _evaluate_ensemble(task: "Task", others: "Sequence[str]", data: str | None) -> "dict[str, Any]":
    from workings.errors import UserError
    from workings.tasks.classification import Classification
    from workings.training.runs import load

    if not isinstance(task, Classification):
        raise UserError(f"--with is for classifiers: the run is a {task.noun}")
    return task.evaluate_ensemble([load(run, Classification) for run in others], data)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and print the metrics."""
    import json
    import sys
    from pathlib import Path

    from workings.cli.verify import warn_of_damaged_log
    from workings.errors import UserError
    from workings.render.tables import CLASS_HEADER, class_rows, text_table
    from workings.tasks.base import oom_hint
    from workings.training.logging import format_metrics
    from workings.training.runs import load, sum_results, write_record

    if arguments.record and arguments.data is not None:
        raise UserError("--record is for the run's own test data, not for --data")
    if arguments.others and arguments.images is not None:
        raise UserError("--images is for captioners, --with for classifiers")
    if arguments.images is not None and arguments.data is None:
        raise UserError("--images needs --data: the captions of these images")
    with oom_hint("while loading the run and the data"):
        task = load(arguments.run_folder)
        warn_of_damaged_log(arguments.run_folder)
        options = {"beams": arguments.beams, "length_penalty": arguments.length_penalty}
        changes = {key: value for key, value in options.items() if value is not None}
        if changes:
            task.override_search(**changes)
        if arguments.others:
            metrics = _evaluate_ensemble(task, arguments.others, arguments.data)
        elif arguments.images is None:
            metrics = task.evaluate_on(arguments.data)
        else:
            metrics = task.evaluate_on_images(arguments.data, Path(arguments.images))
    if not metrics:
        raise UserError(f"{arguments.run_folder}: the run has no test data: give --data")
    if arguments.record:
        runs = [Path(folder) for folder in (arguments.run_folder, *arguments.others)]
        totals = sum_results(runs) if arguments.others else {}
        write_record(runs[0], Path(arguments.record), (task.recipe, {**metrics, **totals}))
    if arguments.json:
        sys.stdout.write(json.dumps(metrics) + "\n")
    else:
        sys.stdout.write(format_metrics(metrics).replace(" · ", "\n") + "\n")
        if "classes" in metrics:
            sys.stdout.write(f"\n{text_table(CLASS_HEADER, class_rows(metrics['classes']))}\n")
    return 0
