"""A matrix as a picture: a cell a number, orange above zero, blue below."""

from collections.abc import Sequence
from typing import TypeAlias

from workings.views.measure import shortened, text_width, wrapped
from workings.views.picture import Picture

_TITLE, _SMALL = 16, 12  # sizes of text, as in charts
_EDGE = 14  # free on every side
_KEY, _KEY_STEPS = 90, 30  # pixels of the key, and how many cells it has
Box: TypeAlias = tuple[float, float, float, float]  # x, y, width, height


def heat_map(
    values: Sequence[Sequence[float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    framed: Sequence[tuple[int, int]] = (),
    most: float | None = None,
    width: int = 320,
    height: int = 380,
) -> Picture:
    """Draw a matrix, with names of its rows and columns where they are given.

    The strongest colour is the largest number, or `most`. Cells that are `framed`, by row and
    column, are those that the eye should look for.

    >>> picture = heat_map([[0.9, 0.1]], title="Weights", x_label="key", y_label="query")
    >>> [mark.words for mark in picture.marks if hasattr(mark, "words")]
    ['Weights', 'query', 'key', '0', '0.9']
    """
    most = most or max(abs(value) for row in values for value in row) or 1.0
    least = -most if min(map(min, values)) < 0 else 0.0
    picture = Picture(width, height, title)
    room, top = width - 2 * _EDGE, float(_EDGE)
    for words in wrapped(picture.title, room, _TITLE, bold=True):
        picture.text(_EDGE, top + _TITLE - 3, words, size=_TITLE, bold=True)
        top += _TITLE + 4
    picture.text(_EDGE, top + 4 + _SMALL, shortened(y_label, room, _SMALL), "soft", _SMALL)
    left = _EDGE + max((text_width(name, _SMALL) + 6 for name in rows), default=0)
    top += _SMALL + 14
    bottom = height - _EDGE - 2 * (_SMALL + 8) - 18 * bool(columns)
    box = (left, top, width - _EDGE - left, bottom - top)
    _cells(picture, box, values, most)
    _names(picture, box, rows, columns)
    wide, tall = box[2] / len(values[0]), box[3] / len(values)
    for i, j in framed:
        _frame(picture, (left + j * wide, top + i * tall, wide, tall), "ink", 2)
    base = height - _EDGE - _SMALL - 8
    picture.text(left + box[2] / 2, base, x_label, "soft", _SMALL, "middle")
    _key(picture, left, height - _EDGE, least, most)
    return picture


def _cells(picture: Picture, box: Box, values: Sequence[Sequence[float]], most: float) -> None:
    for sign, colour in ((1, "c2"), (-1, "c1")):
        shares = [[max(sign * value, 0) / most for value in row] for row in values]
        if any(map(any, shares)):
            picture.grid(box, shares, colour)
    _frame(picture, box, "line", 1)


def _names(picture: Picture, box: Box, rows: Sequence[str], columns: Sequence[str]) -> None:
    left, top, wide, tall = box
    for i, name in enumerate(rows):
        y = top + tall * (i + 0.5) / len(rows) + 4
        picture.text(left - 6, y, name, size=_SMALL, anchor="end")
    for j, name in enumerate(columns):
        x = left + wide * (j + 0.5) / len(columns)
        picture.text(x, top + tall + 16, name, size=_SMALL, anchor="middle")


def _key(picture: Picture, left: float, base: float, least: float, most: float) -> None:
    """Say which colour is which number."""
    low, high = f"{least:.2g}".replace("-", "−"), f"{most:.2g}"
    picture.text(left, base, low, "soft", _SMALL)
    left += text_width(low, _SMALL) + 6
    steps = [least + (most - least) * k / (_KEY_STEPS - 1) for k in range(_KEY_STEPS)]
    _cells(picture, (left, base - 9, _KEY, 10), [steps], most)
    picture.text(left + _KEY + 6, base, high, "soft", _SMALL)


def _frame(picture: Picture, box: Box, colour: str, thick: float) -> None:
    x, y, wide, tall = box
    corners = [(x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall), (x, y)]
    picture.line(corners, colour, thick)
