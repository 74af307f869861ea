"""Print a recipe's model layer by layer: shapes, parameters, mult-adds, memory."""

import argparse

SENTENCE_LENGTH = 20  # tokens assumed for translators and captioners
HELP = "print a model layer by layer"
CHANGES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("recipe", metavar="RECIPE", help="recipe (TOML)")
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

    from workings.errors import UserError
    from workings.recipes import (
        CaptionRecipe,
        ClassificationRecipe,
        LanguageRecipe,
        TranslationRecipe,
        read_recipe,
    )

    recipe = read_recipe(
        arguments.recipe, arguments.changes
    )  # errors come before torch is imported

    from workings.models.captioning import build_captioner
    from workings.models.classifiers import build_classifier
    from workings.models.language import build_language_model
    from workings.models.summary import summarize
    from workings.models.translation import build_translator
    from workings.render.tables import layer_table

    vocabulary = arguments.vocabulary or recipe.tokenizer.vocab_size
    if isinstance(recipe, ClassificationRecipe):
        classifier = build_classifier(recipe.model, vocabulary, arguments.classes)
        length = getattr(classifier, "fixed_length", None) or recipe.data.max_length
        summary = summarize(classifier, length)
    elif isinstance(recipe, LanguageRecipe):
        model = build_language_model(recipe.model, vocabulary)
        summary = summarize(model, recipe.data.context_length, recipe.train.batch_size)
    elif isinstance(recipe, CaptionRecipe):
        captioner = build_captioner(recipe.model, vocabulary, pixels=recipe.data.image_size)
        summary = summarize(
            captioner, SENTENCE_LENGTH, recipe.train.batch_size, recipe.data.image_size
        )
    elif isinstance(recipe, TranslationRecipe):
        translator = build_translator(recipe.model, vocabulary, vocabulary)
        summary = summarize(translator, SENTENCE_LENGTH, recipe.train.batch_size // SENTENCE_LENGTH)
    else:
        raise UserError(f"no layer table for the task {recipe.task!r}")
    sys.stdout.write(layer_table(summary) + "\n")
    if arguments.vocabulary is None:
        classes = (
            f" and {arguments.classes} classes" if isinstance(recipe, ClassificationRecipe) else ""
        )
        sys.stderr.write(
            f"workings: note: for {vocabulary:,} tokens{classes}; data may have fewer or more "
            "(--vocabulary, --classes)\n"
        )
    if recipe.model.kind == "ngrams":
        sys.stderr.write(
            "workings: note: n-grams are counted in the data; see the report of a run\n"
        )
    return 0
