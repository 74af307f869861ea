"""Write the page as static files for any web host: Python runs in the browser of its visitor.

It has Work, Check, Practice and the lectures. With --run, it also has looks into trained
Transformers: every head and every weight of a few texts, computed in advance.
"""

import argparse
import sys
from pathlib import Path

HELP = "write the page as static files for a web host: no server, Python runs in the browser"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help="folder to write: new, empty or an earlier site, which is replaced",
    )
    parser.add_argument(
        "--pyodide",
        metavar="FOLDER",
        help="folder or URL of Pyodide's full distribution; a folder is copied into the site"
        " (default: a pinned release from its public host)",
    )
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        dest="runs",
        metavar="RUN",
        help="folder of a trained Transformer to look into (can be repeated)",
    )
    parser.add_argument(
        "--text",
        action="append",
        default=[],
        dest="texts",
        metavar="TEXT",
        help="text that the runs are shown with (can be repeated; default: three that suit the"
        " recipes that need no download)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the site."""
    from workings.web.static_site import write_site

    folder = Path(arguments.out)
    runs = [Path(run) for run in arguments.runs]
    summary = write_site(folder, arguments.pyodide, runs, arguments.texts)
    looks = f", {summary.num_looks} looks into runs" if summary.num_looks else ""
    sys.stdout.write(
        f"{folder}: {summary.num_lectures} lectures{looks}; {summary.num_files} files,"
        f" {summary.num_bytes / 1e6:.1f} MB\n"
        f"try it: python -m http.server --directory {folder}\n"
    )
    return 0
