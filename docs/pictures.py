"""Draw the pictures of the pages anew: python docs/pictures.py [RUNS].

Those of trained models are drawn of the runs in the folder RUNS (default: runs) that go by their
recipes' names; what is not there is trained, which takes some minutes. Only Multi30k's four, which
take hours and need its sentences, are left to you: without them docs/bottleneck.svg stays as it is.
docs/screens.py takes those of pages and of the workbench, in a browser.
"""

import sys
from pathlib import Path

import pooling
import shapes

from workings.cli import main as workings

DOCS = Path(__file__).parent
RECIPES = DOCS.parent / "recipes"
LADDER = [f"multi30k-de-en-{kind}" for kind in ("rnn", "context", "attention", "transformer")]


def main(runs: Path) -> None:
    """Draw them all."""
    pooling.main()
    shapes.main()
    names = ("emoji-french", "scenes", "python-lstm")
    french, scenes, python = (trained(runs / name) for name in names)
    workings(["translate", french, "red heart", "--show", "--out", str(DOCS / "alignment.svg")])
    workings(["caption", scenes, "--test", "3", "--show", "--out", str(DOCS / "caption.png")])
    page = ["--format", "html", "--out", str(DOCS / "cells-python.html")]
    workings(["cells", python, *page])
    fresh = [
        str(RECIPES / f"{name}.toml") for name in ("helo", "python-lstm", "python-transformer")
    ]
    far = ["--max-lag", "60", "--out", str(DOCS / "gradients.svg")]
    workings(["gradients", *fresh, *far])
    if all((runs / name).is_dir() for name in LADDER):
        ladder = [str(runs / name) for name in LADDER]
        workings(["score", *ladder, "--out", str(DOCS / "bottleneck.svg")])
    else:
        sys.stdout.write(f"docs/bottleneck.svg is not drawn: {', '.join(LADDER)} are not there\n")


def trained(run: Path) -> str:
    """A run of the recipe that goes by its name."""
    if not run.is_dir():
        workings(["train", str(RECIPES / f"{run.name}.toml"), "--out", str(run)])
    return str(run)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
