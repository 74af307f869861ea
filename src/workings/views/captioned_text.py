"""A picture, its caption and where the model looked, in a terminal."""

import shutil

import numpy as np
from numpy.typing import NDArray

from workings.views.blocks import codes, half_blocks, has_true_colour, shaded
from workings.views.captioned import DIMMED, Captioned, Look, legend, probability_note
from workings.views.drawing import Pen
from workings.views.maps import pooled
from workings.views.maps_text import beside
from workings.views.plain import clip, wrap
from workings.views.scaling import fitting, resized

_NARROWEST = 24
_LARGE, _TILE = 40, 18  # columns of the picture, of a word's
_WORDY = 17  # columns that a word and where it looked may have below a narrow tile


def text(
    told: Captioned,
    *,
    width: int | None = None,
    color: bool = False,
    true_colour: bool | None = None,
) -> str:
    """Draw the picture, then a tile a word, side by side; without colour, the weights in shades.

    `true_colour` is asked of the terminal where nobody says; else there are 256 colours.
    """
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _NARROWEST), Pen(color)
    true_colour = has_true_colour() if true_colour is None else true_colour
    first, *rest = wrap(told.caption, columns)
    blocks = [[pen(first, "strong"), *rest, *wrap(probability_note(told), columns)]]
    if color:
        blocks.append(_drawn(told.picture, min(_LARGE, columns), true_colour))
    looks = told.looks()
    if looks:
        blocks.append(wrap(legend(light=color, framed=False), columns))
    tiles = [
        _lit(told.picture, look, true_colour) if color else _shades(look, columns) for look in looks
    ]
    wide = max([_TILE] if color else (len(line) for tile in tiles for line in tile), default=0)
    across = (columns + 2) // (wide + 2)
    for k in range(0, len(looks), across):
        some = [
            [*tile, clip(look.word, wide), pen(clip(look.note, wide), "dim")]
            for tile, look in zip(tiles[k : k + across], looks[k : k + across], strict=True)
        ]
        blocks.append(beside(some, wide))
    return "\n\n".join("\n".join(block) for block in blocks)


def _drawn(image: NDArray[np.uint8], side: int, true_colour: bool) -> list[str]:
    return _painted(resized(image, *fitting(image, side)), true_colour)


def _lit(image: NDArray[np.uint8], look: Look, true_colour: bool) -> list[str]:
    """Draw the picture with light where the model looked."""
    size = fitting(image, _TILE)
    light = 1 - DIMMED * (1 - resized(look.levels(), *size))
    return _painted(resized(image, *size) * light[..., None], true_colour)


def _painted(colours: NDArray[np.float64], true_colour: bool) -> list[str]:
    return half_blocks(codes(np.rint(colours).astype(np.uint8), true_colour=true_colour))


def _shades(look: Look, columns: int) -> list[str]:
    """Draw the weights in shades, cells joined where there is no room for all."""
    side = columns // 2
    grid = pooled((look.grid / (look.largest or 1.0)).tolist(), side, side)
    return [f"{shaded(row):{_WORDY}}" for row in grid]
