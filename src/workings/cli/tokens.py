"""Show how texts become numbers: standardised, cut into tokens, numbered, and made into vectors."""

import argparse

HELP = "show how texts become numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("texts", metavar="TEXT", nargs="+", help="a text")
    parser.add_argument(
        "--run",
        dest="run_folder",
        metavar="RUN",
        help="with a run's tokenizer and vectors (default: a word tokenizer made from the texts)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print each stage of each text."""
    import sys

    from workings.lens.pipeline import from_run, from_texts
    from workings.views.pipeline import stages

    if arguments.run_folder:
        shown = from_run(arguments.run_folder, arguments.texts)
    else:
        shown = from_texts(arguments.texts)
    sys.stdout.write(stages(shown) + "\n")
    return 0
