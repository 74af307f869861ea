"""A picture as SVG, PDF and PNG: the same text, the asked width and font size, three themes."""

import io
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from PIL import Image
from pypdf import PdfReader

from workings import render
from workings.errors import UserError
from workings.interpret.results import AttentionMaps, GateActivations, GateSignal, HeadMap
from workings.problems import Problem
from workings.render.bars import bar_chart
from workings.render.chart import Series, line_chart
from workings.render.colors import contrast_ratio, theme_colors
from workings.render.heatmap import heatmap
from workings.render.picture_style import PictureStyle
from workings.render.pictures import Picture, side_by_side, text_width
from workings.render.svg_writer import TextLabel
from workings.render.text_picture import Passage, draw_passages
from workings.render.themes import apply_theme

SVG = "{http://www.w3.org/2000/svg}"


def make_maps(tokens: int = 6, heads: int = 4) -> AttentionMaps:
    names = [f"token{k}" for k in range(tokens - 1)] + ["é√÷"]
    weights = [[(1 + i * j % 5) / 15 for j in range(tokens)] for i in range(tokens)]
    maps = [HeadMap(f"layer 1, head {k + 1}", weights) for k in range(heads)]
    return AttentionMaps("attention for scores ÷ √d_k", names, names, maps)


def make_charts() -> Picture:
    series = [Series(f"model {k}", [(x, k + 1 / x) for x in range(1, 20)]) for k in range(4)]
    options = {"x_label": "epoch", "y_label": "loss, nats per token"}
    charts = [line_chart(series, title=f"Loss of part {k}", **options) for k in range(3)]
    grid = heatmap([[1.0, -0.5], [0.0, 0.25]], title="Signs", x_label="key", y_label="query")
    return side_by_side([*charts, grid], "Several panels")


def make_passages() -> Picture:
    text = "a wörd of text, and a rather long line of it\n  with ÷ and √\n" * 3
    spans = [(k, k + 1) for k in range(len(text))]
    values = [k % 7 - 3.0 for k in range(len(text))]
    passage = Passage("A cell", text, spans, values, marked=[2, 3], note="underlined: inside")
    return draw_passages([passage, replace(passage, is_signed=False)], "Cells over text")


def make_gates() -> GateActivations:
    tokens = [f"token{k}" for k in range(9)]
    signals = [
        GateSignal(name, name in "gch", [[(-1) ** k * k / 9 for k in range(9)]] * 4)
        for name in "ifogch"
    ]
    return GateActivations("LSTM, layer 1", 64, tokens, [0, 5, 7, 63], signals)


PICTURES = {
    "text": make_passages,
    "gates": lambda: render.picture(make_gates()),
    "worked": lambda: render.picture(Problem.load("L0-masked").solve()),
    "bars": lambda: bar_chart([("a mistake", 3), ("another one", 7)], title="Mistakes"),
    "maps": lambda: render.picture(make_maps()),
    "single map": lambda: render.picture(make_maps(20, 1)),
    "panels": make_charts,
}


def texts_of(picture: Picture) -> list[str]:
    return [shape.text for shape in picture.shapes if isinstance(shape, TextLabel)]


def text_boxes(picture: Picture) -> list[tuple[float, float, float, float]]:
    """Return left, top, right and bottom of each horizontal text, by its measured width."""
    boxes = []
    for shape in picture.shapes:
        if isinstance(shape, TextLabel) and not shape.rotation:
            width = text_width(shape.text, shape.size, shape.bold)
            left = shape.x - {"start": 0, "middle": 0.5, "end": 1}[shape.anchor] * width
            boxes.append((left, shape.y - 0.75 * shape.size, left + width, shape.y))
    return boxes


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("width", ["400", "1600", "12cm"])
@pytest.mark.parametrize("font_size", ["9px", "18px"])
def test_text_stays_inside_and_apart(name: str, width: str, font_size: str) -> None:
    picture = PICTURES[name]().styled(PictureStyle.parse(width, font_size))
    boxes = text_boxes(picture)
    for left, top, right, bottom in boxes:
        assert left >= -1
        assert top >= -1
        assert right <= picture.width + 1
        assert bottom <= picture.height + 1
    for k, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[k + 1 :]:
            assert not (
                left < other[2] - 1
                and other[0] < right - 1
                and top < other[3] - 1
                and other[1] < bottom - 1
            )


@pytest.mark.parametrize("name", PICTURES)
def test_three_formats_have_the_same_text_and_size(name: str) -> None:
    picture = PICTURES[name]().styled(PictureStyle.parse("6in", "9pt", "print"))
    texts = texts_of(picture)
    root = ElementTree.fromstring(picture.svg())  # noqa: S314 our own
    assert [element.text for element in root.iter(f"{SVG}text")] == texts
    assert float(root.get("width") or 0) == pytest.approx(6 * 96)
    page = PdfReader(io.BytesIO(picture.pdf())).pages[0]
    assert float(page.mediabox.width) == pytest.approx(6 * 72, abs=0.01)
    extracted = re.sub(r"\s", "", page.extract_text())
    assert all(re.sub(r"\s", "", text) in extracted for text in texts)
    image = Image.open(io.BytesIO(picture.png()))
    assert image.width == 6 * 300
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert image.height / image.width == pytest.approx(picture.height / picture.width, abs=0.002)


@pytest.mark.parametrize("width", [400, 1600])
def test_a_png_has_the_asked_width_in_pixels(width: int) -> None:
    picture = render.picture(make_maps()).styled(PictureStyle.parse(width))
    assert Image.open(io.BytesIO(picture.png())).width == width


def test_the_font_size_is_that_of_labels() -> None:
    maps = make_maps()
    for size in (9.0, 18.0):
        picture = render.picture(maps).styled(PictureStyle.parse(800, size))
        assert picture.font_size == pytest.approx(size, rel=2e-3)
        root = ElementTree.fromstring(picture.svg())  # noqa: S314 our own
        scale = float(root.get("width") or 0) / float((root.get("viewBox") or "").split()[2])
        assert scale == pytest.approx(size / 12, rel=2e-3)


def test_content_that_does_not_fit_gets_smaller_text_and_narrow_content_margins() -> None:
    fixed = Picture(600, 100, "fixed")
    fixed.add_circle(300, 50, 10, "c1")
    small = fixed.styled(PictureStyle.parse(300, 12))
    assert (small.width * small.scale, small.font_size) == (300, 6)
    large = fixed.styled(PictureStyle.parse(1200, 12))
    assert (large.width, large.font_size, large.shapes[0].x) == (1200, 12, 600)
    assert (fixed.width, fixed.shapes[0].x) == (600, 300)


def test_panels_go_below_each_other_and_each_can_be_had_alone() -> None:
    picture = make_charts()
    assert len(picture.panels) == 4
    narrow = picture.styled(PictureStyle.parse(400, 12))
    assert narrow.font_size == 12
    assert narrow.height > 4 * 250
    assert narrow.panels[0].title == "Loss of part 0"


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_a_theme_sets_every_color(theme: str) -> None:
    picture = make_charts().styled(PictureStyle.parse(theme=theme))
    svg = picture.svg()
    colors = set(re.findall(r'(?:fill|stroke)="(#\w+)"', svg))
    assert colors <= set(theme_colors(theme).values())
    assert theme_colors(theme)["paper"] in colors
    assert "prefers-color-scheme" not in svg
    assert "var(" not in svg
    paper = Image.open(io.BytesIO(picture.png(1))).convert("RGB").getpixel((1, 1))
    assert f"#{bytes(paper).hex()}" == theme_colors(theme)["paper"]


def test_print_is_readable_in_gray() -> None:
    colors = theme_colors("print")
    assert all(contrast_ratio(colors[name], "#ffffff") > 7 for name in ("ink", "soft"))
    assert all(contrast_ratio(colors[f"c{k}"], "#ffffff") > 3 for k in range(1, 9))
    first = sorted(contrast_ratio(colors[f"c{k}"], "#000000") for k in range(1, 5))
    assert all(b / a > 1.3 for a, b in pairwise(first))
    (grid,) = apply_theme(heatmap_grid([[-1.0, 0.0, 1.0]]), "print")
    assert grid.color == "#000000"
    assert grid.opacities == ((0.0, 0.5, 1.0),)


def heatmap_grid(values: list[list[float]]) -> list[object]:
    picture = Picture(100, 100, "")
    picture.add_signed_grid((0, 0, 90, 90), values)
    return list(picture.shapes)


def test_chinese_text_is_drawn_if_a_font_has_it() -> None:
    picture = Picture(200, 40, "")
    picture.add_text(10, 20, "attention 你好")
    if picture.missing_characters():
        pytest.skip("no font with Chinese characters here")
    text = PdfReader(io.BytesIO(picture.pdf())).pages[0].extract_text()
    assert text.replace("\0", "") == "attention 你好"
    other = Picture(200, 40, "")
    other.add_text(10, 20, "attention 你们")
    assert picture.png() != other.png()


def test_characters_without_a_font_are_listed() -> None:
    picture = Picture(200, 40, "")
    picture.add_text(10, 20, "a \U0010fffd b")
    assert picture.missing_characters() == "\U0010fffd"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, r"width 0: expected 50 to 10,000 px"),
        ({"width": 10**6}, r"width 1000000: expected 50 to 10,000 px"),
        ({"width": "-3cm"}, r"width '-3cm': expected .* pixels, or with px, pt, mm, cm, in"),
        ({"width": "nan"}, r"width 'nan': expected a number"),
        ({"width": "3km"}, r"width '3km': expected a number"),
        ({"font_size": "200"}, r"font size '200': expected 4 to 144 px"),
        ({"theme": "drak"}, r"theme 'drak': did you mean 'dark'\?"),
    ],
)
def test_bad_styles_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        render.save(make_maps(), "never.svg", **options)


def test_a_png_of_too_many_pixels_is_refused() -> None:
    tall = Picture(100, 10_000, "tall")
    with pytest.raises(UserError, match="too large"):
        tall.styled(PictureStyle.parse(10_000)).png()
