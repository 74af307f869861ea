"""The shapes of a picture in one theme: all colors as `#rrggbb`, signed grids as grids of a color.

Print is black on white, and a gray copy shows the same: grids go from white to black.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from workings.render.colors import theme_colors
from workings.render.svg_writer import Grid, PlainShape, RasterImage, Shape, SignedGrid

POSITIVE_COLOR, NEGATIVE_COLOR = "c2", "c1"


def apply_theme(shapes: Iterable[Shape], theme: str) -> list[PlainShape]:
    """Return shapes without names of colors."""
    colors = theme_colors(theme)
    plain = _print_grids(shapes) if theme == "print" else split_signed_grids(shapes)
    return [
        shape
        if isinstance(shape, RasterImage)
        else replace(shape, color=colors.get(shape.color, shape.color))
        for shape in plain
    ]


def split_signed_grids(shapes: Iterable[Shape]) -> Iterator[PlainShape]:
    """Yield shapes with a grid for the values above zero and one for those below."""
    for shape in shapes:
        if not isinstance(shape, SignedGrid):
            yield shape
            continue
        for sign, color in ((1, POSITIVE_COLOR), (-1, NEGATIVE_COLOR)):
            opacities = tuple(tuple(max(sign * v, 0.0) for v in row) for row in shape.values)
            if any(map(any, opacities)):
                yield _grid(shape, color, opacities)


def _print_grids(shapes: Iterable[Shape]) -> Iterator[PlainShape]:
    """Yield shapes with grids in ink; a grid with values below zero is white at −1."""
    for shape in shapes:
        if isinstance(shape, SignedGrid):
            is_signed = any(v < 0 for row in shape.values for v in row)
            low = -1.0 if is_signed else 0.0
            opacities = tuple(tuple((v - low) / (1 - low) for v in row) for row in shape.values)
            yield _grid(shape, "ink", opacities)
        elif isinstance(shape, Grid) and not shape.color.startswith("#"):
            yield replace(shape, color="ink")
        else:
            yield shape


def _grid(shape: SignedGrid, color: str, opacities: Sequence[tuple[float, ...]]) -> Grid:
    box = (shape.x, shape.y, shape.width, shape.height)
    return Grid(*box, color, tuple(opacities), ())
