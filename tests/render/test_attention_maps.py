"""Attention maps as picture, page and text, for any rows, columns and tokens."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image

from workings.interpret.results import AttentionMaps, HeadMap
from workings.render import attention_maps

HOSTILE_TEXTS = ["<script>alert(1)</script>", '" onload="x', "\x1b[31mred\u202e\n", "中文", "a b"]


def make_alignment():
    """Return an alignment of three target words with four source words."""
    weights = [[0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.1, 0.1, 0.0, 0.8]]
    rows, columns = ["estamos", "comiendo", "pan"], ["we", "are", "eating", "bread"]
    maps = [HeadMap("attention", weights)]
    return AttentionMaps("we are eating bread", rows, columns, maps, is_alignment=True)


def make_hostile():
    count = len(HOSTILE_TEXTS)
    weights = [[1 / count] * count for _ in HOSTILE_TEXTS]
    return AttentionMaps(
        "".join(HOSTILE_TEXTS),
        HOSTILE_TEXTS,
        HOSTILE_TEXTS,
        [HeadMap(HOSTILE_TEXTS[0], weights), HeadMap("b", weights)],
    )


def test_alignment_has_different_rows_and_columns():
    picture = attention_maps.render_picture(make_alignment())
    texts = [shape.text for shape in picture.shapes if hasattr(shape, "text")]
    assert texts[2:9] == ["estamos", "comiendo", "pan", "we", "are", "eating", "bread"]
    page = attention_maps.render_page(make_alignment())
    assert "<title>estamos → we: 0.700</title>" in page
    assert "comiendo → bread" not in page  # the weight is zero
    text = attention_maps.render_text(make_alignment(), width=60)
    lines = text.splitlines()
    assert any(line.startswith(" estamos ▓▓▒▒") for line in lines)
    assert any(line.startswith("comiendo     ██") for line in lines)
    assert "4 bread" in text
    assert "Rows are target tokens, columns are source tokens" in text


def test_hostile_tokens_stay_text():
    for page in (
        attention_maps.render_page(make_hostile()),
        attention_maps.render_picture(make_hostile()).svg(),
    ):
        assert "<script>" not in page
        assert '" onload="x' not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    ET.fromstring(attention_maps.render_picture(make_hostile()).svg())  # noqa: S314
    for color in (False, True):
        text = attention_maps.render_text(make_hostile(), width=100, color=color)
        assert "\x1b[31m" not in text
        assert "\u202e" not in text


def test_color_is_reset_on_every_line():
    text = attention_maps.render_text(make_alignment(), width=60, color=True)
    for line in text.splitlines():
        codes = re.findall(r"\x1b\[([\d;]*)m", line)
        assert not codes or codes[-1] == "0"


@pytest.mark.parametrize("width", [24, 40, 100])
@pytest.mark.parametrize("size", [1, 7, 50, 90])
@pytest.mark.parametrize("color", [False, True])
def test_text_fits_into_every_terminal(width, size, color):
    tokens = [f"token{k}" for k in range(size)]
    weights = [[1.0 if i == j else 0.0 for j in range(size)] for i in range(size)]
    maps = AttentionMaps("many", tokens, tokens, [HeadMap(f"head {k}", weights) for k in range(3)])
    text = re.sub(r"\x1b\[[\d;]*m", "", attention_maps.render_text(maps, width=width, color=color))
    assert max(map(len, text.splitlines())) <= width
    assert "head 2" in text


def make_long(size, count=1):
    """Return maps with `size` rows and one column less, each row attending to the next column."""
    rows, columns = [f"r{k}" for k in range(size)], [f"c{k}" for k in range(size - 1)]
    weights = [[float(j == (i + 1) % (size - 1)) for j in range(size - 1)] for i in range(size)]
    maps = [HeadMap(f"head {k}", weights) for k in range(count)]
    return AttentionMaps("x", rows, columns, maps, is_alignment=True)


def test_single_map_of_a_long_sentence_has_labels():
    maps = make_long(60)
    texts = [
        shape.text for shape in attention_maps.render_picture(maps).shapes if hasattr(shape, "text")
    ]
    assert set(maps.rows) | set(maps.columns) <= set(texts)
    lines = attention_maps.render_text(maps, width=80).splitlines()
    assert next(line for line in lines if line.startswith(" r6 ")) == " r6        █"
    assert "59 c58" in attention_maps.render_text(maps, width=80)
    many = attention_maps.render_text(make_long(60, count=6), width=80)
    assert "r6" not in many
    assert "head 5" in many


def test_title_has_both_sides_of_an_alignment():
    title = f"{'we are eating bread ' * 9}→{' estamos comiendo pan' * 9}"
    maps = replace(make_alignment(), title=title)
    short_title = attention_maps.map_title(maps)
    assert short_title.startswith("Alignment: we are eating bread")
    assert "… → estamos comiendo pan" in short_title
    assert len(short_title) < 80


def test_columns_of_an_alignment_are_numbered():
    lines = attention_maps.render_text(make_long(12), width=80).splitlines()
    ruler = next(line for line in lines if line.split() == ["5", "10"])
    fourth = next(line for line in lines if line.startswith(" r3 "))
    assert fourth.index("██") + 1 == ruler.index("5")


def test_only_large_maps_are_images():
    def make_maps(size):
        weights = [[(i * j) % 7 / 7 for j in range(size)] for i in range(size)]
        return AttentionMaps("x", ["t"] * size, ["t"] * size, [HeadMap("h", weights)])

    assert "<image" not in attention_maps.render_picture(make_maps(60)).svg()
    large = attention_maps.render_picture(make_maps(120)).svg()
    assert large.count("<image") == 1
    assert len(large) < 20_000


def test_png_shows_the_weights():
    picture = attention_maps.render_picture(
        AttentionMaps("x", ["a", "b"], ["a", "b"], [HeadMap("h", [[1, 0], [0, 1]])])
    )
    grid, _bar = [shape for shape in picture.shapes if hasattr(shape, "opacities")]
    image = Image.open(BytesIO(picture.png(scale=1))).convert("RGB")
    inside = image.getpixel((round(grid.x + grid.width / 4), round(grid.y + grid.height / 4)))
    beside = image.getpixel((round(grid.x + 3 * grid.width / 4), round(grid.y + grid.height / 4)))
    assert inside == (0xBF, 0x51, 0x00)
    assert beside == (255, 255, 255)
