"""How a picture is drawn: its width, the size of its text and its theme.

Layouts are computed for labels of `LABEL_SIZE`. A picture with larger text is laid out for a
smaller width and then scaled, so that lines and margins grow with the text and nothing is cut off.
"""

import math
import re
from dataclasses import dataclass

from workings.errors import UserError, did_you_mean, safe_repr
from workings.render.colors import THEMES

LABEL_SIZE = 12.0  # font size of labels in a layout
PRINT_RESOLUTION = 300  # pixels per inch of a PNG whose width is a length on paper
MIN_WIDTH, MAX_WIDTH = 50.0, 10_000.0  # pixels
MIN_FONT_SIZE, MAX_FONT_SIZE = 4.0, 144.0  # pixels
_CSS_RESOLUTION = 96.0  # pixels per inch
_PIXELS_BY_UNIT = {
    "px": 1.0,
    "pt": _CSS_RESOLUTION / 72,
    "mm": _CSS_RESOLUTION / 25.4,
    "cm": _CSS_RESOLUTION / 2.54,
    "in": _CSS_RESOLUTION,
}
_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class PictureStyle:
    """Width and font size in pixels and the theme; None: what suits the picture or its reader.

    >>> PictureStyle.parse(width="6in", font_size="9pt", theme="print")
    PictureStyle(width=576.0, font_size=12.0, theme='print', pixel_ratio=3.125)
    """

    width: float | None = None
    font_size: float | None = None
    theme: str | None = None
    pixel_ratio: float | None = None  # of a PNG: its pixels per pixel of the picture

    @classmethod
    def parse(
        cls,
        width: str | float | None = None,
        font_size: str | float | None = None,
        theme: str | None = None,
    ) -> "PictureStyle":
        """Read lengths such as `800`, `"12cm"` or `"9pt"`; numbers are pixels.

        A PNG has one pixel per pixel of its width, and 300 per inch of a width in cm, mm, in or pt.
        """
        if theme is not None and theme not in THEMES:
            raise UserError(f"theme {safe_repr(theme)}: {did_you_mean(theme, THEMES)}")
        pixels, unit = _parse_length(width, "width", MIN_WIDTH, MAX_WIDTH)
        size, _ = _parse_length(font_size, "font size", MIN_FONT_SIZE, MAX_FONT_SIZE)
        ratio = 1.0 if unit == "px" else PRINT_RESOLUTION / _CSS_RESOLUTION
        return cls(pixels, size, theme, None if pixels is None else ratio)


def _parse_length(
    length: str | float | None, name: str, low: float, high: float
) -> tuple[float | None, str]:
    """Return a length in pixels, and the unit in which it was given."""
    if length is None:
        return None, "px"
    match = _LENGTH.fullmatch(str(length))
    unit = (match[2].lower() or "px") if match else ""
    if match is None or unit not in _PIXELS_BY_UNIT:
        units = ", ".join(_PIXELS_BY_UNIT)
        raise UserError(f"{name} {safe_repr(length)}: expected a number of pixels, or with {units}")
    pixels = float(match[1]) * _PIXELS_BY_UNIT[unit]
    if not (math.isfinite(pixels) and low <= pixels <= high):
        raise UserError(f"{name} {safe_repr(length)}: expected {low:g} to {high:,.0f} px")
    return pixels, unit
