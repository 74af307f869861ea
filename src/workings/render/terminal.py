"""Drawing on a terminal: its width, ANSI styles, shades, half blocks and panels side by side."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from workings.plain_text import display_width

MIN_COLUMNS = 24  # narrower terminals are treated as this wide
BARS = "▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_ANSI_CODE = re.compile(r"\x1b\[[\d;]*m")
_STYLES = {
    "strong": "1", "dim": "2", "masked": "2", "blank": "2", "wrong": "31", "first": "1;7;31",
    "follows": "33", "rounded": "36", "right verdict": "32",
}  # fmt: skip
_COLOR_CUBE = np.array([0, 95, 135, 175, 215, 255])  # levels per channel in the 256-color palette
_GRAYS = np.arange(8, 239, 10)


def output_columns(width: int | None = None) -> int:
    """Return the columns to write in: `width`, or those of this terminal (80 without one)."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    return max(columns, MIN_COLUMNS)


@dataclass(frozen=True)
class AnsiStyler:
    """Adds ANSI styles to text, or leaves it plain."""

    color: bool = False

    def __call__(self, text: str, style: str) -> str:
        if not self.color or style not in _STYLES or not text.strip():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def visible_width(line: str) -> int:
    """Count the columns of a line, ANSI codes excluded.

    >>> visible_width(AnsiStyler(color=True)("cat", "strong"))
    3
    """
    return display_width(_ANSI_CODE.sub("", line))


def rgb_code(color: str) -> str:
    """Return the red, green and blue of `#rrggbb` as an ANSI code has them.

    >>> rgb_code("#ff8000")
    '255;128;0'
    """
    return ";".join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))


def has_true_color() -> bool:
    """Return True if the terminal reports more than 256 colors."""
    return os.environ.get("COLORTERM") in ("truecolor", "24bit")


def ansi_colors(pixels: NDArray[np.uint8], *, true_color: bool) -> list[list[str]]:
    """Return the color codes of an image [height, width, 3]: exact, or the nearest of 256 colors.

    >>> ansi_colors(np.array([[[255, 0, 4], [10, 8, 9]]], np.uint8), true_color=False)
    [['5;196', '5;232']]
    """
    if true_color:
        return [[f"2;{r};{g};{b}" for r, g, b in row] for row in pixels.tolist()]
    rgb = pixels.astype(np.int64)
    levels = np.abs(rgb[..., None] - _COLOR_CUBE).argmin(-1)
    gray = np.abs(rgb.mean(-1)[..., None] - _GRAYS).argmin(-1)
    cube_distance = ((rgb - _COLOR_CUBE[levels]) ** 2).sum(-1)
    gray_distance = ((rgb - _GRAYS[gray][..., None]) ** 2).sum(-1)
    codes = np.where(gray_distance < cube_distance, 232 + gray, 16 + levels @ [36, 6, 1])
    return [[f"5;{code}" for code in row] for row in codes.tolist()]


def shade_blocks(fractions: Sequence[float], cell_width: int = 2) -> str:
    """Draw fractions (0 to 1) as shaded cells; two characters are about square.

    >>> shade_blocks([0, 0.5, 1])
    '  ▒▒██'
    """
    return "".join(cell_width * _SHADES[round((len(_SHADES) - 1) * f)] for f in fractions)


def half_blocks(rows: Sequence[Sequence[str]]) -> list[str]:
    """Draw two rows of pixels per line: the upper one as ▀, the lower one as its background.

    A pixel is the end of its ANSI color code: `2;red;green;blue` or `5;number`.
    """
    lines = []
    for k in range(0, len(rows), 2):
        upper = rows[k]
        lower = [f"48;{code}" for code in rows[k + 1]] if k + 1 < len(rows) else ["49"] * len(upper)
        cells = (f"\x1b[38;{code};{below}m▀" for code, below in zip(upper, lower, strict=True))
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def join_panels(
    panels: Sequence[Sequence[str]],
    panel_width: int,
    row_names: Sequence[str] = (),
    margin: int = 0,
) -> list[str]:
    """Join panels of lines side by side, each padded to a width, with row names in the margin."""
    lines = []
    for name, *parts in zip_longest(row_names, *panels, fillvalue=""):
        padded = [part + " " * (panel_width - visible_width(part)) for part in parts]
        prefix = name + " " * (margin - visible_width(name))
        lines.append((prefix + "  ".join(padded)).rstrip(" "))
    return lines
