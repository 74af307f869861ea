"""The tour that `make demo` gives: the whole product in three minutes, offline.

python docs/tour.py problems    a lecture checked, its wrong number pointed at; needs no torch
python docs/tour.py models      a translator and a model of Python, trained and looked into
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
LEFT = Path("runs/tour")  # all that the tour leaves behind, from the root
TRANSLATOR, PYTHON = (LEFT / "translator").as_posix(), (LEFT / "python").as_posix()
FOUND = 1  # the status of a check that found something wrong: here that is what we came for


@dataclass(frozen=True)
class Stop:
    """What is to be seen, and what to type to see it."""

    about: str
    command: str
    fine: tuple[int, ...] = (0,)


PROBLEMS = (
    Stop(
        "A lecture works self-attention by hand. Is it right? The first wrong number is\n"
        "pointed at, with its working; what merely follows from it is marked as that.",
        "check lectures/L2-self.toml",
        (0, FOUND),
    ),
)
MODELS = (
    Stop(
        "A Transformer learns to translate, from names of emoji in English and French.",
        f"train recipes/emoji-french.toml --out {TRANSLATOR}",
    ),
    Stop(
        "What did it look at while it wrote each word?\nFrench has the adjective behind the noun.",
        f'translate {TRANSLATOR} "red heart" --show',
    ),
    Stop(
        "An LSTM reads Python's own library, letter by letter.",
        f"train recipes/python-lstm.toml --train.epochs 2 --data.validation 0.02 --out {PYTHON}",
    ),
    Stop(
        "It goes on with a line of code: the likeliest letter each time.",
        f'complete {PYTHON} "raise Value" --tokens 7 --temperature 0',
    ),
)
FAREWELL = f"""
What the tour leaves behind. Open these in a browser: curves, examples, layers.

  {TRANSLATOR}/report.html
  {PYTHON}/report.html

To go on, put `workings` on the path and open the workbench, a local page:

  . .venv/bin/activate
  workings serve {TRANSLATOR} {PYTHON}

`make docs` writes the documentation to site/index.html.
"""


def main() -> int:
    """Show one part of the tour; the status is that of the step that failed, or 0."""
    parts = {"problems": PROBLEMS, "models": MODELS}
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part not in parts:
        sys.stderr.write(f"usage: python docs/tour.py {{{','.join(parts)}}}\n")
        return 2
    began = time.monotonic()
    if part == "models":
        shutil.rmtree(ROOT / LEFT, ignore_errors=True)  # of the tour before
    for stop in parts[part]:
        if status := show(stop):
            return status
    if part == "models":
        say(FAREWELL)
        say(f"That took {time.monotonic() - began:.0f} seconds.\n")
    return 0


def show(stop: Stop) -> int:
    """Say what is to be seen, print the command as one would type it, and run it."""
    say(f"\n{stop.about}\n\n{bold(f'$ workings {stop.command}')}\n\n")
    command = [sys.executable, "-m", "workings", *shlex.split(stop.command)]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603
    if status in stop.fine:
        return 0
    sys.stderr.write(f"the tour stops: `workings {stop.command}` ended with status {status}\n")
    return status if status > 0 else 1


def bold(text: str) -> str:
    """Make it stand out, where that can be seen and is wanted."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not sys.stdout.isatty() else f"\x1b[1m{text}\x1b[0m"


def say(text: str) -> None:
    """Print at once: what is run next writes to the same terminal."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
