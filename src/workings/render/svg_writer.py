"""The shapes of a picture, and how they are written as SVG.

Lengths are in pixels, from the top left corner. A color is a name of `colors.theme_colors` (`ink`,
`c1`, `p8`), which follows the theme of the reader, or `#rrggbb`, which does not.
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

DASH = (5.0, 3.5)  # lengths of a dash and of a gap


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
    """A grid of cells of one color, each with an opacity from 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    color: str
    opacities: tuple[tuple[float, ...], ...]
    tooltips: tuple[tuple[str, ...], ...]  # one per cell, or empty


@dataclass(frozen=True, slots=True)
class SignedGrid:
    """A grid of cells with values from −1 to 1: blue below zero and orange above."""

    x: float
    y: float
    width: float
    height: float
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class RasterImage:
    """A PNG image, stretched over a box."""

    x: float
    y: float
    width: float
    height: float
    png: bytes


@dataclass(frozen=True, slots=True)
class TextLabel:
    """A line of text; (x, y) is the start, middle or end of its baseline."""

    x: float
    y: float
    text: str
    color: str
    size: float
    anchor: Anchor
    rotation: float  # degrees, counterclockwise
    bold: bool


# Those that the writers of files draw.
PlainShape: TypeAlias = Polyline | Rectangle | Polygon | Circle | Grid | RasterImage | TextLabel
Shape: TypeAlias = PlainShape | SignedGrid


_LIGHT, _DARK = theme_colors("light"), theme_colors("dark")
_SIZE_RULE = ".picture { max-width: 100%; height: auto; }"
MAX_VECTOR_CELLS = 4096  # a grid with more cells is written as an image
_FONTS = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"


def picture_css(names: Iterable[str] = tuple(_LIGHT)) -> str:
    """Return the CSS rules of pictures, for all colors or for those named.

    >>> ".picture .f-ink { fill: var(--ink); }" in picture_css(["ink"])
    True
    """
    used = [name for name in _LIGHT if name in set(names)]
    if not used:
        return _SIZE_RULE
    light, dark = (
        "".join(f" --{name}: {colors[name]};" for name in used) for colors in (_LIGHT, _DARK)
    )
    rules = [
        _SIZE_RULE.replace(" }", f"{light} }}"),
        f"@media screen and (prefers-color-scheme: dark) {{ .picture {{{dark} }} }}",
    ]
    rules += [f".picture .f-{name} {{ fill: var(--{name}); }}" for name in used]
    rules += [f".picture .s-{name} {{ stroke: var(--{name}); }}" for name in used]
    return "\n".join(rules)


def write_svg(
    shapes: Sequence[PlainShape],
    size: Point,
    title: str,
    *,
    paper: str = "paper",
    styled: bool = True,
    scale: float = 1.0,
) -> str:
    """Return the `<svg>` element; if `styled`, with rules for the colors that occur.

    It is shown at `scale` pixels per pixel of the picture.
    """
    colors = {shape.color for shape in shapes if not isinstance(shape, RasterImage)}
    style = f"<style>\n{picture_css({paper, *colors})}\n</style>\n"
    width, height = size
    display_size = (
        f'width="{_format_number(scale * width)}" height="{_format_number(scale * height)}"'
    )
    area = f'width="{_format_number(width)}" height="{_format_number(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" {display_size}'
        f' viewBox="0 0 {_format_number(width)} {_format_number(height)}" font-family="{_FONTS}"'
        ' stroke-linejoin="round">\n'
        f"<title>{_escape_text(title)}</title>\n{style if styled else ''}"
        f"{_define_images(shapes)}"
        f"<rect {area} {_paint('fill', paper)}/>\n{''.join(_elements(shapes))}</svg>\n"
    )


def png_data_uri(png: bytes) -> str:
    """Return an image as a data URI.

    >>> png_data_uri(b"abc")
    'data:image/png;base64,YWJj'
    """
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def image_id(png: bytes) -> str:
    """Return the id of an image, from its content, so that it can be written once and reused."""
    return f"photo-{hashlib.sha256(png).hexdigest()[:12]}"


def define_image(png: bytes) -> str:
    """Return the definition of an image of size 1 × 1, for `<use>` with its id."""
    attributes = 'width="1" height="1" preserveAspectRatio="none"'
    return f'<defs><image id="{image_id(png)}" {attributes} href="{png_data_uri(png)}"/></defs>'


def _define_images(shapes: Sequence[PlainShape]) -> str:
    unique = dict.fromkeys(shape.png for shape in shapes if isinstance(shape, RasterImage))
    return "".join(f"{define_image(png)}\n" for png in unique)


def _elements(shapes: Sequence[PlainShape]) -> Iterable[str]:
    """Yield the shapes as elements, in order; adjacent rectangles in one group without seams."""
    for kind, group in groupby(shapes, key=type):
        elements = "".join(f"{_WRITERS[kind](shape)}\n" for shape in group)
        is_crisp = kind is Rectangle
        yield f'<g shape-rendering="crispEdges">\n{elements}</g>\n' if is_crisp else elements


def _rectangle(shape: Rectangle) -> str:
    paint = _paint("fill", shape.color) + _opacity(shape.opacity)
    x, y = _format_number(shape.x), _format_number(shape.y)
    width, height = _format_number(shape.width), _format_number(shape.height)
    return f'<path {paint} d="M{x} {y}h{width}v{height}H{x}z"/>'


def _line(shape: Polyline) -> str:
    dash = f' stroke-dasharray="{" ".join(map(_format_number, DASH))}"' if shape.dashed else ""
    stroke = f'{_paint("stroke", shape.color)} stroke-width="{_format_number(shape.width)}"{dash}'
    return f'<polyline {stroke} fill="none" points="{_points(shape.points)}"/>'


def _polygon(shape: Polygon) -> str:
    paint = _paint("fill", shape.color) + _opacity(shape.opacity)
    return f'<polygon {paint} points="{_points(shape.points)}"/>'


def _circle(shape: Circle) -> str:
    x, y, radius = map(_format_number, (shape.x, shape.y, shape.radius))
    return f'<circle {_paint("fill", shape.color)} cx="{x}" cy="{y}" r="{radius}"/>'


def _grid(shape: Grid) -> str:
    rows, columns = len(shape.opacities), len(shape.opacities[0])
    if rows * columns > MAX_VECTOR_CELLS:
        # An image cannot follow the theme: it has one color, with opacities that suit both themes.
        data = encode_png_alpha(shape.opacities, _LIGHT.get(shape.color, shape.color))
        x, y = _format_number(shape.x), _format_number(shape.y)
        width, height = _format_number(shape.width), _format_number(shape.height)
        return (
            f'<image x="{x}" y="{y}" width="{width}" height="{height}" preserveAspectRatio="none"'
            f' image-rendering="pixelated" href="{png_data_uri(data)}"/>'
        )
    scale = f"scale({shape.width / columns:.4f} {shape.height / rows:.4f})"
    return (
        f'<g {_paint("fill", shape.color)} shape-rendering="crispEdges" '
        f'transform="translate({_format_number(shape.x)} {_format_number(shape.y)}) {scale}">'
        f"{''.join(_cells_with_tooltips(shape) if shape.tooltips else _cells(shape))}</g>"
    )


def _cells(shape: Grid) -> Iterable[str]:
    """Yield one path per opacity, with all its cells."""
    paths: dict[str, list[str]] = defaultdict(list)
    for i, row in enumerate(shape.opacities):
        for j, opacity in enumerate(row):
            paths[_format_number(opacity)].append(f"M{j} {i}h1v1h-1z")
    for opacity_text, cells in paths.items():
        if opacity_text != "0":
            yield f'<path fill-opacity="{opacity_text}" d="{"".join(cells)}"/>'


def _cells_with_tooltips(shape: Grid) -> Iterable[str]:
    """Yield one path per cell, with its tooltip; transparent cells with a tooltip are included."""
    for i, (row, tooltips) in enumerate(zip(shape.opacities, shape.tooltips, strict=True)):
        for j, (opacity, tooltip) in enumerate(zip(row, tooltips, strict=True)):
            path = f'<path fill-opacity="{_format_number(opacity)}" d="M{j} {i}h1v1h-1z"'
            if tooltip:
                yield f"{path}><title>{_escape_text(tooltip)}</title></path>"
            elif opacity:
                yield f"{path}/>"


def _image(shape: RasterImage) -> str:
    scale = f"scale({shape.width:.4f} {shape.height:.4f})"
    transform = f"translate({_format_number(shape.x)} {_format_number(shape.y)}) {scale}"
    return f'<use href="#{image_id(shape.png)}" transform="{transform}"/>'


def _text_element(shape: TextLabel) -> str:
    x, y = _format_number(shape.x), _format_number(shape.y)
    attributes = f'{_paint("fill", shape.color)} font-size="{_format_number(shape.size)}"'
    attributes += f' x="{x}" y="{y}"'
    if shape.anchor != "start":
        attributes += f' text-anchor="{shape.anchor}"'
    if shape.bold:
        attributes += ' font-weight="bold"'
    if shape.rotation:
        attributes += f' transform="rotate({_format_number(-shape.rotation)} {x} {y})"'
    return f"<text {attributes}>{_escape_text(shape.text)}</text>"


# Each is called with shapes of its own type only.
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
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _escape_text(text: str) -> str:
    return escape(text, quote=True)
