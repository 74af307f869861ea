"""Show how texts are vectorized: normalized, tokenized, mapped to ids and embedded."""

import argparse

HELP = "show how texts are tokenized and embedded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("texts", metavar="TEXT", nargs="+", help="text")
    parser.add_argument(
        "--run",
        dest="run_folder",
        metavar="RUN",
        help="use a run's tokenizer and embeddings (default: a word tokenizer trained on TEXT)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print each stage of each text."""
    import sys

    from workings.interpret.vectorization import vectorize_texts, vectorize_with_run
    from workings.render.tables import render_vectorized_texts

    if arguments.run_folder:
        texts = vectorize_with_run(arguments.run_folder, arguments.texts)
    else:
        texts = vectorize_texts(arguments.texts)
    sys.stdout.write(render_vectorized_texts(texts) + "\n")
    return 0
