"""A caption and where the model looked: every form, whatever the words and the picture are."""

import base64
import io
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from workings.errors import UserError
from workings.interpret.results import CaptionAttention, WordAttention
from workings.render import caption_attention
from workings.render.images import (
    MIN_SMOOTH_SIDE,
    ansi_colors,
    encode_png_rgb,
    fitted_size,
    half_blocks,
    resize,
    shrink_to_fit,
    smooth_upsample,
)
from workings.render.matrix import visible_width

NASTY = ["<script>alert(1)</script>", '" onload="x', "\x1b[31mred\u202e\n", "中文", "a b"]
GRIDS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 14), st.integers(1, 14)),
    elements=st.floats(0, 1, allow_subnormal=False),
)


def made(words, grid=(4, 4), size=(32, 48), weights=True, name="scene 1"):
    dice = np.random.default_rng(len(words))
    picture = dice.integers(0, 256, (*size, 3), dtype=np.uint8)
    shares = dice.dirichlet(np.full(grid[0] * grid[1], 0.3), len(words)).reshape(-1, *grid)
    return CaptionAttention(picture, words, shares if weights else None, -3.5, name)


class Reader(HTMLParser):
    """Every tag that is opened is closed, and all attributes are kept."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_a_page_has_the_picture_once_and_a_tile_a_word():
    told = made(["a", "dog", "runs"])
    read = Reader(told.html())
    assert len(read.all("li")) == 3
    assert len(read.all("use")) == 4
    assert [attributes["role"] for attributes in read.all("svg")] == ["img"] * 4
    assert all(attributes["aria-label"] for attributes in read.all("svg"))
    photo, *shadows = (attributes["href"] for attributes in read.all("image"))
    assert len(shadows) == 3
    images = [
        Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
        for uri in (photo, *shadows)
    ]
    assert (np.asarray(images[0]) == told.image).all()
    assert {use["href"] for use in read.all("use")} == {f"#{read.all('image')[0]['id']}"}
    (policy,) = (m["content"] for m in read.all("meta") if "http-equiv" in m)
    assert "img-src data:" in policy
    assert "script-src" not in policy
    assert not re.search(r"https?://", told.html())


def test_what_the_tiles_show_stands_in_a_table():
    told = made(["a", "dog"], grid=(3, 3))
    words = Reader(told.html()).words
    for look in told.word_attention():
        row, column = look.peak_cell
        start = words.index(f"{look.max_weight:.3f}")
        assert words[start - 2 : start] == [look.word, look.location]
        assert words[start + 1 : start + 4] == [
            str(row + 1),
            str(column + 1),
            str(look.cells_with_half_weight),
        ]


def test_words_do_no_harm():
    told = made(NASTY, name=NASTY[0])
    for page in (told.html(), told._repr_html_(), told.svg()):
        assert "<script>" not in page
        assert '" onload="x' not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    Reader(told.html())
    ET.fromstring(told.svg())  # noqa: S314 - our own
    for color in (False, True):
        said = told.text(width=100, color=color)
        assert "\x1b[31m" not in said
        assert "\u202e" not in said
    json.dumps(told.to_dict())


def test_without_weights_there_is_the_picture_and_the_caption():
    told = made(["a", "dog"], weights=False)
    read = Reader(told.html())
    assert len(read.all("svg")) == 1
    assert not read.all("li") + read.all("table")
    assert "a dog" in told.text(width=60).splitlines()[0]
    assert told.picture().height < 450
    assert told.to_dict()["weights"] is None
    silent = CaptionAttention(told.image, [], np.zeros((0, 2, 2)), 0.0, "nothing")
    assert "(no words)" in silent.html()
    silent.picture()
    silent.text(color=True)


@pytest.mark.parametrize("width", [24, 40, 80, 130])
@pytest.mark.parametrize("grid", [(1, 1), (7, 7), (3, 40)])
@pytest.mark.parametrize("size", [(32, 48), (60, 20), (1, 300)])
@pytest.mark.parametrize("color", [False, True])
def test_a_terminal_is_never_too_narrow(width, grid, size, color):
    told = made([*["a", "brown", "dog", "runs"], "x" * 50, "中文" * 20], grid, size)
    said = told.text(width=width, color=color)
    lines = said.splitlines()
    assert max(map(visible_width, lines)) <= width
    assert ("\x1b" in said) == color
    for line in lines:
        used = re.findall(r"\x1b\[([\d;]*)m", line)
        assert not used or used[-1] == "0"


def test_tiles_stand_side_by_side_above_their_words():
    told = made(["a", "dog"], size=(36, 36))
    lines = told.text(width=80, color=True).splitlines()
    under = next(k for k, line in enumerate(lines) if re.fullmatch(r"a +dog", line.rstrip()))
    assert visible_width(lines[under - 1]) == 18 + 2 + 18
    assert lines[under - 1].count("▀") == 36
    assert lines[under].index("dog") == 20


def test_colours_are_those_that_the_terminal_has(monkeypatch):
    told = made(["dog"])
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "38;2;" in told.text(width=60, color=True)
    monkeypatch.delenv("COLORTERM")
    said = told.text(width=60, color=True)
    assert "38;5;" in said
    assert "38;2;" not in said
    assert "38;2;" in caption_attention.render_text(told, width=60, color=True, true_color=True)


def test_the_nearest_of_256_colours():
    wanted = np.array([[[0, 0, 0], [255, 255, 255], [128, 128, 128], [0, 135, 175], [250, 3, 0]]])
    found = ansi_colors(wanted.astype(np.uint8), true_color=False)
    assert found == [["5;16", "5;231", "5;244", "5;31", "5;196"]]
    assert half_blocks([["5;1"], ["5;2"], ["5;3"]]) == [
        "\x1b[38;5;1;48;5;2m▀\x1b[0m",
        "\x1b[38;5;3;49m▀\x1b[0m",
    ]


@given(GRIDS)
def test_what_is_smooth_keeps_its_largest_where_it_was(grid):
    fine = smooth_upsample(grid)
    times = fine.shape[0] // grid.shape[0]
    assert max(fine.shape) >= MIN_SMOOTH_SIDE
    assert fine.max() == pytest.approx(grid.max())
    assert fine.min() >= grid.min() - 1e-12
    middles = fine[times // 2 :: times, times // 2 :: times]
    assert middles == pytest.approx(grid)
    row, column = (place // times for place in np.unravel_index(fine.argmax(), fine.shape))
    assert grid[row, column] == pytest.approx(grid.max())


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_another_size_has_the_same_mean(height, width, tall, wide):
    image = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    sized = resize(image, tall, wide)
    assert sized.shape == (tall, wide, 3)
    assert sized.mean((0, 1)) == pytest.approx(image.mean((0, 1)))
    assert (resize(image, height, width) == image).all()
    whole = resize(image, 2 * height, 2 * width)
    assert (whole[::2, 1::2] == image).all()


def test_large_pictures_are_made_smaller_small_ones_are_not():
    large, small = np.zeros((600, 800, 3), np.uint8), np.zeros((30, 40, 3), np.uint8)
    assert shrink_to_fit(large, 400).shape == (300, 400, 3)
    assert shrink_to_fit(small, 400) is small
    assert fitted_size(np.zeros((1, 900, 3), np.uint8), 20) == (1, 20)


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3))))
def test_an_image_comes_back_from_its_file(pixels):
    assert (np.asarray(Image.open(io.BytesIO(encode_png_rgb(pixels)))) == pixels).all()


def test_light_lies_where_the_weight_is():
    weights = np.zeros((1, 4, 4))
    weights[0, 3, 0] = 1
    grey = np.full((40, 40, 3), 200, np.uint8)
    told = CaptionAttention(grey, ["corner"], weights, -1.0, "grey")
    drawn = told.picture()
    *_, tile = (mark for mark in drawn.shapes if hasattr(mark, "png"))
    image = np.asarray(Image.open(io.BytesIO(drawn.png(1))).convert("L")).astype(int)
    inside = image[int(tile.y) : int(tile.y + tile.height), int(tile.x) : int(tile.x + tile.width)]
    assert inside[130, 18] == pytest.approx(200, abs=3)
    assert inside[20, 130] == pytest.approx(40, abs=3)
    (look,) = told.word_attention()
    assert (look.location, look.peak_cell, look.cells_with_half_weight) == (
        "bottom left",
        (3, 0),
        1,
    )


@pytest.mark.parametrize(
    ("cell", "where"),
    [
        ((0, 0), "top left"),
        ((0, 2), "top"),
        ((2, 2), "middle"),
        ((2, 4), "right"),
        ((4, 2), "bottom"),
    ],
)
def test_places_have_names(cell, where):
    grid = np.full((5, 5), 0.01)
    grid[cell] = 0.76
    assert WordAttention("x", grid).location == where
    assert WordAttention("x", np.full((5, 5), 0.04)).location == "all over"
    assert WordAttention("x", np.full((5, 5), 0.04)).peak_box is None


def test_sixty_words_fit_on_a_picture():
    told = made([f"word{k}" for k in range(60)], (14, 14), (64, 64))
    drawn = told.picture()
    assert drawn.width <= 1100
    assert drawn.height <= 2600
    assert len(drawn.png(1)) < 4_000_000  # of noise, which no file makes small
    assert len(told.html()) < 1_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"image": np.zeros((4, 4), np.uint8)},
        {"image": np.zeros((4, 4, 3))},
        {"image": np.zeros((0, 4, 3), np.uint8)},
        {"weights": np.ones((2, 2, 2)) / 4},
        {"weights": np.ones((1, 4)) / 4},
        {"weights": np.full((1, 2, 2), np.nan)},
        {"weights": np.full((1, 2, 2), -0.25)},
    ],
)
def test_what_does_not_fit_together(fields):
    right = {"image": np.zeros((4, 4, 3), np.uint8), "weights": np.ones((1, 2, 2)) / 4}
    with pytest.raises(UserError, match="expected"):
        CaptionAttention(words=["a"], log_probability=-1.0, name="x", **{**right, **fields})
