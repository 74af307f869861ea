"""Shapes as a PDF of one page, with text as text: the characters used of its fonts are embedded."""

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from fpdf import FPDF

from workings.errors import UserError
from workings.render.fonts import FontFile, find_text_font, split_by_font
from workings.render.images import encode_png_alpha
from workings.render.svg_writer import (
    DASH,
    MAX_VECTOR_CELLS,
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

_POINTS_PER_PIXEL = 0.75
_OVERLAP = 0.3  # points by which cells cover the seams that viewers would show


def draw_pdf(
    shapes: Sequence[PlainShape], size: tuple[float, float], title: str, paper: str, scale: float
) -> bytes:
    """Return shapes in plain colors as PDF; `scale` pixels of paper per pixel of the picture."""
    if find_text_font(bold=False) is None:
        raise UserError("a PDF needs a font: install DejaVu Sans, Liberation Sans or Arial")
    page = _Page(size, title, paper, scale * _POINTS_PER_PIXEL)
    page.has_images = any(isinstance(shape, RasterImage) for shape in shapes)
    for shape in shapes:
        page.draw(shape)
    return bytes(page.pdf.output())


class _Page:
    """A page to draw on, `scale` points per pixel of the picture."""

    def __init__(self, size: tuple[float, float], title: str, paper: str, scale: float) -> None:
        width, height = (side * scale for side in size)
        self.pdf = FPDF(unit="pt", format=(width, height))
        self.pdf.set_margin(0)
        self.pdf.set_auto_page_break(auto=False)
        self.pdf.add_page()
        self.pdf.set_title(title)
        self.pdf.set_creator("workings")
        self.paper, self.scale, self.has_images = paper, scale, False
        self.font_names: dict[str, str] = {}
        self.fill(paper)
        self.pdf.rect(0, 0, width, height, style="F")
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

    def fill(self, color: str, opacity: float = 1.0) -> None:
        """Set the color of areas; a transparent one is mixed with the paper."""
        self.pdf.set_fill_color(*_mix(color, self.paper, opacity))

    def draw_line(self, shape: Polyline) -> None:
        self.pdf.set_draw_color(*_rgb(shape.color))
        self.pdf.set_line_width(shape.width * self.scale)
        if shape.dashed:
            self.pdf.set_dash_pattern(*(length * self.scale for length in DASH))
        self.pdf.polyline(self.to_points(shape.points))
        if shape.dashed:
            self.pdf.set_dash_pattern()

    def draw_rectangle(self, shape: Rectangle) -> None:
        self.fill(shape.color, shape.opacity)
        self.pdf.rect(*self.box(shape), style="F")

    def draw_polygon(self, shape: Polygon) -> None:
        self.fill(shape.color, shape.opacity)
        self.pdf.polygon(self.to_points(shape.points), style="F")

    def draw_circle(self, shape: Circle) -> None:
        self.fill(shape.color)
        radius = shape.radius * self.scale
        self.pdf.circle(shape.x * self.scale, shape.y * self.scale, radius, style="F")

    def draw_grid(self, shape: Grid) -> None:
        rows, columns = len(shape.opacities), len(shape.opacities[0])
        x, y, width, height = self.box(shape)
        if self.has_images or rows * columns > MAX_VECTOR_CELLS:
            image = io.BytesIO(encode_png_alpha(shape.opacities, shape.color))
            self.pdf.image(image, x, y, width, height)
            return
        cell_width, cell_height = width / columns, height / rows
        for opacity, cells in _cells_by_opacity(shape).items():
            self.fill(shape.color, opacity)
            for i, j in cells:
                overlaps = _OVERLAP * (j + 1 < columns), _OVERLAP * (i + 1 < rows)
                corner = x + j * cell_width, y + i * cell_height
                size = cell_width + overlaps[0], cell_height + overlaps[1]
                self.pdf.rect(*corner, *size, style="F")

    def draw_image(self, shape: RasterImage) -> None:
        self.pdf.image(io.BytesIO(shape.png), *self.box(shape))

    def draw_text(self, shape: TextLabel) -> None:
        parts = split_by_font(shape.text, shape.bold)
        size = shape.size * self.scale
        widths = []
        for font, text in parts:
            self.set_font(font, size)
            widths.append(self.pdf.get_string_width(text))
        x, y = shape.x * self.scale, shape.y * self.scale
        start = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[shape.anchor] * sum(widths)
        self.pdf.set_text_color(*_rgb(shape.color))
        with self.pdf.rotation(shape.rotation, x, y):
            for (font, text), width in zip(parts, widths, strict=True):
                self.set_font(font, size)
                self.pdf.text(start, y, text)
                start += width

    def set_font(self, font: FontFile, size: float) -> None:
        """Select a font, which is added to the file if it is new."""
        if font.path not in self.font_names:
            self.font_names[font.path] = name = f"font{len(self.font_names)}"
            self.pdf.add_font(name, fname=font.path)
        self.pdf.set_font(self.font_names[font.path], size=size)

    def box(self, shape: Rectangle | Grid | RasterImage) -> tuple[float, float, float, float]:
        """Return x, y, width and height in points."""
        scale = self.scale
        return shape.x * scale, shape.y * scale, shape.width * scale, shape.height * scale

    def to_points(self, points: Iterable[Point]) -> list[Point]:
        return [(x * self.scale, y * self.scale) for x, y in points]


def _cells_by_opacity(shape: Grid) -> dict[float, list[tuple[int, int]]]:
    """Return row and column of the cells by opacity, the lightest first."""
    cells: dict[float, list[tuple[int, int]]] = defaultdict(list)
    for i, row in enumerate(shape.opacities):
        for j, opacity in enumerate(row):
            cells[round(opacity, 2)].append((i, j))
    cells.pop(0.0, None)
    return dict(sorted(cells.items()))


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _mix(color: str, paper: str, opacity: float) -> tuple[int, ...]:
    pairs = zip(_rgb(color), _rgb(paper), strict=True)
    return tuple(round(opacity * a + (1 - opacity) * b) for a, b in pairs)
