"""Ask a question about sequence models, and have an experiment answer it.

Without a name, lists the questions. An experiment takes seconds to a minute, prints what it found,
and leaves a picture.
"""

import argparse

HELP = "answer a question by an experiment"
FIGURE_SUFFIXES = ("svg", "png", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("question", metavar="NAME", nargs="?", help="default: list them all")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all that is drawn (1)")
    parser.add_argument(
        "--out", metavar="FILE", help="the picture: .svg, .png or .html (why-NAME.svg)"
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON instead")


def run(arguments: argparse.Namespace) -> int:
    """List the questions, or answer one."""
    import json
    from pathlib import Path

    from workings.cli.output import check_parent_folder, write_output, write_result
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
        raise UserError(f"--out {out}: a picture ends in .svg, .png or .html")
    check_parent_folder(out)
    found = ask(name, arguments.seed)
    write_result(found, "json" if arguments.json else "text", None)
    if arguments.out or not arguments.json:
        write_result(found, None, out)
    if not arguments.json:
        write_output(f"\nThe picture: {out}", None)
    return 0
