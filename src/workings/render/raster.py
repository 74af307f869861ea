"""Shapes as PNG, in the light theme: drawn on a larger canvas and reduced, for smooth edges."""

import io
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from PIL import Image, ImageDraw, ImageFont

from workings.render.colors import theme_colors
from workings.render.svg_writer import (
    DASH,
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

_LIGHT = theme_colors("light")
_FONTS = {
    False: ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "Helvetica.ttc"),
    True: ("DejaVuSans-Bold.ttf", "LiberationSans-Bold.ttf", "Arial Bold.ttf", "arialbd.ttf"),
}
_MAX_OVERSAMPLING = 4
_MAX_PIXELS = 40_000_000  # of the canvas


def draw_png(shapes: Sequence[Shape], width: float, height: float, scale: float) -> bytes:
    """Return shapes as PNG, `scale` pixels of the file per pixel of the picture."""
    size = round(width * scale), round(height * scale)
    oversampling = _MAX_OVERSAMPLING
    while oversampling > 1 and size[0] * size[1] * oversampling**2 > _MAX_PIXELS:
        oversampling -= 1
    canvas = _Canvas((size[0] * oversampling, size[1] * oversampling), scale * oversampling)
    for shape in shapes:
        canvas.draw(shape)
    file = io.BytesIO()
    canvas.image.reduce(oversampling).save(file, "PNG", optimize=True)
    return file.getvalue()


class _Canvas:
    """An image to draw on, `scale` times as large as the picture."""

    def __init__(self, size: tuple[int, int], scale: float) -> None:
        self.image = Image.new("RGB", size, _LIGHT["paper"])
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

    def draw(self, shape: Shape) -> None:
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
        font = _load_font(shape.bold, max(1, round(shape.size * self.scale)))
        anchor = {"start": "l", "middle": "m", "end": "r"}[shape.anchor] + "s"
        x, y, color = shape.x * self.scale, shape.y * self.scale, _rgba(shape.color)
        if not shape.rotation:
            self.image_draw.text((x, y), shape.text, color, font, anchor)
            return
        left, top, right, bottom = font.getbbox(shape.text, anchor=anchor)
        mask = Image.new("L", (math.ceil(right - left) + 2, math.ceil(bottom - top) + 2))
        origin = (1 - left, 1 - top)  # the anchor of the text, on the mask
        ImageDraw.Draw(mask).text(origin, shape.text, 255, font, anchor)
        rotated = mask.rotate(shape.rotation, Image.Resampling.BICUBIC, expand=True)
        angle = math.radians(shape.rotation)  # the anchor rotates about the center of the mask
        dx, dy = origin[0] - mask.width / 2, origin[1] - mask.height / 2
        anchor_x = dx * math.cos(angle) + dy * math.sin(angle) + rotated.width / 2
        anchor_y = dy * math.cos(angle) - dx * math.sin(angle) + rotated.height / 2
        self.image.paste(color[:3], (round(x - anchor_x), round(y - anchor_y)), rotated)

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
    code = _LIGHT.get(color, color)
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16), round(255 * opacity)


@cache
def _load_font(bold: bool, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return a font of the system, or the default font of Pillow."""
    for name in (*_FONTS[bold], *_FONTS[False]):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
