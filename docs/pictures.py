"""Draw the figures of the pages: python docs/pictures.py [RUNS].

Figures of trained models use the runs in the folder RUNS (default: runs), named like their recipes.
A missing run is trained, which takes some minutes. The four runs on Multi30k take hours and need
its sentences; without them docs/bottleneck.svg stays unchanged. docs/screens.py takes screenshots.
"""

import sys
from pathlib import Path

import pooling
import shapes

from workings.cli import main as workings

DOCS = Path(__file__).parent
RECIPES = DOCS.parent / "recipes"
MULTI30K = [f"multi30k-de-en-{kind}" for kind in ("rnn", "context", "attention", "transformer")]


def main(runs: Path) -> None:
    """Draw all figures."""
    pooling.main()
    shapes.main()
    names = ("emoji-french", "scenes", "python-lstm")
    french, scenes, python = (ensure_trained(runs / name) for name in names)
    workings(["translate", french, "red heart", "--show", "--out", str(DOCS / "alignment.svg")])
    workings(["caption", scenes, "--test", "3", "--show", "--out", str(DOCS / "caption.png")])
    page = ["--top", "1", "--format", "html", "--out", str(DOCS / "cells-python.html")]
    workings(["cells", python, *page])
    untrained = [
        str(RECIPES / f"{name}.toml") for name in ("helo", "python-lstm", "python-transformer")
    ]
    options = ["--max-lag", "60", "--out", str(DOCS / "gradients.svg")]
    workings(["gradients", *untrained, *options])
    if all((runs / name).is_dir() for name in MULTI30K):
        translators = [str(runs / name) for name in MULTI30K]
        workings(["score", *translators, "--out", str(DOCS / "bottleneck.svg")])
    else:
        sys.stdout.write(
            f"docs/bottleneck.svg is unchanged: it needs the runs {', '.join(MULTI30K)}\n"
        )


def ensure_trained(run: Path) -> str:
    """Train the recipe of a run's name if the run does not exist; return its path."""
    if not run.is_dir():
        workings(["train", str(RECIPES / f"{run.name}.toml"), "--out", str(run)])
    return str(run)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
