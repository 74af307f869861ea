"""Draw the pictures of the pages anew: python docs/pictures.py.

Those of a trained model are drawn of runs/emoji-french, which is trained where it is not there.
docs/screens.py takes those of the workbench, in a browser. docs/bottleneck.svg was drawn by
`workings judge`, of three trained recipes for Multi30k (docs/translate.md).
"""

import sys
from pathlib import Path

import pooling
import shapes

from workings.cli import main as workings

DOCS = Path(__file__).parent
RECIPE = DOCS.parent / "recipes" / "emoji-french.toml"


def main(run: Path) -> None:
    """Draw them all."""
    pooling.main()
    shapes.main()
    if not run.is_dir():
        workings(["train", str(RECIPE), "--out", str(run)])
    alignment = DOCS / "alignment.svg"
    workings(["translate", str(run), "red heart", "--show", "--out", str(alignment)])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/emoji-french"))
