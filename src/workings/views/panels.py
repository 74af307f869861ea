"""Pictures side by side, as one."""

from collections.abc import Sequence
from dataclasses import replace

from workings.views.marks import Line, Mark, Point, Polygon
from workings.views.measure import shortened
from workings.views.picture import Picture

_EDGE, _GAP = 14, 10
_TITLE = 18  # size of text


def side_by_side(pictures: Sequence[Picture], title: str) -> Picture:
    """Put pictures next to each other, their tops in line, under one title.

    >>> half = Picture(100, 80, "half")
    >>> half.circle(50, 40, 5, "c1")
    >>> whole = side_by_side([half, half], "Two halves")
    >>> whole.width, whole.height, whole.title
    (210, 114, 'Two halves')
    >>> [(mark.x, mark.y) for mark in whole.marks[1:]]
    [(50.0, 74), (160.0, 74)]
    """
    width = sum(one.width for one in pictures) + _GAP * (len(pictures) - 1)
    top = _EDGE + _TITLE + 2
    whole = Picture(width, top + max(one.height for one in pictures), title)
    words = shortened(whole.title, width - 2 * _EDGE, _TITLE, bold=True)
    whole.text(_EDGE, _EDGE + _TITLE - 3, words, size=_TITLE, bold=True)
    left = 0.0
    for one in pictures:
        whole.marks += [_moved(mark, left, top) for mark in one.marks]
        left += one.width + _GAP
    return whole


def _moved(mark: Mark, right: float, down: float) -> Mark:
    def at(point: Point) -> Point:
        return point[0] + right, point[1] + down

    if isinstance(mark, Line | Polygon):
        return replace(mark, points=tuple(map(at, mark.points)))
    x, y = at((mark.x, mark.y))
    return replace(mark, x=x, y=y)
