"""Answer a question about sequence models with an experiment.

Without a name, lists the questions. An experiment takes up to a minute, prints its result and
writes a figure.
"""

import argparse

from workings.cli import check_parent_folder, write_output, write_result

HELP = "answer a question with an experiment"
FIGURE_SUFFIXES = ("svg", "png", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("question", metavar="NAME", nargs="?", help="question (default: list all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    parser.add_argument(
        "--out", metavar="FILE", help="figure: .svg, .png or .html (default: why-NAME.svg)"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")


def run(arguments: argparse.Namespace) -> int:
    """List the questions, or run the experiment of one."""
    import json
    from pathlib import Path

    from workings.errors import UserError
    from workings.experiments import QUESTIONS, ask
    from workings.render.tables import text_table

    name = arguments.question
    if name is None and arguments.json:
        write_output(json.dumps(dict(QUESTIONS)), None)
        return 0
    if name is None:
        write_output(
            text_table(("workings why", ""), list(QUESTIONS.items()), text_columns=2), None
        )
        return 0
    out = arguments.out or f"why-{name}.svg"
    if Path(out).suffix.lower().removeprefix(".") not in FIGURE_SUFFIXES:
        raise UserError(f"--out {out}: expected a suffix .svg, .png or .html")
    check_parent_folder(out)
    finding = ask(name, arguments.seed)
    write_result(finding, "json" if arguments.json else "text", None)
    if arguments.out or not arguments.json:
        write_result(finding, None, out)
    if not arguments.json:
        write_output(f"\nThe figure: {out}", None)
    return 0
