"""A line chart: thin axes, a light grid, and the lines' names at their ends where there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from workings.errors import UserError
from workings.views.axis import Axis, axis, drawable
from workings.views.labels import Box, apart, beside
from workings.views.marks import Point
from workings.views.measure import shortened, text_width, wrapped
from workings.views.picture import Picture
from workings.views.plain import one_line

COLOURS = 8
_TITLE, _NAME, _SMALL = 16, 13, 12  # sizes of text
_EDGE = 14  # free on every side
_ROW = 17  # from name to name
_FEW, _MANY = 12, 300  # points; where no line has more, each gets a dot; so many, a thinner line
_LATE = 0.92  # of the axis; a line that ends later has its name beside the plot
_WIDEST = 0.3  # of the picture, for names beside the plot
_HAIR = 16  # between the plot and the names beside it
_LOW = 280  # pixels; so low a chart has its title on one line
_SAMPLE = 22  # of a line, in the legend


@dataclass(frozen=True)
class Series:
    """A line of a chart. Lines that belong together share a `colour`, a number from 0 to 7."""

    name: str
    points: Sequence[Point]
    dashed: bool = False
    colour: int | None = None


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    percent: bool = False,
    width: int = 640,
    height: int = 380,
    log_x: bool = False,
    log_y: bool = False,
) -> Picture:
    """Draw lines through points. What has no place, NaN or the logarithm of 0, leaves a gap.

    With `percent`, 0.5 is written as 50 %.

    >>> test = Series("test", [(1, 0.9), (2, 0.5), (3, 0.4)])
    >>> chart = line_chart([test], title="Loss", x_label="epoch", y_label="nats")
    >>> [mark.words for mark in chart.marks if hasattr(mark, "words")]
    ['Loss', 'nats', '0.4', '0.5', '0.6', '0.7', '0.8', '0.9', '1', '2', '3', 'epoch', 'test']
    """
    if width < 240 or height < 200:
        raise UserError(f"expected a chart of at least 240 × 200 pixels, got {width} × {height}")
    lines = [
        _Line(one_line(one.name), colour, one.dashed, _runs(one.points, log_x, log_y))
        for one, colour in zip(series, _colours(series), strict=True)
    ]
    picture = Picture(width, height, title)
    _Chart(picture, lines, log_x, log_y, percent).draw(one_line(x_label), one_line(y_label))
    return picture


@dataclass(frozen=True)
class _Line:
    """A line of the chart, in runs without gaps."""

    name: str
    colour: str
    dashed: bool
    runs: list[list[Point]]

    @property
    def end(self) -> Point:
        return self.runs[-1][-1]


@dataclass(frozen=True)
class _Plot:
    """The place of the lines, and its axes."""

    box: Box
    x: Axis
    y: Axis

    def at(self, point: Point) -> Point:
        """Say where in the picture a point lies."""
        x, y = self.x.share(point[0]), self.y.share(point[1])
        return self.box.left + self.box.width * x, self.box.bottom - self.box.height * y


@dataclass(frozen=True)
class _Chart:
    picture: Picture
    lines: list[_Line]
    log_x: bool
    log_y: bool
    percent: bool

    def draw(self, x_label: str, y_label: str) -> None:
        """Draw everything. Names go into a legend if they find no room at the ends of lines."""
        picture, top = self.picture, self.heading()
        if not any(line.runs for line in self.lines):
            middle = picture.width / 2, picture.height / 2
            picture.text(*middle, "no points to draw", "soft", _NAME, "middle")
            return
        head = _SMALL + 14 if y_label else 6
        foot = _EDGE + 18 + (_SMALL + 8 if x_label else 0)
        plot = self.plot(top + head, foot, self.beside_room())
        names = self.names(plot)
        if names is None:
            top = self.legend(top)
            plot, names = self.plot(top + head, foot, 0), []
        room = picture.width - 2 * _EDGE
        picture.text(_EDGE, top + _SMALL, shortened(y_label, room, _SMALL), "soft", _SMALL)
        self.axes(plot)
        middle = (plot.box.left + plot.box.right) / 2, picture.height - _EDGE
        picture.text(*middle, shortened(x_label, room, _SMALL), "soft", _SMALL, "middle")
        for line in self.lines:
            self.line(line, plot)
        for line, box in names:
            self.name(line, box, plot)

    def heading(self) -> float:
        """Write the title, on two lines if it is long; say where the next thing may begin."""
        room, y = self.picture.width - 2 * _EDGE, float(_EDGE)
        title = self.picture.title
        lines = wrapped(title, room, _TITLE, bold=True)
        if self.picture.height < _LOW:
            lines = [shortened(title, room, _TITLE, bold=True)]
        for words in lines if title else []:
            self.picture.text(_EDGE, y + _TITLE - 3, words, size=_TITLE, bold=True)
            y += _TITLE + 4
        return y + (4 if title else 0)

    def plot(self, top: float, foot: float, beside: float) -> _Plot:
        """Lay the plot out, with so many pixels below it and to its right."""
        points = [point for line in self.lines for run in line.runs for point in run]
        xs, ys = zip(*points, strict=True)
        bottom = max(self.picture.height - foot, top + 40)
        most = int((bottom - top) / 36) + 1
        y = axis(ys, most, log=self.log_y, percent=self.percent, cover=True)
        left = _EDGE + max(text_width(label, _SMALL) for label in y.labels) + 8
        rough = axis(xs, 6, log=self.log_x)
        half = max((text_width(label, _SMALL) / 2 + 4 for label in rough.labels), default=0)
        right = self.picture.width - max(_EDGE + beside, half, _EDGE + 8)
        box = Box(max(left, half), top, right, bottom)
        return _Plot(box, _spaced(xs, box.width, self.log_x), y)

    def beside_room(self) -> float:
        """How wide the widest name is that has to stand beside the plot."""
        xs = [x for line in self.lines for run in line.runs for x, _ in run]
        rough = axis(xs, 6, log=self.log_x)
        late = [line for line in self.lines if line.runs and rough.share(line.end[0]) > _LATE]
        return max((text_width(line.name, _NAME) + _HAIR for line in late if line.name), default=0)

    def names(self, plot: _Plot) -> list[tuple[_Line, Box]] | None:
        """Find room for the names at the ends of their lines; None if there is not enough."""
        named = [line for line in self.lines if line.name]
        if not all(line.runs for line in named):
            return None
        late = [line for line in named if plot.x.share(line.end[0]) > _LATE]
        early = [line for line in named if plot.x.share(line.end[0]) <= _LATE]
        right, half = plot.box.right, _ROW / 2
        left = right + _HAIR
        fits = right >= self.picture.width * (1 - _WIDEST) - _EDGE
        if not fits or len(late) * _ROW > plot.box.height + _ROW:
            return None
        wanted = [plot.at(line.end)[1] for line in late]
        found = [
            (line, Box(left, y - half, left + text_width(line.name, _NAME), y + half))
            for line, y in zip(
                late, apart(wanted, _ROW, plot.box.top, plot.box.bottom), strict=True
            )
        ]
        drawn = [[plot.at(point) for point in run] for line in self.lines for run in line.runs]
        inside = Box(plot.box.left, plot.box.top - half, right, plot.box.bottom)
        for line in early:
            size = text_width(line.name, _NAME), float(_ROW)
            box = beside(plot.at(line.end), size, inside, drawn, [box for _, box in found])
            if box is None:
                return None
            found.append((line, box))
        return found

    def legend(self, top: float) -> float:
        """Write the names with a sample of their lines, row by row; say where they end."""
        room = self.picture.width - 2 * _EDGE
        x, y, most = float(_EDGE), top + _ROW / 2, max(1, int(self.picture.height / 4 / _ROW) - 1)
        named = [line for line in self.lines if line.name]
        row = 1
        for k, line in enumerate(named):
            name = line.name if line.runs else f"{line.name} (no points)"
            name = shortened(name, room * (0.9 if len(named) < most else 0.45) - _SAMPLE, _NAME)
            wide = _SAMPLE + 6 + text_width(name, _NAME) + 18
            if x > _EDGE and x + wide > _EDGE + room:
                x, y, row = float(_EDGE), y + _ROW, row + 1
            if row > most:
                self.picture.text(x, y + 4, f"and {len(named) - k} more", "soft", _NAME)
                break
            self.picture.line([(x, y), (x + _SAMPLE, y)], line.colour, 2, line.dashed)
            self.picture.text(x + _SAMPLE + 6, y + 4.5, name, line.colour, _NAME)
            x += wide
        return y + _ROW / 2 + 8

    def axes(self, plot: _Plot) -> None:
        """Draw the grid, the axis below it and the numbers on both."""
        picture, box = self.picture, plot.box
        for tick, label in zip(plot.y.ticks, plot.y.labels, strict=True):
            y = _crisp(plot.at((plot.x.low, tick))[1])
            zero = tick == 0 and plot.y.low < 0
            picture.line([(box.left, y), (box.right, y)], "soft" if zero else "line")
            picture.text(box.left - 8, y + 4, label, "soft", _SMALL, "end")
        base = _crisp(box.bottom)
        picture.line([(box.left, base), (box.right, base)], "ink")
        for tick, label in zip(plot.x.ticks, plot.x.labels, strict=True):
            x = _crisp(plot.at((tick, plot.y.low))[0])
            picture.line([(x, base), (x, base + 5)], "ink")
            picture.text(x, base + 18, label, "soft", _SMALL, "middle")

    def line(self, line: _Line, plot: _Plot) -> None:
        """Draw a line; dots show where its points are if they are few, or stand alone."""
        most = max(sum(map(len, line.runs)) for line in self.lines)
        few, thick = most <= _FEW, 2 if most < _MANY else 1.25
        for run in line.runs:
            placed = [plot.at(point) for point in run]
            self.picture.line(placed, line.colour, thick, line.dashed)
            for x, y in placed if few or len(placed) == 1 else []:
                self.picture.circle(x, y, 3, line.colour)

    def name(self, line: _Line, box: Box, plot: _Plot) -> None:
        """Write a line's name, with a hair to the line's end if it had to move beside the plot."""
        x, y = plot.at(line.end)
        middle = (box.top + box.bottom) / 2
        if box.left > plot.box.right and (box.left - x > 2 * _HAIR or abs(middle - y) > 3):
            self.picture.line([(x + 4, y), (box.left - 3, middle)], line.colour, 0.75)
        self.picture.text(box.left, middle + 4.5, line.name, line.colour, _NAME)


def _colours(series: Sequence[Series]) -> Iterator[str]:
    """Give every series its colour, those that ask for none the next one that is free."""
    asked = {one.colour % COLOURS for one in series if one.colour is not None}
    free = [k for k in range(COLOURS) if k not in asked] or list(range(COLOURS))
    given = 0
    for one in series:
        colour = free[given % len(free)] if one.colour is None else one.colour % COLOURS
        given += one.colour is None
        yield f"c{colour + 1}"


def _runs(points: Sequence[Point], log_x: bool, log_y: bool) -> list[list[Point]]:
    """Cut a line at the points that cannot be drawn."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if drawable(x, log_x) and drawable(y, log_y):
            runs[-1].append((float(x), float(y)))
        else:
            runs.append([])
    return [run for run in runs if run]


def _spaced(xs: Sequence[float], room: float, log: bool) -> Axis:
    """Make the axis below: as many ticks as can be written well apart."""
    for most in range(max(4, int(room / 48)), 0, -1):
        found = axis(xs, most, log=log)
        halves = [text_width(label, _SMALL) / 2 for label in found.labels]
        places = [found.share(tick) * room for tick in found.ticks]
        ends = list(zip(places, halves, strict=True))
        if all(b[0] - b[1] - a[0] - a[1] >= 14 for a, b in pairwise(ends)):
            return found
    return replace(found, ticks=found.ticks[:1], labels=found.labels[:1])


def _crisp(place: float) -> float:
    """Move a hairline to where it covers one row of pixels."""
    return int(place) + 0.5
