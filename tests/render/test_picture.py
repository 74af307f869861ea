"""Pictures: the same marks as SVG and as PNG, and files that are whole or not there."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from workings.errors import UserError
from workings.render import raster
from workings.render.colors import theme_colors
from workings.render.images import encode_png_rgb
from workings.render.page import base_css as page_style
from workings.render.pictures import Picture
from workings.render.svg_writer import picture_css

SVG = "{http://www.w3.org/2000/svg}"
LIGHT = theme_colors("light")
NASTY = [
    "<script>alert(1)</script>",
    "]]> <!-- </svg>",
    '" onload="alert(1)',
    "\x1b[31mred\u202eevil\r\n",
    "中文词",
    "\ufffe\uffff\x00\ud800",
]


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg())  # noqa: S314 our own


def opened(picture: Picture, scale: float = 2) -> Image.Image:
    return Image.open(io.BytesIO(picture.png(scale))).convert("RGB")


def rgb(name: str) -> tuple[int, int, int]:
    code = LIGHT.get(name, name)
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)


@pytest.fixture
def picture() -> Picture:
    """Every kind of mark, none on another."""
    made = Picture(200, 100, "All kinds")
    made.add_line([(10, 10), (90, 10)], "c1", width=4)
    made.add_rectangle(20, 30, 20, 10, "p8")
    made.add_polygon([(60, 30), (80, 30), (70, 50)], "c2")
    made.add_circle(110, 40, 6, "#00aa00")
    made.add_text(100, 80, "words", anchor="middle")
    return made


def test_the_svg_stands_alone_and_says_what_it_is(picture: Picture) -> None:
    root = parsed(picture)
    assert (root.tag, root.get("role"), root.get("viewBox")) == (f"{SVG}svg", "img", "0 0 200 100")
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "All kinds"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|href", picture.svg())


@pytest.mark.parametrize("text", NASTY)
def test_anybodys_text_is_only_text(text: str) -> None:
    made = Picture(200, 100, text)
    made.add_text(10, 10, text)
    root = parsed(made)
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "title", "style", "rect", "text")
    }
    found = root.find(f"{SVG}text")
    assert found is not None
    assert set(found.attrib) == {"class", "fill", "font-size", "x", "y"}
    made.png(1)


def test_plain_text_comes_through_unchanged() -> None:
    made = Picture(200, 100, 'a < b & "c"')
    root = parsed(made)
    assert root.findtext(f"{SVG}title") == 'a < b & "c"'


def test_every_class_has_a_rule_in_both_themes(picture: Picture) -> None:
    written = picture.svg()
    for kind, name in re.findall(r'class="([fs])-(\w+)"', written):
        how = {"f": "fill", "s": "stroke"}[kind]
        assert f".picture .{kind}-{name} {{ {how}: var(--{name}); }}" in written
        assert written.count(f" --{name}: ") == 2
        assert (
            f"--{name}: {theme_colors('dark')[name]}"
            in written.split("prefers-color-scheme: dark")[1]
        )


def test_a_page_may_bring_the_style_itself(picture: Picture) -> None:
    bare = picture.svg(styled=False)
    assert "<style" not in bare
    assert "style=" not in bare  # a page's policy forbids that, too
    used = set(re.findall(r'class="(\w-\w+)"', bare))
    assert used
    assert all(f".picture .{name} {{" in picture_css() for name in used)


def test_pictures_and_pages_have_the_same_ink_and_paper() -> None:
    light, dark = page_style().split("(prefers-color-scheme: dark)")
    for name in ("ink", "soft", "line", "paper"):
        assert f"--{name}: {LIGHT[name]};" in light
        assert f"--{name}: {theme_colors('dark')[name]};" in dark


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_the_png_has_its_size_and_the_marks_their_places(picture: Picture, scale: int) -> None:
    image = opened(picture, scale)
    assert image.size == (200 * scale, 100 * scale)
    marked = {(50, 9): "c1", (30, 35): "p8", (70, 38): "c2", (110, 40): "#00aa00"}
    beside = {(8, 10), (50, 12), (50, 7), (41, 35), (61, 40), (150, 60)}
    for (x, y), colour in {**marked, **dict.fromkeys(beside, "paper")}.items():
        assert image.getpixel((int((x + 0.5) * scale), int((y + 0.5) * scale))) == rgb(colour)


def test_edges_are_smooth() -> None:
    made = Picture(60, 60, "")
    made.add_line([(5, 5), (55, 40)], "#000000", width=2)
    assert len(opened(made, 1).getcolors() or []) > 8


def test_what_is_added_later_lies_above() -> None:
    made = Picture(40, 40, "")
    made.add_rectangle(0, 0, 40, 40, "c1")
    made.add_circle(20, 20, 10, "c2")
    made.add_rectangle(15, 15, 10, 10, "c3")
    image = opened(made, 1)
    assert [image.getpixel((k, 20)) for k in (2, 12, 20)] == [rgb("c1"), rgb("c2"), rgb("c3")]
    assert [element.tag for element in parsed(made)][-3:] == [f"{SVG}g", f"{SVG}circle", f"{SVG}g"]


def test_cells_side_by_side_leave_no_seam() -> None:
    made = Picture(100, 20, "")
    for k in range(30):
        made.add_rectangle(k * 10 / 3, 0, 10 / 3, 20, "c1")
    assert opened(made, 1).getcolors() == [(2000, rgb("c1"))]


def test_half_opaque_is_half_way() -> None:
    made = Picture(20, 20, "")
    made.add_rectangle(0, 0, 20, 20, "#000000", opacity=0.5)
    value = opened(made, 1).getpixel((10, 10))
    assert isinstance(value, tuple)
    assert all(abs(part - 127) <= 1 for part in value)
    assert 'fill-opacity="0.5"' in made.svg()


def test_an_image_is_written_once_and_seen_wherever_it_is_put() -> None:
    made = Picture(100, 40, "")
    photo = encode_png_rgb(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8))
    made.add_image((10, 10, 20, 20), photo)
    made.add_image((50, 10, 40, 20), photo)
    image = opened(made, 1)
    seen = [image.getpixel((x, 20)) for x in (5, 12, 28, 40, 53, 87)]
    red, blue, paper = (255, 0, 0), (0, 0, 255), rgb("paper")
    assert seen == [paper, red, blue, paper, red, blue]
    root = parsed(made)
    assert len(root.findall(f".//{SVG}image")) == 1
    assert len(root.findall(f"{SVG}use")) == 2


@pytest.mark.parametrize("anchor", ["start", "middle", "end"])
@pytest.mark.parametrize("turn", [0, 45, 90])
def test_text_stands_where_its_anchor_says(anchor: str, turn: int) -> None:
    made = Picture(200, 200, "")
    made.add_text(100, 100, "HHHHHH", anchor=anchor, rotation=turn, size=14)  # type: ignore[arg-type]
    image = opened(made, 1).convert("L").point(lambda value: 255 if value < 128 else 0)
    left, top, right, bottom = image.getbbox() or (0, 0, 0, 0)
    # Along the text: before the anchor, on both sides of it, or behind it.
    low, high = (left - 100, right - 100) if turn < 90 else (100 - bottom, 100 - top)
    rises = 12 * (turn == 45)  # what the letters' height adds
    expected = {"start": (0, None), "middle": (None, None), "end": (None, 0)}[anchor]
    if expected[0] is not None:
        assert -2 - rises <= low <= 3
    elif expected[1] is not None:
        assert -3 - rises <= high <= 2
    else:
        assert abs(low + high) <= 4 + rises
    if turn == 0:
        assert bottom in (99, 100, 101)
    if turn == 90:
        assert right in (99, 100, 101)


def test_dashes_are_dashes_in_both() -> None:
    made = Picture(200, 20, "")
    made.add_line([(0, 10), (90, 10), (200, 10)], "#000000", 2, dashed=True)
    assert 'stroke-dasharray="5 3.5"' in made.svg()
    row = [opened(made, 1).convert("L").getpixel((x, 10)) for x in range(200)]
    assert abs(sum(value < 128 for value in row) - 200 * 5 / 8.5) < 15  # type: ignore[operator]


@pytest.mark.parametrize("name", ["a.svg", "a.PNG", "a.Svg", "a.png"])
def test_the_suffix_chooses(tmp_path: Path, picture: Picture, name: str) -> None:
    picture.save(tmp_path / name)
    picture.save(str(tmp_path / name))  # over the old one
    start = (tmp_path / name).read_bytes()[:4]
    assert start == (b"<svg" if name.lower().endswith("svg") else b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.jpg", "a", "svg", "a.svg.gz", ".png"])
def test_another_suffix_is_refused(tmp_path: Path, picture: Picture, name: str) -> None:
    with pytest.raises(UserError, match=r"ends in \.svg or \.png"):
        picture.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.svg").write_text("old")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        picture.save(tmp_path / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    assert (tmp_path / "a.svg").read_text() == "old"


def test_without_pillow_it_says_what_to_install(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "workings.render.raster")
    with pytest.raises(ModuleNotFoundError, match=r'PNG needs PIL: pip install "workings\[pict'):
        picture.save(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
    picture.save(tmp_path / "a.svg")


def test_without_a_font_of_the_system_pillow_brings_one(
    picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_font = opened(picture)
    raster._load_font.cache_clear()
    monkeypatch.setattr(raster, "_FONTS", {False: (), True: ()})
    without = opened(picture)
    raster._load_font.cache_clear()
    assert without.tobytes() != with_font.tobytes()
    assert without.crop((0, 120, 400, 200)).convert("L").getextrema()[0] < 60  # type: ignore[operator]


@pytest.mark.parametrize(
    "add",
    [
        lambda p: p.add_line([(0, 0), (float("nan"), 1)]),
        lambda p: p.add_rectangle(0, 0, float("inf"), 1, "c1"),
        lambda p: p.add_circle(0, 0, 3, "blue"),
        lambda p: p.add_text(0, 0, "x", color='"/><script>'),
        lambda _: Picture(0, 10, ""),
        lambda _: Picture(float("nan"), 10, ""),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    picture: Picture, add: Callable[[Picture], object]
) -> None:
    before = list(picture.shapes)
    with pytest.raises(UserError, match=r"expected|colour"):
        add(picture)
    assert picture.shapes == before


def test_thousands_of_cells_stay_small() -> None:
    made = Picture(1000, 1000, "")
    for k in range(10_000):
        made.add_rectangle(k % 100 * 10, k // 100 * 10, 10, 10, f"p{k % 8 + 1}")
    assert len(made.svg()) < 70 * 10_000
    assert len(parsed(made).findall(f".//{SVG}path")) == 10_000
