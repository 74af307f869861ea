"""Maps of weights in a terminal: shades of characters, or of colour."""

import shutil
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest

from workings.views.blocks import half_blocks, shaded
from workings.views.colours import scale, step
from workings.views.drawing import Pen, visible
from workings.views.maps import Told, ToldMap, heading, label, legend, opacity, pooled
from workings.views.plain import clip, one_line, right, wrap

_NARROWEST = 24
_LABELLED = 40  # rows; of more, none has its label
_LONGEST = 14  # columns of a label
_TITLE = 400  # letters: a sentence and its translation
_ALONE, _SIDE = 72, 48  # rows of a map that is joined, by itself and among others


def text(told: Told, *, width: int | None = None, color: bool = False, theme: str = "dark") -> str:
    """Draw the maps side by side, as many as there is room for; cells are joined where need be."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _NARROWEST), Pen(color)
    labels = [clip(label(row), _LONGEST, tail=2) for row in told.rows]
    named = len(labels) <= _LABELLED and 2 * len(told.columns) + _LONGEST + 1 <= columns
    margin = max(map(visible, labels)) + 1 if named else 0
    room = columns - margin
    side = None if named else _ALONE if len(told.maps) == 1 else _SIDE
    panels = [_panel(one, room, pen, theme, side) for one in told.maps]
    wide = max(visible(line) for panel in panels for line in panel)
    across = max(1, (room + 2) // (wide + 2))
    names = ["", *(right(name, margin - 1) for name in labels)] if named else []
    first, *rest = wrap(heading(told, _TITLE), columns)
    blocks = ["\n".join([pen(first, "strong"), *rest, *wrap(legend(told), columns)])]
    for k in range(0, len(panels), across):
        blocks.append("\n".join(beside(panels[k : k + across], wide, names, margin)))
    if named and list(told.columns) != list(told.rows):
        tokens = " ".join(f"{j}\u00a0{label(token)}" for j, token in enumerate(told.columns, 1))
        blocks.append("\n".join(wrap(f"columns: {tokens}", columns)))
    return "\n\n".join(blocks)


def beside(
    panels: Sequence[Sequence[str]], wide: int, names: Sequence[str] = (), margin: int = 0
) -> list[str]:
    """Put panels side by side, each so many columns wide, the rows' names before the first."""
    lines = []
    for name, *parts in zip_longest(names, *panels, fillvalue=""):
        padded = [part + " " * (wide - visible(part)) for part in parts]
        before = name + " " * (margin - visible(name))
        lines.append((before + "  ".join(padded)).rstrip(" "))
    return lines


def _panel(one: ToldMap, room: int, pen: Pen, theme: str, side: int | None) -> list[str]:
    """Draw a map below its name: a line a row, two columns a cell.

    With a `side`, cells are joined until there are so few rows and columns, and drawn half as large
    where there is colour.
    """
    weights = one.weights
    if side is not None:
        side = min(side, room if pen.color else room // 2)
        weights = pooled(weights, side, side)
    if side is not None and pen.color:
        rows = half_blocks([[f"2;{_colour(weight, theme)}" for weight in row] for row in weights])
    else:
        rows = [_row(row, pen, theme) for row in weights]
    return [clip(one_line(one.name), room), *rows]


def _row(weights: Sequence[float], pen: Pen, theme: str) -> str:
    if not pen.color:
        return shaded([opacity(weight) for weight in weights])
    return "".join(f"\x1b[48;2;{_colour(weight, theme)}m  " for weight in weights) + "\x1b[0m"


def _colour(weight: float, theme: str) -> str:
    return _channels(theme)[step(opacity(weight), 1.0)]


@cache
def _channels(theme: str) -> dict[str, str]:
    return {
        name: ";".join(str(int(colour[k : k + 2], 16)) for k in (1, 3, 5))
        for name, colour in scale(theme).items()
    }
