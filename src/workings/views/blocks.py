"""Pixels in a terminal: two to a character in colour, or shades without."""

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_SHADES = " ░▒▓█"
_CUBE = np.array([0, 95, 135, 175, 215, 255])  # the levels of red, green and blue among 256 colours
_GREYS = np.arange(8, 239, 10)


def shaded(shares: Sequence[float], width: int = 2) -> str:
    """Write shares from 0 to 1 as shades; two characters each make about a square.

    >>> shaded([0, 0.5, 1])
    '  ▒▒██'
    """
    return "".join(width * _SHADES[round((len(_SHADES) - 1) * share)] for share in shares)


def half_blocks(rows: Sequence[Sequence[str]]) -> list[str]:
    """Draw two rows on one line: the upper half of a character, and the ground below it.

    A colour is what its code ends in: `2;red;green;blue`, or `5;number`.
    """
    lines = []
    for k in range(0, len(rows), 2):
        below = (
            [f"48;{code}" for code in rows[k + 1]] if k + 1 < len(rows) else ["49"] * len(rows[k])
        )
        cells = (f"\x1b[38;{upper};{lower}m▀" for upper, lower in zip(rows[k], below, strict=True))
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def codes(pixels: NDArray[np.uint8], *, true_colour: bool) -> list[list[str]]:
    """The codes of an image's colours [height, width, 3], of all there are or the nearest of 256.

    >>> codes(np.array([[[255, 0, 4], [10, 8, 9]]], np.uint8), true_colour=False)
    [['5;196', '5;232']]
    """
    if true_colour:
        return [[f"2;{r};{g};{b}" for r, g, b in row] for row in pixels.tolist()]
    wanted = pixels.astype(np.int64)
    sides = np.abs(wanted[..., None] - _CUBE).argmin(-1)
    grey = np.abs(wanted.mean(-1)[..., None] - _GREYS).argmin(-1)
    far = ((wanted - _CUBE[sides]) ** 2).sum(-1)
    grey_far = ((wanted - _GREYS[grey][..., None]) ** 2).sum(-1)
    numbers = np.where(grey_far < far, 232 + grey, 16 + sides @ [36, 6, 1])
    return [[f"5;{number}" for number in row] for row in numbers.tolist()]


def has_true_colour() -> bool:
    """Say whether the terminal tells that it has more than 256 colours."""
    return os.environ.get("COLORTERM") in ("truecolor", "24bit")
