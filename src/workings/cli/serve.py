"""Serve the web page: solve and check problems, inspect and compare runs.

It listens on this machine only, unless --host is given. The link has a token, which the browser
keeps as a cookie: other users of the machine cannot open the page.
"""

import argparse
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
    parser.add_argument("--host", metavar="NAME", help="address that other machines can reach")
    parser.add_argument(
        "--no-token",
        action="store_true",
        help="no token: whoever reaches the port can use the page and read the runs",
    )
    parser.add_argument("--certfile", metavar="FILE", help="TLS certificate (PEM): serve https")
    parser.add_argument("--keyfile", metavar="FILE", help="private key of the certificate (PEM)")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    from workings.plain_text import escape_control
    from workings.web.browser import has_display, open_link
    from workings.web.server import ServerOptions, serve

    def on_ready(link: str) -> None:
        sys.stdout.write(f"the workbench is at {escape_control(link)} (Ctrl-C ends it)\n")
        if arguments.no_token:
            sys.stdout.write("without a token: whoever reaches this port can read the runs\n")
        sys.stdout.flush()
        if not arguments.no_open and has_display():
            open_link(link)

    options = ServerOptions(
        host=arguments.host,
        port=arguments.port,
        has_token=not arguments.no_token,
        certificate=arguments.certfile,
        key=arguments.keyfile,
    )
    serve(options, on_ready, arguments.runs)
    return 0
