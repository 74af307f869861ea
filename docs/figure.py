"""An SVG figure made of boxes, arrows, operators and text, in the reader's light or dark theme.

Colors are named by what they stand for: input, state, output, attention, gradient, feed_forward,
and query, key and value, which have the colors that the solver gives them.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from workings.render.colors import ROLE_COLORS, theme_colors

Point = tuple[float, float]

_COLORS = {
    "ink": "ink", "soft": "soft", "line": "line", "paper": "paper", "input": "c1", "output": "c2",
    "state": "c3", "attention": "c4", "gradient": "c5", "feed_forward": "c6",
}  # fmt: skip
_MATH = re.compile(r"_(?:\{([^}]*)\}|(\w))")
_FONTS = {
    "sans": "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif",
    "serif": "Charter, Cambria, Georgia, DejaVu Serif, serif",
}


@dataclass(frozen=True)
class Box:
    """A rectangle in a figure, by its center."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> Point:
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def left(self) -> Point:
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> Point:
        return self.x + self.width / 2, self.y


class Figure:
    """An SVG figure that follows the reader's light or dark theme."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.elements: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        label: str = "",
        color: str = "soft",
        *,
        math: bool = False,
        size: float = 13,
        opacity: float = 0.14,
        dashed: bool = False,
    ) -> Box:
        """Add a rounded rectangle around (x, y) with a label of one or more lines."""
        left, top = x - width / 2, y - height / 2
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.elements.append(
            f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="6" '
            f'class="f-{color} s-{color}" fill-opacity="{opacity:g}" stroke-width="1.4"{dash}/>'
        )
        lines = label.split("\n") if label else []
        for k, line in enumerate(lines):
            offset = (k - (len(lines) - 1) / 2) * (size + 4)
            self.text(x, y + offset + size * 0.34, line, size=size, math=math)
        return Box(x, y, width, height)

    def operator(self, x: float, y: float, symbol: str, radius: float = 11) -> Box:
        """Add an elementwise operation: a circle with a symbol."""
        self.elements.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="f-paper s-ink" '
            'stroke-width="1.4"/>'
        )
        arm = radius * 0.5
        if symbol == "+":
            self.line([(x - arm, y), (x + arm, y)], "ink")
            self.line([(x, y - arm), (x, y + arm)], "ink")
        elif symbol == "×":
            arm *= 0.8
            self.line([(x - arm, y - arm), (x + arm, y + arm)], "ink")
            self.line([(x - arm, y + arm), (x + arm, y - arm)], "ink")
        else:
            self.text(x, y + 3.5, symbol, size=10)
        return Box(x, y, 2 * radius, 2 * radius)

    def line(
        self, points: Sequence[Point], color: str = "soft", width: float = 1.4, dash: str = ""
    ) -> None:
        """Add a line through points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.elements.append(
            f'<polyline points="{path}" class="s-{color}" fill="none" '
            f'stroke-width="{width:g}"{dashed}/>'
        )

    def arrow(
        self, points: Sequence[Point], color: str = "soft", width: float = 1.4, dash: str = ""
    ) -> None:
        """Add a line through points that ends in an arrowhead."""
        (x0, y0), (x, y) = points[-2], points[-1]
        length = math.hypot(x - x0, y - y0)
        ux, uy = (x - x0) / length, (y - y0) / length
        head = 5.5 + 1.2 * width
        back = x - ux * head, y - uy * head
        self.line([*points[:-1], back], color, width, dash)
        half = head * 0.42
        corners = (
            (x, y),
            (back[0] - uy * half, back[1] + ux * half),
            (
                back[0] + uy * half,
                back[1] - ux * half,
            ),
        )
        path = " ".join(f"{a:.2f},{b:.2f}" for a, b in corners)
        self.elements.append(f'<polygon points="{path}" class="f-{color}"/>')

    def text(
        self,
        x: float,
        y: float,
        label: str,
        color: str = "ink",
        *,
        size: float = 13,
        anchor: str = "middle",
        math: bool = False,
        bold: bool = False,
    ) -> None:
        """Add a line of text; with math=True in italics with subscripts: `h_t`, `h_{t-1}`."""
        style = ' font-style="italic" class="serif f-' if math else ' class="f-'
        weight = ' font-weight="600"' if bold else ""
        content = _subscripts(label, size) if math else escape(label)
        self.elements.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"'
            f'{style}{color}"{weight}>{content}</text>'
        )

    def cell(
        self, x: float, y: float, width: float, height: float, color: str, opacity: float
    ) -> None:
        """Add one cell of a matrix, by its top left corner."""
        self.elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
            f'class="f-{color} s-line" fill-opacity="{opacity:.3g}" stroke-width="1"/>'
        )

    def svg(self) -> str:
        """Return the figure as an SVG document."""
        rules = "\n".join(f".f-{n}{{fill:var(--{n})}}.s-{n}{{stroke:var(--{n})}}" for n in _names())
        return f"""<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{self.width:g}" \
height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}" \
font-family="{_FONTS["sans"]}" stroke-linejoin="round" stroke-linecap="round">
<title>{escape(self.title)}</title>
<style>
:root{{{_variables("light")}}}
@media (prefers-color-scheme: dark){{:root{{{_variables("dark")}}}}}
{rules}
.serif{{font-family:{_FONTS["serif"]}}}
</style>
<rect width="{self.width:g}" height="{self.height:g}" class="f-paper"/>
{chr(10).join(self.elements)}
</svg>
"""


def _names() -> list[str]:
    return [*_COLORS, "query", "key", "value"]


def _variables(name: str) -> str:
    colors = {color: theme_colors(name)[source] for color, source in _COLORS.items()} | ROLE_COLORS[
        name
    ]
    return ";".join(f"--{color}:{value}" for color, value in colors.items())


def _subscripts(label: str, size: float) -> str:
    """Return SVG text in which `_x` and `_{xy}` are lowered; every browser supports `dy`."""
    parts, end = [], 0
    for match in _MATH.finditer(label):
        parts.append(escape(label[end : match.start()]))
        below = escape(match[1] or match[2])
        drop = size * 0.24
        parts.append(f'<tspan dy="{drop:.3g}" font-size="{size * 0.72:.3g}">{below}</tspan>')
        end = match.end()
        if end < len(label):  # the next character goes back to the baseline
            following = _MATH.match(label, end)
            stop = following.start() if following else end + 1
            parts.append(f'<tspan dy="{-drop:.3g}">{escape(label[end:stop])}</tspan>')
            end = stop
    parts.append(escape(label[end:]))
    return "".join(parts)
