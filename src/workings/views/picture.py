"""A picture made of lines, rectangles, circles, polygons, grids, images and text, as SVG or PNG."""

import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from workings.errors import UserError, extra_of, near
from workings.views import svg
from workings.views.colours import theme
from workings.views.marks import (
    Anchor,
    Circle,
    Grid,
    Line,
    Mark,
    Photo,
    Point,
    Polygon,
    Rectangle,
    Text,
)
from workings.views.plain import one_line

_NAMES = theme("light")
_HEX = re.compile("#[0-9a-fA-F]{6}")
_NOT_XML = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}


class Picture:
    """A picture so many pixels wide and high; what is added later lies above.

    A colour is a name of `colours.theme`, which follows the reader's theme, or `#rrggbb`.

    >>> picture = Picture(120, 40, "A line")
    >>> picture.line([(10, 20), (110, 20)], "c1", width=2)
    >>> picture.text(60, 15, "a < b", anchor="middle")
    >>> print(picture.svg(styled=False))
    <svg ... class="picture" role="img" width="120" height="40" ...>
    <title>A line</title>
    <rect width="120" height="40" class="f-paper" fill="#ffffff"/>
    <polyline class="s-c1" stroke="#0555b7" stroke-width="2" fill="none" points="10,20 110,20"/>
    <text class="f-ink" ... x="60" y="15" text-anchor="middle">a &lt; b</text>
    </svg>
    <BLANKLINE>
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        _check(width, height)
        if not (width >= 1 and height >= 1):
            raise UserError(f"expected a picture of at least 1 × 1 pixels, got {width} × {height}")
        self.width, self.height, self.title = width, height, _clean(title)
        self.marks: list[Mark] = []

    def line(
        self, points: Iterable[Point], colour: str = "ink", width: float = 1, dashed: bool = False
    ) -> None:
        """Add a line through points, at least two."""
        placed = tuple(points)
        _check(*(number for point in placed for number in point))
        if len(placed) > 1:
            self.marks.append(Line(placed, _known(colour), width, dashed))

    def rectangle(
        self, x: float, y: float, width: float, height: float, colour: str, opacity: float = 1
    ) -> None:
        """Add a filled rectangle."""
        _check(x, y, width, height)
        self.marks.append(Rectangle(x, y, width, height, _known(colour), opacity))

    def polygon(self, points: Iterable[Point], colour: str, opacity: float = 1) -> None:
        """Add a filled polygon of at least three corners."""
        placed = tuple(points)
        _check(*(number for point in placed for number in point))
        if len(placed) > 2:
            self.marks.append(Polygon(placed, _known(colour), opacity))

    def circle(self, x: float, y: float, radius: float, colour: str) -> None:
        """Add a filled circle."""
        _check(x, y, radius)
        self.marks.append(Circle(x, y, radius, _known(colour)))

    def grid(
        self,
        box: tuple[float, float, float, float],
        shares: Sequence[Sequence[float]],
        colour: str,
        notes: Sequence[Sequence[str]] = (),
    ) -> None:
        """Fill a box (x, y, width, height) with cells, each so far opaque: from 0 to 1.

        A note tells something of a cell to those who point at it in an SVG.
        """
        _check(*box, *(share for row in shares for share in row))
        if len({len(row) for row in shares}) != 1 or not shares[0]:
            raise UserError("expected a grid of rows that are equally long")
        if notes and [len(row) for row in notes] != [len(row) for row in shares]:
            raise UserError("expected a note for each cell of a grid, or none")
        cells = tuple(tuple(min(max(float(s), 0.0), 1.0) for s in row) for row in shares)
        told = tuple(tuple(_clean(note) for note in row) for row in notes)
        self.marks.append(Grid(*box, _known(colour), cells, told))

    def photo(self, box: tuple[float, float, float, float], png: bytes) -> None:
        """Stretch an image, as `pixels.png_rgb` writes it, over a box (x, y, width, height)."""
        _check(*box)
        self.marks.append(Photo(*box, png))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        colour: str = "ink",
        size: float = 12,
        anchor: Anchor = "start",
        turn: float = 0,
        bold: bool = False,
    ) -> None:
        """Add a line of text; its baseline starts, has its middle or ends at `x` and `y`.

        It is turned by so many degrees, anticlockwise: at 90 it is read from below.
        """
        _check(x, y, size, turn)
        if words:
            self.marks.append(Text(x, y, _clean(words), _known(colour), size, anchor, turn, bold))

    def svg(self, styled: bool = True) -> str:
        """Write the picture as SVG, light or dark as the reader has it.

        It brings its own style. A page whose policy forbids that has `svg.css` among its rules.
        """
        return svg.write(self.marks, self.width, self.height, self.title, styled)

    def png(self, scale: float = 2) -> bytes:
        """Write the picture as PNG in light colours, so many pixels of the file to one of its."""
        try:
            from workings.views.raster import png
        except ModuleNotFoundError as missing:
            if extra_of(missing) is None:
                raise
            told = f"a picture as PNG needs {missing.name}: {extra_of(missing)}"
            raise ModuleNotFoundError(told, name=missing.name) from None
        return png(self.marks, self.width, self.height, scale)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, as its suffix says: `.svg` or `.png`. Whole or not there."""
        path = Path(path)
        if path.suffix.lower() not in (".svg", ".png"):
            raise UserError(f"{path}: expected a file that ends in .svg or .png")
        data = self.svg().encode() if path.suffix.lower() == ".svg" else self.png()
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def _check(*numbers: float) -> None:
    if not all(map(math.isfinite, numbers)):
        raise UserError("expected finite numbers for a place or a size in a picture")


def _known(colour: str) -> str:
    if colour not in _NAMES and not _HEX.fullmatch(colour):
        raise UserError(f"{colour!r} is no colour: {near(colour, _NAMES)}, or #rrggbb")
    return colour


def _clean(text: str) -> str:
    """Put anybody's text on one line, without what XML forbids."""
    return one_line(text).translate(_NOT_XML)
