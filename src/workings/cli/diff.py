"""Tell two runs apart: configuration, environment, curves, and the predictions that changed."""

import argparse

HELP = "tell two runs apart"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("one", metavar="RUN", help="the folder of a run")
    parser.add_argument("other", metavar="RUN", help="the folder of another")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print; the exit status is 1 where their results differ."""
    import json
    import sys
    from pathlib import Path

    from workings.train.differ import differ
    from workings.views.differed import differed
    from workings.views.plain import printable

    found = differ(Path(arguments.one), Path(arguments.other))
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        lines = (printable(line) for line in differed(found).splitlines())
        sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(found["results"]))
