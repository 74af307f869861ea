"""Ask a question about sequence models, and have an experiment answer it.

Without a name, lists the questions. An experiment takes seconds to a minute, prints what it found,
and leaves a picture.
"""

import argparse

HELP = "answer a question by an experiment"
FORMS = ("svg", "png", "html")


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

    from workings.cli.output import deliver, expect_place, show
    from workings.errors import UserError
    from workings.views.table import text_table
    from workings.why import QUESTIONS, ask

    name = arguments.question
    if name is None and arguments.json:
        deliver(json.dumps(dict(QUESTIONS)), None)
        return 0
    if name is None:
        deliver(text_table(("workings why", ""), list(QUESTIONS.items()), left=2), None)
        return 0
    out = arguments.out or f"why-{name}.svg"
    if Path(out).suffix.lower().removeprefix(".") not in FORMS:
        raise UserError(f"--out {out}: a picture ends in .svg, .png or .html")
    expect_place(out)
    found = ask(name, arguments.seed)
    show(found, "json" if arguments.json else "text", None)
    if arguments.out or not arguments.json:
        show(found, None, out)
    if not arguments.json:
        deliver(f"\nThe picture: {out}", None)
    return 0
