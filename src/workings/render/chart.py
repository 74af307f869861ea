"""Where the names of lines stand: beside their ends, none on another."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems.notation import typeset
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels
from workings.render.svg_writer import Point


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

    def contains(self, other: "Box") -> bool:
        """Say whether another box lies inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom

    def overlaps(self, other: "Box") -> bool:
        """Say whether two boxes have something in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def is_crossed_by(self, start: Point, end: Point) -> bool:
        """Say whether a piece of a line enters the box.

        >>> box = Box(0, 0, 2, 2)
        >>> box.is_crossed_by((-1, 1), (3, 1)), box.is_crossed_by((-1, 2), (1, 4))
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


def spread_apart(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move places apart, as little as can be, to lie `gap` or more from each other.

    They keep their order and stay between `low` and `high`, where there is room for all.

    >>> spread_apart([10, 12, 50], 10, 0, 100)
    [6.0, 16.0, 50.0]
    """
    order = sorted(range(len(positions)), key=lambda k: positions[k])
    blocks: list[tuple[float, int]] = []  # mean and size: what pushes each other moves as one
    for rank, k in enumerate(order):
        mean, size = float(positions[k] - rank * gap), 1
        while blocks and blocks[-1][0] >= mean:
            other, others = blocks.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        blocks.append((mean, size))
    highest = high - (len(positions) - 1) * gap
    means = [max(low, min(mean, highest)) for mean, size in blocks for _ in range(size)]
    places = [0.0] * len(positions)
    for rank, k in enumerate(order):
        places[k] = means[rank] + rank * gap
    return places


def place_label(
    end: Point, size: Point, inside: Box, lines: Sequence[Sequence[Point]], occupied: Sequence[Box]
) -> Box | None:
    """Find room for a name to the right of a line's end, on no line and on no other name."""
    width, height = size
    left = end[0] + 7
    for shift in (0.0, -0.6, 0.6, -1.1, 1.1):
        top = end[1] + (shift - 0.5) * height
        box = Box(left, top, left + width, top + height)
        free = inside.contains(box) and not any(map(box.overlaps, occupied))
        if free and not any(
            box.is_crossed_by(*piece) for line in lines for piece in pairwise(line)
        ):
            return box
    return None


_MAX_LINEAR, _MAX_LOG = (
    1e300,
    1e150,
)  # beyond them differences, or ticks on a logarithmic axis, overflow
_RELATIVE_TOLERANCE = 1e-12  # relative; what is nearer is drawn as one number
_MAX_LABEL_LENGTH = 9  # letters; longer numbers are written with a power of ten


@dataclass(frozen=True)
class Axis:
    """A range with ticks in it, upwards, and how they are written."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    is_log: bool = False

    def fraction_along(self, value: float) -> float:
        """Say how far along the axis a value stands: 0 at the low end, 1 at the high one."""
        if self.is_log:
            low = math.log(self.low)
            return (math.log(value) - low) / (math.log(self.high) - low)
        return (value - self.low) / (self.high - self.low)


def is_drawable(value: float, log: bool) -> bool:
    """Say whether a number has a place on an axis; on a logarithmic one, only positive ones have.

    >>> is_drawable(0.0, log=False), is_drawable(0.0, log=True), is_drawable(math.nan, log=False)
    (True, False, False)
    """
    return 1 / _MAX_LOG < value < _MAX_LOG if log else abs(value) < _MAX_LINEAR


def make_axis(
    values: Sequence[float],
    max_ticks: int,
    *,
    log: bool = False,
    percent: bool = False,
    extend_to_ticks: bool = False,
) -> Axis:
    """Make an axis for drawable numbers, at least one, with about so many ticks at most.

    It ends where the numbers do, or, to `cover` them, at ticks below and above them.
    """
    low, high = min(values), max(values)
    whole = not percent and all(value == round(value) for value in values)
    low, high = _widen_range(low, high, log, percent, whole)
    max_ticks = max_ticks if extend_to_ticks else max_ticks + 2  # the outer two will go
    chosen = log_ticks(low, high, max_ticks) if log else linear_ticks(low, high, max_ticks, whole)
    even = not log
    if log and len(_ticks_inside(chosen, low, high)) < 2:  # less than a step of 1, 2, 5, 10
        by_steps = linear_ticks(low, high, max_ticks)
        if by_steps[0] > 0 or not extend_to_ticks:
            chosen, even = by_steps, True
    if extend_to_ticks:
        low, high = min(low, chosen[0]), max(high, chosen[-1])
    else:
        chosen = _ticks_inside(chosen, low, high)
    labels = _format_ticks(chosen, percent) if even else [_format_tick(v, percent) for v in chosen]
    return Axis(low, high, tuple(chosen), tuple(labels), log)


def linear_ticks(
    low: float, high: float, max_ticks: int = 6, integers_only: bool = False
) -> list[float]:
    """List numbers 1, 2 or 5 times a power of ten apart, from below `low` to above `high`.

    At most so many, but at least three are allowed; `whole` ones, where nothing lies between.

    >>> linear_ticks(0.12, 0.93), linear_ticks(1, 3, 9, integers_only=True)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0, 2.0, 3.0])
    """
    power = math.floor(math.log10((high - low) / max_ticks))
    power = max(power, 0) if integers_only else power
    while True:
        for digit in (1, 2, 5):
            first, last = _multiple_below(low, digit, power), -_multiple_below(-high, digit, power)
            if last - first < max(max_ticks, 3):
                return [_multiple(k, digit, power) for k in range(first, last + 1)]
        power += 1


def log_ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """List 1, 2 and 5 times powers of ten, or powers of ten only, from below `low` to above `high`.

    >>> log_ticks(3e-5, 0.004), log_ticks(0.3, 4.0)
    ([1e-05, 0.0001, 0.001, 0.01], [0.2, 0.5, 1.0, 2.0, 5.0])
    """
    powers = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1
    chosen = [
        _multiple(digit, 1, power) for power in range(powers[0] - 1, powers[1] + 1)
        for digit in (1, 2, 5)
    ]  # fmt: skip
    while len(chosen := _ticks_around(chosen, low, high)) > max(max_ticks, 3):
        first = stride * math.floor(powers[0] / stride)
        chosen = [_multiple(1, 1, k) for k in range(first, powers[1] + stride, stride)]
        stride += 1
    return chosen


def _widen_range(
    low: float, high: float, log: bool, percent: bool, integers_only: bool
) -> tuple[float, float]:
    """Give room to a single number."""
    size = max(abs(low), abs(high))
    if log:
        return (low / 1.5, high * 1.5) if high / low < 1 + 1e-9 else (low, high)
    if high - low > max(size * _RELATIVE_TOLERANCE, 1 / _MAX_LINEAR):
        return low, high
    if percent and low >= 0 and high <= 1:
        return max(low - 0.05, 0.0), min(high + 0.05, 1.0)
    room = 0.5 if integers_only and size < 1e6 else max(size / 10, 1 / _MAX_LINEAR)
    return low - room, high + room


def _multiple(k: int, digit: int, power: int) -> float:
    """The float nearest to k times digit times a power of ten."""
    return float(k * digit * 10**power) if power >= 0 else k * digit / 10**-power


def _multiple_below(value: float, digit: int, power: int) -> int:
    """The last multiple that is no larger than a value: 3 tenths for 0.3, whatever its bits say."""
    k = round(value / _multiple(1, digit, power))
    return k - 1 if _multiple(k, digit, power) > value else k


def _ticks_inside(ticks: Sequence[float], low: float, high: float) -> list[float]:
    return [tick for tick in ticks if low <= tick <= high]


def _ticks_around(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Keep what lies between, and one on either side."""
    first = max((k for k, tick in enumerate(ticks) if tick <= low), default=0)
    last = min((k for k, tick in enumerate(ticks) if tick >= high), default=len(ticks) - 1)
    return list(ticks[first : last + 1])


def _format_ticks(ticks: Sequence[float], percent: bool) -> list[str]:
    """Write ticks with as many decimals as tell them apart."""
    shown = [Decimal(repr(tick)) * (100 if percent else 1) for tick in ticks]
    top = max(map(abs, shown), default=Decimal(0))
    power = min((_last_digit_exponent(tick) for tick in shown if tick), default=0)
    ten = top.adjusted() if top else 0
    written = [f"{tick:,.{max(0, -power)}f}" for tick in shown]
    short = [f"{tick.scaleb(-ten):.{ten - power}f}e{ten}" for tick in shown]
    if len(f"{top:,.{max(0, -power)}f}") > max(_MAX_LABEL_LENGTH, 5 + ten - power):
        written = short
    written = ["0" if not t else typeset(text) for t, text in zip(shown, written, strict=True)]
    return [f"{text}\u00a0%" for text in written] if percent else written


def _last_digit_exponent(number: Decimal) -> int:
    """The power of ten of the last digit that is not 0."""
    exponent = number.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _format_tick(tick: float, percent: bool) -> str:
    """Write a tick by itself, large and small ones with a power of ten."""
    shown = Decimal(repr(tick)) * (100 if percent else 1)
    power = shown.adjusted()
    if -4 <= power < 6:
        text = f"{shown:,.{max(0, -power)}f}"
    else:
        text = typeset(f"{shown.scaleb(-power):.0f}e{power}").removeprefix("1·")
    return f"{text}\u00a0%" if percent else text


NUM_COLORS = 8
_TITLE_SIZE, _NAME_SIZE, _TICK_SIZE = 16, 13, 12  # sizes of text
_MARGIN = 14  # free on every side
_ROW_HEIGHT = 17  # from name to name
_MAX_DOTTED_POINTS, _MIN_THIN_POINTS = (
    12,
    300,
)  # points; where no line has more, each gets a dot; so many, a thinner line
_LATE_END = 0.92  # of the axis; a line that ends later has its name beside the plot
_MAX_LABEL_FRACTION = 0.3  # of the picture, for names beside the plot
_LEADER_LENGTH = 16  # between the plot and the names beside it
_MIN_TWO_LINE_HEIGHT = 280  # pixels; so low a chart has its title on one line
_LEGEND_SAMPLE = 22  # of a line, in the legend


@dataclass(frozen=True)
class Series:
    """A line of a chart. Lines that belong together share a `colour`, a number from 0 to 7."""

    name: str
    points: Sequence[Point]
    dashed: bool = False
    color: int | None = None


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
    >>> [shape.text for shape in chart.shapes if hasattr(shape, "text")]
    ['Loss', 'nats', '0.4', '0.5', '0.6', '0.7', '0.8', '0.9', '1', '2', '3', 'epoch', 'test']
    """
    if width < 240 or height < 200:
        raise UserError(f"expected a chart of at least 240 × 200 pixels, got {width} × {height}")
    lines = [
        _PlottedLine(
            to_one_line(one.name), colour, one.dashed, _split_at_gaps(one.points, log_x, log_y)
        )
        for one, colour in zip(series, _assign_colors(series), strict=True)
    ]
    picture = Picture(width, height, title)
    _Chart(picture, lines, log_x, log_y, percent).draw(to_one_line(x_label), to_one_line(y_label))
    return picture


@dataclass(frozen=True)
class _PlottedLine:
    """A line of the chart, in runs without gaps."""

    name: str
    color: str
    dashed: bool
    segments: list[list[Point]]

    @property
    def end(self) -> Point:
        return self.segments[-1][-1]


@dataclass(frozen=True)
class _Plot:
    """The place of the lines, and its axes."""

    box: Box
    x: Axis
    y: Axis

    def to_pixels(self, point: Point) -> Point:
        """Say where in the picture a point lies."""
        x, y = self.x.fraction_along(point[0]), self.y.fraction_along(point[1])
        return self.box.left + self.box.width * x, self.box.bottom - self.box.height * y


@dataclass(frozen=True)
class _Chart:
    picture: Picture
    lines: list[_PlottedLine]
    log_x: bool
    log_y: bool
    percent: bool

    def draw(self, x_label: str, y_label: str) -> None:
        """Draw everything. Names go into a legend if they find no room at the ends of lines."""
        picture, top = self.picture, self.draw_title()
        if not any(line.segments for line in self.lines):
            middle = picture.width / 2, picture.height / 2
            picture.add_text(*middle, "no points to draw", "soft", _NAME_SIZE, "middle")
            return
        head = _TICK_SIZE + 14 if y_label else 6
        foot = _MARGIN + 18 + (_TICK_SIZE + 8 if x_label else 0)
        plot = self.layout_plot(top + head, foot, self.label_margin())
        names = self.place_labels(plot)
        if names is None:
            top = self.draw_legend(top)
            plot, names = self.layout_plot(top + head, foot, 0), []
        room = picture.width - 2 * _MARGIN
        picture.add_text(
            _MARGIN,
            top + _TICK_SIZE,
            truncate_to_pixels(y_label, room, _TICK_SIZE),
            "soft",
            _TICK_SIZE,
        )
        self.draw_axes(plot)
        middle = (plot.box.left + plot.box.right) / 2, picture.height - _MARGIN
        picture.add_text(
            *middle, truncate_to_pixels(x_label, room, _TICK_SIZE), "soft", _TICK_SIZE, "middle"
        )
        for line in self.lines:
            self.draw_line(line, plot)
        for line, box in names:
            self.draw_label(line, box, plot)

    def draw_title(self) -> float:
        """Write the title, on two lines if it is long; say where the next thing may begin."""
        room, y = self.picture.width - 2 * _MARGIN, float(_MARGIN)
        title = self.picture.title
        lines = wrap_to_pixels(title, room, _TITLE_SIZE, bold=True)
        if self.picture.height < _MIN_TWO_LINE_HEIGHT:
            lines = [truncate_to_pixels(title, room, _TITLE_SIZE, bold=True)]
        for words in lines if title else []:
            self.picture.add_text(_MARGIN, y + _TITLE_SIZE - 3, words, size=_TITLE_SIZE, bold=True)
            y += _TITLE_SIZE + 4
        return y + (4 if title else 0)

    def layout_plot(self, top: float, bottom_margin: float, right_margin: float) -> _Plot:
        """Lay the plot out, with so many pixels below it and to its right."""
        points = [point for line in self.lines for run in line.segments for point in run]
        xs, ys = zip(*points, strict=True)
        bottom = max(self.picture.height - bottom_margin, top + 40)
        most = int((bottom - top) / 36) + 1
        y = make_axis(ys, most, log=self.log_y, percent=self.percent, extend_to_ticks=True)
        left = _MARGIN + max(text_width(label, _TICK_SIZE) for label in y.labels) + 8
        rough = make_axis(xs, 6, log=self.log_x)
        half = max((text_width(label, _TICK_SIZE) / 2 + 4 for label in rough.labels), default=0)
        right = self.picture.width - max(_MARGIN + right_margin, half, _MARGIN + 8)
        box = Box(max(left, half), top, right, bottom)
        return _Plot(box, _fit_x_axis(xs, box.width, self.log_x), y)

    def label_margin(self) -> float:
        """How wide the widest name is that has to stand beside the plot."""
        xs = [x for line in self.lines for run in line.segments for x, _ in run]
        rough = make_axis(xs, 6, log=self.log_x)
        late = [
            line
            for line in self.lines
            if line.segments and rough.fraction_along(line.end[0]) > _LATE_END
        ]
        return max(
            (text_width(line.name, _NAME_SIZE) + _LEADER_LENGTH for line in late if line.name),
            default=0,
        )

    def place_labels(self, plot: _Plot) -> list[tuple[_PlottedLine, Box]] | None:
        """Find room for the names at the ends of their lines; None if there is not enough."""
        named = [line for line in self.lines if line.name]
        if not all(line.segments for line in named):
            return None
        late = [line for line in named if plot.x.fraction_along(line.end[0]) > _LATE_END]
        early = [line for line in named if plot.x.fraction_along(line.end[0]) <= _LATE_END]
        right, half = plot.box.right, _ROW_HEIGHT / 2
        left = right + _LEADER_LENGTH
        fits = right >= self.picture.width * (1 - _MAX_LABEL_FRACTION) - _MARGIN
        if not fits or len(late) * _ROW_HEIGHT > plot.box.height + _ROW_HEIGHT:
            return None
        wanted = [plot.to_pixels(line.end)[1] for line in late]
        found = [
            (line, Box(left, y - half, left + text_width(line.name, _NAME_SIZE), y + half))
            for line, y in zip(
                late, spread_apart(wanted, _ROW_HEIGHT, plot.box.top, plot.box.bottom), strict=True
            )
        ]
        drawn = [
            [plot.to_pixels(point) for point in run] for line in self.lines for run in line.segments
        ]
        inside = Box(plot.box.left, plot.box.top - half, right, plot.box.bottom)
        for line in early:
            size = text_width(line.name, _NAME_SIZE), float(_ROW_HEIGHT)
            box = place_label(
                plot.to_pixels(line.end), size, inside, drawn, [box for _, box in found]
            )
            if box is None:
                return None
            found.append((line, box))
        return found

    def draw_legend(self, top: float) -> float:
        """Write the names with a sample of their lines, row by row; say where they end."""
        room = self.picture.width - 2 * _MARGIN
        x, y, most = (
            float(_MARGIN),
            top + _ROW_HEIGHT / 2,
            max(1, int(self.picture.height / 4 / _ROW_HEIGHT) - 1),
        )
        named = [line for line in self.lines if line.name]
        row = 1
        for k, line in enumerate(named):
            name = line.name if line.segments else f"{line.name} (no points)"
            name = truncate_to_pixels(
                name, room * (0.9 if len(named) < most else 0.45) - _LEGEND_SAMPLE, _NAME_SIZE
            )
            wide = _LEGEND_SAMPLE + 6 + text_width(name, _NAME_SIZE) + 18
            if x > _MARGIN and x + wide > _MARGIN + room:
                x, y, row = float(_MARGIN), y + _ROW_HEIGHT, row + 1
            if row > most:
                self.picture.add_text(x, y + 4, f"and {len(named) - k} more", "soft", _NAME_SIZE)
                break
            self.picture.add_line([(x, y), (x + _LEGEND_SAMPLE, y)], line.color, 2, line.dashed)
            self.picture.add_text(x + _LEGEND_SAMPLE + 6, y + 4.5, name, line.color, _NAME_SIZE)
            x += wide
        return y + _ROW_HEIGHT / 2 + 8

    def draw_axes(self, plot: _Plot) -> None:
        """Draw the grid, the axis below it and the numbers on both."""
        picture, box = self.picture, plot.box
        for tick, label in zip(plot.y.ticks, plot.y.labels, strict=True):
            y = _snap_to_pixel(plot.to_pixels((plot.x.low, tick))[1])
            zero = tick == 0 and plot.y.low < 0
            picture.add_line([(box.left, y), (box.right, y)], "soft" if zero else "line")
            picture.add_text(box.left - 8, y + 4, label, "soft", _TICK_SIZE, "end")
        base = _snap_to_pixel(box.bottom)
        picture.add_line([(box.left, base), (box.right, base)], "ink")
        for tick, label in zip(plot.x.ticks, plot.x.labels, strict=True):
            x = _snap_to_pixel(plot.to_pixels((tick, plot.y.low))[0])
            picture.add_line([(x, base), (x, base + 5)], "ink")
            picture.add_text(x, base + 18, label, "soft", _TICK_SIZE, "middle")

    def draw_line(self, line: _PlottedLine, plot: _Plot) -> None:
        """Draw a line; dots show where its points are if they are few, or stand alone."""
        most = max(sum(map(len, line.segments)) for line in self.lines)
        few, thick = most <= _MAX_DOTTED_POINTS, 2 if most < _MIN_THIN_POINTS else 1.25
        for run in line.segments:
            placed = [plot.to_pixels(point) for point in run]
            self.picture.add_line(placed, line.color, thick, line.dashed)
            for x, y in placed if few or len(placed) == 1 else []:
                self.picture.add_circle(x, y, 3, line.color)

    def draw_label(self, line: _PlottedLine, box: Box, plot: _Plot) -> None:
        """Write a line's name, with a hair to the line's end if it had to move beside the plot."""
        x, y = plot.to_pixels(line.end)
        middle = (box.top + box.bottom) / 2
        if box.left > plot.box.right and (box.left - x > 2 * _LEADER_LENGTH or abs(middle - y) > 3):
            self.picture.add_line([(x + 4, y), (box.left - 3, middle)], line.color, 0.75)
        self.picture.add_text(box.left, middle + 4.5, line.name, line.color, _NAME_SIZE)


def _assign_colors(series: Sequence[Series]) -> Iterator[str]:
    """Give every series its colour, those that ask for none the next one that is free."""
    asked = {one.color % NUM_COLORS for one in series if one.color is not None}
    free = [k for k in range(NUM_COLORS) if k not in asked] or list(range(NUM_COLORS))
    given = 0
    for one in series:
        colour = free[given % len(free)] if one.color is None else one.color % NUM_COLORS
        given += one.color is None
        yield f"c{colour + 1}"


def _split_at_gaps(points: Sequence[Point], log_x: bool, log_y: bool) -> list[list[Point]]:
    """Cut a line at the points that cannot be drawn."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if is_drawable(x, log_x) and is_drawable(y, log_y):
            runs[-1].append((float(x), float(y)))
        else:
            runs.append([])
    return [run for run in runs if run]


def _fit_x_axis(xs: Sequence[float], width: float, log: bool) -> Axis:
    """Make the axis below: as many ticks as can be written well apart."""
    for most in range(max(4, int(width / 48)), 0, -1):
        found = make_axis(xs, most, log=log)
        halves = [text_width(label, _TICK_SIZE) / 2 for label in found.labels]
        places = [found.fraction_along(tick) * width for tick in found.ticks]
        ends = list(zip(places, halves, strict=True))
        if all(b[0] - b[1] - a[0] - a[1] >= 14 for a, b in pairwise(ends)):
            return found
    return replace(found, ticks=found.ticks[:1], labels=found.labels[:1])


def _snap_to_pixel(position: float) -> float:
    """Move a hairline to where it covers one row of pixels."""
    return int(position) + 0.5
