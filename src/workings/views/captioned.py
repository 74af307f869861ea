"""A picture, its caption, and where the model looked for each word: plain data, and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workings.errors import UserError
from workings.views.marks import Point
from workings.views.measure import shortened, wrapped
from workings.views.picture import Picture
from workings.views.pixels import png_rgb
from workings.views.plain import one_line
from workings.views.scaling import fitting, reduced, smoothed

FINEST = 384  # pixels of a picture's longer side that are shown
DIMMED = 0.8  # how much of the light is taken from where nobody looked
FRAME = (("#000000", 3.0), ("#ffffff", 1.5))  # seen on every picture: colours and widths
_EDGE, _GAP = 16, 14
_TITLE, _WORD, _NOTE = 16, 13, 11  # sizes of text
_LARGE, _TILE = 320, 150  # pixels of the longer side
_ACROSS = 6  # tiles


@dataclass(frozen=True, eq=False)
class Captioned:
    """A picture and the words that a model wrote about it."""

    picture: NDArray[np.uint8]  # [height, width, 3]
    words: Sequence[str]
    weights: NDArray[np.floating] | None  # [words, rows, columns], a word's sum to one
    log_probability: float  # of the whole caption, natural
    name: str

    def __post_init__(self) -> None:
        shape = np.shape(self.picture)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or self.picture.dtype != np.uint8:
            raise UserError(f"expected a picture of bytes [height, width, 3], got {list(shape)}")
        if self.weights is None:
            return
        shape = np.shape(self.weights)
        if len(shape) != 3 or len(self.words) != shape[0] or 0 in shape[1:]:
            count = len(self.words)
            raise UserError(f"expected weights [{count} words, rows, columns], got {list(shape)}")
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise UserError("expected weights of zero or more")

    @property
    def caption(self) -> str:
        """The words as a line of text."""
        return one_line(" ".join(self.words)) or "(no words)"

    def looks(self) -> "list[Look]":
        """Where the model looked, a look a word; none where that is not known."""
        if self.weights is None:
            return []
        return [Look(one_line(w), g) for w, g in zip(self.words, self.weights, strict=True)]

    def to_table(self) -> dict[str, Any]:
        """Take it apart into what JSON can hold, without the picture."""
        return {
            "name": self.name,
            "words": list(self.words),
            "log_probability": self.log_probability,
            "weights": None if self.weights is None else self.weights.tolist(),
        }

    def to_text(self, *, width: int | None = None, color: bool = False) -> str:
        """Draw it for a terminal."""
        from workings.views import captioned_text

        return captioned_text.text(self, width=width, color=color)

    def to_html(self) -> str:
        """Write it as one HTML file that needs nothing else."""
        from workings.views import captioned_html

        return captioned_html.page(self)

    def to_picture(self) -> Picture:
        """Draw it, to be saved as SVG or PNG."""
        return picture(self)

    def _repr_html_(self) -> str:
        from workings.views import captioned_html

        return captioned_html.fragment(self)


@dataclass(frozen=True, eq=False)
class Look:
    """A word, and how much the model looked at each part of the picture for it."""

    word: str  # printable
    grid: NDArray[np.floating]

    @property
    def largest(self) -> float:
        return float(self.grid.max())

    @property
    def cell(self) -> tuple[int, int]:
        """Row and column of the largest weight, from 0."""
        row, column = np.unravel_index(int(self.grid.argmax()), self.grid.shape)
        return int(row), int(column)

    @property
    def where(self) -> str:
        """Say where the largest weight lies.

        >>> Look("sky", np.array([[0.9, 0.0], [0.1, 0.0]])).where
        'top left'
        >>> Look("the", np.array([[0.3, 0.2], [0.3, 0.2]])).where
        'all over'
        """
        if not self.somewhere:
            return "all over"
        names = (("top", "", "bottom"), ("left", "", "right"))
        sides = (
            some[int(3 * (place + 0.5) / count)]
            for some, place, count in zip(names, self.cell, self.grid.shape, strict=True)
        )
        return " ".join(filter(None, sides)) or "middle"

    @property
    def frame(self) -> tuple[float, float, float, float] | None:
        """Where the largest weight's cell lies, if it is a place: x, y, width and height of 1."""
        tall, wide = self.grid.shape
        row, column = self.cell
        return (column / wide, row / tall, 1 / wide, 1 / tall) if self.somewhere else None

    @property
    def somewhere(self) -> bool:
        """Whether the largest weight stands out."""
        return self.largest >= 1.5 * float(self.grid.mean())

    @property
    def parts(self) -> int:
        """How many cells it takes, the largest first, to have half of the weight."""
        falling = np.sort(self.grid, axis=None)[::-1]
        return int((falling.cumsum() < falling.sum() / 2).sum()) + 1

    @property
    def note(self) -> str:
        """Say how much it was looked at, and where."""
        return f"{self.largest:.2f} {self.where}"

    def levels(self) -> NDArray[np.float64]:
        """The light of each pixel from 0 to 1, smooth; full where the weight is the largest."""
        return smoothed(self.grid / (self.largest or 1.0))

    def shadow(self) -> list[list[float]]:
        """How dark each pixel is made, from 0 to 1."""
        dark: list[list[float]] = (DIMMED * (1 - self.levels())).tolist()
        return dark


def legend(*, light: bool = True, framed: bool = True) -> str:
    """Say how to read a tile, of light or of shades."""
    frame = "; the frame is where the largest is" if framed else ""
    how = "brighter" if light else "fuller"
    return f"The {how}, the more it was looked at for the word, up to its largest weight{frame}."


def probability_note(told: Captioned) -> str:
    """Say how likely the model thinks the caption is.

    >>> told = Captioned(np.zeros((1, 1, 3), np.uint8), ["a", "dog"], None, -3.0, "dog.png")
    >>> probability_note(told)
    'dog.png: log-probability −3.00, −1.50 a word'
    """
    each = told.log_probability / max(len(told.words), 1)
    said = f"log-probability {told.log_probability:z.2f}, {each:z.2f} a word".replace("-", "−")
    return f"{one_line(told.name)}: {said.replace('log−', 'log-')}"


def picture(told: Captioned) -> Picture:
    """Draw the picture, and below it one a word with light where the model looked."""
    looks = told.looks()
    photo = png_rgb(reduced(told.picture, FINEST))
    tall, wide = fitting(told.picture, _LARGE)
    size = fitting(told.picture, _TILE)
    width = max(min(len(looks), _ACROSS) * (_TILE + _GAP) - _GAP, _LARGE) + 2 * _EDGE
    lines = wrapped(told.caption, width - 2 * _EDGE, _TITLE, bold=True)
    top = _EDGE + len(lines) * (_TITLE + 6) + _NOTE + 12
    below, step = top + tall + _NOTE + 28, size[0] + _WORD + _NOTE + 28
    rows = -(-len(looks) // _ACROSS)
    drawn = Picture(width, below + rows * step if looks else top + tall + _EDGE, told.caption)
    for k, line in enumerate(lines, 1):
        drawn.text(_EDGE, _EDGE + k * (_TITLE + 6) - 8, line, size=_TITLE, bold=True)
    notes = {top - 14: probability_note(told), below - 10: legend() if looks else ""}
    for y, note in notes.items():
        drawn.text(_EDGE, y, shortened(note, width - 2 * _EDGE, _NOTE), "soft", _NOTE)
    drawn.photo((_EDGE, top, wide, tall), photo)
    for k, look in enumerate(looks):
        row, column = divmod(k, _ACROSS)
        _draw_tile(drawn, look, photo, (_EDGE + column * (_TILE + _GAP), below + row * step), size)
    return drawn


def _draw_tile(drawn: Picture, look: Look, photo: bytes, place: Point, size: Point) -> None:
    (x, y), (tall, wide) = place, size
    drawn.photo((x, y, wide, tall), photo)
    drawn.grid((x, y, wide, tall), look.shadow(), "#000000")
    if look.frame:
        left, top, across, down = look.frame
        xs, ys = (
            (x + left * wide, x + (left + across) * wide),
            (y + top * tall, y + (top + down) * tall),
        )
        corners = [(xs[i], ys[j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]
        for colour, width in FRAME:
            drawn.line(corners, colour, width)
    under = y + tall + _WORD + 4
    drawn.text(x, under, shortened(look.word, _TILE, _WORD), size=_WORD)
    drawn.text(x, under + _NOTE + 5, look.note, "soft", _NOTE)
