"""Shapes as PNG: drawn on a larger canvas and reduced, for smooth edges."""

import io
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from PIL import Image, ImageDraw, ImageFont

from workings.errors import UserError
from workings.render.fonts import split_by_font
from workings.render.svg_writer import (
    DASH,
    Circle,
    Grid,
    PlainShape,
    Point,
    Polygon,
    Polyline,
    RasterImage,
    Rectangle,
    TextLabel,
)

_Font: TypeAlias = ImageFont.FreeTypeFont | ImageFont.ImageFont
_MAX_OVERSAMPLING = 4
_MAX_PIXELS = 40_000_000  # of the canvas
_MAX_FILE_PIXELS = 80_000_000


def draw_png(
    shapes: Sequence[PlainShape], size: Point, paper: str, scale: float, resolution: float | None
) -> bytes:
    """Return shapes in plain colors as PNG, `scale` pixels of the file per pixel of the picture.

    `resolution`: pixels per inch on paper, if that is known.
    """
    size = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    if size[0] * size[1] > _MAX_FILE_PIXELS:
        raise UserError(
            f"a PNG of {size[0]:,} × {size[1]:,} pixels is too large: choose a smaller width or "
            "font size, or write .svg or .pdf"
        )
    oversampling = _MAX_OVERSAMPLING
    while oversampling > 1 and size[0] * size[1] * oversampling**2 > _MAX_PIXELS:
        oversampling -= 1
    canvas = _Canvas((size[0] * oversampling, size[1] * oversampling), paper, scale * oversampling)
    for shape in shapes:
        canvas.draw(shape)
    file = io.BytesIO()
    density = {} if resolution is None else {"dpi": (resolution, resolution)}
    canvas.image.reduce(oversampling).save(file, "PNG", optimize=True, **density)
    return file.getvalue()


class _Canvas:
    """An image to draw on, `scale` times as large as the picture."""

    def __init__(self, size: tuple[int, int], paper: str, scale: float) -> None:
        self.image = Image.new("RGB", size, paper)
        self.image_draw = ImageDraw.Draw(self.image, "RGBA")  # RGBA: blends transparent colors
        self.scale = scale
        # Each is called with shapes of its own type only.
        self.draw_methods: dict[type, Callable[..., None]] = {
            Polyline: self.draw_line,
            Rectangle: self.draw_rectangle,
            Polygon: self.draw_polygon,
            Circle: self.draw_circle,
            Grid: self.draw_grid,
            RasterImage: self.draw_image,
            TextLabel: self.draw_text,
        }

    def draw(self, shape: PlainShape) -> None:
        self.draw_methods[type(shape)](shape)

    def draw_line(self, shape: Polyline) -> None:
        width = max(1, round(shape.width * self.scale))
        for points in split_into_dashes(shape.points) if shape.dashed else [shape.points]:
            self.image_draw.line(self.to_pixels(points), _rgba(shape.color), width, joint="curve")

    def draw_rectangle(self, shape: Rectangle) -> None:
        left, top, right, bottom = self.pixel_box(shape)
        if left < right and top < bottom:  # Pillow includes the last row and column
            box = [left, top, right - 1, bottom - 1]
            self.image_draw.rectangle(box, _rgba(shape.color, shape.opacity))

    def draw_polygon(self, shape: Polygon) -> None:
        self.image_draw.polygon(self.to_pixels(shape.points), _rgba(shape.color, shape.opacity))

    def draw_circle(self, shape: Circle) -> None:
        box = [
            (shape.x - shape.radius, shape.y - shape.radius),
            (shape.x + shape.radius, shape.y + shape.radius),
        ]
        self.image_draw.ellipse(self.to_pixels(box), _rgba(shape.color))

    def draw_grid(self, shape: Grid) -> None:
        alpha = bytes(round(255 * opacity) for row in shape.opacities for opacity in row)
        mask = Image.frombytes("L", (len(shape.opacities[0]), len(shape.opacities)), alpha)
        left, top, right, bottom = self.pixel_box(shape)
        if left < right and top < bottom:
            mask = mask.resize((right - left, bottom - top), Image.Resampling.NEAREST)
            self.image.paste(_rgba(shape.color)[:3], (left, top), mask)

    def draw_image(self, shape: RasterImage) -> None:
        left, top, right, bottom = self.pixel_box(shape)
        if left < right and top < bottom:
            image = Image.open(io.BytesIO(shape.png)).convert("RGB")
            size = right - left, bottom - top
            self.image.paste(image.resize(size, Image.Resampling.BICUBIC), (left, top))

    def draw_text(self, shape: TextLabel) -> None:
        size = max(1, round(shape.size * self.scale))
        parts: list[tuple[_Font, str]] = [
            (_load_font(font.path, size), text)
            for font, text in split_by_font(shape.text, shape.bold)
        ] or [(ImageFont.load_default(size), shape.text)]
        widths = [font.getlength(text) for font, text in parts]
        # The start of the text, from its anchor, along the baseline.
        start = -{"start": 0.0, "middle": 0.5, "end": 1.0}[shape.anchor] * sum(widths)
        x, y = shape.x * self.scale, shape.y * self.scale
        for (font, text), width in zip(parts, widths, strict=True):
            if shape.rotation:
                self.draw_rotated((x, y), start, text, font, shape)
            else:
                self.image_draw.text((x + start, y), text, _rgba(shape.color), font, "ls")
            start += width

    def draw_rotated(
        self, anchor: Point, start: float, text: str, font: _Font, shape: TextLabel
    ) -> None:
        """Draw text that starts `start` pixels along the baseline from the anchor."""
        left, top, right, bottom = font.getbbox(text, anchor="ls")
        mask = Image.new("L", (math.ceil(right - left) + 2, math.ceil(bottom - top) + 2))
        origin = (1 - left, 1 - top)  # the start of the text, on the mask
        ImageDraw.Draw(mask).text(origin, text, 255, font, "ls")
        rotated = mask.rotate(shape.rotation, Image.Resampling.BICUBIC, expand=True)
        angle = math.radians(shape.rotation)  # the start rotates about the center of the mask
        dx, dy = origin[0] - start - mask.width / 2, origin[1] - mask.height / 2
        x = dx * math.cos(angle) + dy * math.sin(angle) + rotated.width / 2
        y = dy * math.cos(angle) - dx * math.sin(angle) + rotated.height / 2
        corner = round(anchor[0] - x), round(anchor[1] - y)
        self.image.paste(_rgba(shape.color)[:3], corner, rotated)

    def pixel_box(self, shape: Rectangle | Grid | RasterImage) -> tuple[int, int, int, int]:
        """Return the pixels between which a shape lies: left, top, right, bottom."""
        left, right = round(shape.x * self.scale), round((shape.x + shape.width) * self.scale)
        top, bottom = round(shape.y * self.scale), round((shape.y + shape.height) * self.scale)
        return left, top, right, bottom

    def to_pixels(self, points: Sequence[Point]) -> list[Point]:
        """Return the pixel coordinates of points; in Pillow, 0 is the center of the first pixel."""
        return [(x * self.scale - 0.5, y * self.scale - 0.5) for x, y in points]


def split_into_dashes(points: Sequence[Point]) -> list[list[Point]]:
    """Return the dashes of a dashed line.

    >>> split_into_dashes([(0, 0), (10, 0)])
    [[(0, 0), (5.0, 0.0)], [(8.5, 0.0), (10, 0)]]
    """
    dashes: list[list[Point]] = [[points[0]]]
    is_dash, remaining = True, DASH[0]  # of this dash or gap
    for (x, y), (end_x, end_y) in pairwise(points):
        length, position = math.hypot(end_x - x, end_y - y), 0.0
        while length - position > remaining:
            position += remaining
            point = (x + (end_x - x) * position / length, y + (end_y - y) * position / length)
            if is_dash:
                dashes[-1].append(point)
            else:
                dashes.append([point])
            is_dash = not is_dash
            remaining = DASH[0] if is_dash else DASH[1]
        remaining -= length - position
        if is_dash:
            dashes[-1].append((end_x, end_y))
    return [dash for dash in dashes if len(dash) > 1]


def _rgba(color: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
    code = color
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16), round(255 * opacity)


@cache
def _load_font(path: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size)
