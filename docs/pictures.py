"""Draw the pictures of the pages anew: python docs/pictures.py [RUNS].

Those of trained models are drawn of emoji-french and scenes in the folder RUNS (default: runs);
what is not there is trained, which takes some minutes. docs/screens.py takes those of the
workbench, in a browser. docs/bottleneck.svg was drawn by `workings judge`, of three trained recipes
for Multi30k (docs/translate.md).
"""

import sys
from pathlib import Path

import pooling
import shapes

from workings.cli import main as workings

DOCS = Path(__file__).parent
RECIPES = DOCS.parent / "recipes"


def main(runs: Path) -> None:
    """Draw them all."""
    pooling.main()
    shapes.main()
    french, scenes = (trained(runs / name) for name in ("emoji-french", "scenes"))
    workings(["translate", french, "red heart", "--show", "--out", str(DOCS / "alignment.svg")])
    workings(["caption", scenes, "--test", "3", "--show", "--out", str(DOCS / "caption.png")])


def trained(run: Path) -> str:
    """A run of the recipe that goes by its name."""
    if not run.is_dir():
        workings(["train", str(RECIPES / f"{run.name}.toml"), "--out", str(run)])
    return str(run)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
