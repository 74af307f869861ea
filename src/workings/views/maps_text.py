"""Maps of weights in a terminal: shades of characters, or of colour."""

import shutil
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest

from workings.views.blocks import half_blocks, shaded
from workings.views.colours import ramp
from workings.views.drawing import Pen, visible
from workings.views.maps import Told, heading, label, legend, opacity, pooled
from workings.views.plain import clip, one_line, right, wrap

_NARROWEST = 24
_LABELLED = 40  # rows of a map among others; of more, none has its label
_LONGEST = 14  # columns of a label
_TITLE = 400  # letters: a sentence and its translation
_ALONE, _SIDE = 72, 48  # rows of a map that is joined, by itself and among others


def text(told: Told, *, width: int | None = None, color: bool = False, theme: str = "dark") -> str:
    """Draw the maps side by side, as many as there is room for; cells are joined where need be."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _NARROWEST), Pen(color)
    labels = [clip(label(row), _LONGEST, tail=2) for row in told.rows]
    cell = _width_of_a_cell(told, columns - _LONGEST - 1)
    margin = max(map(visible, labels)) + 1 if cell else 0
    room = columns - margin
    numbered = cell > 0 and told.aligned
    above = [_ruler(len(told.columns), cell)] if numbered else []
    if cell:
        drawn = [[_row(row, pen, theme, cell) for row in one.weights] for one in told.maps]
    else:
        most = min(_ALONE if len(told.maps) == 1 else _SIDE, room if color else room // 2)
        drawn = [_joined(one.weights, most, pen, theme) for one in told.maps]
    panels = [
        [clip(one_line(one.name), room), *above, *rows]
        for one, rows in zip(told.maps, drawn, strict=True)
    ]
    wide = max(visible(line) for panel in panels for line in panel)
    across = max(1, (room + 2) // (wide + 2))
    before = [""] * (1 + len(above))
    names = [*before, *(right(name, margin - 1) for name in labels)] if cell else []
    first, *rest = wrap(heading(told, _TITLE), columns)
    blocks = ["\n".join([pen(first, "strong"), *rest, *wrap(legend(told), columns)])]
    for k in range(0, len(panels), across):
        blocks.append("\n".join(beside(panels[k : k + across], wide, names, margin)))
    if numbered:
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


def _width_of_a_cell(told: Told, room: int) -> int:
    """How many characters a cell gets for every row to have its label; 0: they cannot have any."""
    if len(told.rows) > _LABELLED and len(told.maps) > 1:
        return 0
    return next((wide for wide in (2, 1) if wide * len(told.columns) <= room), 0)


def _ruler(columns: int, cell: int) -> str:
    """Number every fifth column, above its right edge.

    >>> _ruler(12, 1)
    '    5   10'
    """
    return "".join(f"{k:{5 * cell}}" for k in range(5, columns + 1, 5))


def _joined(weights: Sequence[Sequence[float]], most: int, pen: Pen, theme: str) -> list[str]:
    """Draw a map whose cells are joined until there are so few rows and columns.

    Where there is colour, half as large: two rows to a line.
    """
    weights = pooled(weights, most, most)
    if pen.color:
        return half_blocks([[f"2;{_colour(weight, theme)}" for weight in row] for row in weights])
    return [_row(row, pen, theme) for row in weights]


def _row(weights: Sequence[float], pen: Pen, theme: str, cell: int = 2) -> str:
    if not pen.color:
        return shaded([opacity(weight) for weight in weights], cell)
    ground = (f"\x1b[48;2;{_colour(weight, theme)}m{' ' * cell}" for weight in weights)
    return "".join(ground) + "\x1b[0m"


def _colour(weight: float, theme: str) -> str:
    channels = _channels(theme)
    return channels[round(opacity(weight) * (len(channels) - 1))]


@cache
def _channels(theme: str) -> list[str]:
    return [";".join(str(int(c[k : k + 2], 16)) for k in (1, 3, 5)) for c in ramp(theme)]
