"""Where results go: the terminal, or a file that is whole or not there."""

import os
import shutil
import sys
from pathlib import Path

from workings.errors import UserError


def in_color() -> bool:
    """Say whether the terminal wants colour (NO_COLOR and TERM=dumb do not)."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def width() -> int:
    """How many columns there are to write in."""
    return shutil.get_terminal_size((100, 24)).columns


def deliver(text: str, out: str | None) -> None:
    """Print the text, or write it to a file beside and rename it when it is whole."""
    if out is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    path = Path(out)
    if not path.name or path.is_dir():
        raise UserError(f"--out {out!r} is a folder: name a file")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}") from None
    finally:
        if beside.exists():
            beside.unlink()
