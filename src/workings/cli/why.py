"""Answer a question about sequence models with an experiment.

Without a name, lists the questions. An experiment takes up to a minute, prints its result and
writes a figure.
"""

import argparse

from workings.cli import (
    PICTURE_FORMATS,
    add_picture_options,
    read_picture_options,
    write_output,
    write_picture,
    write_result,
)

HELP = "answer a question with an experiment"
FIGURE_SUFFIXES = (*PICTURE_FORMATS, "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("question", metavar="NAME", nargs="?", help="question (default: list all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    parser.add_argument(
        "--out", metavar="FILE", help="figure: .svg, .pdf, .png or .html (default: why-NAME.svg)"
    )
    parser.add_argument(
        "--panel", type=int, metavar="N", help="draw one panel of the figure, from 1 (default: all)"
    )
    add_picture_options(parser)
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
    is_named = arguments.out is not None
    out = arguments.out or f"why-{name}.svg"
    suffix = Path(out).suffix.lower().removeprefix(".")
    if suffix not in FIGURE_SUFFIXES:
        raise UserError(f"--out {out}: expected a suffix .svg, .pdf, .png or .html")
    arguments.out = out
    style = read_picture_options(arguments)
    if arguments.panel is not None and suffix == "html":
        raise UserError("--panel needs a picture: --out FILE.svg, FILE.pdf or FILE.png")
    finding = ask(name, arguments.seed)
    picture = finding.figure if arguments.panel is None else finding.panel(arguments.panel)
    write_result(finding, "json" if arguments.json else "text", None)
    if suffix == "html":
        write_result(finding, None, out)
    elif is_named or not arguments.json:
        write_picture(picture, suffix, out, style)
    if not arguments.json:
        write_output(f"\nThe figure: {out}", None)
    return 0
