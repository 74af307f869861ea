"""Maps of weights, rows × columns, as a picture and a page: attention heads, alignments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from workings.views.measure import shortened, text_width
from workings.views.page import harmless, piece, whole_page
from workings.views.picture import Picture
from workings.views.plain import one_line

COLOUR = "c2"
_INTO = " → "  # between a text and what was made of it
_EDGE, _GAP = 16, 20
_TITLE, _NAME, _LABEL = 16, 12, 11  # sizes of text
_WIDEST = 1140  # pixels; what has no room beside goes below
_ALONE, _LARGE, _SMALL = 560, 460, 230  # pixels of a map by itself, among few, among many
_FEW, _MANY = 4, 40  # maps that can be large; rows or columns that need it
_LARGEST, _LABELLED = 24, 11  # pixels of a cell; smaller ones have no labels
_LONGEST = 110  # pixels of a label
_NOTED = 20_000  # cells of all maps together that can be told of one by one

_RULES = """
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 1rem; }
.workings .picture path:hover { stroke: var(--ink); stroke-width: .12; }
"""


class ToldMap(Protocol):
    """A map: how much each row has to do with each column, from 0 to 1."""

    @property
    def name(self) -> str: ...
    @property
    def weights(self) -> Sequence[Sequence[float]]: ...


@runtime_checkable
class Told(Protocol):
    """Maps with the same rows and columns."""

    @property
    def title(self) -> str: ...
    @property
    def rows(self) -> Sequence[str]: ...
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def maps(self) -> Sequence[ToldMap]: ...
    @property
    def cut(self) -> int: ...
    @property
    def aligned(self) -> bool: ...


def page(told: Told) -> str:
    """Write a page with all maps."""
    title = harmless(heading(told))
    return whole_page(heading(told), f"<h1>{title}</h1>\n{body(told)}", style=_RULES)


def fragment(told: Told) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    title = harmless(heading(told))
    return piece(f"<h3>{title}</h3>\n{body(told)}", style=_RULES)


def body(told: Told) -> str:
    """Write the picture, and how to read it; a title stands above."""
    cells = len(told.rows) * len(told.columns) * len(told.maps)
    noted = " Point at a cell for its weight." if cells <= _NOTED else ""
    return f"""<p class="what">{harmless(legend(told))}.{noted}</p>
<div class="scroll">{picture(told, titled=False).svg()}</div>
"""


def heading(told: Told, most: int = 60) -> str:
    """Say what the maps are of, in about so many letters at most, a translation's among them."""
    text = one_line(" ".join(told.title.split()))
    what = "Alignment" if told.aligned else "Who looks at whom"
    sides = text.split(_INTO) if told.aligned else [text]
    return f"{what}: {_INTO.join(_cut(side, most // len(sides)) for side in sides)}"


def _cut(text: str, most: int) -> str:
    return f"{text[:most].rstrip()}…" if len(text) > most else text


def legend(told: Told) -> str:
    """Say how to read a map that is drawn here."""
    return how_to_read(told, "; the colour goes with the square root of the weight")


def how_to_read(told: Told, more: str = "") -> str:
    """Say what rows and columns are, and what was not read."""
    cut = f"; the last {told.cut:,} characters were not read" if told.cut else ""
    row = "is written" if told.aligned else "looks"
    return f"A row for each token that {row}, a column for each that is looked at{more}{cut}"


def label(token: str) -> str:
    r"""Write a token so that its spaces are seen; one that only ends a letter begun before, as …

    >>> label(" cat"), label("\n"), label("")
    ('␣cat', '⏎', '…')
    """
    return one_line(token.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")) or "…"


def opacity(weight: float) -> float:
    """How strong a weight is drawn: small ones are many, and should be seen.

    >>> opacity(0.25), opacity(-1.0)
    (0.5, 0.0)
    """
    return math.sqrt(min(max(weight, 0.0), 1.0))


def pooled(weights: Sequence[Sequence[float]], rows: int, columns: int) -> list[list[float]]:
    """Join cells until there are so many at most, each as strong as its strongest.

    >>> pooled([[0.1, 0.5, 0.2], [0.0, 0.3, 0.9]], 1, 2)
    [[0.5, 0.9]]
    """
    tall, wide = -(-len(weights) // rows), -(-len(weights[0]) // columns)
    return [
        [
            max(weight for row in weights[i : i + tall] for weight in row[j : j + wide])
            for j in range(0, len(weights[0]), wide)
        ]
        for i in range(0, len(weights), tall)
    ]


def picture(told: Told, *, titled: bool = True) -> Picture:
    """Draw the maps side by side; the rows' labels stand before the first of a line."""
    layout = _laid_out(told, titled)
    drawn = Picture(layout.width, layout.height, heading(told))
    if titled:
        title = shortened(heading(told), layout.width - 2 * _EDGE, _TITLE, bold=True)
        drawn.text(_EDGE, _EDGE + _TITLE - 3, title, size=_TITLE, bold=True)
    noted = len(told.rows) * len(told.columns) * len(told.maps) <= _NOTED
    for k, one in enumerate(told.maps):
        _draw(drawn, told, one, layout, k, noted)
    return drawn


@dataclass(frozen=True)
class _Layout:
    """Where maps stand."""

    cell: float
    across: int
    size: tuple[float, float]  # of a map
    room: tuple[float, float]  # for labels: to the left of it, and above
    count: int
    top: float
    turned: bool  # whether the columns' labels are, for want of room
    least: float  # how wide the picture is at least, for its title

    @property
    def width(self) -> float:
        wide = self.room[0] + self.across * (self.size[0] + _GAP) - _GAP + 2 * _EDGE
        return math.ceil(max(wide, self.least))

    @property
    def height(self) -> float:
        rows = -(-self.count // self.across)
        return math.ceil(self.top + rows * self.step + _EDGE - _GAP)

    @property
    def step(self) -> float:
        """From a row of maps to the next."""
        return _NAME + 8 + self.room[1] + self.size[1] + _GAP

    def place(self, k: int) -> tuple[float, float]:
        row, column = divmod(k, self.across)
        x = _EDGE + self.room[0] + column * (self.size[0] + _GAP)
        return x, self.top + row * self.step + _NAME + 8 + self.room[1]


def _laid_out(told: Told, titled: bool) -> _Layout:
    rows, columns, count = len(told.rows), len(told.columns), len(told.maps)
    longest = max(rows, columns)
    side = _ALONE if count == 1 else _LARGE if count <= _FEW and longest > _MANY else _SMALL
    cell = min(side / longest, _LARGEST)
    if cell < _LABELLED and longest * _LABELLED < (_WIDEST if count == 1 else _WIDEST / 3):
        cell = _LABELLED  # a larger map that can be read is better than a smaller that cannot
    room, turned = (0.0, 0.0), False
    if cell >= _LABELLED:
        names = (told.rows, told.columns)
        wide, tall = (max(text_width(label(n), _font(cell)) for n in some) for some in names)
        turned = tall > cell
        room = (min(wide, _LONGEST) + 6, (min(tall, _LONGEST) if turned else _font(cell)) + 6)
    size = (columns * cell, rows * cell)
    fit = max(1, int((_WIDEST - room[0] - 2 * _EDGE + _GAP) / (size[0] + _GAP)))
    even = [n for n in range(fit, 0, -1) if count % n == 0]  # lines of maps that are equally long
    across = min(even[0] if 2 * even[0] > fit else fit, count)
    title = text_width(heading(told), _TITLE, bold=True) * titled + 2 * _EDGE
    least = min(max(title, 320), _WIDEST)
    return _Layout(cell, across, size, room, count, _EDGE + (_TITLE + 14) * titled, turned, least)


def _font(cell: float) -> float:
    return min(cell, _LABEL)


def _draw(drawn: Picture, told: Told, one: ToldMap, layout: _Layout, k: int, noted: bool) -> None:
    (x, y), (wide, tall) = layout.place(k), layout.size
    room = layout.width - x - _EDGE if layout.across == 1 else max(wide, 80)
    name = shortened(one_line(one.name), room, _NAME)
    drawn.text(x, y - layout.room[1] - 6, name, "soft", _NAME)
    weights = one.weights
    if layout.cell < 1:  # a cell a pixel is all that can be seen
        weights = pooled(weights, math.ceil(tall), math.ceil(wide))
    notes = _notes(told, one) if noted and weights is one.weights else []
    shares = [[opacity(weight) for weight in row] for row in weights]
    drawn.grid((x, y, wide, tall), shares, COLOUR, notes)
    corners = [(x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall), (x, y)]
    drawn.line(corners, "line")
    if layout.room == (0.0, 0.0):
        return
    size = _font(layout.cell)
    if k % layout.across == 0:
        for i, token in enumerate(told.rows):
            middle = y + (i + 0.5) * layout.cell + size * 0.36
            drawn.text(x - 5, middle, shortened(label(token), _LONGEST, size), "ink", size, "end")
    for j, token in enumerate(told.columns):
        middle, words = x + (j + 0.5) * layout.cell, shortened(label(token), _LONGEST, size)
        if layout.turned:
            drawn.text(middle + size * 0.36, y - 5, words, "ink", size, turn=90)
        else:
            drawn.text(middle, y - 5, words, "ink", size, "middle")


def _notes(told: Told, one: ToldMap) -> list[list[str]]:
    """Tell of each cell who looks at whom and how much; of what is hidden, nothing."""
    return [
        [
            f"{label(row)} → {label(column)}: {weight:.3f}" if weight > 0 else ""
            for column, weight in zip(told.columns, weights, strict=True)
        ]
        for row, weights in zip(told.rows, one.weights, strict=True)
    ]
