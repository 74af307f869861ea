"""Attention maps (heads of a model, alignments) as a picture, a page and text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from workings.interpret.results import AttentionMaps, HeadMap
from workings.plain_text import (
    AnsiStyler,
    half_blocks,
    join_panels,
    output_columns,
    pad_left,
    rgb_code,
    shade_blocks,
    show_whitespace,
    to_one_line,
    truncate_to_columns,
    visible_width,
    wrap_to_columns,
)
from workings.render.colors import color_ramp
from workings.render.images import max_pool
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels

MAP_COLOR = "c2"
_ARROW = " → "  # between the source and the target in a title
_MAX_TOOLTIPS = 20_000  # cells of all maps together

# Of the picture, in pixels.
_MARGIN, _GAP = 16, 20
_TITLE_SIZE, _NAME_SIZE, _LABEL_SIZE = 16, 12, 11  # font sizes
_MAX_WIDTH = 1140  # further maps go below
_SINGLE_SIDE, _LARGE_SIDE, _SMALL_SIDE = 560, 460, 230  # of a single map, one of few, one of many
_MAX_LARGE_MAPS, _MIN_LARGE_TOKENS = 4, 40  # up to 4 maps of more than 40 tokens are large
_MAX_CELL, _MIN_LABELED_CELL = 24, 11  # smaller cells have no labels
_MAX_FILLING_CELL = 64  # of maps that fill a given width
_MAX_LABEL_WIDTH = 110
_BAR_WIDTH, _BAR_NAME_WIDTH, _BAR_GAP = 200, 48, 20  # of the color bar
_BAR_STEPS, _BAR_TICKS = (
    40,
    (0, 0.05, 0.25, 0.5, 1),
)  # equidistant in opacity, the root of the weight

# Of the text, in characters.
_MAX_LABELED_ROWS = 40  # of one map among several; larger ones have no labels
_MAX_LABEL_COLUMNS = 14
_MAX_TITLE_LENGTH = 400  # enough for a sentence and its translation
_SINGLE_ROWS, _GRID_ROWS = 72, 48  # of a pooled map, alone and among others

_CSS = """
.workings .explanation { color: var(--soft); max-width: 46rem; margin: 0 0 1rem; }
.workings .picture path:hover { stroke: var(--ink); stroke-width: .12; }
"""


def render_page(maps: AttentionMaps) -> str:
    """Return a page with all maps."""
    title = map_title(maps)
    return html_page(title, f"<h1>{escape_html(title)}</h1>\n{render_body(maps)}", style=_CSS)


def render_fragment(maps: AttentionMaps) -> str:
    """Return all maps as a fragment of a page, for a notebook."""
    title = escape_html(map_title(maps))
    return html_fragment(f"<h3>{title}</h3>\n{render_body(maps)}", style=_CSS)


def render_body(maps: AttentionMaps) -> str:
    """Return the legend and the picture, without a title."""
    hint = ' <span class="hint">Point at a cell for its weight.</span>' * _has_tooltips(maps)
    return f"""<p class="explanation">{escape_html(map_legend(maps))}.{hint}</p>
<div class="scroll">{render_picture(maps, with_title=False).svg()}</div>
"""


def map_title(maps: AttentionMaps, max_length: int = 60) -> str:
    """Return the title, with the text (of an alignment, each side) truncated to the length."""
    text = to_one_line(" ".join(maps.title.split()))
    kind = "Alignment" if maps.is_alignment else "Attention"
    sides = text.split(_ARROW) if maps.is_alignment else [text]
    return f"{kind}: {_ARROW.join(_truncate(side, max_length // len(sides)) for side in sides)}"


def _truncate(text: str, max_length: int) -> str:
    return f"{text[:max_length].rstrip()}…" if len(text) > max_length else text


def map_legend(maps: AttentionMaps) -> str:
    """Return how to read a map: rows, columns and color."""
    return axes_legend(maps, "; the color is the square root of the weight")


def axes_legend(maps: AttentionMaps, extra: str = "") -> str:
    """Return what rows and columns are, `extra`, and how much of the text was not read."""
    if maps.is_alignment:
        axes = "Rows are target tokens, columns are source tokens"
    else:
        axes = "Rows are queries, columns are keys"
    cut = maps.truncated_characters
    truncation = f"; the last {cut:,} characters were not read" if cut else ""
    return f"{axes}{extra}{truncation}"


def weight_opacity(weight: float) -> float:
    """Return the opacity of a weight: its square root, so that small weights are visible.

    >>> weight_opacity(0.25), weight_opacity(-1.0)
    (0.5, 0.0)
    """
    return math.sqrt(min(max(weight, 0.0), 1.0))


def _has_tooltips(maps: AttentionMaps) -> bool:
    return len(maps.rows) * len(maps.columns) * len(maps.maps) <= _MAX_TOOLTIPS


def render_picture(
    maps: AttentionMaps, *, with_title: bool = True, width: float | None = None
) -> Picture:
    """Draw the maps side by side, with a color bar below them.

    The first map of each line has the row labels. Without a `width`, the picture is as wide as its
    maps, up to 1140 pixels.
    """
    layout = _compute_layout(maps, with_title, width)
    picture = Picture(
        layout.width,
        layout.height,
        map_title(maps),
        lambda width: render_picture(maps, with_title=with_title, width=width),
    )
    for k, line in enumerate(layout.title, start=1):
        y = _MARGIN + k * (_TITLE_SIZE + 4) - 7
        picture.add_text(_MARGIN, y, line, size=_TITLE_SIZE, bold=True)
    for k, head_map in enumerate(maps.maps):
        _draw_map(picture, maps, head_map, layout, k)
    _draw_color_bar(picture, layout)
    return picture


@dataclass(frozen=True)
class _Layout:
    """The sizes and positions of the maps in the picture."""

    cell_size: float
    maps_per_row: int
    map_size: tuple[float, float]  # width, height
    label_space: tuple[float, float]  # to the left of a map and above it; (0, 0): no labels
    num_maps: int
    title: list[str]  # lines
    legend: list[str]  # lines; to the right of the color bar, or above it
    rotated_labels: bool  # column labels that are wider than a cell
    min_width: float  # for the title

    @property
    def top(self) -> float:
        return _MARGIN + ((_TITLE_SIZE + 4) * len(self.title) + 10 if self.title else 0)

    @property
    def is_legend_beside_bar(self) -> bool:
        room = self.width - 2 * _MARGIN - _BAR_WIDTH - _BAR_NAME_WIDTH - _BAR_GAP
        return len(self.legend) == 1 and text_width(self.legend[0], _LABEL_SIZE) <= room

    @property
    def legend_height(self) -> float:
        bar = 2 * _LABEL_SIZE + 8
        return bar + (0 if self.is_legend_beside_bar else (_LABEL_SIZE + 5) * len(self.legend))

    @property
    def width(self) -> float:
        maps = self.maps_per_row * (self.map_size[0] + _GAP) - _GAP
        return math.ceil(max(self.label_space[0] + maps + 2 * _MARGIN, self.min_width))

    @property
    def height(self) -> float:
        rows = -(-self.num_maps // self.maps_per_row)
        return math.ceil(self.top + rows * self.row_height + self.legend_height + _MARGIN)

    @property
    def row_height(self) -> float:
        """The distance between rows of maps."""
        return _NAME_SIZE + 8 + self.label_space[1] + self.map_size[1] + _GAP

    def map_position(self, index: int) -> tuple[float, float]:
        """Return the top left corner of a map."""
        row, column = divmod(index, self.maps_per_row)
        x = _MARGIN + self.label_space[0] + column * (self.map_size[0] + _GAP)
        return x, self.top + row * self.row_height + _NAME_SIZE + 8 + self.label_space[1]


def _compute_layout(maps: AttentionMaps, with_title: bool, width: float | None) -> _Layout:
    count, num_columns = len(maps.maps), len(maps.columns)
    max_width, title = width or _MAX_WIDTH, map_title(maps)
    cell = _cell_size(max(len(maps.rows), num_columns), count, max_width)
    label_space, rotated = _label_space(maps, cell)
    per_row = _maps_per_row(count, num_columns * cell, label_space[0], max_width)
    if width is not None:  # the maps fill it
        room = width - 2 * _MARGIN - label_space[0] + _GAP  # each map has a gap to its right
        for n in (per_row + 1, per_row + 2):  # somewhat smaller ones in rows of equal length
            if count % n == 0 and room / n - _GAP >= max(_MIN_LABELED_CELL * num_columns, 80):
                per_row = n
        for _ in range(2):  # larger cells may make space for labels
            room = width - 2 * _MARGIN - label_space[0] + _GAP
            cell = min((room / per_row - _GAP) / num_columns, _MAX_FILLING_CELL)
            label_space, rotated = _label_space(maps, cell)
    title_width = text_width(title, _TITLE_SIZE, bold=True) * with_title + 2 * _MARGIN
    min_width = width or min(max(title_width, 320), _MAX_WIDTH)
    size = (num_columns * cell, len(maps.rows) * cell)
    maps_width = label_space[0] + per_row * (size[0] + _GAP) - _GAP
    text_room = max(maps_width, min_width - 2 * _MARGIN)
    return _Layout(
        cell_size=cell,
        maps_per_row=per_row,
        map_size=size,
        label_space=label_space,
        num_maps=count,
        title=wrap_to_pixels(title, text_room, _TITLE_SIZE, bold=True, max_lines=4)
        if with_title
        else [],
        legend=wrap_to_pixels(axes_legend(maps), text_room, _LABEL_SIZE, max_lines=4),
        rotated_labels=rotated,
        min_width=min_width,
    )


def _cell_size(tokens: int, num_maps: int, max_width: float) -> float:
    if num_maps == 1:
        side = _SINGLE_SIDE
    elif num_maps <= _MAX_LARGE_MAPS and tokens > _MIN_LARGE_TOKENS:
        side = _LARGE_SIDE
    else:
        side = _SMALL_SIDE
    cell = min(min(side, max_width - 2 * _MARGIN) / tokens, _MAX_CELL)
    max_side = max_width if num_maps == 1 else max_width / 3
    if cell < _MIN_LABELED_CELL and tokens * _MIN_LABELED_CELL < max_side:
        return _MIN_LABELED_CELL  # rather a larger map with labels than a smaller one without
    return cell


def _label_space(maps: AttentionMaps, cell: float) -> tuple[tuple[float, float], bool]:
    """Return the space for labels (left, above), and whether column labels are rotated."""
    if cell < _MIN_LABELED_CELL:
        return (0.0, 0.0), False
    size = _font_size(cell)
    row_width, column_width = (
        max(text_width(show_whitespace(token), size) for token in tokens)
        for tokens in (maps.rows, maps.columns)
    )
    rotated = column_width > cell
    above = min(column_width, _MAX_LABEL_WIDTH) if rotated else size
    return (min(row_width, _MAX_LABEL_WIDTH) + 6, above + 6), rotated


def _maps_per_row(count: int, map_width: float, label_width: float, max_width: float) -> int:
    """Return how many maps fit side by side, or fewer if that makes all rows equally long."""
    fitting = max(1, int((max_width - label_width - 2 * _MARGIN + _GAP) / (map_width + _GAP)))
    divisor = next(n for n in range(fitting, 0, -1) if count % n == 0)
    return min(divisor if 2 * divisor > fitting else fitting, count)


def _font_size(cell: float) -> float:
    return min(cell, _LABEL_SIZE)


def _draw_map(
    picture: Picture, maps: AttentionMaps, head_map: HeadMap, layout: _Layout, index: int
) -> None:
    (x, y), (width, height) = layout.map_position(index), layout.map_size
    name_width = layout.width - x - _MARGIN if layout.maps_per_row == 1 else max(width, 80)
    name = truncate_to_pixels(to_one_line(head_map.name), name_width, _NAME_SIZE)
    picture.add_text(x, y - layout.label_space[1] - 6, name, "soft", _NAME_SIZE)
    weights = head_map.weights
    if layout.cell_size < 1:  # at most one cell per pixel
        weights = max_pool(weights, math.ceil(height), math.ceil(width))
    has_tooltips = _has_tooltips(maps) and weights is head_map.weights
    opacities = [[weight_opacity(weight) for weight in row] for row in weights]
    tooltips = _cell_tooltips(maps, head_map) if has_tooltips else []
    picture.add_grid((x, y, width, height), opacities, MAP_COLOR, tooltips)
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    picture.add_line(corners, "line")
    if layout.label_space != (0.0, 0.0):
        if index % layout.maps_per_row == 0:
            _draw_row_labels(picture, maps.rows, layout, (x, y))
        _draw_column_labels(picture, maps.columns, layout, (x, y))


def _draw_color_bar(picture: Picture, layout: _Layout) -> None:
    """Draw the colors of the weights from 0 to 1, and what rows and columns are."""
    y = layout.height - _MARGIN - _LABEL_SIZE - 4  # of the baseline of its name
    left, top = _MARGIN + _BAR_NAME_WIDTH, y - _LABEL_SIZE + 2
    width = min(_BAR_WIDTH, layout.width - _MARGIN - left - 8)
    right, bottom = left + width, top + _LABEL_SIZE
    picture.add_text(_MARGIN, y, "weight", "soft", _LABEL_SIZE)
    opacities = [(k + 0.5) / _BAR_STEPS for k in range(_BAR_STEPS)]
    picture.add_grid((left, top, width, _LABEL_SIZE), [opacities], MAP_COLOR)
    corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    picture.add_line(corners, "line")
    for weight in _BAR_TICKS:
        x = left + width * weight_opacity(weight)
        picture.add_line([(x, bottom), (x, bottom + 3)], "soft")
        label = f"{weight:g}"
        picture.add_text(x, bottom + 4 + _LABEL_SIZE, label, "soft", _LABEL_SIZE, "middle")
    if layout.is_legend_beside_bar:
        picture.add_text(right + _BAR_GAP, y, layout.legend[0], "soft", _LABEL_SIZE)
        return
    for k, line in enumerate(reversed(layout.legend), start=1):
        picture.add_text(_MARGIN, y - k * (_LABEL_SIZE + 5), line, "soft", _LABEL_SIZE)


def _draw_row_labels(
    picture: Picture, tokens: Sequence[str], layout: _Layout, corner: tuple[float, float]
) -> None:
    x, y = corner
    size = _font_size(layout.cell_size)
    for i, token in enumerate(tokens):
        label = truncate_to_pixels(show_whitespace(token), _MAX_LABEL_WIDTH, size)
        baseline = y + (i + 0.5) * layout.cell_size + size * 0.36
        picture.add_text(x - 5, baseline, label, "ink", size, "end")


def _draw_column_labels(
    picture: Picture, tokens: Sequence[str], layout: _Layout, corner: tuple[float, float]
) -> None:
    x, y = corner
    size = _font_size(layout.cell_size)
    for j, token in enumerate(tokens):
        label = truncate_to_pixels(show_whitespace(token), _MAX_LABEL_WIDTH, size)
        center = x + (j + 0.5) * layout.cell_size
        if layout.rotated_labels:
            picture.add_text(center + size * 0.36, y - 5, label, "ink", size, rotation=90)
        else:
            picture.add_text(center, y - 5, label, "ink", size, "middle")


def _cell_tooltips(maps: AttentionMaps, head_map: HeadMap) -> list[list[str]]:
    """Return `query → key: weight` for each cell, and "" where the weight is zero."""
    return [
        [
            f"{show_whitespace(row)} → {show_whitespace(column)}: {weight:.3f}"
            if weight > 0
            else ""
            for column, weight in zip(maps.columns, weights, strict=True)
        ]
        for row, weights in zip(maps.rows, head_map.weights, strict=True)
    ]


def render_text(
    maps: AttentionMaps, *, width: int | None = None, color: bool = False, theme: str = "dark"
) -> str:
    """Draw the maps for a terminal, as many side by side as fit; large ones are pooled."""
    columns, styler = output_columns(width), AnsiStyler(color)
    labels = [
        truncate_to_columns(show_whitespace(row), _MAX_LABEL_COLUMNS, tail=2) for row in maps.rows
    ]
    cell = _cell_width(maps, columns - _MAX_LABEL_COLUMNS - 1)
    margin = max(map(visible_width, labels)) + 1 if cell else 0
    map_columns = columns - margin
    is_numbered = cell > 0 and maps.is_alignment
    ruler = [_column_ruler(len(maps.columns), cell)] if is_numbered else []
    if cell:
        drawings = [
            [_draw_row(row, styler, theme, cell) for row in head_map.weights]
            for head_map in maps.maps
        ]
    else:
        max_rows = _SINGLE_ROWS if len(maps.maps) == 1 else _GRID_ROWS
        max_side = min(max_rows, map_columns if color else map_columns // 2)
        drawings = [_draw_pooled(m.weights, max_side, styler, theme) for m in maps.maps]
    panels = [
        [truncate_to_columns(to_one_line(head_map.name), map_columns), *ruler, *rows]
        for head_map, rows in zip(maps.maps, drawings, strict=True)
    ]
    panel_width = max(visible_width(line) for panel in panels for line in panel)
    per_line = max(1, (map_columns + 2) // (panel_width + 2))
    blank = [""] * (1 + len(ruler))
    names = [*blank, *(pad_left(name, margin - 1) for name in labels)] if cell else []
    title, *rest = wrap_to_columns(map_title(maps, _MAX_TITLE_LENGTH), columns)
    legend = wrap_to_columns(map_legend(maps), columns)
    blocks = [[styler(title, "strong"), *rest, *legend]]
    for k in range(0, len(panels), per_line):
        blocks.append(join_panels(panels[k : k + per_line], panel_width, names, margin))
    if is_numbered:
        tokens = " ".join(
            f"{j}\u00a0{show_whitespace(token)}" for j, token in enumerate(maps.columns, 1)
        )
        blocks.append(wrap_to_columns(f"columns: {tokens}", columns))
    return "\n\n".join("\n".join(block) for block in blocks)


def _cell_width(maps: AttentionMaps, max_width: int) -> int:
    """Return the characters per cell with which every row has a label; 0: no row has one."""
    if len(maps.rows) > _MAX_LABELED_ROWS and len(maps.maps) > 1:
        return 0
    return next((cell for cell in (2, 1) if cell * len(maps.columns) <= max_width), 0)


def _column_ruler(columns: int, cell_width: int) -> str:
    """Return the number of every fifth column, aligned with its right edge.

    >>> _column_ruler(12, 1)
    '    5   10'
    """
    return "".join(f"{k:{5 * cell_width}}" for k in range(5, columns + 1, 5))


def _draw_pooled(
    weights: Sequence[Sequence[float]], max_side: int, styler: AnsiStyler, theme: str
) -> list[str]:
    """Draw a map pooled to `max_side` rows and columns; in color, two rows per line."""
    pooled = max_pool(weights, max_side, max_side)
    if styler.color:
        return half_blocks([[f"2;{_weight_color(w, theme)}" for w in row] for row in pooled])
    return [_draw_row(row, styler, theme) for row in pooled]


def _draw_row(weights: Sequence[float], styler: AnsiStyler, theme: str, cell_width: int = 2) -> str:
    if not styler.color:
        return shade_blocks([weight_opacity(weight) for weight in weights], cell_width)
    cells = (f"\x1b[48;2;{_weight_color(weight, theme)}m{' ' * cell_width}" for weight in weights)
    return "".join(cells) + "\x1b[0m"


def _weight_color(weight: float, theme: str) -> str:
    codes = _ramp_codes(theme)
    return codes[round(weight_opacity(weight) * (len(codes) - 1))]


@cache
def _ramp_codes(theme: str) -> list[str]:
    return [rgb_code(color) for color in color_ramp(theme)]
