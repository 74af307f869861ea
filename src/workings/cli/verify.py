"""Read every file of a run, and name those that are damaged."""

import argparse
from pathlib import Path

HELP = "name the damaged files of a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run_folder", metavar="RUN", help="folder of the run")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the state of each file; return 1 if any is damaged."""
    import sys

    from workings.plain_text import escape_control
    from workings.training.verify import to_json, verify_run

    reports = verify_run(Path(arguments.run_folder))
    damaged = sum(report.state == "damaged" for report in reports)
    if arguments.json:
        sys.stdout.write(to_json(reports) + "\n")
        return int(damaged > 0)
    for report in reports:
        reason = f": {report.reason}" if report.reason else ""
        sys.stdout.write(escape_control(f"{report.state:<9}  {report.name}{reason}") + "\n")
    summary = f"{damaged} of {len(reports)} files damaged" if damaged else "no file is damaged"
    sys.stdout.write(escape_control(f"{arguments.run_folder}: {summary}") + "\n")
    return int(damaged > 0)


def warn_of_damaged_log(run_folder: str | Path) -> None:
    """Print a warning if the log of a run is damaged: for the commands that use the run."""
    import sys

    from workings.plain_text import escape_control
    from workings.training.log_damage import describe_log_damage

    if damage := describe_log_damage(Path(run_folder)):
        sys.stderr.write(escape_control(f"workings: warning: {damage}") + "\n")
