"""Write a trained language model in another program's format."""

import argparse

HELP = "write a language model in another program's format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help="ctranslate2, or gpt2 (as Hugging Face keeps it)",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="a new folder for it")


def run(arguments: argparse.Namespace) -> int:
    """Load the run and write it."""
    import sys
    from pathlib import Path

    from workings.hub.folders import export
    from workings.tasks.language import Modelling
    from workings.train.runs import load_as

    task = load_as(Modelling, arguments.run_folder)
    for note in export(task.model, task.tokenizer, arguments.to, Path(arguments.out)):
        sys.stderr.write(f"workings: note: {note}\n")
    return 0
