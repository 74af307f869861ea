"""Find the cells of a trained language model that track a property of the text.

Cells are chosen on one half of a text and scored on the other; see docs/cells.md.
"""

import argparse

from workings.cli import FIGURE_FORMATS, add_picture_options, read_picture_options, write_result

HELP = "find cells (hidden units) that track quotes, comments, depth, …"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--text", metavar="FILE", help="file or named text (default: the run's held-out text)"
    )
    parser.add_argument("--kind", metavar="KIND", help="prose, python or c (default: detected)")
    parser.add_argument(
        "--property",
        metavar="NAME",
        action="append",
        help="quotes, comments, if, brackets, indentation or line; may be given several times "
        "(default: all that the kind of text has)",
    )
    parser.add_argument(
        "--pattern",
        metavar="NAME=REGEX",
        action="append",
        default=[],
        help="a property of your own: inside the matches of a regular expression",
    )
    parser.add_argument(
        "--top", type=int, default=3, metavar="N", help="cells per property (default: 3)"
    )
    parser.add_argument(
        "--characters",
        type=int,
        default=200_000,
        metavar="N",
        help="length of the text to read (default: 200,000)",
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text); json has the numbers "
        "without the text",
    )
    parser.add_argument("--out", metavar="FILE", help="write to a file instead of the terminal")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find the cells and write them."""
    from workings.interpret.activations import select_passage
    from workings.interpret.neurons import find_neurons
    from workings.interpret.text_properties import select_properties
    from workings.tasks.language_modeling import LanguageModeling
    from workings.training.runs import load

    style = read_picture_options(arguments)
    task = load(arguments.run_folder, LanguageModeling)
    preceding_text, text = select_passage(task.recipe, arguments.text, arguments.characters)
    search = find_neurons(
        task.model,
        task.tokenizer,
        text,
        select_properties(text, arguments.kind, arguments.property, arguments.pattern),
        preceding_text=preceding_text,
        top=arguments.top,
        window=task.recipe.data.context_length,
    )
    write_result(search, arguments.format, arguments.out, style)
    return 0
