"""Run the tour of `make demo`: the main features in three minutes, offline.

python docs/tour.py problems    check a lecture and find the wrong number; needs no torch
python docs/tour.py models      train a translator and a language model of Python, and inspect them
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOUR_FOLDER = Path("runs/tour")  # relative to the root; all that the tour writes
TRANSLATOR, PYTHON = (TOUR_FOLDER / "translator").as_posix(), (TOUR_FOLDER / "python").as_posix()
WRONG_NUMBER = 1  # exit status of a check that finds a wrong number, which the tour expects


@dataclass(frozen=True)
class Stop:
    """A step of the tour: what it shows, its command, and the exit statuses that are no failure."""

    about: str
    command: str
    expected_statuses: tuple[int, ...] = (0,)


PROBLEMS = (
    Stop(
        "A lecture works self-attention by hand. Is it right? The check points at the\n"
        "first wrong number and writes it out. Errors that follow from it are marked.",
        "check L2-self",
        (0, WRONG_NUMBER),
    ),
)
MODELS = (
    Stop(
        "A Transformer learns to translate the names of emoji from English to French.",
        f"train emoji-french --out {TRANSLATOR}",
    ),
    Stop(
        "Where did it attend for each word?\nFrench puts this adjective after the noun.",
        f'translate {TRANSLATOR} "red heart" --show',
    ),
    Stop(
        "An LSTM learns Python from the standard library, character by character.",
        f"train python-lstm --train.epochs 2 --data.validation 0.02 --out {PYTHON}",
    ),
    Stop(
        "It completes a line of code, with the most likely character each time.",
        f'complete {PYTHON} "raise Value" --tokens 7 --temperature 0',
    ),
)
FAREWELL = f"""
The tour wrote two reports with curves, examples and layers. Open them in a
browser:

  {TRANSLATOR}/report.html
  {PYTHON}/report.html

To continue, put `workings` on the path and open the local page:

  . .venv/bin/activate
  workings serve {TRANSLATOR} {PYTHON}

`make docs` builds the documentation: open site/index.html.
"""


def main() -> int:
    """Run one part of the tour; return the exit status of the step that failed, or 0."""
    parts = {"problems": PROBLEMS, "models": MODELS}
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part not in parts:
        sys.stderr.write(f"usage: python docs/tour.py {{{','.join(parts)}}}\n")
        return 2
    start = time.monotonic()
    if part == "models":
        shutil.rmtree(ROOT / TOUR_FOLDER, ignore_errors=True)  # an earlier tour
    for stop in parts[part]:
        if status := run(stop):
            return status
    if part == "models":
        write(FAREWELL)
        write(f"That took {time.monotonic() - start:.0f} seconds.\n")
    return 0


def run(stop: Stop) -> int:
    """Print what a step shows and its command, and run it."""
    write(f"\n{stop.about}\n\n{bold(f'$ workings {stop.command}')}\n\n")
    command = [sys.executable, "-m", "workings", *shlex.split(stop.command)]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603
    if status in stop.expected_statuses:
        return 0
    sys.stderr.write(f"the tour stops: `workings {stop.command}` ended with status {status}\n")
    return status if status > 0 else 1


def bold(text: str) -> str:
    """Return the text in bold if the terminal supports it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\x1b[1m{text}\x1b[0m"


def write(text: str) -> None:
    """Write and flush, because the next command writes to the same terminal."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
