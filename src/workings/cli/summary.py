"""Print a model layer by layer: shapes, parameters, mult-adds, memory."""

import argparse

from workings.cli import RECIPE_HELP

HELP = "print a model layer by layer"
CHANGES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "recipe", metavar="RECIPE", help=f"{RECIPE_HELP}; or the folder of a run or of a model"
    )
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

    from workings.io import existing_path
    from workings.recipes import read_recipe

    path = existing_path(arguments.recipe)
    if path is not None and path.is_dir():
        return _summarize_folder(arguments)
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


def _summarize_folder(arguments: argparse.Namespace) -> int:
    import sys

    from workings.errors import UserError
    from workings.render.tables import layer_table
    from workings.training.runs import load

    if arguments.changes or arguments.vocabulary is not None:
        raise UserError(f"{arguments.recipe}: a trained model: its settings cannot be changed")
    sys.stdout.write(layer_table(load(arguments.recipe).summarize()) + "\n")
    return 0
