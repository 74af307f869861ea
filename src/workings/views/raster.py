"""Marks as PNG, in the light theme: drawn larger than asked for and reduced, which smooths them."""

import io
import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from PIL import Image, ImageDraw, ImageFont

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

_LIGHT = theme("light")
_FONTS = {
    False: ("DejaVuSans.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "Helvetica.ttc"),
    True: ("DejaVuSans-Bold.ttf", "LiberationSans-Bold.ttf", "Arial Bold.ttf", "arialbd.ttf"),
}
_FINEST = 4  # times larger
_MOST = 40_000_000  # pixels to draw on


def png(marks: Sequence[Mark], width: float, height: float, scale: float) -> bytes:
    """Draw the marks on paper, so many pixels of the file to a pixel of the picture."""
    size = round(width * scale), round(height * scale)
    fine = _FINEST
    while fine > 1 and size[0] * size[1] * fine**2 > _MOST:
        fine -= 1
    sheet = _Sheet((size[0] * fine, size[1] * fine), scale * fine)
    for mark in marks:
        sheet.draw(mark)
    file = io.BytesIO()
    sheet.image.reduce(fine).save(file, "PNG", optimize=True)
    return file.getvalue()


class _Sheet:
    """Paper to draw on, so many times as large as the picture."""

    def __init__(self, size: tuple[int, int], times: float) -> None:
        self.image = Image.new("RGB", size, _LIGHT["paper"])
        self.pen = ImageDraw.Draw(self.image, "RGBA")  # on RGB: what is drawn is blended
        self.times = times
        # Each is called with marks of its own type only.
        self.ways: dict[type, Callable[..., None]] = {
            Line: self.line,
            Rectangle: self.rectangle,
            Polygon: self.polygon,
            Circle: self.circle,
            Grid: self.grid,
            Photo: self.photo,
            Text: self.text,
        }

    def draw(self, mark: Mark) -> None:
        self.ways[type(mark)](mark)

    def line(self, mark: Line) -> None:
        width = max(1, round(mark.width * self.times))
        for piece in dashes(mark.points) if mark.dashed else [mark.points]:
            self.pen.line(self.pixels(piece), _rgba(mark.colour), width, joint="curve")

    def rectangle(self, mark: Rectangle) -> None:
        left, top, right, bottom = self.box(mark)
        if left < right and top < bottom:  # the last row and column are drawn, too
            box = [left, top, right - 1, bottom - 1]
            self.pen.rectangle(box, _rgba(mark.colour, mark.opacity))

    def polygon(self, mark: Polygon) -> None:
        self.pen.polygon(self.pixels(mark.points), _rgba(mark.colour, mark.opacity))

    def circle(self, mark: Circle) -> None:
        box = [
            (mark.x - mark.radius, mark.y - mark.radius),
            (mark.x + mark.radius, mark.y + mark.radius),
        ]
        self.pen.ellipse(self.pixels(box), _rgba(mark.colour))

    def grid(self, mark: Grid) -> None:
        levels = bytes(round(255 * share) for row in mark.shares for share in row)
        stencil = Image.frombytes("L", (len(mark.shares[0]), len(mark.shares)), levels)
        left, top, right, bottom = self.box(mark)
        if left < right and top < bottom:
            size = right - left, bottom - top
            mask = stencil.resize(size, Image.Resampling.NEAREST)
            self.image.paste(_rgba(mark.colour)[:3], (left, top), mask)

    def photo(self, mark: Photo) -> None:
        left, top, right, bottom = self.box(mark)
        if left < right and top < bottom:
            image = Image.open(io.BytesIO(mark.png)).convert("RGB")
            size = right - left, bottom - top
            self.image.paste(image.resize(size, Image.Resampling.BICUBIC), (left, top))

    def text(self, mark: Text) -> None:
        font = _font(mark.bold, max(1, round(mark.size * self.times)))
        side = {"start": "l", "middle": "m", "end": "r"}[mark.anchor] + "s"
        x, y, colour = mark.x * self.times, mark.y * self.times, _rgba(mark.colour)
        if not mark.turn:
            self.pen.text((x, y), mark.words, colour, font, side)
            return
        left, top, right, bottom = font.getbbox(mark.words, anchor=side)
        stencil = Image.new("L", (math.ceil(right - left) + 2, math.ceil(bottom - top) + 2))
        at = (1 - left, 1 - top)  # of the anchor, on the stencil
        ImageDraw.Draw(stencil).text(at, mark.words, 255, font, side)
        turned = stencil.rotate(mark.turn, Image.Resampling.BICUBIC, expand=True)
        angle = math.radians(mark.turn)  # the middle stays, the anchor turns about it
        dx, dy = at[0] - stencil.width / 2, at[1] - stencil.height / 2
        across = dx * math.cos(angle) + dy * math.sin(angle) + turned.width / 2
        down = dy * math.cos(angle) - dx * math.sin(angle) + turned.height / 2
        self.image.paste(colour[:3], (round(x - across), round(y - down)), turned)

    def box(self, mark: Rectangle | Grid | Photo) -> tuple[int, int, int, int]:
        """Say between which pixels a mark lies: left, top, right, bottom."""
        left, right = round(mark.x * self.times), round((mark.x + mark.width) * self.times)
        top, bottom = round(mark.y * self.times), round((mark.y + mark.height) * self.times)
        return left, top, right, bottom

    def pixels(self, points: Sequence[Point]) -> list[Point]:
        """Say which pixels points are on; Pillow counts from the middle of the first one."""
        return [(x * self.times - 0.5, y * self.times - 0.5) for x, y in points]


def dashes(points: Sequence[Point]) -> list[list[Point]]:
    """Cut a line into its dashes.

    >>> dashes([(0, 0), (10, 0)])
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


def _rgba(colour: str, opacity: float = 1.0) -> tuple[int, int, int, int]:
    code = _LIGHT.get(colour, colour)
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16), round(255 * opacity)


@cache
def _font(bold: bool, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Find a font of the system; where there is none, Pillow brings one."""
    for name in (*_FONTS[bold], *_FONTS[False]):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)
