"""How wide text will be in a picture, before anybody knows in which font.

The widths are those of DejaVu Sans, one of the widest: what has room in it has room in others.
"""

import math
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from workings.errors import UserError, did_you_mean, install_hint
from workings.plain_text import display_width, to_one_line
from workings.render import svg_writer
from workings.render.colors import theme_colors
from workings.render.svg_writer import (
    Anchor,
    Circle,
    Grid,
    Point,
    Polygon,
    Polyline,
    RasterImage,
    Rectangle,
    Shape,
    TextLabel,
)

_CHARACTERS_BY_EMS = {
    0.3: "'ijlIJ", 0.35: " ,./:;\\|f\u00a0·", 0.4: "-()[]t!", 0.42: "r⁰¹²³⁴⁵⁶⁷⁸⁹", 0.53: '"*_`sz?⁻',
    0.58: "cLFk", 0.63: "vxyPTYaoeESbdghnpqu", 0.66: "$0123456789{}K", 0.7: "AVBRXZC",
    0.79: "UHNDG&OQ", 0.86: "w#+<=>^~M−×", 1.0: "%mW@…",
}  # fmt: skip
_EMS_BY_CHARACTER = {
    character: ems for ems, group in _CHARACTERS_BY_EMS.items() for character in group
}
_BOLD_FACTOR = 1.15


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Measure a line of text in a size, both in pixels, rather too wide than too narrow.

    >>> text_width("loss", 10) < text_width("loss", 10, bold=True) < text_width("LOSS", 12)
    True
    """
    return (
        size
        * (_BOLD_FACTOR if bold else 1)
        * sum(_EMS_BY_CHARACTER.get(c) or _estimate_ems(c) for c in text)
    )


def truncate_to_pixels(text: str, max_width: float, size: float, bold: bool = False) -> str:
    """Cut text down to so many pixels, with … for the rest.

    >>> truncate_to_pixels("a long name of a model", 60, 10)
    'a long na…'
    """
    if text_width(text, size, bold) <= max_width:
        return text
    max_width -= text_width("…", size, bold)
    kept = 0
    while kept < len(text) and (max_width := max_width - text_width(text[kept], size, bold)) >= 0:
        kept += 1
    return f"{text[:kept].rstrip()}…"


def wrap_to_pixels(text: str, max_width: float, size: float, bold: bool = False) -> list[str]:
    """Break text at a space into two lines of so many pixels, the second one cut down to them.

    >>> wrap_to_pixels("accuracy on the test reviews, by epoch", 150, 10)
    ['accuracy on the test', 'reviews, by epoch']
    """
    if text_width(text, size, bold) <= max_width:
        return [text]
    words, first = text.split(" "), ""
    while words and text_width(f"{first} {words[0]}", size, bold) <= max_width:
        first = f"{first} {words.pop(0)}".strip()
    lines = [first, " ".join(words)]
    return [truncate_to_pixels(line, max_width, size, bold) for line in lines if line]


def _estimate_ems(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.8 * display_width(character)


_COLOR_NAMES = theme_colors("light")
_HEX_COLOR = re.compile("#[0-9a-fA-F]{6}")
_XML_FORBIDDEN = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}


class Picture:
    """A picture so many pixels wide and high; what is added later lies above.

    A colour is a name of `colours.theme`, which follows the reader's theme, or `#rrggbb`.

    >>> picture = Picture(120, 40, "A line")
    >>> picture.add_line([(10, 20), (110, 20)], "c1", width=2)
    >>> picture.add_text(60, 15, "a < b", anchor="middle")
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
        _check_finite(width, height)
        if not (width >= 1 and height >= 1):
            raise UserError(f"expected a picture of at least 1 × 1 pixels, got {width} × {height}")
        self.width, self.height, self.title = width, height, _to_xml_line(title)
        self.shapes: list[Shape] = []

    def add_line(
        self, points: Iterable[Point], color: str = "ink", width: float = 1, dashed: bool = False
    ) -> None:
        """Add a line through points, at least two."""
        placed = tuple(points)
        _check_finite(*(number for point in placed for number in point))
        if len(placed) > 1:
            self.shapes.append(Polyline(placed, _check_color(color), width, dashed))

    def add_rectangle(
        self, x: float, y: float, width: float, height: float, color: str, opacity: float = 1
    ) -> None:
        """Add a filled rectangle."""
        _check_finite(x, y, width, height)
        self.shapes.append(Rectangle(x, y, width, height, _check_color(color), opacity))

    def add_polygon(self, points: Iterable[Point], color: str, opacity: float = 1) -> None:
        """Add a filled polygon of at least three corners."""
        placed = tuple(points)
        _check_finite(*(number for point in placed for number in point))
        if len(placed) > 2:
            self.shapes.append(Polygon(placed, _check_color(color), opacity))

    def add_circle(self, x: float, y: float, radius: float, color: str) -> None:
        """Add a filled circle."""
        _check_finite(x, y, radius)
        self.shapes.append(Circle(x, y, radius, _check_color(color)))

    def add_grid(
        self,
        box: tuple[float, float, float, float],
        opacities: Sequence[Sequence[float]],
        color: str,
        tooltips: Sequence[Sequence[str]] = (),
    ) -> None:
        """Fill a box (x, y, width, height) with cells, each so far opaque: from 0 to 1.

        A note tells something of a cell to those who point at it in an SVG.
        """
        _check_finite(*box, *(share for row in opacities for share in row))
        if len({len(row) for row in opacities}) != 1 or not opacities[0]:
            raise UserError("expected a grid of rows that are equally long")
        if tooltips and [len(row) for row in tooltips] != [len(row) for row in opacities]:
            raise UserError("expected a note for each cell of a grid, or none")
        cells = tuple(tuple(min(max(float(s), 0.0), 1.0) for s in row) for row in opacities)
        told = tuple(tuple(_to_xml_line(note) for note in row) for row in tooltips)
        self.shapes.append(Grid(*box, _check_color(color), cells, told))

    def add_image(self, box: tuple[float, float, float, float], png: bytes) -> None:
        """Stretch an image, as `pixels.png_rgb` writes it, over a box (x, y, width, height)."""
        _check_finite(*box)
        self.shapes.append(RasterImage(*box, png))

    def add_text(
        self,
        x: float,
        y: float,
        text: str,
        color: str = "ink",
        size: float = 12,
        anchor: Anchor = "start",
        rotation: float = 0,
        bold: bool = False,
    ) -> None:
        """Add a line of text; its baseline starts, has its middle or ends at `x` and `y`.

        It is turned by so many degrees, anticlockwise: at 90 it is read from below.
        """
        _check_finite(x, y, size, rotation)
        if text:
            self.shapes.append(
                TextLabel(
                    x, y, _to_xml_line(text), _check_color(color), size, anchor, rotation, bold
                )
            )

    def svg(self, styled: bool = True) -> str:
        """Write the picture as SVG, light or dark as the reader has it.

        It brings its own style. A page whose policy forbids that has `svg.css` among its rules.
        """
        return svg_writer.write_svg(self.shapes, self.width, self.height, self.title, styled)

    def png(self, scale: float = 2) -> bytes:
        """Write the picture as PNG in light colours, so many pixels of the file to one of its."""
        try:
            from workings.render.raster import draw_png
        except ModuleNotFoundError as missing:
            if install_hint(missing) is None:
                raise
            told = f"a picture as PNG needs {missing.name}: {install_hint(missing)}"
            raise ModuleNotFoundError(told, name=missing.name) from None
        return draw_png(self.shapes, self.width, self.height, scale)

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


def _check_finite(*numbers: float) -> None:
    if not all(map(math.isfinite, numbers)):
        raise UserError("expected finite numbers for a place or a size in a picture")


def _check_color(color: str) -> str:
    if color not in _COLOR_NAMES and not _HEX_COLOR.fullmatch(color):
        raise UserError(f"{color!r} is no colour: {did_you_mean(color, _COLOR_NAMES)}, or #rrggbb")
    return color


def _to_xml_line(text: str) -> str:
    """Put anybody's text on one line, without what XML forbids."""
    return to_one_line(text).translate(_XML_FORBIDDEN)


_PANEL_MARGIN, _PANEL_GAP = 14, 10
_PANEL_TITLE_SIZE = 18  # size of text


def side_by_side(pictures: Sequence[Picture], title: str) -> Picture:
    """Put pictures next to each other, their tops in line, under one title.

    >>> half = Picture(100, 80, "half")
    >>> half.add_circle(50, 40, 5, "c1")
    >>> whole = side_by_side([half, half], "Two halves")
    >>> whole.width, whole.height, whole.title
    (210, 114, 'Two halves')
    >>> [(shape.x, shape.y) for shape in whole.shapes[1:]]
    [(50.0, 74), (160.0, 74)]
    """
    width = sum(one.width for one in pictures) + _PANEL_GAP * (len(pictures) - 1)
    top = _PANEL_MARGIN + _PANEL_TITLE_SIZE + 2
    whole = Picture(width, top + max(one.height for one in pictures), title)
    words = truncate_to_pixels(whole.title, width - 2 * _PANEL_MARGIN, _PANEL_TITLE_SIZE, bold=True)
    whole.add_text(
        _PANEL_MARGIN,
        _PANEL_MARGIN + _PANEL_TITLE_SIZE - 3,
        words,
        size=_PANEL_TITLE_SIZE,
        bold=True,
    )
    left = 0.0
    for one in pictures:
        whole.shapes += [_translate(mark, left, top) for mark in one.shapes]
        left += one.width + _PANEL_GAP
    return whole


def _translate(shape: Shape, dx: float, dy: float) -> Shape:
    def at(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    if isinstance(shape, Polyline | Polygon):
        return replace(shape, points=tuple(map(at, shape.points)))
    x, y = at((shape.x, shape.y))
    return replace(shape, x=x, y=y)
