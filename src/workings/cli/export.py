"""Write a trained language model or translator in another program's format."""

import argparse

HELP = "write a language model or translator in another program's format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("run_folder", metavar="RUN", help="the folder of the run")
    parser.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help="ctranslate2; or as Hugging Face keeps it: gpt2, of a translator marian",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="a new folder for it")


def run(arguments: argparse.Namespace) -> int:
    """Load the run and write it."""
    import sys
    from pathlib import Path

    from workings.errors import UserError
    from workings.hub.folders import export, export_translator
    from workings.tasks.language import Modelling
    from workings.tasks.translate import Translating
    from workings.train.runs import load
    from workings.views.plain import printable

    task, folder = load(arguments.run_folder), Path(arguments.out)
    if isinstance(task, Translating):
        languages = task.recipe.data.source, task.recipe.data.target
        notes = export_translator(task.model, task.words, arguments.to, folder, languages)
    elif isinstance(task, Modelling):
        notes = export(task.model, task.tokenizer, arguments.to, folder)
    else:
        raise UserError(f"{arguments.run_folder}: no language model, and no translator")
    for note in notes:
        sys.stderr.write(f"workings: note: {note}\n")
    sys.stdout.write(printable(f"{folder}: {arguments.run_folder}, for {arguments.to}") + "\n")
    return 0
