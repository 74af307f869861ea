"""Maps of weights: any rows and columns, in every form, whatever the tokens are."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from io import BytesIO

import pytest
from PIL import Image

from workings.interpret.results import AttentionMaps, HeadMap
from workings.render import attention_maps
from workings.render.images import encode_png_alpha

NASTY = ["<script>alert(1)</script>", '" onload="x', "\x1b[31mred\u202e\n", "中文", "a b"]


def alignment():
    """What a translator would show: three words that look at four."""
    weights = [[0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.1, 0.1, 0.0, 0.8]]
    rows, columns = ["estamos", "comiendo", "pan"], ["we", "are", "eating", "bread"]
    maps = [HeadMap("attention", weights)]
    return AttentionMaps("we are eating bread", rows, columns, maps, is_alignment=True)


def nasty():
    count = len(NASTY)
    weights = [[1 / count] * count for _ in NASTY]
    return AttentionMaps(
        "".join(NASTY), NASTY, NASTY, [HeadMap(NASTY[0], weights), HeadMap("b", weights)]
    )


def test_rows_and_columns_may_differ():
    picture = attention_maps.render_picture(alignment())
    words = [mark.text for mark in picture.shapes if hasattr(mark, "text")]
    assert words[2:] == ["estamos", "comiendo", "pan", "we", "are", "eating", "bread"]
    page = attention_maps.render_page(alignment())
    assert "<title>estamos → we: 0.700</title>" in page
    assert "comiendo → bread" not in page  # nothing goes there
    said = attention_maps.render_text(alignment(), width=60)
    lines = said.splitlines()
    assert any(line.startswith(" estamos ▓▓▒▒") for line in lines)
    assert any(line.startswith("comiendo     ██") for line in lines)
    assert "4 bread" in said
    assert "A row for each token that is written" in said


def test_tokens_do_no_harm():
    for page in (attention_maps.render_page(nasty()), attention_maps.render_picture(nasty()).svg()):
        assert "<script>" not in page
        assert '" onload="x' not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    ET.fromstring(attention_maps.render_picture(nasty()).svg())  # noqa: S314 - our own
    for color in (False, True):
        said = attention_maps.render_text(nasty(), width=100, color=color)
        assert "\x1b[31m" not in said
        assert "\u202e" not in said


def test_colour_in_a_terminal_is_taken_back_on_every_line():
    said = attention_maps.render_text(alignment(), width=60, color=True)
    for line in said.splitlines():
        codes = re.findall(r"\x1b\[([\d;]*)m", line)
        assert not codes or codes[-1] == "0"


@pytest.mark.parametrize("width", [24, 40, 100])
@pytest.mark.parametrize("size", [1, 7, 50, 90])
@pytest.mark.parametrize("color", [False, True])
def test_a_terminal_is_never_too_narrow(width, size, color):
    tokens = [f"token{k}" for k in range(size)]
    weights = [[1.0 if i == j else 0.0 for j in range(size)] for i in range(size)]
    told = AttentionMaps("many", tokens, tokens, [HeadMap(f"head {k}", weights) for k in range(3)])
    said = re.sub(r"\x1b\[[\d;]*m", "", attention_maps.render_text(told, width=width, color=color))
    assert max(map(len, said.splitlines())) <= width
    assert "head 2" in said


def long(size, count=1):
    """A sentence of so many words by one of a word less, each looking at the next."""
    rows, columns = [f"r{k}" for k in range(size)], [f"c{k}" for k in range(size - 1)]
    weights = [[float(j == (i + 1) % (size - 1)) for j in range(size - 1)] for i in range(size)]
    maps = [HeadMap(f"head {k}", weights) for k in range(count)]
    return AttentionMaps("x", rows, columns, maps, is_alignment=True)


def test_a_long_sentence_by_itself_has_its_words_beside_it():
    told = long(60)
    words = [
        mark.text for mark in attention_maps.render_picture(told).shapes if hasattr(mark, "text")
    ]
    assert set(told.rows) | set(told.columns) <= set(words)
    lines = attention_maps.render_text(told, width=80).splitlines()
    assert next(line for line in lines if line.startswith(" r6 ")) == " r6        █"
    assert "59 c58" in attention_maps.render_text(told, width=80)
    many = attention_maps.render_text(long(60, count=6), width=80)
    assert "r6" not in many
    assert "head 5" in many


def test_a_title_has_both_sides_however_long_they_are():
    title = f"{'we are eating bread ' * 9}→{' estamos comiendo pan' * 9}"
    told = replace(alignment(), title=title)
    said = attention_maps.map_title(told)
    assert said.startswith("Alignment: we are eating bread")
    assert "… → estamos comiendo pan" in said
    assert len(said) < 80


def test_columns_are_counted_where_they_have_other_names_than_rows():
    lines = attention_maps.render_text(long(12), width=80).splitlines()
    ruler = next(line for line in lines if line.split() == ["5", "10"])
    fourth = next(line for line in lines if line.startswith(" r3 "))
    assert fourth.index("██") + 1 == ruler.index("5")


def test_large_maps_are_images_and_small_ones_are_not():
    def told(size):
        weights = [[(i * j) % 7 / 7 for j in range(size)] for i in range(size)]
        return AttentionMaps("x", ["t"] * size, ["t"] * size, [HeadMap("h", weights)])

    assert "<image" not in attention_maps.render_picture(told(60)).svg()
    large = attention_maps.render_picture(told(120)).svg()
    assert large.count("<image") == 1
    assert len(large) < 20_000


def test_pixels_are_as_opaque_as_they_should_be():
    image = Image.open(BytesIO(encode_png_alpha([[0.0, 0.5], [1.0, 0.25]], "#bf5100"))).convert(
        "RGBA"
    )
    assert image.size == (2, 2)
    assert image.getpixel((1, 0)) == (0xBF, 0x51, 0x00, 128)
    assert [image.getpixel(at)[3] for at in ((0, 0), (0, 1), (1, 1))] == [0, 255, 64]


def test_a_picture_as_png_shows_what_is_opaque():
    picture = attention_maps.render_picture(
        AttentionMaps("x", ["a", "b"], ["a", "b"], [HeadMap("h", [[1, 0], [0, 1]])])
    )
    (grid,) = [mark for mark in picture.shapes if hasattr(mark, "opacities")]
    image = Image.open(BytesIO(picture.png(scale=1))).convert("RGB")
    inside = image.getpixel((round(grid.x + grid.width / 4), round(grid.y + grid.height / 4)))
    beside = image.getpixel((round(grid.x + 3 * grid.width / 4), round(grid.y + grid.height / 4)))
    assert inside == (0xBF, 0x51, 0x00)
    assert beside == (255, 255, 255)
