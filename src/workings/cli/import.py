"""Make a run of a model in Hugging Face's layout: config.json, model.safetensors, its tokenizer."""

import argparse

# ruff: noqa: N999 (the verb is called so)


HELP = "make a run of a GPT-2 or a Marian translator in Hugging Face's layout"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("folder", metavar="FOLDER", help="what save_pretrained wrote")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run's folder, a new one")


def run(arguments: argparse.Namespace) -> int:
    """Read the model and write the run."""
    import sys
    from pathlib import Path

    from workings.interop.conversion import import_model
    from workings.plain_text import escape_control

    import_model(Path(arguments.folder), Path(arguments.out))
    sys.stdout.write(escape_control(f"{arguments.out}: a run, of {arguments.folder}") + "\n")
    return 0
