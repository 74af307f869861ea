"""Open the page in a browser, without the token in the arguments of a process."""

import atexit
import html
import os
import sys
import tempfile
import webbrowser
from pathlib import Path


def has_display() -> bool:
    """Return True if there is a desktop; without one, a text browser would take the terminal."""
    return sys.platform in ("win32", "darwin") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def open_link(link: str) -> Path:
    """Open a link through a file that leads to it, and which only this user can read.

    All users of a machine see the arguments of its processes, such as the link for a browser.
    """
    handle, name = tempfile.mkstemp(prefix="workings-", suffix=".html")  # mode 0600
    target = html.escape(link, quote=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={target}">'
            f'<title>workings</title><a href="{target}">Open the page</a>\n'
        )
    path = Path(name)
    atexit.register(path.unlink, missing_ok=True)
    webbrowser.open(path.as_uri())
    return path
