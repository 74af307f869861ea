"""Pictures: a canvas of shapes that is saved as SVG or PNG, and the width of text on it.

Text is measured in DejaVu Sans, one of the widest fonts: text that fits in it fits in others.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from workings.errors import UserError, did_you_mean, install_hint
from workings.io import write_bytes
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
    """Return the width of a line of text in pixels, rather too large than too small.

    >>> text_width("loss", 10) < text_width("loss", 10, bold=True) < text_width("LOSS", 12)
    True
    """
    return (
        size
        * (_BOLD_FACTOR if bold else 1)
        * sum(_EMS_BY_CHARACTER.get(c) or _estimate_ems(c) for c in text)
    )


def truncate_to_pixels(text: str, max_width: float, size: float, bold: bool = False) -> str:
    """Truncate text to a width in pixels, with … for the rest.

    >>> truncate_to_pixels("a long name of a model", 60, 10)
    'a long na…'
    """
    if text_width(text, size, bold) <= max_width:
        return text
    remaining = max_width - text_width("…", size, bold)
    length = 0
    while length < len(text):
        remaining -= text_width(text[length], size, bold)
        if remaining < 0:
            break
        length += 1
    return f"{text[:length].rstrip()}…"


def wrap_to_pixels(text: str, max_width: float, size: float, bold: bool = False) -> list[str]:
    """Break text at a space into at most two lines of a width in pixels; truncate the second.

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
    """A picture of a width and a height in pixels; later shapes cover earlier ones.

    A color is a name of `colors.theme_colors`, which follows the theme of the reader, or `#rrggbb`.

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
        """Add a line through at least two points."""
        points = tuple(points)
        _check_finite(*(number for point in points for number in point))
        if len(points) > 1:
            self.shapes.append(Polyline(points, _check_color(color), width, dashed))

    def add_rectangle(
        self, x: float, y: float, width: float, height: float, color: str, opacity: float = 1
    ) -> None:
        """Add a filled rectangle."""
        _check_finite(x, y, width, height)
        self.shapes.append(Rectangle(x, y, width, height, _check_color(color), opacity))

    def add_polygon(self, points: Iterable[Point], color: str, opacity: float = 1) -> None:
        """Add a filled polygon with at least three corners."""
        points = tuple(points)
        _check_finite(*(number for point in points for number in point))
        if len(points) > 2:
            self.shapes.append(Polygon(points, _check_color(color), opacity))

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
        """Fill a box (x, y, width, height) with cells of one color, with opacities from 0 to 1.

        Tooltips, one per cell, are shown in SVG when the mouse points at a cell.
        """
        _check_finite(*box, *(opacity for row in opacities for opacity in row))
        if len({len(row) for row in opacities}) != 1 or not opacities[0]:
            raise UserError("expected a grid with rows of equal length")
        if tooltips and [len(row) for row in tooltips] != [len(row) for row in opacities]:
            raise UserError("expected a tooltip for each cell of the grid, or none")
        cells = tuple(tuple(min(max(float(o), 0.0), 1.0) for o in row) for row in opacities)
        texts = tuple(tuple(_to_xml_line(text) for text in row) for row in tooltips)
        self.shapes.append(Grid(*box, _check_color(color), cells, texts))

    def add_image(self, box: tuple[float, float, float, float], png: bytes) -> None:
        """Stretch a PNG image over a box (x, y, width, height)."""
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
        """Add a line of text; (x, y) is the start, middle or end of its baseline, by `anchor`.

        `rotation` is in degrees, counterclockwise: text at 90 is read from bottom to top.
        """
        _check_finite(x, y, size, rotation)
        if text:
            line, color = _to_xml_line(text), _check_color(color)
            self.shapes.append(TextLabel(x, y, line, color, size, anchor, rotation, bold))

    def svg(self, styled: bool = True) -> str:
        """Return the picture as SVG, which follows the light or dark theme of the reader.

        With `styled=False` it has no style of its own: the page must include `picture_css()`.
        """
        return svg_writer.write_svg(self.shapes, self.width, self.height, self.title, styled)

    def png(self, scale: float = 2) -> bytes:
        """Return the picture as PNG in the light theme, `scale` pixels of the file per pixel."""
        try:
            from workings.render.raster import draw_png
        except ModuleNotFoundError as missing:
            if install_hint(missing) is None:
                raise
            message = f"a picture as PNG needs {missing.name}: {install_hint(missing)}"
            raise ModuleNotFoundError(message, name=missing.name) from None
        return draw_png(self.shapes, self.width, self.height, scale)

    def save(self, path: str | Path) -> None:
        """Write the picture to a `.svg` or `.png` file; a failed write leaves the old file."""
        path = Path(path)
        if path.suffix.lower() not in (".svg", ".png"):
            raise UserError(f"{path}: expected a file name that ends in .svg or .png")
        data = self.svg().encode() if path.suffix.lower() == ".svg" else self.png()
        write_bytes(path, data, unique=True)


def _check_finite(*numbers: float) -> None:
    if not all(map(math.isfinite, numbers)):
        raise UserError("expected finite numbers for positions and sizes in a picture")


def _check_color(color: str) -> str:
    if color not in _COLOR_NAMES and not _HEX_COLOR.fullmatch(color):
        raise UserError(
            f"{color!r} is not a color: {did_you_mean(color, _COLOR_NAMES)}, or #rrggbb"
        )
    return color


def _to_xml_line(text: str) -> str:
    """Put text on one line and replace the characters that XML forbids."""
    return to_one_line(text).translate(_XML_FORBIDDEN)


_PANEL_MARGIN, _PANEL_GAP = 14, 10
_PANEL_TITLE_SIZE = 18  # font size


def side_by_side(pictures: Sequence[Picture], title: str) -> Picture:
    """Return one picture of several side by side, aligned at the top, under a common title.

    >>> half = Picture(100, 80, "half")
    >>> half.add_circle(50, 40, 5, "c1")
    >>> both = side_by_side([half, half], "Two halves")
    >>> both.width, both.height, both.title
    (210, 114, 'Two halves')
    >>> [(shape.x, shape.y) for shape in both.shapes[1:]]
    [(50.0, 74), (160.0, 74)]
    """
    size, margin = _PANEL_TITLE_SIZE, _PANEL_MARGIN
    width = sum(picture.width for picture in pictures) + _PANEL_GAP * (len(pictures) - 1)
    top = margin + size + 2
    combined = Picture(width, top + max(picture.height for picture in pictures), title)
    shown_title = truncate_to_pixels(combined.title, width - 2 * margin, size, bold=True)
    combined.add_text(margin, margin + size - 3, shown_title, size=size, bold=True)
    left = 0.0
    for picture in pictures:
        combined.shapes += [_translate(shape, left, top) for shape in picture.shapes]
        left += picture.width + _PANEL_GAP
    return combined


def _translate(shape: Shape, dx: float, dy: float) -> Shape:
    if isinstance(shape, Polyline | Polygon):
        return replace(shape, points=tuple((x + dx, y + dy) for x, y in shape.points))
    return replace(shape, x=shape.x + dx, y=shape.y + dy)
