"""Measure a trained model: a classifier on labelled examples, a language model on a text."""

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workings.tasks.base import Task

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
    parser.add_argument("--beams", type=int, metavar="N", help="of a search (the recipe's)")
    parser.add_argument(
        "--length-penalty", type=float, metavar="A", help="of a search (the recipe's)"
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="write the run's result and curves here, with this measured",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print."""
    import json
    import sys
    from pathlib import Path

    from workings.errors import UserError
    from workings.tasks.base import oom_hint
    from workings.tasks.captioning import Captioning
    from workings.training.logging import format_metrics
    from workings.training.runs import load, write_record

    if arguments.record and arguments.data is not None:
        raise UserError("--record keeps what a run's own test part gives: without --data")
    with oom_hint("in reading the run and the data"):
        task = load(arguments.run_folder)
        searched = {"beams": arguments.beams, "length_penalty": arguments.length_penalty}
        _override_search(task, {key: value for key, value in searched.items() if value is not None})
        if arguments.images is None:
            measured = task.evaluate_on(arguments.data)
        elif isinstance(task, Captioning) and arguments.data is not None:
            measured = task.evaluate_on(arguments.data, Path(arguments.images))
        else:
            raise UserError("--images is for a captioner and other pictures: with --data")
    if not measured:
        raise UserError(f"{arguments.run_folder}: nothing was held out to measure on: give --data")
    if arguments.record:
        write_record(Path(arguments.run_folder), Path(arguments.record), (task.recipe, measured))
    if arguments.json:
        sys.stdout.write(json.dumps(measured) + "\n")
    else:
        sys.stdout.write(format_metrics(measured).replace(" · ", "\n") + "\n")
    return 0


def _override_search(task: "Task", options: dict[str, float]) -> None:
    """Have a task search in another way than its recipe says."""
    from dataclasses import replace

    from workings.errors import UserError
    from workings.tasks.seq2seq import Seq2SeqTask

    if not options:
        return
    if not isinstance(task, Seq2SeqTask):
        option = next(iter(options)).replace("_", "-")
        raise UserError(f"--{option} is for translators and captioners, which search")
    search: Any = replace(task.recipe.search, **options)  # type: ignore[arg-type] # checked by it
    task.recipe = replace(task.recipe, search=search)
