"""Serve the web page: solve and check problems, inspect and compare runs.

It listens on this machine only. With --host, others can open it with a link that has a token.
"""

import argparse
import os
import sys

HELP = "serve the web page: solve, check, inspect and compare in a browser"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="folders of runs to inspect (default: none)"
    )
    parser.add_argument(
        "--port", type=int, default=8642, metavar="N", help="port (default: 8642); 0: any free port"
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        help="address that other machines can reach; the link then has a token",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from workings.plain_text import escape_control
    from workings.web.server import serve

    def on_ready(link: str) -> None:
        sys.stdout.write(f"the workbench is at {escape_control(link)} (Ctrl-C ends it)\n")
        sys.stdout.flush()
        if not arguments.no_open and _has_display():
            import webbrowser

            webbrowser.open(link)

    serve(arguments.host, arguments.port, on_ready, arguments.runs)
    return 0


def _has_display() -> bool:
    """Return True if there is a desktop; without one, a text browser would take the terminal."""
    return sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
