"""Pictures: a canvas of shapes that is saved as SVG, PDF or PNG, and the width of text on it.

Text is measured in DejaVu Sans, one of the widest fonts: text that fits in it fits in others.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path

from workings.errors import UserError, did_you_mean, install_hint
from workings.io import write_bytes
from workings.plain_text import display_width, to_one_line
from workings.render import svg_writer
from workings.render.colors import theme_colors
from workings.render.picture_style import LABEL_SIZE, PictureStyle
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
    SignedGrid,
    TextLabel,
)
from workings.render.themes import apply_theme, split_signed_grids

PICTURE_SUFFIXES = (".svg", ".pdf", ".png")

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


def wrap_to_pixels(
    text: str, max_width: float, size: float, bold: bool = False, max_lines: int = 2
) -> list[str]:
    """Break text at spaces into lines of a width in pixels; what does not fit is truncated.

    >>> wrap_to_pixels("accuracy on the test reviews, by epoch", 150, 10)
    ['accuracy on the test', 'reviews, by epoch']
    """
    lines: list[str] = []
    rest = text
    while len(lines) < max_lines - 1 and text_width(rest, size, bold) > max_width:
        words, line = rest.split(" "), ""
        while words and text_width(f"{line} {words[0]}".strip(), size, bold) <= max_width:
            line = f"{line} {words.pop(0)}".strip()
        if not line:  # a word that is wider than a line
            break
        lines.append(line)
        rest = " ".join(words)
    return [*lines, truncate_to_pixels(rest, max_width, size, bold)]


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
    `redraw` draws the same for another width; `panels` are the pictures that it consists of.

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

    def __init__(
        self,
        width: float,
        height: float,
        title: str,
        redraw: "Callable[[float], Picture] | None" = None,
    ) -> None:
        _check_finite(width, height)
        if not (width >= 1 and height >= 1):
            raise UserError(f"expected a picture of at least 1 × 1 pixels, got {width} × {height}")
        self.width, self.height, self.title = width, height, _to_xml_line(title)
        self.shapes: list[Shape] = []
        self.redraw = redraw
        self.panels: Sequence[Picture] = ()
        self.scale = 1.0
        self.theme: str | None = None
        self.pixel_ratio: float | None = None

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

    def add_signed_grid(
        self, box: tuple[float, float, float, float], values: Sequence[Sequence[float]]
    ) -> None:
        """Fill a box with cells for values from −1 to 1: blue below zero, orange above."""
        _check_finite(*box, *(value for row in values for value in row))
        if len({len(row) for row in values}) != 1 or not values[0]:
            raise UserError("expected a grid with rows of equal length")
        cells = tuple(tuple(min(max(float(v), -1.0), 1.0) for v in row) for row in values)
        self.shapes.append(SignedGrid(*box, cells))

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

    def styled(self, style: PictureStyle) -> "Picture":
        """Return the picture at the width, font size and in the theme of a style.

        It is redrawn for the width if it can be. One that is still too wide gets smaller text
        (see `font_size`); one that is narrower gets margins.
        """
        scale = (style.font_size or LABEL_SIZE) / LABEL_SIZE
        picture = copy(self)
        if style.width is not None:
            width = style.width / scale
            picture = copy(self.redraw(width) if self.redraw else self)
            if picture.width < width:
                margin = (width - picture.width) / 2
                picture.shapes = [_translate(shape, margin, 0) for shape in picture.shapes]
                picture.width = width
            scale = style.width / picture.width
        picture.scale = scale
        picture.theme = style.theme
        picture.pixel_ratio = style.pixel_ratio
        return picture

    @property
    def font_size(self) -> float:
        """The size of labels, in pixels."""
        return LABEL_SIZE * self.scale

    def missing_characters(self) -> str:
        """Return the characters of its text that no font of this system has."""
        with _install_hint("PDF or PNG"):
            from workings.render.fonts import find_missing_characters

        return find_missing_characters(s.text for s in self.shapes if isinstance(s, TextLabel))

    def svg(self, styled: bool = True) -> str:
        """Return the picture as SVG; without a theme, it follows the theme of the reader.

        With `styled=False` it has no style of its own: the page must include `picture_css()`.
        """
        size = self.width, self.height
        if self.theme is None:
            shapes = list(split_signed_grids(self.shapes))
            return svg_writer.write_svg(shapes, size, self.title, styled=styled, scale=self.scale)
        shapes, paper = apply_theme(self.shapes, self.theme), theme_colors(self.theme)["paper"]
        return svg_writer.write_svg(
            shapes, size, self.title, paper=paper, styled=styled, scale=self.scale
        )

    def png(self, scale: float | None = None) -> bytes:
        """Return the picture as PNG, `scale` pixels of the file per pixel.

        The default is that of its style, or 2.
        """
        with _install_hint("PNG"):
            from workings.render.raster import draw_png

        ratio = scale or self.pixel_ratio or 2.0
        theme = self.theme or "light"
        shapes, paper = apply_theme(self.shapes, theme), theme_colors(theme)["paper"]
        resolution = 96 * ratio if self.pixel_ratio is not None and ratio != 1 else None
        return draw_png(shapes, (self.width, self.height), paper, self.scale * ratio, resolution)

    def pdf(self) -> bytes:
        """Return the picture as a PDF of one page, with text as text."""
        with _install_hint("PDF"):
            from workings.render.pdf import draw_pdf

        theme = self.theme or "light"
        shapes, paper = apply_theme(self.shapes, theme), theme_colors(theme)["paper"]
        return draw_pdf(shapes, (self.width, self.height), self.title, paper, self.scale)

    def save(self, path: str | Path) -> None:
        """Write a `.svg`, `.pdf` or `.png` file; a failed write leaves the old file."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in PICTURE_SUFFIXES:
            raise UserError(f"{path}: expected a file name that ends in .svg, .pdf or .png")
        write_bytes(path, self.encode(suffix[1:]), unique=True)

    def encode(self, file_format: str) -> bytes:
        """Return the picture in a format: svg, pdf or png."""
        if file_format == "svg":
            return self.svg().encode()
        return self.pdf() if file_format == "pdf" else self.png()


@contextmanager
def _install_hint(name: str) -> Iterator[None]:
    """Say how to install a package that a format needs."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if install_hint(missing) is None:
            raise
        message = f"a picture as {name} needs {missing.name}: {install_hint(missing)}"
        raise ModuleNotFoundError(message, name=missing.name) from None


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
_MIN_PANEL_SHRINKAGE = 0.75  # of the width of a panel, before it goes to the next row


def side_by_side(pictures: Sequence[Picture], title: str) -> Picture:
    """Return one picture of several side by side, aligned at the top, under a common title.

    Drawn for a smaller width, it has several rows.

    >>> half = Picture(100, 80, "half")
    >>> half.add_circle(50, 40, 5, "c1")
    >>> both = side_by_side([half, half], "Two halves")
    >>> both.width, both.height, both.title
    (210, 114, 'Two halves')
    >>> [(shape.x, shape.y) for shape in both.shapes[1:]]
    [(50.0, 74), (160.0, 74)]
    """
    return _stack_rows([pictures], title)


def _stack_rows(rows: Sequence[Sequence[Picture]], title: str) -> Picture:
    size, margin = _PANEL_TITLE_SIZE, _PANEL_MARGIN
    width = max(map(_row_width, rows))
    lines = wrap_to_pixels(_to_xml_line(title), width - 2 * margin, size, bold=True)
    top: float = margin + (size + 4) * len(lines) - 2
    heights = [max(picture.height for picture in row) for row in rows]
    height = top + sum(heights) + _PANEL_GAP * (len(rows) - 1)

    pictures = [picture for row in rows for picture in row]
    combined = Picture(width, height, title, lambda w: _stack_rows(_fit_rows(pictures, w), title))
    combined.panels = pictures
    for k, line in enumerate(lines, start=1):
        combined.add_text(margin, margin + (size + 4) * k - 7, line, size=size, bold=True)
    for row, row_height in zip(rows, heights, strict=True):
        left = 0.0
        for picture in row:
            combined.shapes += [_translate(shape, left, top) for shape in picture.shapes]
            left += picture.width + _PANEL_GAP
        top += row_height + _PANEL_GAP
    return combined


def _row_width(row: Sequence[Picture]) -> float:
    return sum(picture.width for picture in row) + _PANEL_GAP * (len(row) - 1)


def _fit_rows(pictures: Sequence[Picture], width: float) -> list[list[Picture]]:
    """Return the pictures in rows of about this width, each redrawn for its share of its row."""
    rows: list[list[Picture]] = [[]]
    for picture in pictures:
        if rows[-1] and _row_width([*rows[-1], picture]) * _MIN_PANEL_SHRINKAGE > width:
            rows.append([])
        rows[-1].append(picture)
    fitted = []
    for row in rows:
        # A row of few pictures does not stretch them beyond the width that they have in a full one.
        widest = max(_row_width(other) for other in rows)
        gaps = _PANEL_GAP * (len(row) - 1)
        factor = (width - gaps) / (max(_row_width(row), widest) - gaps)
        fitted.append([p.redraw(p.width * factor) if p.redraw else p for p in row])
    return fitted


def _translate(shape: Shape, dx: float, dy: float) -> Shape:
    if isinstance(shape, Polyline | Polygon):
        return replace(shape, points=tuple((x + dx, y + dy) for x, y in shape.points))
    return replace(shape, x=shape.x + dx, y=shape.y + dy)
