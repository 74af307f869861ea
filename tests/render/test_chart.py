"""Line charts: everything is on them, nothing lies on anything else."""

import io
import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from workings.errors import UserError
from workings.render.chart import Box, Series, line_chart
from workings.render.colors import theme_colors
from workings.render.pictures import Picture, text_width
from workings.render.svg_writer import Circle, Polyline, TextLabel

NAN, INF = math.nan, math.inf
numbers = st.floats(-1e12, 1e12) | st.floats(allow_nan=False, allow_infinity=False)


def drawn(*series: Series, **options: object) -> Picture:
    fields = {"title": "Loss", "x_label": "epoch", "y_label": "nats", **options}
    return line_chart(series, **fields)  # type: ignore[arg-type]


def curve(count: int, end: float = 0.3, rate: float = 0.2) -> list[tuple[float, float]]:
    return [(k, end + (2 - end) * math.exp(-rate * k)) for k in range(1, count + 1)]


def boxes(chart: Picture) -> list[tuple[str, Box]]:
    """Where the words are, from the feet of the letters to their heads."""
    found = []
    for mark in chart.shapes:
        if isinstance(mark, TextLabel):
            wide = text_width(mark.text, mark.size, mark.bold)
            left = mark.x - wide * {"start": 0, "middle": 0.5, "end": 1}[mark.anchor]
            found.append((mark.text, Box(left, mark.y - 0.76 * mark.size, left + wide, mark.y)))
    return found


def of_data(chart: Picture) -> list[Polyline]:
    lines = [mark for mark in chart.shapes if isinstance(mark, Polyline) and mark.color[0] == "c"]
    return [line for line in lines if line.width > 1]


def plot(chart: Picture) -> Box:
    """The plot's place, from the lines of its axes."""
    grid = [
        m for m in chart.shapes if isinstance(m, Polyline) and m.color in ("line", "ink", "soft")
    ]
    xs, ys = zip(*(point for line in grid for point in line.points), strict=True)
    base = max(line.points[0][1] for line in grid if line.points[0][1] == line.points[1][1])
    return Box(min(xs) - 1, min(ys) - 1, max(xs) + 1, base + 1)


def words(chart: Picture) -> list[str]:
    return [text for text, _ in boxes(chart)]


def holds_together(chart: Picture) -> None:
    """Check what holds for every chart."""
    ElementTree.fromstring(chart.svg())  # noqa: S314 our own
    assert "nan" not in chart.svg().lower().replace("nats", "")
    paper = Box(0, 0, chart.width, chart.height)
    placed = boxes(chart)
    assert all(paper.contains(box) for _, box in placed), placed
    for (one, box), (other, another) in itertools.combinations(placed, 2):
        assert not box.overlaps(another), (one, other)
    if "no points to draw" not in words(chart):
        place = plot(chart)
        assert place.height > 30
        dots = [(m.x, m.y) for m in chart.shapes if isinstance(m, Circle)]
        legend = [line for line in of_data(chart) if line.points[0][1] < place.top]
        lines = [line for line in of_data(chart) if line not in legend]
        for x, y in [*dots, *(point for line in lines for point in line.points)]:
            assert place.left <= x <= place.right
            assert place.top <= y <= place.bottom


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
def test_every_chart_holds_together(case: str, size: tuple[int, int]) -> None:
    width, height = size
    holds_together(drawn(*CASES[case], width=width, height=height, title=LONG))
    holds_together(
        drawn(*CASES[case], width=width, height=height, title="", y_label="", x_label="")
    )
    holds_together(drawn(*CASES[case], width=width, height=height, percent=True))
    holds_together(drawn(*CASES[case], width=width, height=height, log_x=True, log_y=True))


@given(st.lists(st.lists(st.tuples(numbers, numbers), max_size=5), max_size=4), st.booleans())
def test_any_numbers_hold_together(
    given_points: list[list[tuple[float, float]]], log: bool
) -> None:
    lines = [Series(f"line {k}", points) for k, points in enumerate(given_points)]
    holds_together(drawn(*lines, log_x=log, log_y=log))


def test_points_stand_where_the_axes_say() -> None:
    chart = drawn(Series("a", [(0, 0.0), (5, 0.5), (10, 1.0)]))
    texts = {m.text: m for m in reversed(chart.shapes) if isinstance(m, TextLabel)}  # y before x
    start, middle, end = of_data(chart)[0].points
    assert (texts["0"].y - 4, texts["1.0"].y - 4) == pytest.approx((start[1], end[1]), abs=0.6)
    assert middle[1] == pytest.approx((start[1] + end[1]) / 2)
    assert texts["10"].x == pytest.approx(end[0], abs=0.6)


def test_a_gap_is_a_gap_and_a_lone_point_a_dot() -> None:
    ys = [1.0, 2.0, NAN, 3.0, INF, 4.0, 5.0, 6.0] + [6.0] * 12
    chart = drawn(Series("a", list(enumerate(ys))))
    assert [len(line.points) for line in of_data(chart)] == [2, 15]
    assert sum(isinstance(mark, Circle) for mark in chart.shapes) == 1


def test_few_points_get_dots_and_many_do_not() -> None:
    for count, dots in ((5, 5), (12, 12), (13, 0)):
        chart = drawn(Series("a", curve(count)))
        assert sum(isinstance(mark, Circle) for mark in chart.shapes) == dots


def test_on_logarithmic_axes_a_power_is_straight() -> None:
    chart = drawn(Series("a", [(2**k, 3 * 8.0**k) for k in range(9)]), log_x=True, log_y=True)
    points = of_data(chart)[0].points
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points)]
    assert slopes == pytest.approx([slopes[0]] * 8)
    zero = drawn(Series("a", [(1, 1), (2, 0), (3, 2), (4, 3), (5, -1)]), log_y=True)
    assert [len(line.points) for line in of_data(zero)] == [2]


def test_percent_is_written_as_percent() -> None:
    chart = drawn(Series("a", [(k, 0.5 + k / 20) for k in range(11)]), percent=True)
    assert {"50\u00a0%", "100\u00a0%"} <= set(words(chart))
    assert not any("1.0" in text for text in words(chart))


def test_names_stand_at_the_ends_of_their_lines_in_their_colours() -> None:
    chart = drawn(*(Series(f"m{k}", curve(50, k / 4)) for k in range(6)))
    ends = {line.color: line.points[-1] for line in of_data(chart)}
    for mark in chart.shapes:
        if isinstance(mark, TextLabel) and mark.text.startswith("m"):
            x, y = ends[mark.color]
            assert x < mark.x < x + 30
            assert abs(mark.y - y) < 20


def test_a_line_that_ends_early_has_its_name_beside_its_end() -> None:
    chart = drawn(*CASES["ends early"])
    early = next(m for m in chart.shapes if isinstance(m, TextLabel) and m.text == "early")
    end = of_data(chart)[0].points[-1]
    assert 0 < early.x - end[0] < 12
    late = of_data(chart)[1]
    box = dict(boxes(chart))["early"]
    assert not any(box.is_crossed_by(a, b) for a, b in itertools.pairwise(late.points))


def test_long_names_go_into_a_legend() -> None:
    chart = drawn(*CASES["long"])
    names = [m for m in chart.shapes if isinstance(m, TextLabel) and m.text.startswith("a name")]
    assert len(names) == 2
    assert all(name.y < plot(chart).top for name in names)
    assert names[0].text.endswith("…")


def test_a_legend_says_what_it_leaves_out() -> None:
    chart = drawn(*CASES["thirty"])
    shown = sum(text.startswith("model") for text in words(chart))
    assert f"and {30 - shown} more" in words(chart)
    assert "empty (no points)" in words(drawn(*CASES["one empty"]))
    assert "no points to draw" in words(drawn(*CASES["nothing finite"]))


def test_colours_that_are_asked_for_are_shared_and_others_are_not() -> None:
    lines = [
        Series("a", curve(5), color=1), Series("b", curve(5), True, 1),
        Series("c", curve(5)), Series("d", curve(5)),
    ]  # fmt: skip
    found = of_data(drawn(*lines))
    assert [line.color for line in found] == ["c2", "c2", "c1", "c3"]
    assert [line.dashed for line in found] == [False, True, False, False]


def test_the_png_has_the_line_where_the_svg_has_it() -> None:
    chart = drawn(Series("flat", [(k, 0.5) for k in range(40)]), Series("r", [(0, 0), (39, 1)]))
    image = Image.open(io.BytesIO(chart.png(2))).convert("RGB")
    assert image.size == (1280, 760)
    (x, y), code = of_data(chart)[0].points[10], theme_colors("light")["c1"]
    expected = tuple(int(code[k : k + 2], 16) for k in (1, 3, 5))
    assert image.getpixel((round(2 * x), round(2 * y))) == expected
    assert image.getpixel((round(2 * x), round(2 * y) - 8)) != expected


@pytest.mark.parametrize("size", [(100, 300), (640, 50)])
def test_too_small_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UserError, match="at least 240 × 200"):
        drawn(Series("a", curve(5)), width=size[0], height=size[1])
