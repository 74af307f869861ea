"""Where the names of lines stand: beside their ends, none on another."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workings.views.marks import Point


@dataclass(frozen=True)
class Box:
    """A rectangle of a picture: the plot's, or one that text takes up."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def holds(self, other: "Box") -> bool:
        """Say whether another box lies inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom

    def meets(self, other: "Box") -> bool:
        """Say whether two boxes have something in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def crossed(self, start: Point, end: Point) -> bool:
        """Say whether a piece of a line enters the box.

        >>> box = Box(0, 0, 2, 2)
        >>> box.crossed((-1, 1), (3, 1)), box.crossed((-1, 2), (1, 4))
        (True, False)
        """
        first, last = 0.0, 1.0  # the share of the piece that is inside, so far
        for at, to, low, high in (
            (start[0], end[0], self.left, self.right),
            (start[1], end[1], self.top, self.bottom),
        ):
            if at == to:
                if not low < at < high:
                    return False
                continue
            one, other = (low - at) / (to - at), (high - at) / (to - at)
            first, last = max(first, min(one, other)), min(last, max(one, other))
        return first < last or (start == end and first == 0)


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move places apart, as little as can be, to lie `gap` or more from each other.

    They keep their order and stay between `low` and `high`, where there is room for all.

    >>> apart([10, 12, 50], 10, 0, 100)
    [6.0, 16.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    blocks: list[tuple[float, int]] = []  # mean and size: what pushes each other moves as one
    for rank, k in enumerate(order):
        mean, size = float(wanted[k] - rank * gap), 1
        while blocks and blocks[-1][0] >= mean:
            other, others = blocks.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        blocks.append((mean, size))
    highest = high - (len(wanted) - 1) * gap
    means = [max(low, min(mean, highest)) for mean, size in blocks for _ in range(size)]
    places = [0.0] * len(wanted)
    for rank, k in enumerate(order):
        places[k] = means[rank] + rank * gap
    return places


def beside(
    end: Point, size: Point, inside: Box, lines: Sequence[Sequence[Point]], taken: Sequence[Box]
) -> Box | None:
    """Find room for a name to the right of a line's end, on no line and on no other name."""
    width, height = size
    left = end[0] + 7
    for shift in (0.0, -0.6, 0.6, -1.1, 1.1):
        top = end[1] + (shift - 0.5) * height
        box = Box(left, top, left + width, top + height)
        free = inside.holds(box) and not any(map(box.meets, taken))
        if free and not any(box.crossed(*piece) for line in lines for piece in pairwise(line)):
            return box
    return None
