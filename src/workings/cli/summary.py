"""Print a recipe's model layer by layer: shapes, parameters, mult-adds, memory."""

import argparse

from workings.cli import RECIPE_HELP

HELP = "print a model layer by layer"
CHANGES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("recipe", metavar="RECIPE", help=RECIPE_HELP)
    parser.add_argument(
        "--vocabulary",
        type=int,
        metavar="N",
        help="vocabulary size (default: the recipe's tokenizer.vocab_size)",
    )
    parser.add_argument(
        "--classes", type=int, default=2, metavar="N", help="number of classes (default: 2)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Build the model and print its table."""
    import sys

    from workings.recipes import read_recipe

    # Errors of the recipe come before torch is imported.
    recipe = read_recipe(arguments.recipe, arguments.changes)

    from workings.interop.formats import describe_formats
    from workings.render.tables import layer_table
    from workings.training.runs import TASKS

    vocabulary = arguments.vocabulary or recipe.tokenizer.vocab_size
    summary = TASKS[recipe.task].summarize_recipe(recipe, vocabulary, arguments.classes)
    sys.stdout.write(layer_table(summary) + "\n")
    if arguments.vocabulary is None:
        classes = f" and {arguments.classes} classes" if recipe.task == "classify" else ""
        sys.stderr.write(
            f"workings: note: for {vocabulary:,} tokens{classes}; data may have fewer or more "
            "(--vocabulary, --classes)\n"
        )
    if formats := describe_formats(recipe):
        sys.stderr.write(f"workings: note: {formats}\n")
    if recipe.model.kind == "ngrams":
        sys.stderr.write(
            "workings: note: n-grams are counted in the data; see the report of a run\n"
        )
    return 0
