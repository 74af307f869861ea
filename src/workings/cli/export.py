"""Export a trained language model or translator to another program's format."""

import argparse

HELP = "export a language model or translator to another format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help="ctranslate2, or a format of Hugging Face: gpt2, or marian for a translator",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new folder for the model")


def run(arguments: argparse.Namespace) -> int:
    """Load the run and export its model."""
    import sys
    from pathlib import Path

    from workings.interop.conversion import FolderExporter
    from workings.plain_text import escape_control
    from workings.training.runs import load

    folder = Path(arguments.out)
    notes = load(arguments.run_folder).export(FolderExporter(arguments.to, folder))
    for note in notes:
        sys.stderr.write(f"workings: note: {note}\n")
    sys.stdout.write(escape_control(f"{folder}: {arguments.run_folder}, for {arguments.to}") + "\n")
    return 0
