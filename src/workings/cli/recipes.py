"""List the built-in recipes, or copy one to edit it."""

import argparse

HELP = "list the built-in recipes, or copy one to edit it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(action="list")
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    copy = actions.add_parser(
        "copy",
        help="write a copy to edit",
        description="Write a copy of a built-in recipe; no file is overwritten.",
    )
    copy.add_argument("name", metavar="RECIPE", help="name of a built-in recipe")
    copy.add_argument(
        "destination",
        metavar="DESTINATION",
        nargs="?",
        default=".",
        help="folder or new file (default: the current folder)",
    )
    copy.set_defaults(action="copy")


def run(arguments: argparse.Namespace) -> int:
    """Print the list, or the path of the copy."""
    import sys

    from workings.plain_text import escape_control
    from workings.recipes.catalog import copy_recipe, list_catalog

    if arguments.action == "copy":
        path = escape_control(str(copy_recipe(arguments.name, arguments.destination)))
        sys.stdout.write(f"{path}: edit it, then: workings train {path}\n")
        return 0
    from workings.render.tables import text_table

    rows = [
        (e.name, e.task, e.data, "–" if e.minutes is None else f"{e.minutes:.1f}", e.result or "–")
        for e in list_catalog()
    ]
    header = ("recipe", "task", "data", "minutes", "result")
    sys.stdout.write(text_table(header, rows, text_columns=3) + "\n")
    return 0
