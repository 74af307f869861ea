"""Compare two runs: configuration, environment, curves and changed predictions."""

import argparse

HELP = "compare two runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("first", metavar="RUN", help="folder of a run")
    parser.add_argument("second", metavar="RUN", help="folder of another run")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the differences; return 1 if the results differ."""
    import json
    import sys
    from pathlib import Path

    from workings.cli.verify import warn_of_damaged_log
    from workings.plain_text import escape_control
    from workings.render.comparison import render_run_diff_text
    from workings.training.compare import diff_runs

    for folder in (arguments.first, arguments.second):
        warn_of_damaged_log(folder)
    differences = diff_runs(Path(arguments.first), Path(arguments.second))
    if arguments.json:
        sys.stdout.write(json.dumps(differences) + "\n")
    else:
        lines = (escape_control(line) for line in render_run_diff_text(differences).splitlines())
        sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(differences["results"]))
