"""Make a run of a model in Hugging Face's layout: config.json, model.safetensors, its tokenizer."""
# ruff: noqa: N999 (the verb is called so)

import argparse

HELP = "make a run of a GPT-2 or a Marian translator in Hugging Face's layout"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("folder", metavar="FOLDER", help="what save_pretrained wrote")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run's folder, a new one")


def run(arguments: argparse.Namespace) -> int:
    """Read the model and write the run."""
    import sys
    from pathlib import Path

    from workings.hub.folders import adopt
    from workings.views.plain import printable

    adopt(Path(arguments.folder), Path(arguments.out))
    sys.stdout.write(printable(f"{arguments.out}: a run, of {arguments.folder}") + "\n")
    return 0
