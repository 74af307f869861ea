"""Score translators on the same sentences: by source length, with significance tests."""

import argparse

from workings.cli import (
    FIGURE_FORMATS,
    add_picture_options,
    check_parent_folder,
    choose_format,
    read_picture_options,
    write_result,
)

HELP = "score translators on the same sentences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folders of runs; the first is the baseline"
    )
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="other sentence pairs (default: the test data of the first run)",
    )
    parser.add_argument(
        "--format",
        choices=FIGURE_FORMATS,
        help="output format (default: from the suffix of --out, or text)",
    )
    parser.add_argument("--out", metavar="FILE", help="also write the result to a file")
    add_picture_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Translate, score and write the comparison."""
    from workings.interpret.translator_comparison import compare_translators
    from workings.tasks.translation import Translation
    from workings.training.runs import load_by_name

    style = read_picture_options(arguments)
    check_parent_folder(arguments.out)
    file_format = choose_format(arguments.format, arguments.out)
    tasks = load_by_name(arguments.runs, Translation)
    comparison = compare_translators(tasks, arguments.data)
    write_result(comparison, file_format, arguments.out, style)
    if arguments.out is not None:
        write_result(comparison, "text", None)
    return 0
