"""Caption attention as page, picture and text, for any words, images and grids."""

import base64
import io
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from workings.errors import UserError
from workings.interpret.results import CaptionAttention
from workings.plain_text import visible_width
from workings.render import caption_attention
from workings.render.caption_attention import WordAttention, word_attention

HOSTILE_TEXTS = ["<script>alert(1)</script>", '" onload="x', "\x1b[31mred\u202e\n", "中文", "a b"]


def make_caption(words, grid=(4, 4), size=(32, 48), weights=True, name="scene 1"):
    rng = np.random.default_rng(len(words))
    image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    attention = rng.dirichlet(np.full(grid[0] * grid[1], 0.3), len(words)).reshape(-1, *grid)
    return CaptionAttention(image, words, attention if weights else None, -3.5, name)


class Page(HTMLParser):
    """Parses a page, checks that every tag is closed and collects tags and texts."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
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
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_page_has_the_image_once_and_a_tile_per_word():
    caption = make_caption(["a", "dog", "runs"])
    page = Page(caption.html())
    assert len(page.all("li")) == 3
    assert len(page.all("use")) == 4
    assert [attributes["role"] for attributes in page.all("svg")] == ["img"] * 4
    assert all(attributes["aria-label"] for attributes in page.all("svg"))
    photo, *shadows = (attributes["href"] for attributes in page.all("image"))
    assert len(shadows) == 3
    images = [
        Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,"))))
        for uri in (photo, *shadows)
    ]
    assert (np.asarray(images[0]) == caption.image).all()
    assert {use["href"] for use in page.all("use")} == {f"#{page.all('image')[0]['id']}"}
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert "img-src data:" in policy
    assert "script-src" not in policy
    assert not re.search(r"https?://", caption.html())


def test_table_has_the_numbers_of_the_tiles():
    caption = make_caption(["a", "dog"], grid=(3, 3))
    texts = Page(caption.html()).texts
    for word in word_attention(caption):
        row, column = word.peak_cell
        start = texts.index(f"{word.max_weight:.3f}")
        assert texts[start - 2 : start] == [word.word, word.location]
        assert texts[start + 1 : start + 4] == [
            str(row + 1),
            str(column + 1),
            str(word.cells_with_half_weight),
        ]


def test_hostile_words_stay_text():
    caption = make_caption(HOSTILE_TEXTS, name=HOSTILE_TEXTS[0])
    for page in (caption.html(), caption._repr_html_(), caption.svg()):
        assert "<script>" not in page
        assert '" onload="x' not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    Page(caption.html())
    ET.fromstring(caption.svg())  # noqa: S314 - our own
    for color in (False, True):
        text = caption.text(width=100, color=color)
        assert "\x1b[31m" not in text
        assert "\u202e" not in text
    json.dumps(caption.to_dict())


def test_without_weights_only_image_and_caption_are_shown():
    caption = make_caption(["a", "dog"], weights=False)
    page = Page(caption.html())
    assert len(page.all("svg")) == 1
    assert not page.all("li") + page.all("table")
    assert "a dog" in caption.text(width=60).splitlines()[0]
    assert caption.picture().height < 450
    assert caption.to_dict()["weights"] is None
    empty = CaptionAttention(caption.image, [], np.zeros((0, 2, 2)), 0.0, "nothing")
    assert "(no words)" in empty.html()
    empty.picture()
    empty.text(color=True)


@pytest.mark.parametrize("width", [24, 40, 80, 130])
@pytest.mark.parametrize("grid", [(1, 1), (7, 7), (3, 40)])
@pytest.mark.parametrize("size", [(32, 48), (60, 20), (1, 300)])
@pytest.mark.parametrize("color", [False, True])
def test_text_fits_into_every_terminal(width, grid, size, color):
    caption = make_caption([*["a", "brown", "dog", "runs"], "x" * 50, "中文" * 20], grid, size)
    text = caption.text(width=width, color=color)
    lines = text.splitlines()
    assert max(map(visible_width, lines)) <= width
    assert ("\x1b" in text) == color
    for line in lines:
        used = re.findall(r"\x1b\[([\d;]*)m", line)
        assert not used or used[-1] == "0"


def test_tiles_are_side_by_side_above_their_words():
    caption = make_caption(["a", "dog"], size=(36, 36))
    lines = caption.text(width=80, color=True).splitlines()
    under = next(k for k, line in enumerate(lines) if re.fullmatch(r"a +dog", line.rstrip()))
    assert visible_width(lines[under - 1]) == 18 + 2 + 18
    assert lines[under - 1].count("▀") == 36
    assert lines[under].index("dog") == 20


def test_colors_are_those_that_the_terminal_supports(monkeypatch):
    caption = make_caption(["dog"])
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "38;2;" in caption.text(width=60, color=True)
    monkeypatch.delenv("COLORTERM")
    text = caption.text(width=60, color=True)
    assert "38;5;" in text
    assert "38;2;" not in text
    assert "38;2;" in caption_attention.render_text(caption, width=60, color=True, true_color=True)


def test_tile_is_bright_where_the_weight_is():
    weights = np.zeros((1, 4, 4))
    weights[0, 3, 0] = 1
    gray = np.full((40, 40, 3), 200, np.uint8)
    caption = CaptionAttention(gray, ["corner"], weights, -1.0, "gray")
    picture = caption.picture()
    *_, tile = (shape for shape in picture.shapes if hasattr(shape, "png"))
    image = np.asarray(Image.open(io.BytesIO(picture.png(1))).convert("L")).astype(int)
    inside = image[int(tile.y) : int(tile.y + tile.height), int(tile.x) : int(tile.x + tile.width)]
    assert inside[130, 18] == pytest.approx(200, abs=3)
    assert inside[20, 130] == pytest.approx(40, abs=3)
    (word,) = word_attention(caption)
    assert (word.location, word.peak_cell, word.cells_with_half_weight) == (
        "bottom left",
        (3, 0),
        1,
    )


@pytest.mark.parametrize(
    ("cell", "location"),
    [
        ((0, 0), "top left"),
        ((0, 2), "top"),
        ((2, 2), "middle"),
        ((2, 4), "right"),
        ((4, 2), "bottom"),
    ],
)
def test_location_of_the_largest_weight(cell, location):
    grid = np.full((5, 5), 0.01)
    grid[cell] = 0.76
    assert WordAttention("x", grid).location == location
    assert WordAttention("x", np.full((5, 5), 0.04)).location == "all over"
    assert WordAttention("x", np.full((5, 5), 0.04)).peak_box is None


def test_sixty_words_fit_on_a_picture():
    caption = make_caption([f"word{k}" for k in range(60)], (14, 14), (64, 64))
    picture = caption.picture()
    assert picture.width <= 1100
    assert picture.height <= 2600
    assert len(picture.png(1)) < 4_000_000  # noise does not compress
    assert len(caption.html()) < 1_000_000


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
def test_invalid_captions_are_refused(fields):
    valid = {"image": np.zeros((4, 4, 3), np.uint8), "weights": np.ones((1, 2, 2)) / 4}
    with pytest.raises(UserError, match="expected"):
        CaptionAttention(words=["a"], log_probability=-1.0, name="x", **{**valid, **fields})
