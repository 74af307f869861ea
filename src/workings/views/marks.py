"""What a picture is made of. Lengths are in pixels, from the top left corner.

A colour is a name of `colours.theme` (`ink`, `c1`, `p8`), which follows the reader's theme, or
`#rrggbb`, which does not.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Point: TypeAlias = tuple[float, float]
Anchor: TypeAlias = Literal["start", "middle", "end"]

DASH = (5.0, 3.5)  # on, off


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: tuple[Point, ...]
    colour: str
    width: float
    dashed: bool


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    opacity: float


@dataclass(frozen=True, slots=True)
class Polygon:
    """A filled polygon."""

    points: tuple[Point, ...]
    colour: str
    opacity: float


@dataclass(frozen=True, slots=True)
class Circle:
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells side by side, row by row, each one so far opaque: from 0 to 1."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    shares: tuple[tuple[float, ...], ...]
    notes: tuple[tuple[str, ...], ...]  # what is told of each cell, or nothing at all


@dataclass(frozen=True, slots=True)
class Photo:
    """An image, stretched over a box."""

    x: float
    y: float
    width: float
    height: float
    png: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `x` and `y` are where its baseline starts, has its middle or ends."""

    x: float
    y: float
    words: str
    colour: str
    size: float
    anchor: Anchor
    turn: float  # degrees, anticlockwise: at 90 it is read from below
    bold: bool


Mark: TypeAlias = Line | Rectangle | Polygon | Circle | Grid | Photo | Text
