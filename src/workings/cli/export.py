"""Export a trained model to another program's format."""

import argparse

HELP = "export a trained model to another format"
FORMATS = (
    *("onnx", "ctranslate2", "gpt2", "gpt-neox", "llama"),
    *("marian", "pegasus", "bert", "distilbert"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        help="onnx for any model; ctranslate2 for a language model or translator; or a format of "
        "Hugging Face: gpt2, gpt-neox or llama; for a translator, marian (post-norm) or pegasus "
        "(pre-norm); for a BERT, bert or distilbert",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="new folder for the model")


def run(arguments: argparse.Namespace) -> int:
    """Load the run and export its model."""
    import sys
    from pathlib import Path

    from workings.interop.conversion import FolderExporter
    from workings.interop.model_card import RunRecord
    from workings.plain_text import escape_control
    from workings.training.runs import load

    run_folder, folder = Path(arguments.run_folder), Path(arguments.out)
    task = load(run_folder)
    notes = task.export(FolderExporter(arguments.to, folder, RunRecord.read(run_folder)))
    for note in notes:
        sys.stderr.write(f"workings: note: {note}\n")
    sys.stdout.write(escape_control(f"{folder}: {arguments.run_folder}, for {arguments.to}") + "\n")
    return 0
