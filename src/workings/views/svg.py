"""Marks as SVG: one element that needs nothing else, in a page or as a file.

A named colour is written twice: as a class, which follows the reader's theme, and as the light
theme's colour for programs that know no CSS. Every rule stands below `.picture`.
"""

import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby

from workings.views.colours import theme
from workings.views.marks import (
    DASH,
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
from workings.views.pixels import png_levels

_LIGHT, _DARK = theme("light"), theme("dark")
_VECTORS = 4096  # cells of a grid; more of them are written as an image
_FONTS = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"


def css(names: Iterable[str] = tuple(_LIGHT)) -> str:
    """Write the rules for pictures: for all colours, or for those named.

    >>> ".picture .f-ink { fill: var(--ink); }" in css(["ink"])
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


def write(marks: Sequence[Mark], width: float, height: float, title: str, styled: bool) -> str:
    """Write the element, with rules for the colours that occur where it has to be styled."""
    named = {mark.colour for mark in marks if not isinstance(mark, Photo)}
    style = f"<style>\n{css({'paper', *named})}\n</style>\n"
    size = f'width="{_n(width)}" height="{_n(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" {size}'
        f' viewBox="0 0 {_n(width)} {_n(height)}" font-family="{_FONTS}"'
        ' stroke-linejoin="round">\n'
        f"<title>{_text(title)}</title>\n{style if styled else ''}"
        f"{_photos(marks)}"
        f"<rect {size} {_paint('fill', 'paper')}/>\n{''.join(_elements(marks))}</svg>\n"
    )


def png_uri(png: bytes) -> str:
    """Write an image so that a page can hold it.

    >>> png_uri(b"abc")
    'data:image/png;base64,YWJj'
    """
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def photo_id(png: bytes) -> str:
    """Name an image by what it is: written once, it can be used at many places."""
    return f"photo-{hashlib.sha256(png).hexdigest()[:12]}"


def photo_defined(png: bytes) -> str:
    """Write an image, 1 wide and high, to be used elsewhere under its name."""
    how = 'width="1" height="1" preserveAspectRatio="none"'
    return f'<defs><image id="{photo_id(png)}" {how} href="{png_uri(png)}"/></defs>'


def _photos(marks: Sequence[Mark]) -> str:
    once = dict.fromkeys(mark.png for mark in marks if isinstance(mark, Photo))
    return "".join(f"{photo_defined(png)}\n" for png in once)


def _elements(marks: Sequence[Mark]) -> Iterable[str]:
    """Write marks in their order, rectangles that follow each other in a group without seams."""
    for kind, group in groupby(marks, key=type):
        written = "".join(f"{_WRITERS[kind](mark)}\n" for mark in group)
        crisp = kind is Rectangle
        yield f'<g shape-rendering="crispEdges">\n{written}</g>\n' if crisp else written


def _rectangle(mark: Rectangle) -> str:
    paint = _paint("fill", mark.colour) + _opacity(mark.opacity)
    x, y = _n(mark.x), _n(mark.y)
    return f'<path {paint} d="M{x} {y}h{_n(mark.width)}v{_n(mark.height)}H{x}z"/>'


def _line(mark: Line) -> str:
    dash = f' stroke-dasharray="{" ".join(map(_n, DASH))}"' if mark.dashed else ""
    paint = f'{_paint("stroke", mark.colour)} stroke-width="{_n(mark.width)}"{dash} fill="none"'
    return f'<polyline {paint} points="{_points(mark.points)}"/>'


def _polygon(mark: Polygon) -> str:
    paint = _paint("fill", mark.colour) + _opacity(mark.opacity)
    return f'<polygon {paint} points="{_points(mark.points)}"/>'


def _circle(mark: Circle) -> str:
    place = f'cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.radius)}"'
    return f"<circle {_paint('fill', mark.colour)} {place}/>"


def _grid(mark: Grid) -> str:
    rows, columns = len(mark.shares), len(mark.shares[0])
    if rows * columns > _VECTORS:
        # An image does not follow the theme: one colour, which both can be seen through.
        data = png_levels(mark.shares, _LIGHT.get(mark.colour, mark.colour))
        size = f'width="{_n(mark.width)}" height="{_n(mark.height)}" preserveAspectRatio="none"'
        place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" {size} image-rendering="pixelated"'
        return f'<image {place} href="{png_uri(data)}"/>'
    scale = f"scale({mark.width / columns:.4f} {mark.height / rows:.4f})"
    return (
        f'<g {_paint("fill", mark.colour)} shape-rendering="crispEdges" '
        f'transform="translate({_n(mark.x)} {_n(mark.y)}) {scale}">'
        f"{''.join(_noted_cells(mark) if mark.notes else _cells(mark))}</g>"
    )


def _cells(mark: Grid) -> Iterable[str]:
    """Write all cells of one opacity as one path."""
    paths: dict[str, list[str]] = defaultdict(list)
    for i, row in enumerate(mark.shares):
        for j, share in enumerate(row):
            paths[_n(share)].append(f"M{j} {i}h1v1h-1z")
    for opaque, cells in paths.items():
        if opaque != "0":
            yield f'<path fill-opacity="{opaque}" d="{"".join(cells)}"/>'


def _noted_cells(mark: Grid) -> Iterable[str]:
    """Write each cell by itself, with its note; one that nobody sees can be pointed at, too."""
    for i, (row, notes) in enumerate(zip(mark.shares, mark.notes, strict=True)):
        for j, (share, note) in enumerate(zip(row, notes, strict=True)):
            path = f'<path fill-opacity="{_n(share)}" d="M{j} {i}h1v1h-1z"'
            if note:
                yield f"{path}><title>{_text(note)}</title></path>"
            elif share:
                yield f"{path}/>"


def _photo(mark: Photo) -> str:
    scale = f"scale({mark.width:.4f} {mark.height:.4f})"
    place = f'transform="translate({_n(mark.x)} {_n(mark.y)}) {scale}"'
    return f'<use href="#{photo_id(mark.png)}" {place}/>'


def _words(mark: Text) -> str:
    x, y = _n(mark.x), _n(mark.y)
    more = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    more += ' font-weight="bold"' if mark.bold else ""
    more += f' transform="rotate({_n(-mark.turn)} {x} {y})"' if mark.turn else ""
    paint = f'{_paint("fill", mark.colour)} font-size="{_n(mark.size)}"'
    return f'<text {paint} x="{x}" y="{y}"{more}>{_text(mark.words)}</text>'


# Each is called with marks of its own type only.
_WRITERS: dict[type, Callable[..., str]] = {
    Line: _line,
    Rectangle: _rectangle,
    Polygon: _polygon,
    Circle: _circle,
    Grid: _grid,
    Photo: _photo,
    Text: _words,
}


def _paint(how: str, colour: str) -> str:
    if colour in _LIGHT:
        return f'class="{how[0]}-{colour}" {how}="{_LIGHT[colour]}"'
    return f'{how}="{colour}"'


def _opacity(share: float) -> str:
    return "" if share == 1 else f' fill-opacity="{_n(share)}"'


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(number: float) -> str:
    written = f"{number:.2f}"
    return written.rstrip("0").rstrip(".")


def _text(text: str) -> str:
    return escape(text, quote=True)
