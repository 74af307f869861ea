"""Open the workbench: a page on this machine to work and check problems, and to look into runs.

It answers to this machine alone. With --host others can reach it, by a link with a token.
"""

import argparse
import os
import sys

HELP = "open the workbench, a page to work, check and look inside"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="folders of runs to look into (without: none)"
    )
    parser.add_argument(
        "--port", type=int, default=8642, metavar="N", help="default: 8642; 0: any that is free"
    )
    parser.add_argument(
        "--host", metavar="NAME", help="an address to be reached at by others (a token is needed)"
    )
    parser.add_argument("--no-open", action="store_true", help="print the link, open no browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from workings.plain_text import escape_control
    from workings.web.server import serve

    def ready(link: str) -> None:
        sys.stdout.write(f"the workbench is at {escape_control(link)} (Ctrl-C ends it)\n")
        sys.stdout.flush()
        if not arguments.no_open and _has_display():
            import webbrowser

            webbrowser.open(link)

    serve(arguments.host, arguments.port, ready, arguments.runs)
    return 0


def _has_display() -> bool:
    """Say whether there is a desktop: elsewhere a browser would take the terminal over."""
    return sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
