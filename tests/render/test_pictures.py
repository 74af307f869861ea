"""Pictures: the width of text, shapes as SVG and PNG, files, several pictures side by side."""

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageFont

from workings.errors import UserError, install_command
from workings.render import raster
from workings.render.chart import Series, line_chart
from workings.render.colors import theme_colors
from workings.render.images import encode_png_rgb
from workings.render.page import base_css
from workings.render.pictures import (
    Picture,
    side_by_side,
    text_width,
    truncate_to_pixels,
    wrap_to_pixels,
)
from workings.render.svg_writer import picture_css

SVG = "{http://www.w3.org/2000/svg}"
LIGHT = theme_colors("light")
HOSTILE_TEXTS = [
    "<script>alert(1)</script>",
    "]]> <!-- </svg>",
    '" onload="alert(1)',
    "\x1b[31mred\u202eevil\r\n",
    "中文词",
    "\ufffe\uffff\x00\ud800",
]


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("text", ["loss, nats per token", "−2.5·10⁻⁷", "LSTM & GRU @ 100\u00a0%"])
def test_text_is_not_wider_than_measured(text: str, bold: bool) -> None:
    try:
        font = ImageFont.truetype(f"DejaVuSans{'-Bold' * bold}.ttf", 100)
    except OSError:
        pytest.skip("no DejaVu Sans here")
    assert 1 <= text_width(text, 100, bold) / font.getlength(text) < 1.12


@pytest.mark.parametrize("max_width", [0, 5, 30, 77, 200, 1000])
def test_truncated_and_wrapped_text_fits(max_width: float) -> None:
    for text in ("a name that is rather long", "x" * 50, "中文词" * 9, "", "a b"):
        ellipsis = text_width("…", 10)
        assert text_width(truncate_to_pixels(text, max_width, 10), 10) <= max(max_width, ellipsis)
        lines = wrap_to_pixels(text, max_width, 10)
        assert len(lines) <= 2
        assert all(text_width(line, 10) <= max(max_width, ellipsis) for line in lines)
        if max_width == 1000:
            assert lines == [text]


def parse_svg(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg())  # noqa: S314 our own


def open_png(picture: Picture, scale: float = 2) -> Image.Image:
    return Image.open(io.BytesIO(picture.png(scale))).convert("RGB")


def rgb(name: str) -> tuple[int, int, int]:
    code = LIGHT.get(name, name)
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)


@pytest.fixture
def picture() -> Picture:
    """A picture with shapes of every kind that do not overlap."""
    made = Picture(200, 100, "All kinds")
    made.add_line([(10, 10), (90, 10)], "c1", width=4)
    made.add_rectangle(20, 30, 20, 10, "p8")
    made.add_polygon([(60, 30), (80, 30), (70, 50)], "c2")
    made.add_circle(110, 40, 6, "#00aa00")
    made.add_text(100, 80, "words", anchor="middle")
    return made


def test_svg_has_a_title_and_needs_no_other_file(picture: Picture) -> None:
    root = parse_svg(picture)
    assert (root.tag, root.get("role"), root.get("viewBox")) == (f"{SVG}svg", "img", "0 0 200 100")
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "All kinds"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|href", picture.svg())


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_stays_text(text: str) -> None:
    made = Picture(200, 100, text)
    made.add_text(10, 10, text)
    root = parse_svg(made)
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "title", "style", "rect", "text")
    }
    element = root.find(f"{SVG}text")
    assert element is not None
    assert set(element.attrib) == {"class", "fill", "font-size", "x", "y"}
    made.png(1)


def test_special_characters_are_unchanged_after_parsing() -> None:
    made = Picture(200, 100, 'a < b & "c"')
    root = parse_svg(made)
    assert root.findtext(f"{SVG}title") == 'a < b & "c"'


def test_every_class_has_a_rule_in_both_themes(picture: Picture) -> None:
    svg = picture.svg()
    for kind, name in re.findall(r'class="([fs])-(\w+)"', svg):
        how = {"f": "fill", "s": "stroke"}[kind]
        assert f".picture .{kind}-{name} {{ {how}: var(--{name}); }}" in svg
        assert svg.count(f" --{name}: ") == 2
        assert (
            f"--{name}: {theme_colors('dark')[name]}" in svg.split("prefers-color-scheme: dark")[1]
        )


def test_unstyled_svg_uses_the_rules_of_the_page(picture: Picture) -> None:
    bare = picture.svg(styled=False)
    assert "<style" not in bare
    assert "style=" not in bare  # the policy of a page forbids this, too
    used = set(re.findall(r'class="(\w-\w+)"', bare))
    assert used
    assert all(f".picture .{name} {{" in picture_css() for name in used)


def test_pictures_and_pages_have_the_same_colors() -> None:
    light, dark = base_css().split("(prefers-color-scheme: dark)")
    for name in ("ink", "soft", "line", "paper"):
        assert f"--{name}: {LIGHT[name]};" in light
        assert f"--{name}: {theme_colors('dark')[name]};" in dark


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_png_has_its_size_and_the_shapes_their_places(picture: Picture, scale: int) -> None:
    image = open_png(picture, scale)
    assert image.size == (200 * scale, 100 * scale)
    marked = {(50, 9): "c1", (30, 35): "p8", (70, 38): "c2", (110, 40): "#00aa00"}
    beside = {(8, 10), (50, 12), (50, 7), (41, 35), (61, 40), (150, 60)}
    for (x, y), colour in {**marked, **dict.fromkeys(beside, "paper")}.items():
        assert image.getpixel((int((x + 0.5) * scale), int((y + 0.5) * scale))) == rgb(colour)


def test_edges_are_antialiased() -> None:
    made = Picture(60, 60, "")
    made.add_line([(5, 5), (55, 40)], "#000000", width=2)
    assert len(open_png(made, 1).getcolors() or []) > 8


def test_later_shapes_cover_earlier_ones() -> None:
    made = Picture(40, 40, "")
    made.add_rectangle(0, 0, 40, 40, "c1")
    made.add_circle(20, 20, 10, "c2")
    made.add_rectangle(15, 15, 10, 10, "c3")
    image = open_png(made, 1)
    assert [image.getpixel((k, 20)) for k in (2, 12, 20)] == [rgb("c1"), rgb("c2"), rgb("c3")]
    assert [element.tag for element in parse_svg(made)][-3:] == [
        f"{SVG}g",
        f"{SVG}circle",
        f"{SVG}g",
    ]


def test_adjacent_rectangles_leave_no_seam() -> None:
    made = Picture(100, 20, "")
    for k in range(30):
        made.add_rectangle(k * 10 / 3, 0, 10 / 3, 20, "c1")
    assert open_png(made, 1).getcolors() == [(2000, rgb("c1"))]


def test_opacity_blends_with_the_background() -> None:
    made = Picture(20, 20, "")
    made.add_rectangle(0, 0, 20, 20, "#000000", opacity=0.5)
    value = open_png(made, 1).getpixel((10, 10))
    assert isinstance(value, tuple)
    assert all(abs(part - 127) <= 1 for part in value)
    assert 'fill-opacity="0.5"' in made.svg()


def test_image_is_written_once_and_drawn_everywhere() -> None:
    made = Picture(100, 40, "")
    photo = encode_png_rgb(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8))
    made.add_image((10, 10, 20, 20), photo)
    made.add_image((50, 10, 40, 20), photo)
    image = open_png(made, 1)
    seen = [image.getpixel((x, 20)) for x in (5, 12, 28, 40, 53, 87)]
    red, blue, paper = (255, 0, 0), (0, 0, 255), rgb("paper")
    assert seen == [paper, red, blue, paper, red, blue]
    root = parse_svg(made)
    assert len(root.findall(f".//{SVG}image")) == 1
    assert len(root.findall(f"{SVG}use")) == 2


@pytest.mark.parametrize("anchor", ["start", "middle", "end"])
@pytest.mark.parametrize("rotation", [0, 45, 90])
def test_text_is_placed_by_its_anchor(anchor: str, rotation: int) -> None:
    made = Picture(200, 200, "")
    made.add_text(100, 100, "HHHHHH", anchor=anchor, rotation=rotation, size=14)  # type: ignore[arg-type]
    image = open_png(made, 1).convert("L").point(lambda value: 255 if value < 128 else 0)
    left, top, right, bottom = image.getbbox() or (0, 0, 0, 0)
    # The extent along the text, relative to the anchor.
    low, high = (left - 100, right - 100) if rotation < 90 else (100 - bottom, 100 - top)
    rises = 12 * (rotation == 45)  # the height of the letters
    expected = {"start": (0, None), "middle": (None, None), "end": (None, 0)}[anchor]
    if expected[0] is not None:
        assert -2 - rises <= low <= 3
    elif expected[1] is not None:
        assert -3 - rises <= high <= 2
    else:
        assert abs(low + high) <= 4 + rises
    if rotation == 0:
        assert bottom in (99, 100, 101)
    if rotation == 90:
        assert right in (99, 100, 101)


def test_dashes_in_svg_and_png() -> None:
    made = Picture(200, 20, "")
    made.add_line([(0, 10), (90, 10), (200, 10)], "#000000", 2, dashed=True)
    assert 'stroke-dasharray="5 3.5"' in made.svg()
    row = [open_png(made, 1).convert("L").getpixel((x, 10)) for x in range(200)]
    assert abs(sum(value < 128 for value in row) - 200 * 5 / 8.5) < 15  # type: ignore[operator]


@pytest.mark.parametrize("name", ["a.svg", "a.PNG", "a.Svg", "a.png"])
def test_suffix_selects_the_format(tmp_path: Path, picture: Picture, name: str) -> None:
    picture.save(tmp_path / name)
    picture.save(str(tmp_path / name))  # over the old one
    start = (tmp_path / name).read_bytes()[:4]
    assert start == (b"<svg" if name.lower().endswith("svg") else b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.jpg", "a", "svg", "a.svg.gz", ".png"])
def test_other_suffixes_are_refused(tmp_path: Path, picture: Picture, name: str) -> None:
    with pytest.raises(UserError, match=r"ends in \.svg, \.pdf or \.png"):
        picture.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_failed_write_leaves_the_old_file(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.svg").write_text("old")

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        picture.save(tmp_path / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
    assert (tmp_path / "a.svg").read_text() == "old"


def test_error_without_pillow_says_what_to_install(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "workings.render.raster")
    hint = re.escape(f"PNG needs PIL: {install_command('pictures')}")
    with pytest.raises(ModuleNotFoundError, match=hint):
        picture.save(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
    picture.save(tmp_path / "a.svg")


def test_without_system_fonts_the_default_font_is_used(
    picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_font = open_png(picture)
    monkeypatch.setattr(raster, "split_by_font", lambda text, bold: [])  # noqa: ARG005
    without = open_png(picture)
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
def test_invalid_shapes_are_refused(picture: Picture, add: Callable[[Picture], object]) -> None:
    before = list(picture.shapes)
    with pytest.raises(UserError, match=r"expected|is not a color"):
        add(picture)
    assert picture.shapes == before


def test_thousands_of_rectangles_make_a_small_file() -> None:
    made = Picture(1000, 1000, "")
    for k in range(10_000):
        made.add_rectangle(k % 100 * 10, k // 100 * 10, 10, 10, f"p{k % 8 + 1}")
    assert len(made.svg()) < 70 * 10_000
    assert len(parse_svg(made).findall(f".//{SVG}path")) == 10_000


def make_panel() -> Picture:
    """A picture with shapes that store their position in different ways."""
    picture = line_chart(
        [Series("one", [(1, 2), (2, 3)])], title="Up", x_label="x", y_label="y", width=300
    )
    picture.add_polygon([(1, 1), (9, 1), (9, 9)], "c1")
    picture.add_grid((10, 20, 30, 40), [[0.5]], "c2")
    return picture


def test_side_by_side_translates_the_shapes():
    combined, count = side_by_side([make_panel(), make_panel()], "Both"), len(make_panel().shapes)
    first, second = combined.shapes[1 : count + 1], combined.shapes[count + 1 :]
    assert len(second) == count
    shifts = set()
    for shapes in zip(first, second, strict=True):
        (x, y), (moved_x, moved_y) = (
            shape.points[0] if hasattr(shape, "points") else (shape.x, shape.y) for shape in shapes
        )
        shifts.add((round(moved_x - x, 6), moved_y - y))
    assert shifts == {(310.0, 0.0)}


def test_side_by_side_leaves_its_panels_unchanged():
    panel = make_panel()
    before = list(panel.shapes)
    combined = side_by_side([panel, Picture(50, 600, "tall")], "A title that is far too long " * 9)
    assert panel.shapes == before
    assert (combined.width, combined.height) == (360, 656)
    assert combined.shapes[1].text.endswith("…")  # of two lines
    assert combined.svg().startswith("<svg")
