"""Score translators on the same sentences: by source length, with significance tests."""

import argparse

from workings.cli import FIGURE_FORMATS, check_parent_folder, choose_format, write_result

HELP = "score translators on the same sentences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folders of runs; the first is the baseline"
    )
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="other sentence pairs (default: the test data of the first run)",
    )
    parser.add_argument(
        "--format", choices=FIGURE_FORMATS, help="default: by the suffix of --out, or text"
    )
    parser.add_argument("--out", metavar="FILE", help="also write the result to a file")


def run(arguments: argparse.Namespace) -> int:
    """Translate, score and write the comparison."""
    from pathlib import Path

    from workings.errors import UserError
    from workings.interpret.translator_comparison import compare_translators
    from workings.tasks.translation import Translation
    from workings.training.runs import load

    check_parent_folder(arguments.out)
    file_format = choose_format(arguments.format, arguments.out)
    names = [Path(run).name or str(run) for run in arguments.runs]
    if len(set(names)) < len(names):  # like a/model and b/model
        names = [str(Path(run)) for run in arguments.runs]
    if len({Path(run).resolve() for run in arguments.runs}) < len(names):
        raise UserError("the same run is given twice")
    tasks = dict(zip(names, (load(r, Translation) for r in arguments.runs), strict=True))
    comparison = compare_translators(tasks, arguments.data)
    write_result(comparison, file_format, arguments.out)
    if arguments.out is not None:
        write_result(comparison, "text", None)
    return 0
