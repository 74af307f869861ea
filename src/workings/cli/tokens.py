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

    from workings.interpret.vectorization import vectorize_texts, vectorize_with_run
    from workings.render.tables import render_vectorized_texts

    if arguments.run_folder:
        shown = vectorize_with_run(arguments.run_folder, arguments.texts)
    else:
        shown = vectorize_texts(arguments.texts)
    sys.stdout.write(render_vectorized_texts(shown) + "\n")
    return 0
