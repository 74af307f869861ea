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

    from workings.plain_text import escape_control
    from workings.render.comparison import render_run_diff_text
    from workings.training.compare import diff_runs

    found = diff_runs(Path(arguments.one), Path(arguments.other))
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        lines = (escape_control(line) for line in render_run_diff_text(found).splitlines())
        sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(found["results"]))
