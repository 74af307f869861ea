"""Score translators on the same sentences: by length of the source, and whether it is luck."""

import argparse

from workings.cli.output import FIGURE_FORMATS

HELP = "score translators on the same sentences"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folders of runs; the first is beaten"
    )
    parser.add_argument(
        "--data", metavar="DATA", help="other pairs (default: what the first run held out)"
    )
    parser.add_argument("--format", choices=FIGURE_FORMATS, help="default: as --out ends, or text")
    parser.add_argument("--out", metavar="FILE", help="draw it, or write it, to a file, too")


def run(arguments: argparse.Namespace) -> int:
    """Translate, score, and show."""
    from pathlib import Path

    from workings.cli.output import check_parent_folder, choose_format, write_result
    from workings.errors import UserError
    from workings.interpret.translator_comparison import compare_translators
    from workings.tasks.translation import Translation
    from workings.training.runs import load_as

    check_parent_folder(arguments.out)
    form = choose_format(arguments.format, arguments.out)
    names = [Path(run).name or str(run) for run in arguments.runs]
    if len(set(names)) < len(names):  # a/model and b/model, say
        names = [str(Path(run)) for run in arguments.runs]
    if len({Path(run).resolve() for run in arguments.runs}) < len(names):
        raise UserError("a run is named twice: it cannot be better than itself")
    tasks = dict(zip(names, (load_as(Translation, r) for r in arguments.runs), strict=True))
    judged = compare_translators(tasks, arguments.data)
    write_result(judged, form, arguments.out)
    if arguments.out is not None:
        write_result(judged, "text", None)
    return 0
