"""What a picture is made of. Lengths are in pixels, from the top left corner.

A colour is a name of `colours.theme` (`ink`, `c1`, `p8`), which follows the reader's theme, or
`#rrggbb`, which does not.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Literal, TypeAlias

from workings.render.colors import theme_colors
from workings.render.images import encode_png_alpha

Point: TypeAlias = tuple[float, float]
Anchor: TypeAlias = Literal["start", "middle", "end"]

DASH = (5.0, 3.5)  # on, off


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through points."""

    points: tuple[Point, ...]
    color: str
    width: float
    dashed: bool


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacity: float


@dataclass(frozen=True, slots=True)
class Polygon:
    """A filled polygon."""

    points: tuple[Point, ...]
    color: str
    opacity: float


@dataclass(frozen=True, slots=True)
class Circle:
    """A filled circle."""

    x: float
    y: float
    radius: float
    color: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells side by side, row by row, each one so far opaque: from 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacities: tuple[tuple[float, ...], ...]
    tooltips: tuple[tuple[str, ...], ...]  # what is told of each cell, or nothing at all


@dataclass(frozen=True, slots=True)
class RasterImage:
    """An image, stretched over a box."""

    x: float
    y: float
    width: float
    height: float
    png: bytes


@dataclass(frozen=True, slots=True)
class TextLabel:
    """A line of text; `x` and `y` are where its baseline starts, has its middle or ends."""

    x: float
    y: float
    text: str
    color: str
    size: float
    anchor: Anchor
    rotation: float  # degrees, anticlockwise: at 90 it is read from below
    bold: bool


Shape: TypeAlias = Polyline | Rectangle | Polygon | Circle | Grid | RasterImage | TextLabel


_LIGHT, _DARK = theme_colors("light"), theme_colors("dark")
_MAX_VECTOR_CELLS = 4096  # cells of a grid; more of them are written as an image
_FONTS = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"


def picture_css(names: Iterable[str] = tuple(_LIGHT)) -> str:
    """Write the rules for pictures: for all colours, or for those named.

    >>> ".picture .f-ink { fill: var(--ink); }" in picture_css(["ink"])
    True
    """
    used = [name for name in _LIGHT if name in set(names)]
    light, dark = (
        "".join(f" --{name}: {colours[name]};" for name in used) for colours in (_LIGHT, _DARK)
    )
    rules = [
        f".picture {{ max-width: 100%; height: auto;{light} }}",
        f"@media screen and (prefers-color-scheme: dark) {{ .picture {{{dark} }} }}",
    ]
    rules += [f".picture .f-{name} {{ fill: var(--{name}); }}" for name in used]
    rules += [f".picture .s-{name} {{ stroke: var(--{name}); }}" for name in used]
    return "\n".join(rules)


def write_svg(
    shapes: Sequence[Shape], width: float, height: float, title: str, styled: bool
) -> str:
    """Write the element, with rules for the colours that occur where it has to be styled."""
    named = {mark.color for mark in shapes if not isinstance(mark, RasterImage)}
    style = f"<style>\n{picture_css({'paper', *named})}\n</style>\n"
    size = f'width="{_format_number(width)}" height="{_format_number(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" {size}'
        f' viewBox="0 0 {_format_number(width)} {_format_number(height)}" font-family="{_FONTS}"'
        ' stroke-linejoin="round">\n'
        f"<title>{_escape_text(title)}</title>\n{style if styled else ''}"
        f"{_define_images(shapes)}"
        f"<rect {size} {_paint('fill', 'paper')}/>\n{''.join(_elements(shapes))}</svg>\n"
    )


def png_data_uri(png: bytes) -> str:
    """Write an image so that a page can hold it.

    >>> png_data_uri(b"abc")
    'data:image/png;base64,YWJj'
    """
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def image_id(png: bytes) -> str:
    """Name an image by what it is: written once, it can be used at many places."""
    return f"photo-{hashlib.sha256(png).hexdigest()[:12]}"


def define_image(png: bytes) -> str:
    """Write an image, 1 wide and high, to be used elsewhere under its name."""
    how = 'width="1" height="1" preserveAspectRatio="none"'
    return f'<defs><image id="{image_id(png)}" {how} href="{png_data_uri(png)}"/></defs>'


def _define_images(shapes: Sequence[Shape]) -> str:
    once = dict.fromkeys(mark.png for mark in shapes if isinstance(mark, RasterImage))
    return "".join(f"{define_image(png)}\n" for png in once)


def _elements(shapes: Sequence[Shape]) -> Iterable[str]:
    """Write marks in their order, rectangles that follow each other in a group without seams."""
    for kind, group in groupby(shapes, key=type):
        written = "".join(f"{_WRITERS[kind](mark)}\n" for mark in group)
        crisp = kind is Rectangle
        yield f'<g shape-rendering="crispEdges">\n{written}</g>\n' if crisp else written


def _rectangle(shape: Rectangle) -> str:
    paint = _paint("fill", shape.color) + _opacity(shape.opacity)
    x, y = _format_number(shape.x), _format_number(shape.y)
    return f'<path {paint} d="M{x} {y}h{_format_number(shape.width)}v{_format_number(shape.height)}H{x}z"/>'


def _line(shape: Polyline) -> str:
    dash = f' stroke-dasharray="{" ".join(map(_format_number, DASH))}"' if shape.dashed else ""
    paint = f'{_paint("stroke", shape.color)} stroke-width="{_format_number(shape.width)}"{dash} fill="none"'
    return f'<polyline {paint} points="{_points(shape.points)}"/>'


def _polygon(shape: Polygon) -> str:
    paint = _paint("fill", shape.color) + _opacity(shape.opacity)
    return f'<polygon {paint} points="{_points(shape.points)}"/>'


def _circle(shape: Circle) -> str:
    place = f'cx="{_format_number(shape.x)}" cy="{_format_number(shape.y)}" r="{_format_number(shape.radius)}"'
    return f"<circle {_paint('fill', shape.color)} {place}/>"


def _grid(shape: Grid) -> str:
    rows, columns = len(shape.opacities), len(shape.opacities[0])
    if rows * columns > _MAX_VECTOR_CELLS:
        # An image does not follow the theme: one colour, which both can be seen through.
        data = encode_png_alpha(shape.opacities, _LIGHT.get(shape.color, shape.color))
        size = f'width="{_format_number(shape.width)}" height="{_format_number(shape.height)}" preserveAspectRatio="none"'
        place = f'x="{_format_number(shape.x)}" y="{_format_number(shape.y)}" {size} image-rendering="pixelated"'
        return f'<image {place} href="{png_data_uri(data)}"/>'
    scale = f"scale({shape.width / columns:.4f} {shape.height / rows:.4f})"
    return (
        f'<g {_paint("fill", shape.color)} shape-rendering="crispEdges" '
        f'transform="translate({_format_number(shape.x)} {_format_number(shape.y)}) {scale}">'
        f"{''.join(_cells_with_tooltips(shape) if shape.tooltips else _cells(shape))}</g>"
    )


def _cells(shape: Grid) -> Iterable[str]:
    """Write all cells of one opacity as one path."""
    paths: dict[str, list[str]] = defaultdict(list)
    for i, row in enumerate(shape.opacities):
        for j, share in enumerate(row):
            paths[_format_number(share)].append(f"M{j} {i}h1v1h-1z")
    for opaque, cells in paths.items():
        if opaque != "0":
            yield f'<path fill-opacity="{opaque}" d="{"".join(cells)}"/>'


def _cells_with_tooltips(shape: Grid) -> Iterable[str]:
    """Write each cell by itself, with its note; one that nobody sees can be pointed at, too."""
    for i, (row, notes) in enumerate(zip(shape.opacities, shape.tooltips, strict=True)):
        for j, (share, note) in enumerate(zip(row, notes, strict=True)):
            path = f'<path fill-opacity="{_format_number(share)}" d="M{j} {i}h1v1h-1z"'
            if note:
                yield f"{path}><title>{_escape_text(note)}</title></path>"
            elif share:
                yield f"{path}/>"


def _image(shape: RasterImage) -> str:
    scale = f"scale({shape.width:.4f} {shape.height:.4f})"
    place = f'transform="translate({_format_number(shape.x)} {_format_number(shape.y)}) {scale}"'
    return f'<use href="#{image_id(shape.png)}" {place}/>'


def _text_element(shape: TextLabel) -> str:
    x, y = _format_number(shape.x), _format_number(shape.y)
    more = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    more += ' font-weight="bold"' if shape.bold else ""
    more += (
        f' transform="rotate({_format_number(-shape.rotation)} {x} {y})"' if shape.rotation else ""
    )
    paint = f'{_paint("fill", shape.color)} font-size="{_format_number(shape.size)}"'
    return f'<text {paint} x="{x}" y="{y}"{more}>{_escape_text(shape.text)}</text>'


# Each is called with marks of its own type only.
_WRITERS: dict[type, Callable[..., str]] = {
    Polyline: _line,
    Rectangle: _rectangle,
    Polygon: _polygon,
    Circle: _circle,
    Grid: _grid,
    RasterImage: _image,
    TextLabel: _text_element,
}


def _paint(attribute: str, color: str) -> str:
    if color in _LIGHT:
        return f'class="{attribute[0]}-{color}" {attribute}="{_LIGHT[color]}"'
    return f'{attribute}="{color}"'


def _opacity(opacity: float) -> str:
    return "" if opacity == 1 else f' fill-opacity="{_format_number(opacity)}"'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_format_number(x)},{_format_number(y)}" for x, y in points)


def _format_number(number: float) -> str:
    written = f"{number:.2f}"
    return written.rstrip("0").rstrip(".")


def _escape_text(text: str) -> str:
    return escape(text, quote=True)
