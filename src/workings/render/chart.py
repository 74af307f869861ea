"""Line charts: series with names at the ends of their lines, linear or logarithmic axes.

First the placement of names, then axes and their ticks, then the chart itself.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import cycle, pairwise

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems.notation import typeset
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels
from workings.render.svg_writer import Point

NUM_COLORS = 8
MIN_CHART_WIDTH, _MIN_HEIGHT = 240.0, 200.0
_MIN_REDRAWN_HEIGHT = 280.0  # of a chart that is redrawn for a smaller width
_TITLE_SIZE, _NAME_SIZE, _TICK_SIZE = 16, 13, 12  # font sizes; all lengths are in pixels
_MARGIN = 14  # on every side
_ROW_HEIGHT = 17  # between names
_MAX_DOTTED_POINTS = 12  # where no line has more points, each point gets a dot
_MIN_THIN_POINTS = 300  # a line with this many points is thinner
_LATE_END = 0.92  # of the x-axis: a line that ends later has its name beside the plot
_MAX_LABEL_FRACTION = 0.3  # of the width, for names beside the plot
_LEADER_LENGTH = 16  # between the plot and the names beside it
_MIN_TWO_LINE_HEIGHT = 280  # a lower chart has its title on one line
_LEGEND_SAMPLE = 22  # length of a line in the legend
_MAX_LINEAR = 1e300  # differences of larger numbers overflow
_MAX_LOG = 1e150  # ticks at larger numbers overflow on a logarithmic axis
_RELATIVE_TOLERANCE = 1e-12  # numbers that are closer are one number
_MAX_LABEL_LENGTH = 9  # longer numbers are written with a power of ten


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture: the plot, or the space of a text."""

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
        """Return True if another box lies inside."""
        horizontally = self.left <= other.left and other.right <= self.right
        return horizontally and self.top <= other.top and other.bottom <= self.bottom

    def overlaps(self, other: "Box") -> bool:
        """Return True if two boxes overlap."""
        horizontally = self.left < other.right and other.left < self.right
        return horizontally and self.top < other.bottom and other.top < self.bottom

    def is_crossed_by(self, start: Point, end: Point) -> bool:
        """Return True if a line segment enters the box.

        >>> box = Box(0, 0, 2, 2)
        >>> box.is_crossed_by((-1, 1), (3, 1)), box.is_crossed_by((-1, 2), (1, 4))
        (True, False)
        """
        entry, leave = 0.0, 1.0  # the fractions of the segment between which it is inside
        for a, b, low, high in (
            (start[0], end[0], self.left, self.right),
            (start[1], end[1], self.top, self.bottom),
        ):
            if a == b:
                if not low < a < high:
                    return False
                continue
            crossings = (low - a) / (b - a), (high - a) / (b - a)
            entry, leave = max(entry, min(crossings)), min(leave, max(crossings))
        return entry < leave or (start == end and entry == 0)


def spread_apart(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart, as little as possible, so that they differ by at least `gap`.

    They keep their order and, if all fit, stay between `low` and `high`.

    >>> spread_apart([10, 12, 50], 10, 0, 100)
    [6.0, 16.0, 50.0]
    """
    order = sorted(range(len(positions)), key=lambda k: positions[k])
    # Isotonic regression (pool adjacent violators) on the positions less their gaps.
    blocks: list[tuple[float, int]] = []  # mean and size
    for rank, k in enumerate(order):
        mean, size = float(positions[k] - rank * gap), 1
        while blocks and blocks[-1][0] >= mean:
            other_mean, other_size = blocks.pop()
            total = mean * size + other_mean * other_size
            size += other_size
            mean = total / size
        blocks.append((mean, size))
    highest = high - (len(positions) - 1) * gap
    means = [max(low, min(mean, highest)) for mean, size in blocks for _ in range(size)]
    moved = [0.0] * len(positions)
    for rank, k in enumerate(order):
        moved[k] = means[rank] + rank * gap
    return moved


def place_label(
    end: Point, size: Point, inside: Box, lines: Sequence[Sequence[Point]], occupied: Sequence[Box]
) -> Box | None:
    """Return a free box for a name to the right of the end of its line; None: there is none."""
    width, height = size
    left = end[0] + 7
    for shift in (0.0, -0.6, 0.6, -1.1, 1.1):
        top = end[1] + (shift - 0.5) * height
        box = Box(left, top, left + width, top + height)
        if not inside.contains(box) or any(map(box.overlaps, occupied)):
            continue
        if not any(box.is_crossed_by(*segment) for line in lines for segment in pairwise(line)):
            return box
    return None


@dataclass(frozen=True)
class Axis:
    """The range of an axis, and its ticks in rising order with their labels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    is_log: bool = False

    def fraction_along(self, value: float) -> float:
        """Return the position of a value on the axis: 0 at the low end, 1 at the high end."""
        if self.is_log:
            low = math.log(self.low)
            return (math.log(value) - low) / (math.log(self.high) - low)
        return (value - self.low) / (self.high - self.low)


def is_drawable(value: float, log: bool) -> bool:
    """Return True if a number can be drawn on an axis; a logarithmic axis needs positive numbers.

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
    """Return an axis for drawable numbers (at least one), with about `max_ticks` ticks at most.

    It ends at the smallest and largest number; with `extend_to_ticks`, at ticks around them.
    """
    low, high = min(values), max(values)
    integers = not percent and all(value == round(value) for value in values)
    low, high = _widen_range(low, high, log, percent, integers)
    max_ticks = max_ticks if extend_to_ticks else max_ticks + 2  # the outer two are dropped below
    ticks = log_ticks(low, high, max_ticks) if log else linear_ticks(low, high, max_ticks, integers)
    equidistant = not log
    if log and len(_ticks_inside(ticks, low, high)) < 2:  # the range lies within one step of 1-2-5
        linear = linear_ticks(low, high, max_ticks)
        if linear[0] > 0 or not extend_to_ticks:
            ticks, equidistant = linear, True
    if extend_to_ticks:
        low, high = min(low, ticks[0]), max(high, ticks[-1])
    else:
        ticks = _ticks_inside(ticks, low, high)
    if equidistant:
        labels = _format_ticks(ticks, percent)
    else:
        labels = [_format_tick(tick, percent) for tick in ticks]
    return Axis(low, high, tuple(ticks), tuple(labels), log)


def linear_ticks(
    low: float, high: float, max_ticks: int = 6, integers_only: bool = False
) -> list[float]:
    """Return ticks 1, 2 or 5 times a power of ten apart, from below `low` to above `high`.

    There are at most `max_ticks` (and at least three may be); with `integers_only`, no fractions.

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
    """Return 1, 2 and 5 times powers of ten, or powers of ten, from below `low` to above `high`.

    >>> log_ticks(3e-5, 0.004), log_ticks(0.3, 4.0)
    ([1e-05, 0.0001, 0.001, 0.01], [0.2, 0.5, 1.0, 2.0, 5.0])
    """
    powers = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1
    ticks = [
        _multiple(digit, 1, power) for power in range(powers[0] - 1, powers[1] + 1)
        for digit in (1, 2, 5)
    ]  # fmt: skip
    while len(ticks := _ticks_around(ticks, low, high)) > max(max_ticks, 3):
        first = stride * math.floor(powers[0] / stride)
        ticks = [_multiple(1, 1, k) for k in range(first, powers[1] + stride, stride)]
        stride += 1
    return ticks


def _widen_range(
    low: float, high: float, log: bool, percent: bool, integers_only: bool
) -> tuple[float, float]:
    """Widen the range of a single number, so that it has an extent."""
    size = max(abs(low), abs(high))
    if log:
        return (low / 1.5, high * 1.5) if high / low < 1 + 1e-9 else (low, high)
    if high - low > max(size * _RELATIVE_TOLERANCE, 1 / _MAX_LINEAR):
        return low, high
    if percent and low >= 0 and high <= 1:
        return max(low - 0.05, 0.0), min(high + 0.05, 1.0)
    padding = 0.5 if integers_only and size < 1e6 else max(size / 10, 1 / _MAX_LINEAR)
    return low - padding, high + padding


def _multiple(k: int, digit: int, power: int) -> float:
    """Return the float nearest to k · digit · 10^power."""
    return float(k * digit * 10**power) if power >= 0 else k * digit / 10**-power


def _multiple_below(value: float, digit: int, power: int) -> int:
    """Return the largest k with k · digit · 10^power ≤ value, as decimals (0.3 is 3 tenths)."""
    k = round(value / _multiple(1, digit, power))
    return k - 1 if _multiple(k, digit, power) > value else k


def _ticks_inside(ticks: Sequence[float], low: float, high: float) -> list[float]:
    return [tick for tick in ticks if low <= tick <= high]


def _ticks_around(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the ticks inside a range, and one on either side."""
    first = max((k for k, tick in enumerate(ticks) if tick <= low), default=0)
    last = min((k for k, tick in enumerate(ticks) if tick >= high), default=len(ticks) - 1)
    return list(ticks[first : last + 1])


def _format_ticks(ticks: Sequence[float], percent: bool) -> list[str]:
    """Format equidistant ticks with as many decimals as they need."""
    numbers = [Decimal(repr(tick)) * (100 if percent else 1) for tick in ticks]
    largest = max(map(abs, numbers), default=Decimal(0))
    last_digit = min((_last_digit_exponent(number) for number in numbers if number), default=0)
    exponent = largest.adjusted() if largest else 0
    decimals, digits = max(0, -last_digit), exponent - last_digit
    texts = [f"{number:,.{decimals}f}" for number in numbers]
    if len(f"{largest:,.{decimals}f}") > max(_MAX_LABEL_LENGTH, 5 + digits):
        texts = [f"{number.scaleb(-exponent):.{digits}f}e{exponent}" for number in numbers]
    labels = ["0" if not n else typeset(text) for n, text in zip(numbers, texts, strict=True)]
    return [f"{label}\u00a0%" for label in labels] if percent else labels


def _last_digit_exponent(number: Decimal) -> int:
    """Return the power of ten of the last digit that is not 0."""
    exponent = number.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def _format_tick(tick: float, percent: bool) -> str:
    """Format one tick of a logarithmic axis; large and small ones as a power of ten."""
    number = Decimal(repr(tick)) * (100 if percent else 1)
    exponent = number.adjusted()
    if -4 <= exponent < 6:
        text = f"{number:,.{max(0, -exponent)}f}"
    else:
        text = typeset(f"{number.scaleb(-exponent):.0f}e{exponent}").removeprefix("1·")
    return f"{text}\u00a0%" if percent else text


@dataclass(frozen=True)
class Series:
    """A line of a chart. Lines that belong together share a `color`, a number from 0 to 7."""

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
    width: float = 640,
    height: float = 380,
    log_x: bool = False,
    log_y: bool = False,
) -> Picture:
    """Draw lines through points; one that cannot be drawn (NaN, log of 0) leaves a gap.

    With `percent`, a y of 0.5 is labeled 50 %.

    >>> test = Series("test", [(1, 0.9), (2, 0.5), (3, 0.4)])
    >>> chart = line_chart([test], title="Loss", x_label="epoch", y_label="nats")
    >>> [shape.text for shape in chart.shapes if hasattr(shape, "text")]
    ['Loss', 'nats', '0.4', '0.5', '0.6', '0.7', '0.8', '0.9', '1', '2', '3', 'epoch', 'test']
    """
    if width < MIN_CHART_WIDTH or height < _MIN_HEIGHT:
        raise UserError(f"expected a chart of at least 240 × 200 pixels, got {width} × {height}")

    def redraw(new_width: float) -> Picture:
        new_width = max(new_width, MIN_CHART_WIDTH)
        return line_chart(
            series, title=title, x_label=x_label, y_label=y_label, percent=percent,
            width=new_width, height=max(height * new_width / width, _MIN_REDRAWN_HEIGHT),
            log_x=log_x, log_y=log_y,
        )  # fmt: skip

    lines = [
        _PlottedLine(
            to_one_line(line.name), color, line.dashed, _split_at_gaps(line.points, log_x, log_y)
        )
        for line, color in zip(series, _assign_colors(series), strict=True)
    ]
    picture = Picture(width, height, title, redraw)
    _Chart(picture, lines, log_x, log_y, percent).draw(to_one_line(x_label), to_one_line(y_label))
    return picture


@dataclass(frozen=True)
class _PlottedLine:
    """A line of the chart, in segments without gaps."""

    name: str
    color: str
    dashed: bool
    segments: list[list[Point]]

    @property
    def end(self) -> Point:
        return self.segments[-1][-1]


@dataclass(frozen=True)
class _Plot:
    """The area of the lines, and its axes."""

    box: Box
    x: Axis
    y: Axis

    def to_pixels(self, point: Point) -> Point:
        """Return the position of a point in the picture."""
        x, y = self.x.fraction_along(point[0]), self.y.fraction_along(point[1])
        return self.box.left + self.box.width * x, self.box.bottom - self.box.height * y


@dataclass(frozen=True)
class _Chart:
    """Draws lines, axes and names on a picture."""

    picture: Picture
    lines: list[_PlottedLine]
    log_x: bool
    log_y: bool
    percent: bool

    def draw(self, x_label: str, y_label: str) -> None:
        """Draw everything; names that do not fit at the ends of the lines go into a legend."""
        picture, top = self.picture, self.draw_title()
        if not any(line.segments for line in self.lines):
            center = picture.width / 2, picture.height / 2
            picture.add_text(*center, "no points to draw", "soft", _NAME_SIZE, "middle")
            return
        header = _TICK_SIZE + 14 if y_label else 6
        footer = _MARGIN + 18 + (_TICK_SIZE + 8 if x_label else 0)
        plot = self.layout_plot(top + header, footer, self.label_margin())
        labels = self.place_labels(plot)
        if labels is None:
            top = self.draw_legend(top)
            plot, labels = self.layout_plot(top + header, footer, 0), []
        width = picture.width - 2 * _MARGIN
        y_label = truncate_to_pixels(y_label, width, _TICK_SIZE)
        picture.add_text(_MARGIN, top + _TICK_SIZE, y_label, "soft", _TICK_SIZE)
        self.draw_axes(plot)
        center = (plot.box.left + plot.box.right) / 2, picture.height - _MARGIN
        x_label = truncate_to_pixels(x_label, width, _TICK_SIZE)
        picture.add_text(*center, x_label, "soft", _TICK_SIZE, "middle")
        for line in self.lines:
            self.draw_line(line, plot)
        for line, box in labels:
            self.draw_label(line, box, plot)

    def draw_title(self) -> float:
        """Draw the title on one or two lines; return where the content may begin."""
        width, y = self.picture.width - 2 * _MARGIN, float(_MARGIN)
        title = self.picture.title
        lines = wrap_to_pixels(title, width, _TITLE_SIZE, bold=True)
        if self.picture.height < _MIN_TWO_LINE_HEIGHT:
            lines = [truncate_to_pixels(title, width, _TITLE_SIZE, bold=True)]
        for line in lines if title else []:
            self.picture.add_text(_MARGIN, y + _TITLE_SIZE - 3, line, size=_TITLE_SIZE, bold=True)
            y += _TITLE_SIZE + 4
        return y + (4 if title else 0)

    def layout_plot(self, top: float, bottom_margin: float, right_margin: float) -> _Plot:
        """Return the area of the plot and its axes, given the margins below and to the right."""
        points = [point for line in self.lines for segment in line.segments for point in segment]
        xs, ys = zip(*points, strict=True)
        bottom = max(self.picture.height - bottom_margin, top + 40)
        max_ticks = int((bottom - top) / 36) + 1
        y = make_axis(ys, max_ticks, log=self.log_y, percent=self.percent, extend_to_ticks=True)
        left = _MARGIN + max(text_width(label, _TICK_SIZE) for label in y.labels) + 8
        x_labels = make_axis(xs, 6, log=self.log_x).labels
        half_label = max((text_width(label, _TICK_SIZE) / 2 + 4 for label in x_labels), default=0)
        right = self.picture.width - max(_MARGIN + right_margin, half_label, _MARGIN + 8)
        box = Box(max(left, half_label), top, right, bottom)
        return _Plot(box, _fit_x_axis(xs, box.width, self.log_x), y)

    def label_margin(self) -> float:
        """Return the width that names beside the plot need."""
        xs = [x for line in self.lines for segment in line.segments for x, _ in segment]
        axis = make_axis(xs, 6, log=self.log_x)
        return max(
            (
                text_width(line.name, _NAME_SIZE) + _LEADER_LENGTH
                for line in self.lines
                if line.segments and line.name and axis.fraction_along(line.end[0]) > _LATE_END
            ),
            default=0,
        )

    def place_labels(self, plot: _Plot) -> list[tuple[_PlottedLine, Box]] | None:
        """Return boxes for the names at the ends of their lines; None: not all of them fit."""
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
        ends = [plot.to_pixels(line.end)[1] for line in late]
        ys = spread_apart(ends, _ROW_HEIGHT, plot.box.top, plot.box.bottom)
        labels = [
            (line, Box(left, y - half, left + text_width(line.name, _NAME_SIZE), y + half))
            for line, y in zip(late, ys, strict=True)
        ]
        paths = [
            [plot.to_pixels(point) for point in segment]
            for line in self.lines
            for segment in line.segments
        ]
        inside = Box(plot.box.left, plot.box.top - half, right, plot.box.bottom)
        for line in early:
            size = text_width(line.name, _NAME_SIZE), float(_ROW_HEIGHT)
            occupied = [box for _, box in labels]
            box = place_label(plot.to_pixels(line.end), size, inside, paths, occupied)
            if box is None:
                return None
            labels.append((line, box))
        return labels

    def draw_legend(self, top: float) -> float:
        """Draw the names with samples of their lines, row by row; return where they end."""
        width = self.picture.width - 2 * _MARGIN
        max_rows = max(1, int(self.picture.height / 4 / _ROW_HEIGHT) - 1)
        named = [line for line in self.lines if line.name]
        max_name = width * (0.9 if len(named) < max_rows else 0.45) - _LEGEND_SAMPLE
        x, y, row = float(_MARGIN), top + _ROW_HEIGHT / 2, 1
        for k, line in enumerate(named):
            name = line.name if line.segments else f"{line.name} (no points)"
            name = truncate_to_pixels(name, max_name, _NAME_SIZE)
            entry_width = _LEGEND_SAMPLE + 6 + text_width(name, _NAME_SIZE) + 18
            if x > _MARGIN and x + entry_width > _MARGIN + width:
                x, y, row = float(_MARGIN), y + _ROW_HEIGHT, row + 1
            if row > max_rows:
                self.picture.add_text(x, y + 4, f"and {len(named) - k} more", "soft", _NAME_SIZE)
                break
            self.picture.add_line([(x, y), (x + _LEGEND_SAMPLE, y)], line.color, 2, line.dashed)
            self.picture.add_text(x + _LEGEND_SAMPLE + 6, y + 4.5, name, line.color, _NAME_SIZE)
            x += entry_width
        return y + _ROW_HEIGHT / 2 + 8

    def draw_axes(self, plot: _Plot) -> None:
        """Draw the horizontal grid lines, the x-axis and the labels of both axes."""
        picture, box = self.picture, plot.box
        for tick, label in zip(plot.y.ticks, plot.y.labels, strict=True):
            y = _snap_to_pixel(plot.to_pixels((plot.x.low, tick))[1])
            is_zero_line = tick == 0 and plot.y.low < 0
            picture.add_line([(box.left, y), (box.right, y)], "soft" if is_zero_line else "line")
            picture.add_text(box.left - 8, y + 4, label, "soft", _TICK_SIZE, "end")
        bottom = _snap_to_pixel(box.bottom)
        picture.add_line([(box.left, bottom), (box.right, bottom)], "ink")
        for tick, label in zip(plot.x.ticks, plot.x.labels, strict=True):
            x = _snap_to_pixel(plot.to_pixels((tick, plot.y.low))[0])
            picture.add_line([(x, bottom), (x, bottom + 5)], "ink")
            picture.add_text(x, bottom + 18, label, "soft", _TICK_SIZE, "middle")

    def draw_line(self, line: _PlottedLine, plot: _Plot) -> None:
        """Draw a line; points get dots if there are few of them, or one stands alone."""
        max_points = max(sum(map(len, other.segments)) for other in self.lines)
        width = 2 if max_points < _MIN_THIN_POINTS else 1.25
        for segment in line.segments:
            pixels = [plot.to_pixels(point) for point in segment]
            self.picture.add_line(pixels, line.color, width, line.dashed)
            if max_points <= _MAX_DOTTED_POINTS or len(pixels) == 1:
                for x, y in pixels:
                    self.picture.add_circle(x, y, 3, line.color)

    def draw_label(self, line: _PlottedLine, box: Box, plot: _Plot) -> None:
        """Draw the name of a line, with a leader line where it was moved away from the end."""
        x, y = plot.to_pixels(line.end)
        center = (box.top + box.bottom) / 2
        if box.left > plot.box.right and (box.left - x > 2 * _LEADER_LENGTH or abs(center - y) > 3):
            self.picture.add_line([(x + 4, y), (box.left - 3, center)], line.color, 0.75)
        self.picture.add_text(box.left, center + 4.5, line.name, line.color, _NAME_SIZE)


def _assign_colors(series: Sequence[Series]) -> Iterator[str]:
    """Yield the color of each series: its own, or the next one that no series asks for."""
    taken = {line.color % NUM_COLORS for line in series if line.color is not None}
    free = cycle([k for k in range(NUM_COLORS) if k not in taken] or range(NUM_COLORS))
    for line in series:
        color = next(free) if line.color is None else line.color % NUM_COLORS
        yield f"c{color + 1}"


def _split_at_gaps(points: Sequence[Point], log_x: bool, log_y: bool) -> list[list[Point]]:
    """Split a line at the points that cannot be drawn."""
    segments: list[list[Point]] = [[]]
    for x, y in points:
        if is_drawable(x, log_x) and is_drawable(y, log_y):
            segments[-1].append((float(x), float(y)))
        else:
            segments.append([])
    return [segment for segment in segments if segment]


def _fit_x_axis(xs: Sequence[float], width: float, log: bool) -> Axis:
    """Return the x-axis with as many ticks as have labels at least 14 pixels apart."""
    for max_ticks in range(max(4, int(width / 48)), 0, -1):
        axis = make_axis(xs, max_ticks, log=log)
        centers = [axis.fraction_along(tick) * width for tick in axis.ticks]
        halves = [text_width(label, _TICK_SIZE) / 2 for label in axis.labels]
        labels = zip(centers, halves, strict=True)
        if all(b[0] - b[1] - a[0] - a[1] >= 14 for a, b in pairwise(labels)):
            return axis
    return replace(axis, ticks=axis.ticks[:1], labels=axis.labels[:1])


def _snap_to_pixel(position: float) -> float:
    """Return the position at which a hairline covers exactly one row of pixels."""
    return int(position) + 0.5
