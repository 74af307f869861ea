"""Maps of weights, rows × columns, as a picture and a page: attention heads, alignments."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

from workings.interpret.results import AttentionMaps, HeadMap
from workings.plain_text import (
    pad_left,
    show_whitespace,
    to_one_line,
    truncate_to_columns,
    wrap_to_columns,
)
from workings.render.colors import color_ramp
from workings.render.images import half_blocks, shade_blocks
from workings.render.matrix import AnsiStyler, visible_width
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture, text_width, truncate_to_pixels

MAP_COLOR = "c2"
_ARROW = " → "  # between a text and what was made of it
_MARGIN, _GAP = 16, 20
_TITLE_SIZE, _NAME_SIZE, _LABEL_SIZE = 16, 12, 11  # sizes of text
_MAX_WIDTH = 1140  # pixels; what has no room beside goes below
_SINGLE_SIDE, _LARGE_SIDE, _SMALL_SIDE = (
    560,
    460,
    230,
)  # pixels of a map by itself, among few, among many
_MAX_LARGE_MAPS, _MIN_LARGE_TOKENS = 4, 40  # maps that can be large; rows or columns that need it
_MAX_CELL, _MIN_LABELED_CELL = 24, 11  # pixels of a cell; smaller ones have no labels
_MAX_LABEL_WIDTH = 110  # pixels of a label
_MAX_TOOLTIPS = 20_000  # cells of all maps together that can be told of one by one

_CSS = """
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 1rem; }
.workings .picture path:hover { stroke: var(--ink); stroke-width: .12; }
"""


def render_page(maps: AttentionMaps) -> str:
    """Write a page with all maps."""
    title = escape_html(map_title(maps))
    return html_page(map_title(maps), f"<h1>{title}</h1>\n{render_body(maps)}", style=_CSS)


def render_fragment(maps: AttentionMaps) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    title = escape_html(map_title(maps))
    return html_fragment(f"<h3>{title}</h3>\n{render_body(maps)}", style=_CSS)


def render_body(maps: AttentionMaps) -> str:
    """Write the picture, and how to read it; a title stands above."""
    cells = len(maps.rows) * len(maps.columns) * len(maps.maps)
    noted = " Point at a cell for its weight." if cells <= _MAX_TOOLTIPS else ""
    return f"""<p class="what">{escape_html(map_legend(maps))}.{noted}</p>
<div class="scroll">{render_picture(maps, with_title=False).svg()}</div>
"""


def map_title(maps: AttentionMaps, max_length: int = 60) -> str:
    """Say what the maps are of, in about so many letters at most, a translation's among them."""
    text = to_one_line(" ".join(maps.title.split()))
    what = "Alignment" if maps.is_alignment else "Who looks at whom"
    sides = text.split(_ARROW) if maps.is_alignment else [text]
    return (
        f"{what}: {_ARROW.join(_truncate_title(side, max_length // len(sides)) for side in sides)}"
    )


def _truncate_title(text: str, max_length: int) -> str:
    return f"{text[:max_length].rstrip()}…" if len(text) > max_length else text


def map_legend(maps: AttentionMaps) -> str:
    """Say how to read a map that is drawn here."""
    return axes_legend(maps, "; the colour goes with the square root of the weight")


def axes_legend(maps: AttentionMaps, extra: str = "") -> str:
    """Say what rows and columns are, and what was not read."""
    cut = (
        f"; the last {maps.truncated_characters:,} characters were not read"
        if maps.truncated_characters
        else ""
    )
    row = "is written" if maps.is_alignment else "looks"
    return f"A row for each token that {row}, a column for each that is looked at{extra}{cut}"


def weight_opacity(weight: float) -> float:
    """How strong a weight is drawn: small ones are many, and should be seen.

    >>> weight_opacity(0.25), weight_opacity(-1.0)
    (0.5, 0.0)
    """
    return math.sqrt(min(max(weight, 0.0), 1.0))


def max_pool(
    weights: Sequence[Sequence[float]], max_rows: int, max_columns: int
) -> list[list[float]]:
    """Join cells until there are so many at most, each as strong as its strongest.

    >>> max_pool([[0.1, 0.5, 0.2], [0.0, 0.3, 0.9]], 1, 2)
    [[0.5, 0.9]]
    """
    tall, wide = -(-len(weights) // max_rows), -(-len(weights[0]) // max_columns)
    return [
        [
            max(weight for row in weights[i : i + tall] for weight in row[j : j + wide])
            for j in range(0, len(weights[0]), wide)
        ]
        for i in range(0, len(weights), tall)
    ]


def render_picture(maps: AttentionMaps, *, with_title: bool = True) -> Picture:
    """Draw the maps side by side; the rows' labels stand before the first of a line."""
    layout = _compute_layout(maps, with_title)
    drawn = Picture(layout.width, layout.height, map_title(maps))
    if with_title:
        title = truncate_to_pixels(
            map_title(maps), layout.width - 2 * _MARGIN, _TITLE_SIZE, bold=True
        )
        drawn.add_text(_MARGIN, _MARGIN + _TITLE_SIZE - 3, title, size=_TITLE_SIZE, bold=True)
    noted = len(maps.rows) * len(maps.columns) * len(maps.maps) <= _MAX_TOOLTIPS
    for k, one in enumerate(maps.maps):
        _draw_map(drawn, maps, one, layout, k, noted)
    return drawn


@dataclass(frozen=True)
class _Layout:
    """Where maps stand."""

    cell_size: float
    maps_per_row: int
    map_size: tuple[float, float]  # of a map
    label_room: tuple[float, float]  # for labels: to the left of it, and above
    count: int
    top: float
    rotated_labels: bool  # whether the columns' labels are, for want of room
    min_width: float  # how wide the picture is at least, for its title

    @property
    def width(self) -> float:
        wide = (
            self.label_room[0] + self.maps_per_row * (self.map_size[0] + _GAP) - _GAP + 2 * _MARGIN
        )
        return math.ceil(max(wide, self.min_width))

    @property
    def height(self) -> float:
        rows = -(-self.count // self.maps_per_row)
        return math.ceil(self.top + rows * self.row_height + _MARGIN - _GAP)

    @property
    def row_height(self) -> float:
        """From a row of maps to the next."""
        return _NAME_SIZE + 8 + self.label_room[1] + self.map_size[1] + _GAP

    def map_position(self, k: int) -> tuple[float, float]:
        row, column = divmod(k, self.maps_per_row)
        x = _MARGIN + self.label_room[0] + column * (self.map_size[0] + _GAP)
        return x, self.top + row * self.row_height + _NAME_SIZE + 8 + self.label_room[1]


def _compute_layout(maps: AttentionMaps, with_title: bool) -> _Layout:
    rows, columns, count = len(maps.rows), len(maps.columns), len(maps.maps)
    longest = max(rows, columns)
    side = (
        _SINGLE_SIDE
        if count == 1
        else _LARGE_SIDE
        if count <= _MAX_LARGE_MAPS and longest > _MIN_LARGE_TOKENS
        else _SMALL_SIDE
    )
    cell = min(side / longest, _MAX_CELL)
    if cell < _MIN_LABELED_CELL and longest * _MIN_LABELED_CELL < (
        _MAX_WIDTH if count == 1 else _MAX_WIDTH / 3
    ):
        cell = (
            _MIN_LABELED_CELL  # a larger map that can be read is better than a smaller that cannot
        )
    room, turned = (0.0, 0.0), False
    if cell >= _MIN_LABELED_CELL:
        names = (maps.rows, maps.columns)
        wide, tall = (
            max(text_width(show_whitespace(n), _font_size(cell)) for n in some) for some in names
        )
        turned = tall > cell
        room = (
            min(wide, _MAX_LABEL_WIDTH) + 6,
            (min(tall, _MAX_LABEL_WIDTH) if turned else _font_size(cell)) + 6,
        )
    size = (columns * cell, rows * cell)
    fit = max(1, int((_MAX_WIDTH - room[0] - 2 * _MARGIN + _GAP) / (size[0] + _GAP)))
    even = [n for n in range(fit, 0, -1) if count % n == 0]  # lines of maps that are equally long
    across = min(even[0] if 2 * even[0] > fit else fit, count)
    title = text_width(map_title(maps), _TITLE_SIZE, bold=True) * with_title + 2 * _MARGIN
    least = min(max(title, 320), _MAX_WIDTH)
    return _Layout(
        cell, across, size, room, count, _MARGIN + (_TITLE_SIZE + 14) * with_title, turned, least
    )


def _font_size(cell: float) -> float:
    return min(cell, _LABEL_SIZE)


def _draw_map(
    picture: Picture,
    maps: AttentionMaps,
    head_map: HeadMap,
    layout: _Layout,
    index: int,
    with_tooltips: bool,
) -> None:
    (x, y), (wide, tall) = layout.map_position(index), layout.map_size
    room = layout.width - x - _MARGIN if layout.maps_per_row == 1 else max(wide, 80)
    name = truncate_to_pixels(to_one_line(head_map.name), room, _NAME_SIZE)
    picture.add_text(x, y - layout.label_room[1] - 6, name, "soft", _NAME_SIZE)
    weights = head_map.weights
    if layout.cell_size < 1:  # a cell a pixel is all that can be seen
        weights = max_pool(weights, math.ceil(tall), math.ceil(wide))
    notes = _cell_tooltips(maps, head_map) if with_tooltips and weights is head_map.weights else []
    shares = [[weight_opacity(weight) for weight in row] for row in weights]
    picture.add_grid((x, y, wide, tall), shares, MAP_COLOR, notes)
    corners = [(x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall), (x, y)]
    picture.add_line(corners, "line")
    if layout.label_room == (0.0, 0.0):
        return
    size = _font_size(layout.cell_size)
    if index % layout.maps_per_row == 0:
        for i, token in enumerate(maps.rows):
            middle = y + (i + 0.5) * layout.cell_size + size * 0.36
            picture.add_text(
                x - 5,
                middle,
                truncate_to_pixels(show_whitespace(token), _MAX_LABEL_WIDTH, size),
                "ink",
                size,
                "end",
            )
    for j, token in enumerate(maps.columns):
        middle, words = (
            x + (j + 0.5) * layout.cell_size,
            truncate_to_pixels(show_whitespace(token), _MAX_LABEL_WIDTH, size),
        )
        if layout.rotated_labels:
            picture.add_text(middle + size * 0.36, y - 5, words, "ink", size, rotation=90)
        else:
            picture.add_text(middle, y - 5, words, "ink", size, "middle")


def _cell_tooltips(maps: AttentionMaps, head_map: HeadMap) -> list[list[str]]:
    """Tell of each cell who looks at whom and how much; of what is hidden, nothing."""
    return [
        [
            f"{show_whitespace(row)} → {show_whitespace(column)}: {weight:.3f}"
            if weight > 0
            else ""
            for column, weight in zip(maps.columns, weights, strict=True)
        ]
        for row, weights in zip(maps.rows, head_map.weights, strict=True)
    ]


_MIN_WIDTH = 24
_MAX_LABELED_ROWS = 40  # rows of a map among others; of more, none has its label
_MAX_LABEL_COLUMNS = 14  # columns of a label
_MAX_TITLE_LENGTH = 400  # letters: a sentence and its translation
_SINGLE_ROWS, _GRID_ROWS = 72, 48  # rows of a map that is joined, by itself and among others


def render_text(
    maps: AttentionMaps, *, width: int | None = None, color: bool = False, theme: str = "dark"
) -> str:
    """Draw the maps side by side, as many as there is room for; cells are joined where need be."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _MIN_WIDTH), AnsiStyler(color)
    labels = [
        truncate_to_columns(show_whitespace(row), _MAX_LABEL_COLUMNS, tail=2) for row in maps.rows
    ]
    cell = _cell_width(maps, columns - _MAX_LABEL_COLUMNS - 1)
    margin = max(map(visible_width, labels)) + 1 if cell else 0
    room = columns - margin
    numbered = cell > 0 and maps.is_alignment
    above = [_column_ruler(len(maps.columns), cell)] if numbered else []
    if cell:
        drawn = [[_draw_row(row, pen, theme, cell) for row in one.weights] for one in maps.maps]
    else:
        most = min(
            _SINGLE_ROWS if len(maps.maps) == 1 else _GRID_ROWS, room if color else room // 2
        )
        drawn = [_draw_pooled(one.weights, most, pen, theme) for one in maps.maps]
    panels = [
        [truncate_to_columns(to_one_line(one.name), room), *above, *rows]
        for one, rows in zip(maps.maps, drawn, strict=True)
    ]
    wide = max(visible_width(line) for panel in panels for line in panel)
    across = max(1, (room + 2) // (wide + 2))
    before = [""] * (1 + len(above))
    names = [*before, *(pad_left(name, margin - 1) for name in labels)] if cell else []
    first, *rest = wrap_to_columns(map_title(maps, _MAX_TITLE_LENGTH), columns)
    blocks = ["\n".join([pen(first, "strong"), *rest, *wrap_to_columns(map_legend(maps), columns)])]
    for k in range(0, len(panels), across):
        blocks.append("\n".join(join_columns(panels[k : k + across], wide, names, margin)))
    if numbered:
        tokens = " ".join(
            f"{j}\u00a0{show_whitespace(token)}" for j, token in enumerate(maps.columns, 1)
        )
        blocks.append("\n".join(wrap_to_columns(f"columns: {tokens}", columns)))
    return "\n\n".join(blocks)


def join_columns(
    panels: Sequence[Sequence[str]],
    panel_width: int,
    row_names: Sequence[str] = (),
    margin: int = 0,
) -> list[str]:
    """Put panels side by side, each so many columns wide, the rows' names before the first."""
    lines = []
    for name, *parts in zip_longest(row_names, *panels, fillvalue=""):
        padded = [part + " " * (panel_width - visible_width(part)) for part in parts]
        before = name + " " * (margin - visible_width(name))
        lines.append((before + "  ".join(padded)).rstrip(" "))
    return lines


def _cell_width(maps: AttentionMaps, max_width: int) -> int:
    """How many characters a cell gets for every row to have its label; 0: they cannot have any."""
    if len(maps.rows) > _MAX_LABELED_ROWS and len(maps.maps) > 1:
        return 0
    return next((wide for wide in (2, 1) if wide * len(maps.columns) <= max_width), 0)


def _column_ruler(columns: int, cell_width: int) -> str:
    """Number every fifth column, above its right edge.

    >>> _column_ruler(12, 1)
    '    5   10'
    """
    return "".join(f"{k:{5 * cell_width}}" for k in range(5, columns + 1, 5))


def _draw_pooled(
    weights: Sequence[Sequence[float]], max_side: int, styler: AnsiStyler, theme: str
) -> list[str]:
    """Draw a map whose cells are joined until there are so few rows and columns.

    Where there is colour, half as large: two rows to a line.
    """
    weights = max_pool(weights, max_side, max_side)
    if styler.color:
        return half_blocks(
            [[f"2;{_weight_color(weight, theme)}" for weight in row] for row in weights]
        )
    return [_draw_row(row, styler, theme) for row in weights]


def _draw_row(weights: Sequence[float], styler: AnsiStyler, theme: str, cell_width: int = 2) -> str:
    if not styler.color:
        return shade_blocks([weight_opacity(weight) for weight in weights], cell_width)
    ground = (f"\x1b[48;2;{_weight_color(weight, theme)}m{' ' * cell_width}" for weight in weights)
    return "".join(ground) + "\x1b[0m"


def _weight_color(weight: float, theme: str) -> str:
    channels = _ramp_channels(theme)
    return channels[round(weight_opacity(weight) * (len(channels) - 1))]


@cache
def _ramp_channels(theme: str) -> list[str]:
    return [";".join(str(int(c[k : k + 2], 16)) for k in (1, 3, 5)) for c in color_ramp(theme)]
