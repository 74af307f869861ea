"""A matrix as a heatmap: orange cells above zero, blue cells below."""

from collections.abc import Sequence
from typing import TypeAlias

from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels

_TITLE_SIZE, _LABEL_SIZE = 16, 12  # font sizes, as in charts; all lengths are in pixels
_MARGIN = 14  # on every side
_KEY_WIDTH, _KEY_STEPS = 90, 30  # of the color key
Bounds: TypeAlias = tuple[float, float, float, float]  # x, y, width, height


def heatmap(
    values: Sequence[Sequence[float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    row_names: Sequence[str] = (),
    column_names: Sequence[str] = (),
    framed_cells: Sequence[tuple[int, int]] = (),
    max_value: float | None = None,
    width: float = 320,
    height: float = 380,
) -> Picture:
    """Draw a matrix as a heatmap, with the names of its rows and columns if there are any.

    The full color is `max_value`, by default the largest absolute value. `framed_cells` (row and
    column, from 0) get a frame.

    >>> picture = heatmap([[0.9, 0.1]], title="Weights", x_label="key", y_label="query")
    >>> [shape.text for shape in picture.shapes if hasattr(shape, "text")]
    ['Weights', 'query', 'key', '0', '0.9']
    """

    def redraw(new_width: float) -> Picture:
        return heatmap(
            values, title=title, x_label=x_label, y_label=y_label, row_names=row_names,
            column_names=column_names, framed_cells=framed_cells, max_value=max_value,
            width=new_width, height=height * new_width / width,
        )  # fmt: skip

    max_value = max_value or max(abs(value) for row in values for value in row) or 1.0
    min_value = -max_value if min(map(min, values)) < 0 else 0.0
    picture = Picture(width, height, title, redraw)
    inner_width, top = width - 2 * _MARGIN, float(_MARGIN)
    for line in wrap_to_pixels(picture.title, inner_width, _TITLE_SIZE, bold=True):
        picture.add_text(_MARGIN, top + _TITLE_SIZE - 3, line, size=_TITLE_SIZE, bold=True)
        top += _TITLE_SIZE + 4
    y_label = truncate_to_pixels(y_label, inner_width, _LABEL_SIZE)
    picture.add_text(_MARGIN, top + 4 + _LABEL_SIZE, y_label, "soft", _LABEL_SIZE)
    left = _MARGIN + max((text_width(name, _LABEL_SIZE) + 6 for name in row_names), default=0)
    top += _LABEL_SIZE + 14
    bottom = height - _MARGIN - 2 * (_LABEL_SIZE + 8) - 18 * bool(column_names)
    box = (left, top, width - _MARGIN - left, bottom - top)
    _draw_cells(picture, box, values, max_value)
    _draw_names(picture, box, row_names, column_names)
    cell_width, cell_height = box[2] / len(values[0]), box[3] / len(values)
    for i, j in framed_cells:
        cell = (left + j * cell_width, top + i * cell_height, cell_width, cell_height)
        _draw_frame(picture, cell, "ink", 2)
    baseline = height - _MARGIN - _LABEL_SIZE - 8
    picture.add_text(left + box[2] / 2, baseline, x_label, "soft", _LABEL_SIZE, "middle")
    _draw_key(picture, left, height - _MARGIN, min_value, max_value)
    return picture


def _draw_cells(
    picture: Picture, box: Bounds, values: Sequence[Sequence[float]], max_value: float
) -> None:
    picture.add_signed_grid(box, [[value / max_value for value in row] for row in values])
    _draw_frame(picture, box, "line", 1)


def _draw_names(
    picture: Picture, box: Bounds, row_names: Sequence[str], column_names: Sequence[str]
) -> None:
    left, top, width, height = box
    for i, name in enumerate(row_names):
        y = top + height * (i + 0.5) / len(row_names) + 4
        picture.add_text(left - 6, y, name, size=_LABEL_SIZE, anchor="end")
    for j, name in enumerate(column_names):
        x = left + width * (j + 0.5) / len(column_names)
        picture.add_text(x, top + height + 16, name, size=_LABEL_SIZE, anchor="middle")


def _draw_key(
    picture: Picture, left: float, baseline: float, min_value: float, max_value: float
) -> None:
    """Draw the color key: the colors from the smallest to the largest value."""
    low, high = f"{min_value:.2g}".replace("-", "−"), f"{max_value:.2g}"
    picture.add_text(left, baseline, low, "soft", _LABEL_SIZE)
    left += text_width(low, _LABEL_SIZE) + 6
    steps = [min_value + (max_value - min_value) * k / (_KEY_STEPS - 1) for k in range(_KEY_STEPS)]
    _draw_cells(picture, (left, baseline - 9, _KEY_WIDTH, 10), [steps], max_value)
    picture.add_text(left + _KEY_WIDTH + 6, baseline, high, "soft", _LABEL_SIZE)


def _draw_frame(picture: Picture, box: Bounds, color: str, line_width: float) -> None:
    x, y, width, height = box
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    picture.add_line(corners, color, line_width)
