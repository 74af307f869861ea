"""Import a model in Hugging Face's format as a run.

Language models (GPT-2, GPT-NeoX, Llama), classifiers (BERT, DistilBERT) and translators (Marian,
Pegasus, M2M100, NLLB). For one of many languages, `--source` and `--target` choose two.
"""

import argparse

# ruff: noqa: N999 (the module is named after the command)

HELP = "import a model from Hugging Face's format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", metavar="FOLDER", help="folder written by save_pretrained")
    parser.add_argument("--source", metavar="LANGUAGE", help="language that is translated from")
    parser.add_argument("--target", metavar="LANGUAGE", help="language that is translated into")
    parser.add_argument("--out", required=True, metavar="RUN", help="new folder for the run")


def run(arguments: argparse.Namespace) -> int:
    """Read the model and write the run."""
    import sys
    from pathlib import Path

    from workings.interop.conversion import import_model
    from workings.plain_text import escape_control

    languages = arguments.source, arguments.target
    import_model(Path(arguments.folder), Path(arguments.out), languages)
    sys.stdout.write(
        escape_control(f"{arguments.out}: a run, imported from {arguments.folder}") + "\n"
    )
    return 0
