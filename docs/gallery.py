# ruff: noqa: E501 - lines of the page
"""Write docs/gallery.md and docs/gallery/*: every kind of picture with its command.

python docs/gallery.py [RUNS]     pictures of the runs in the folder RUNS (default: runs)

A missing run leaves its pictures as they are.
"""

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from workings.cli import main as workings

HERE = Path(__file__).resolve().parent
PAGE, FOLDER = HERE / "gallery.md", HERE / "gallery"
BEAM_PROBLEM = """\
kind   = "beam_search"
title  = "Two beams, three steps"
tokens = ["the", "cat", "sat", "</s>"]
scores = "probability"

[given]
beams  = 2
length = 3
start  = [0.6, 0.3, 0.06, 0.04]
P      = [[0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.5, 0.3], [0.3, 0.1, 0.1, 0.5], [0.2, 0.3, 0.4, 0.1]]
"""
INTRODUCTION = """\
# Gallery

Every picture is written as `.svg`, `.pdf` or `.png`, by the ending of the file name. Three options say how:

| option | meaning |
|---|---|
| `--width` | pixels, or a length such as `12cm` or `6in`. A PNG has so many pixels, or 300 per inch |
| `--font-size` | of labels: pixels, or a length such as `9pt`. The layout follows |
| `--theme` | `light`, `dark` or `print`: black on white, and a gray copy shows the same. Without it, an `.svg` follows its reader |

In Python: `workings.render.save(result, "map.pdf", width="12cm", font_size="9pt", theme="print")`. Text in a PDF stays text. PNG and
PDF use the fonts of your system; a note names the characters that none of them has.

`python docs/gallery.py` writes this page. Its pictures show these runs:

```sh
workings train python-transformer --out runs/gpt
workings train python-lstm --out runs/python
workings train emoji-french --out runs/french
workings train emoji
```

The pictures on this page are of trainings that were stopped early: `runs/gpt` after three of 4 epochs, `runs/python` after one of 4
(the cells after a minute of another), `runs/french` after ten of 12, `runs/emoji` before its last epoch. [Captions](caption.md) have their own page.

The problem of the search tree:

```toml beam.toml
"""
INTRODUCTION += BEAM_PROBLEM + "```\n"


@dataclass(frozen=True)
class Entry:
    """A picture and the command that writes it."""

    heading: str
    command: str  # its last word is the name of the file
    note: str = ""

    @property
    def words(self) -> list[str]:
        """The arguments of `workings`."""
        return shlex.split(self.command)[1:]

    @property
    def file(self) -> str:
        return self.words[self.words.index("--out") + 1]

    @property
    def run(self) -> str | None:
        """The folder of the run that it needs."""
        return next((word for word in self.words if word.startswith("runs/")), None)


ENTRIES = (
    Entry(
        "Attention maps",
        'workings attention runs/gpt "for name in names:" --width 800 --out attention.svg',
        "All heads of all layers; `--layer` and `--head` choose. Point at a cell for its weight.",
    ),
    Entry(
        "One layer, for paper",
        'workings attention runs/gpt "for name in names:" --layer 2 --width 12cm --font-size 9pt '
        "--theme print --out layer.svg",
    ),
    Entry(
        "An alignment",
        'workings translate runs/french "woman with red hair" --show --width 480 --out alignment.svg',
        "The mean of all heads of the decoder's cross-attention.",
    ),
    Entry(
        "Attributions",
        'workings explain runs/emoji "visage souriant" --width 640 --out attributions.svg',
    ),
    Entry(
        "Gates of an LSTM over time",
        "workings gates runs/python \"print('hello')\" --width 700 --out gates.svg",
        "The units whose cell state varies most over the text.",
    ),
    Entry(
        "Cells over text",
        "workings cells runs/python --property quotes --property line --characters 20000 --top 1 "
        "--out cells.svg",
    ),
    Entry(
        "Gradient flow",
        "workings gradients helo python-lstm --max-lag 40 --width 640 --out gradients.svg",
    ),
    Entry("The tree of a beam search", "workings solve beam.toml --tree --out tree.svg"),
    Entry("Positions", "workings why positions --panel 1 --width 480 --out positions.svg"),
    Entry(
        "One panel of an experiment",
        "workings why gradient --panel 2 --width 560 --theme dark --out gradient-panel.png",
        "Without `--panel`, all panels; in a narrow picture they stand below each other.",
    ),
    Entry(
        "A worked problem",
        "workings solve L0-masked --width 16cm --font-size 8pt --out masked.svg",
    ),
    Entry(
        "The same for paper",
        "workings solve L0-masked --width 16cm --font-size 8pt --theme print --out masked.pdf",
    ),
)


def main(runs: Path) -> None:
    """Draw the pictures whose runs exist, and write the page."""
    FOLDER.mkdir(exist_ok=True)
    runs = runs.resolve()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("beam.toml").write_text(BEAM_PROBLEM, encoding="utf-8")
        if runs.is_dir():
            Path("runs").symlink_to(runs, target_is_directory=True)
        for entry in ENTRIES:
            draw(entry)
        os.chdir(HERE)
    PAGE.write_text("\n".join([INTRODUCTION, *map(format_entry, ENTRIES)]), encoding="utf-8")


def draw(entry: Entry) -> None:
    """Draw a picture, if its run exists."""
    if entry.run is not None and not Path(entry.run).is_dir():
        sys.stdout.write(f"{entry.file} is unchanged: it needs {entry.run}\n")
        return
    words = [str(FOLDER / word) if word == entry.file else word for word in entry.words]
    if workings(words):
        raise SystemExit(f"failed: {entry.command}")


def format_entry(entry: Entry) -> str:
    """Return the section of a picture; a PDF is linked."""
    note = f"{entry.note}\n\n" if entry.note else ""
    address = f"gallery/{entry.file}"
    picture = f"[{entry.file}]({address})" if entry.file.endswith(".pdf") else (
        f"![{entry.heading}]({address})"
    )  # fmt: skip
    return f"## {entry.heading}\n\n```sh\n{entry.command}\n```\n\n{note}{picture}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs"))
