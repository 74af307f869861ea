"""Line charts: placement of names, ticks, and charts on which nothing overlaps."""

import io
import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from workings.errors import UserError
from workings.render.chart import (
    Axis,
    Box,
    Series,
    is_drawable,
    line_chart,
    linear_ticks,
    log_ticks,
    make_axis,
    place_label,
    spread_apart,
)
from workings.render.colors import theme_colors
from workings.render.pictures import Picture, text_width
from workings.render.svg_writer import Circle, Polyline, TextLabel

NAN, INF = math.nan, math.inf
numbers = st.floats(-1e12, 1e12) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(1, 12))
def test_spread_apart_keeps_order_gap_and_limits(positions: list[float], gap: float) -> None:
    moved = spread_apart(positions, gap, 0, 100)
    order = sorted(range(len(positions)), key=lambda k: positions[k])
    ordered = [moved[k] for k in order]
    assert all(b - a >= gap - 1e-9 for a, b in itertools.pairwise(ordered))
    assert all(-1e-9 <= position <= 100 + 1e-9 for position in moved)
    if all(b - a > gap for a, b in itertools.pairwise(sorted(positions))):
        assert moved == pytest.approx(positions)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=2, max_size=2))
def test_box_detects_crossing_segments(ends: list[tuple[float, float]]) -> None:
    (x, y), (end_x, end_y) = ends
    steps = [k / 200 for k in range(201)]
    on_it = [(x + (end_x - x) * k, y + (end_y - y) * k) for k in steps]
    if any(abs(a) < 0.999 and abs(b) < 0.999 for a, b in on_it):
        assert Box(-1, -1, 1, 1).is_crossed_by(*ends)
    elif not any(abs(a) < 1.05 and abs(b) < 1.05 for a, b in on_it):
        assert not Box(-1, -1, 1, 1).is_crossed_by(*ends)


def test_label_avoids_lines_and_other_labels() -> None:
    room, size, end = Box(0, 0, 200, 100), (40.0, 10.0), (50.0, 50.0)
    assert place_label(end, size, room, [], []) == Box(57, 45, 97, 55)
    flat = [(0.0, 52.0), (200.0, 52.0)]
    assert (place_label(end, size, room, [flat], []) or room).bottom <= 52
    above = Box(40, 0, 200, 48)
    assert (place_label(end, size, room, [], [above]) or room).top >= 48
    assert place_label(end, size, room, [], [room]) is None
    assert place_label((190.0, 50.0), size, room, [], []) is None


@given(numbers, numbers, st.integers(2, 12), st.booleans())
def test_ticks_cover_the_values_and_are_few(
    first: float, second: float, max_ticks: int, log: bool
) -> None:
    values = [abs(first), abs(second)] if log else [first, second]
    if not all(is_drawable(value, log) for value in values):
        return
    axis = make_axis(values, max_ticks, log=log, extend_to_ticks=True)
    assert axis.low <= min(values) <= max(values) <= axis.high
    assert (axis.low, axis.high) == (axis.ticks[0], axis.ticks[-1])
    assert all(a < b for a, b in itertools.pairwise(axis.ticks))
    assert 2 <= len(axis.ticks) <= max(max_ticks, 3)
    assert len(set(axis.labels)) == len(axis.labels)
    inner = make_axis(values, max_ticks, log=log)
    assert all(inner.low <= tick <= inner.high for tick in inner.ticks)
    assert all(-1e-9 <= axis.fraction_along(value) <= 1 + 1e-9 for value in values)


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.9), (0, 7), (-4, 31), (1e-7, 9e-7), (2e8, 3e8)])
def test_steps_are_one_two_or_five_times_a_power_of_ten(low: float, high: float) -> None:
    ticks = linear_ticks(low, high)
    steps = {f"{b - a:.6e}" for a, b in itertools.pairwise(ticks)}
    assert len(steps) == 1
    assert steps.pop()[0] in "125"
    assert all(tick == float(f"{tick:.10g}") for tick in ticks)  # 0.3, not 0.30000000000000004


def test_tick_labels() -> None:
    def axis_of(*values: float, **options: bool) -> Axis:
        return make_axis(values, 6, extend_to_ticks=True, **options)

    assert axis_of(0, 1).labels == ("0", "1")
    assert axis_of(0.01, 0.98).labels == ("0", "0.2", "0.4", "0.6", "0.8", "1.0")
    assert axis_of(-2.5, 9).labels == ("−5", "0", "5", "10")
    assert axis_of(0, 9500).labels == ("0", "2,000", "4,000", "6,000", "8,000", "10,000")
    assert axis_of(0, 2.5e-7).labels[:2] == ("0", "0.5·10⁻⁷")
    assert axis_of(1e-6, 2, log=True).labels == ("10⁻⁶", "0.0001", "0.01", "1", "100")
    assert axis_of(0.995, 0.999, percent=True).labels[-1] == "99.9\u00a0%"
    assert log_ticks(1, 100, 7) == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(1, 100, 6) == [1, 10, 100]


def test_narrow_logarithmic_axis_has_linear_ticks() -> None:
    axis = make_axis([2.42, 2.81], 6, log=True, extend_to_ticks=True)
    assert axis.labels == ("2.4", "2.5", "2.6", "2.7", "2.8", "2.9")


def make_chart(*series: Series, **options: object) -> Picture:
    fields = {"title": "Loss", "x_label": "epoch", "y_label": "nats", **options}
    return line_chart(series, **fields)  # type: ignore[arg-type]


def curve(count: int, end: float = 0.3, rate: float = 0.2) -> list[tuple[float, float]]:
    return [(k, end + (2 - end) * math.exp(-rate * k)) for k in range(1, count + 1)]


def text_boxes(chart: Picture) -> list[tuple[str, Box]]:
    """Return each text with its box, from the baseline to the top of the letters."""
    boxes = []
    for shape in chart.shapes:
        if isinstance(shape, TextLabel):
            width = text_width(shape.text, shape.size, shape.bold)
            left = shape.x - width * {"start": 0, "middle": 0.5, "end": 1}[shape.anchor]
            top = shape.y - 0.76 * shape.size
            boxes.append((shape.text, Box(left, top, left + width, shape.y)))
    return boxes


def data_lines(chart: Picture) -> list[Polyline]:
    lines = [
        shape for shape in chart.shapes if isinstance(shape, Polyline) and shape.color[0] == "c"
    ]
    return [line for line in lines if line.width > 1]


def plot_box(chart: Picture) -> Box:
    """Return the box of the plot, from the lines of its axes."""
    lines = [shape for shape in chart.shapes if isinstance(shape, Polyline)]
    axes = [line for line in lines if line.color in ("line", "ink", "soft")]
    xs, ys = zip(*(point for line in axes for point in line.points), strict=True)
    bottom = max(line.points[0][1] for line in axes if line.points[0][1] == line.points[1][1])
    return Box(min(xs) - 1, min(ys) - 1, max(xs) + 1, bottom + 1)


def texts(chart: Picture) -> list[str]:
    return [text for text, _ in text_boxes(chart)]


def check_chart(chart: Picture) -> None:
    """Check that the SVG is valid, that texts do not overlap, and that points are in the plot."""
    ElementTree.fromstring(chart.svg())  # noqa: S314 our own
    assert "nan" not in chart.svg().lower().replace("nats", "")
    picture = Box(0, 0, chart.width, chart.height)
    boxes = text_boxes(chart)
    assert all(picture.contains(box) for _, box in boxes), boxes
    for (text, box), (other_text, other) in itertools.combinations(boxes, 2):
        assert not box.overlaps(other), (text, other_text)
    if "no points to draw" not in texts(chart):
        plot = plot_box(chart)
        assert plot.height > 30
        dots = [(m.x, m.y) for m in chart.shapes if isinstance(m, Circle)]
        legend = [line for line in data_lines(chart) if line.points[0][1] < plot.top]
        lines = [line for line in data_lines(chart) if line not in legend]
        for x, y in [*dots, *(point for line in lines for point in line.points)]:
            assert plot.left <= x <= plot.right
            assert plot.top <= y <= plot.bottom


LONG = (
    "a name that goes on and on and on and on and on and on and on and on and on and on, at length"
)
CASES = {
    "two": [Series("train", curve(10), True, 0), Series("test", curve(10, 0.6), False, 0)],
    "ends together": [Series(f"m{k}", curve(50, 0.3 + k / 1000)) for k in range(8)],
    "ends early": [Series("early", curve(9, 1)), Series("late", curve(60))],
    "thirty": [Series(f"model {k}", curve(20, k / 9)) for k in range(30)],
    "thirty long": [Series(f"{LONG} {k}", curve(20, k / 9)) for k in range(30)],
    "long": [Series(LONG, curve(20)), Series(LONG, curve(20, 1))],
    "one long": [Series(LONG, curve(20))],
    "escaped": [Series('<&">', curve(5)), Series("</svg>", curve(5, 1))],
    "one point": [Series("only", [(3, 0.5)])],
    "two points": [Series("two", [(3, 0.5), (4, 0.25)])],
    "one x": [Series("up", [(3, 0.5), (3, 0.25)])],
    "none": [],
    "empty": [Series("empty", [])],
    "one empty": [Series("empty", []), Series("full", curve(5))],
    "nothing finite": [Series("lost", [(1, NAN), (2, INF), (NAN, 1)])],
    "gaps": [Series("gaps", [(1, NAN), (2, 1), (3, 2), (4, -INF), (5, 2), (6, NAN)])],
    "constant": [Series("flat", [(k, 0.7) for k in range(5)])],
    "zeros": [Series("flat", [(k, 0.0) for k in range(5)])],
    "constant, huge": [Series("flat", [(k, -1e299) for k in range(5)])],
    "thousand": [Series("noise", [(k, math.sin(k * k)) for k in range(1000)])],
    "huge": [Series("huge", [(k * 1e9, 1e250 * k) for k in range(9)])],
    "both huge": [Series("huge", [(-1e299, -1e299), (1e299, 1e299)])],
    "tiny": [Series("tiny", [(k * 1e-9, 1e-250 * k) for k in range(9)])],
    "least": [Series("least", [(0, 0), (5e-324, 5e-324)])],
    "far off": [Series("off", [(1e9 + k, 1e9 + k / 4) for k in range(9)])],
    "bits apart": [Series("off", [(k, 1 + k * 2**-52) for k in range(9)])],
    "unnamed": [Series("", curve(9))],
    "backwards": [Series("b", curve(9)[::-1])],
    "whole": [Series("count", [(k, k * 3) for k in range(4)])],
}


@pytest.mark.parametrize("size", [(640, 380), (240, 200), (400, 279), (1200, 300)])
@pytest.mark.parametrize("case", CASES)
def test_nothing_overlaps_or_leaves_the_picture(case: str, size: tuple[int, int]) -> None:
    width, height = size
    check_chart(make_chart(*CASES[case], width=width, height=height, title=LONG))
    check_chart(
        make_chart(*CASES[case], width=width, height=height, title="", y_label="", x_label="")
    )
    check_chart(make_chart(*CASES[case], width=width, height=height, percent=True))
    check_chart(make_chart(*CASES[case], width=width, height=height, log_x=True, log_y=True))


@given(st.lists(st.lists(st.tuples(numbers, numbers), max_size=5), max_size=4), st.booleans())
def test_nothing_overlaps_for_any_numbers(
    given_points: list[list[tuple[float, float]]], log: bool
) -> None:
    lines = [Series(f"line {k}", points) for k, points in enumerate(given_points)]
    check_chart(make_chart(*lines, log_x=log, log_y=log))


def test_points_match_the_axes() -> None:
    chart = make_chart(Series("a", [(0, 0.0), (5, 0.5), (10, 1.0)]))
    texts = {m.text: m for m in reversed(chart.shapes) if isinstance(m, TextLabel)}  # y before x
    start, middle, end = data_lines(chart)[0].points
    assert (texts["0"].y - 4, texts["1.0"].y - 4) == pytest.approx((start[1], end[1]), abs=0.6)
    assert middle[1] == pytest.approx((start[1] + end[1]) / 2)
    assert texts["10"].x == pytest.approx(end[0], abs=0.6)


def test_undrawable_points_leave_gaps_and_single_points_are_dots() -> None:
    ys = [1.0, 2.0, NAN, 3.0, INF, 4.0, 5.0, 6.0] + [6.0] * 12
    chart = make_chart(Series("a", list(enumerate(ys))))
    assert [len(line.points) for line in data_lines(chart)] == [2, 15]
    assert sum(isinstance(shape, Circle) for shape in chart.shapes) == 1


def test_only_few_points_get_dots() -> None:
    for count, dots in ((5, 5), (12, 12), (13, 0)):
        chart = make_chart(Series("a", curve(count)))
        assert sum(isinstance(shape, Circle) for shape in chart.shapes) == dots


def test_power_law_is_straight_on_logarithmic_axes() -> None:
    chart = make_chart(Series("a", [(2**k, 3 * 8.0**k) for k in range(9)]), log_x=True, log_y=True)
    points = data_lines(chart)[0].points
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points)]
    assert slopes == pytest.approx([slopes[0]] * 8)
    zero = make_chart(Series("a", [(1, 1), (2, 0), (3, 2), (4, 3), (5, -1)]), log_y=True)
    assert [len(line.points) for line in data_lines(zero)] == [2]


def test_percent_labels() -> None:
    chart = make_chart(Series("a", [(k, 0.5 + k / 20) for k in range(11)]), percent=True)
    assert {"50\u00a0%", "100\u00a0%"} <= set(texts(chart))
    assert not any("1.0" in text for text in texts(chart))


def test_names_are_at_the_ends_of_their_lines_in_their_colors() -> None:
    chart = make_chart(*(Series(f"m{k}", curve(50, k / 4)) for k in range(6)))
    ends = {line.color: line.points[-1] for line in data_lines(chart)}
    for shape in chart.shapes:
        if isinstance(shape, TextLabel) and shape.text.startswith("m"):
            x, y = ends[shape.color]
            assert x < shape.x < x + 30
            assert abs(shape.y - y) < 20


def test_line_that_ends_early_has_its_name_at_its_end() -> None:
    chart = make_chart(*CASES["ends early"])
    early = next(m for m in chart.shapes if isinstance(m, TextLabel) and m.text == "early")
    end = data_lines(chart)[0].points[-1]
    assert 0 < early.x - end[0] < 12
    late = data_lines(chart)[1]
    box = dict(text_boxes(chart))["early"]
    assert not any(box.is_crossed_by(a, b) for a, b in itertools.pairwise(late.points))


def test_long_names_are_in_a_legend() -> None:
    chart = make_chart(*CASES["long"])
    names = [m for m in chart.shapes if isinstance(m, TextLabel) and m.text.startswith("a name")]
    assert len(names) == 2
    assert all(name.y < plot_box(chart).top for name in names)
    assert names[0].text.endswith("…")


def test_legend_counts_what_it_leaves_out() -> None:
    chart = make_chart(*CASES["thirty"])
    count = sum(text.startswith("model") for text in texts(chart))
    assert f"and {30 - count} more" in texts(chart)
    assert "empty (no points)" in texts(make_chart(*CASES["one empty"]))
    assert "no points to draw" in texts(make_chart(*CASES["nothing finite"]))


def test_series_share_a_color_only_if_it_is_set() -> None:
    lines = [
        Series("a", curve(5), color=1), Series("b", curve(5), True, 1),
        Series("c", curve(5)), Series("d", curve(5)),
    ]  # fmt: skip
    chart_lines = data_lines(make_chart(*lines))
    assert [line.color for line in chart_lines] == ["c2", "c2", "c1", "c3"]
    assert [line.dashed for line in chart_lines] == [False, True, False, False]


def test_png_has_the_line_of_the_svg() -> None:
    chart = make_chart(
        Series("flat", [(k, 0.5) for k in range(40)]), Series("r", [(0, 0), (39, 1)])
    )
    image = Image.open(io.BytesIO(chart.png(2))).convert("RGB")
    assert image.size == (1280, 760)
    (x, y), code = data_lines(chart)[0].points[10], theme_colors("light")["c1"]
    expected = tuple(int(code[k : k + 2], 16) for k in (1, 3, 5))
    assert image.getpixel((round(2 * x), round(2 * y))) == expected
    assert image.getpixel((round(2 * x), round(2 * y) - 8)) != expected


@pytest.mark.parametrize("size", [(100, 300), (640, 50)])
def test_too_small_charts_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="at least 240 × 200"):
        make_chart(Series("a", curve(5)), width=size[0], height=size[1])
