"""Marks as PNG, in the light theme: drawn larger than asked for and reduced, which smooths them."""

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
_MAX_OVERSAMPLING = 4  # times larger
_MAX_PIXELS = 40_000_000  # pixels to draw on


def draw_png(shapes: Sequence[Shape], width: float, height: float, scale: float) -> bytes:
    """Draw the marks on paper, so many pixels of the file to a pixel of the picture."""
    size = round(width * scale), round(height * scale)
    fine = _MAX_OVERSAMPLING
    while fine > 1 and size[0] * size[1] * fine**2 > _MAX_PIXELS:
        fine -= 1
    sheet = _Canvas((size[0] * fine, size[1] * fine), scale * fine)
    for mark in shapes:
        sheet.draw(mark)
    file = io.BytesIO()
    sheet.image.reduce(fine).save(file, "PNG", optimize=True)
    return file.getvalue()


class _Canvas:
    """Paper to draw on, so many times as large as the picture."""

    def __init__(self, size: tuple[int, int], scale: float) -> None:
        self.image = Image.new("RGB", size, _LIGHT["paper"])
        self.image_draw = ImageDraw.Draw(self.image, "RGBA")  # on RGB: what is drawn is blended
        self.scale = scale
        # Each is called with marks of its own type only.
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
        for piece in split_into_dashes(shape.points) if shape.dashed else [shape.points]:
            self.image_draw.line(self.to_pixels(piece), _rgba(shape.color), width, joint="curve")

    def draw_rectangle(self, shape: Rectangle) -> None:
        left, top, right, bottom = self.pixel_box(shape)
        if left < right and top < bottom:  # the last row and column are drawn, too
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
        levels = bytes(round(255 * share) for row in shape.opacities for share in row)
        stencil = Image.frombytes("L", (len(shape.opacities[0]), len(shape.opacities)), levels)
        left, top, right, bottom = self.pixel_box(shape)
        if left < right and top < bottom:
            size = right - left, bottom - top
            mask = stencil.resize(size, Image.Resampling.NEAREST)
            self.image.paste(_rgba(shape.color)[:3], (left, top), mask)

    def draw_image(self, shape: RasterImage) -> None:
        left, top, right, bottom = self.pixel_box(shape)
        if left < right and top < bottom:
            image = Image.open(io.BytesIO(shape.png)).convert("RGB")
            size = right - left, bottom - top
            self.image.paste(image.resize(size, Image.Resampling.BICUBIC), (left, top))

    def draw_text(self, shape: TextLabel) -> None:
        font = _load_font(shape.bold, max(1, round(shape.size * self.scale)))
        side = {"start": "l", "middle": "m", "end": "r"}[shape.anchor] + "s"
        x, y, colour = shape.x * self.scale, shape.y * self.scale, _rgba(shape.color)
        if not shape.rotation:
            self.image_draw.text((x, y), shape.text, colour, font, side)
            return
        left, top, right, bottom = font.getbbox(shape.text, anchor=side)
        stencil = Image.new("L", (math.ceil(right - left) + 2, math.ceil(bottom - top) + 2))
        at = (1 - left, 1 - top)  # of the anchor, on the stencil
        ImageDraw.Draw(stencil).text(at, shape.text, 255, font, side)
        turned = stencil.rotate(shape.rotation, Image.Resampling.BICUBIC, expand=True)
        angle = math.radians(shape.rotation)  # the middle stays, the anchor turns about it
        dx, dy = at[0] - stencil.width / 2, at[1] - stencil.height / 2
        across = dx * math.cos(angle) + dy * math.sin(angle) + turned.width / 2
        down = dy * math.cos(angle) - dx * math.sin(angle) + turned.height / 2
        self.image.paste(colour[:3], (round(x - across), round(y - down)), turned)

    def pixel_box(self, shape: Rectangle | Grid | RasterImage) -> tuple[int, int, int, int]:
        """Say between which pixels a mark lies: left, top, right, bottom."""
        left, right = round(shape.x * self.scale), round((shape.x + shape.width) * self.scale)
        top, bottom = round(shape.y * self.scale), round((shape.y + shape.height) * self.scale)
        return left, top, right, bottom

    def to_pixels(self, points: Sequence[Point]) -> list[Point]:
        """Say which pixels points are on; Pillow counts from the middle of the first one."""
        return [(x * self.scale - 0.5, y * self.scale - 0.5) for x, y in points]


def split_into_dashes(points: Sequence[Point]) -> list[list[Point]]:
    """Cut a line into its dashes.

    >>> split_into_dashes([(0, 0), (10, 0)])
    [[(0, 0), (5.0, 0.0)], [(8.5, 0.0), (10, 0)]]
    """
    pieces: list[list[Point]] = [[points[0]]]
    on, left = True, DASH[0]  # left of this dash or gap
    for (x, y), (end_x, end_y) in pairwise(points):
        length, gone = math.hypot(end_x - x, end_y - y), 0.0
        while length - gone > left:
            gone += left
            turn = (x + (end_x - x) * gone / length, y + (end_y - y) * gone / length)
            if on:
                pieces[-1].append(turn)
            else:
                pieces.append([turn])
            on = not on
            left = DASH[0] if on else DASH[1]
        left -= length - gone
        if on:
            pieces[-1].append((end_x, end_y))
    return [piece for piece in pieces if len(piece) > 1]


def _rgba(color: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
    code = _LIGHT.get(color, color)
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16), round(255 * opacity)


@cache
def _load_font(bold: bool, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Find a font of the system; where there is none, Pillow brings one."""
    for name in (*_FONTS[bold], *_FONTS[False]):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
