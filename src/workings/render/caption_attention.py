"""A caption and the attention over the image for each word: a picture, a page and text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workings.interpret.results import CaptionAttention
from workings.plain_text import (
    AnsiStyler,
    half_blocks,
    has_true_color,
    join_panels,
    output_columns,
    shade_blocks,
    to_one_line,
    truncate_to_columns,
    wrap_to_columns,
)
from workings.render.images import (
    ansi_colors,
    encode_png_alpha,
    encode_png_rgb,
    fitted_size,
    max_pool,
    resize,
    shrink_to_fit,
    smooth_upsample,
)
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture, truncate_to_pixels, wrap_to_pixels
from workings.render.svg_writer import Point, define_image, image_id, png_data_uri
from workings.render.tables import html_table

MAX_IMAGE_SIDE = 384  # pixels of the longer side; larger images are shrunk
DIMMING = 0.8  # of pixels without attention
FRAME_STROKES = (("#000000", 3.0), ("#ffffff", 1.5))  # color and width; visible on every image

# Of the picture, in pixels.
_MARGIN, _GAP = 16, 14
_TITLE_SIZE, _WORD_SIZE, _NOTE_SIZE = 16, 13, 11  # font sizes
_IMAGE_SIDE, _TILE_SIDE = 320, 150  # the longer side
_TILES_PER_ROW = 6

# Of the text, in characters.
_IMAGE_COLUMNS, _TILE_COLUMNS = 40, 18
_MIN_TILE_COLUMNS = 17  # for the word and its location below a narrow tile

_TABLE_HEADER = ("word", "location", "largest weight", "row", "column", "cells with half of it")

CAPTION_CSS = """
.workings .explanation { color: var(--soft); max-width: 46rem; margin: 0 0 1rem; }
.workings .photo { display: block; width: 100%; height: auto; }
.workings .captioned { max-width: 22rem; margin: 0 0 1.2rem; }
.workings .strip { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr));
  gap: 1.1rem .9rem; list-style: none; margin: 0 0 1.5rem; padding: 0; }
.workings .strip li { break-inside: avoid; max-width: 13rem; }
.workings .strip b { display: block; font-weight: 600; margin-top: .25rem; line-height: 1.25; }
.workings .strip span { color: var(--soft); font-size: .86rem; }
.workings summary { cursor: pointer; color: var(--soft); }
.workings table.plain th, .workings table.plain td { padding: .1rem .7rem; max-width: none; }
.workings table.plain .word { text-align: left; }
@media print {
  .workings .strip { grid-template-columns: repeat(5, 1fr); }
  .workings .captioned { max-width: 14rem; }
  .workings details:not([open]) { display: none; }
}
"""


@dataclass(frozen=True, eq=False)
class WordAttention:
    """A word of a caption, and its attention weights over the grid cells of the image."""

    word: str  # printable
    weights: NDArray[np.floating]

    @property
    def max_weight(self) -> float:
        return float(self.weights.max())

    @property
    def peak_cell(self) -> tuple[int, int]:
        """Row and column of the largest weight, from 0."""
        row, column = np.unravel_index(int(self.weights.argmax()), self.weights.shape)
        return int(row), int(column)

    @property
    def location(self) -> str:
        """The part of the image with the largest weight.

        >>> WordAttention("sky", np.array([[0.9, 0.0], [0.1, 0.0]])).location
        'top left'
        >>> WordAttention("the", np.array([[0.3, 0.2], [0.3, 0.2]])).location
        'all over'
        """
        if not self.is_localized:
            return "all over"
        names = (("top", "", "bottom"), ("left", "", "right"))
        sides = (
            thirds[int(3 * (index + 0.5) / count)]
            for thirds, index, count in zip(names, self.peak_cell, self.weights.shape, strict=True)
        )
        return " ".join(filter(None, sides)) or "middle"

    @property
    def peak_box(self) -> tuple[float, float, float, float] | None:
        """x, y, width and height of the cell with the largest weight, as fractions of the image.

        None if no cell stands out.
        """
        num_rows, num_columns = self.weights.shape
        row, column = self.peak_cell
        box = (column / num_columns, row / num_rows, 1 / num_columns, 1 / num_rows)
        return box if self.is_localized else None

    @property
    def is_localized(self) -> bool:
        """True if the largest weight is at least 1.5 times the mean."""
        return self.max_weight >= 1.5 * float(self.weights.mean())

    @property
    def cells_with_half_weight(self) -> int:
        """The smallest number of cells that have half of the weight."""
        descending = np.sort(self.weights, axis=None)[::-1]
        return int((descending.cumsum() < descending.sum() / 2).sum()) + 1

    @property
    def summary(self) -> str:
        """The largest weight and its location."""
        return f"{self.max_weight:.2f} {self.location}"


def word_attention(caption: CaptionAttention) -> list[WordAttention]:
    """Return the attention of each word; none if the model has no attention."""
    if caption.weights is None:
        return []
    return [
        WordAttention(to_one_line(word), grid)
        for word, grid in zip(caption.words, caption.weights, strict=True)
    ]


def word_brightness(word: WordAttention) -> NDArray[np.float64]:
    """Return the brightness of each pixel, 0 to 1, smoothed; 1 at the largest weight."""
    return smooth_upsample(word.weights / (word.max_weight or 1.0))


def word_darkness(word: WordAttention) -> list[list[float]]:
    """Return how much each pixel is darkened, 0 to 1."""
    darkness: list[list[float]] = (DIMMING * (1 - word_brightness(word))).tolist()
    return darkness


def legend_text(*, by_brightness: bool = True, has_frame: bool = True) -> str:
    """Return how to read the tile of a word."""
    frame = "; the frame marks the largest weight" if has_frame else ""
    quantity = "Brightness" if by_brightness else "Shade"
    return f"{quantity} is the attention weight for the word, relative to its largest{frame}."


def probability_note(caption: CaptionAttention) -> str:
    """Return the log-probability of the caption, in total and per word.

    >>> image = np.zeros((1, 1, 3), np.uint8)
    >>> probability_note(CaptionAttention(image, ["a", "dog"], None, -3.0, "dog.png"))
    'dog.png: log-probability −3.00, −1.50 per word'
    """
    total = f"{caption.log_probability:z.2f}".replace("-", "−")
    per_word = f"{caption.log_probability / max(len(caption.words), 1):z.2f}".replace("-", "−")
    return f"{to_one_line(caption.name)}: log-probability {total}, {per_word} per word"


def render_picture(caption: CaptionAttention, *, width: float | None = None) -> Picture:
    """Draw the image, and below it one tile per word, bright where the attention is."""
    room = None if width is None else max(width - 2 * _MARGIN, _TILE_SIDE)
    words = word_attention(caption)
    photo = encode_png_rgb(shrink_to_fit(caption.image, MAX_IMAGE_SIDE))
    per_row = _TILES_PER_ROW if room is None else int((room + _GAP) / (_TILE_SIDE + _GAP))
    image_side = _IMAGE_SIDE if room is None else min(_IMAGE_SIDE, int(room))
    image_height, image_width = fitted_size(caption.image, image_side)
    tile_size = fitted_size(caption.image, _TILE_SIDE)
    tiles_width = min(len(words), per_row) * (_TILE_SIDE + _GAP) - _GAP
    inner_width = room or max(tiles_width, _IMAGE_SIDE)
    title = wrap_to_pixels(caption.caption, inner_width, _TITLE_SIZE, bold=True, max_lines=4)
    note = wrap_to_pixels(probability_note(caption), inner_width, _NOTE_SIZE, max_lines=4)
    image_top = _MARGIN + len(title) * (_TITLE_SIZE + 6) + (_NOTE_SIZE + 5) * len(note) + 7
    legend = wrap_to_pixels(legend_text(), inner_width, _NOTE_SIZE, max_lines=4) if words else []
    tiles_top = image_top + image_height + (_NOTE_SIZE + 5) * max(len(legend), 1) + 23
    row_height = tile_size[0] + _WORD_SIZE + _NOTE_SIZE + 28
    num_rows = -(-len(words) // per_row)
    height = tiles_top + num_rows * row_height if words else image_top + image_height + _MARGIN
    picture = Picture(
        inner_width + 2 * _MARGIN,
        height,
        caption.caption,
        lambda new_width: render_picture(caption, width=new_width),
    )
    for k, line in enumerate(title, 1):
        y = _MARGIN + k * (_TITLE_SIZE + 6) - 8
        picture.add_text(_MARGIN, y, line, size=_TITLE_SIZE, bold=True)
    for bottom, lines in ((image_top - 14, note), (tiles_top - 10, legend)):
        for k, line in enumerate(reversed(lines)):
            picture.add_text(_MARGIN, bottom - k * (_NOTE_SIZE + 5), line, "soft", _NOTE_SIZE)
    picture.add_image((_MARGIN, image_top, image_width, image_height), photo)
    for k, word in enumerate(words):
        row, column = divmod(k, per_row)
        corner = (_MARGIN + column * (_TILE_SIDE + _GAP), tiles_top + row * row_height)
        _draw_tile(picture, word, photo, corner, tile_size)
    return picture


def _draw_tile(
    picture: Picture, word: WordAttention, photo: bytes, corner: Point, size: Point
) -> None:
    (x, y), (height, width) = corner, size
    picture.add_image((x, y, width, height), photo)
    picture.add_grid((x, y, width, height), word_darkness(word), "#000000")
    if word.peak_box:
        box_x, box_y, box_width, box_height = word.peak_box
        left, right = x + box_x * width, x + (box_x + box_width) * width
        top, bottom = y + box_y * height, y + (box_y + box_height) * height
        corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        for color, stroke_width in FRAME_STROKES:
            picture.add_line(corners, color, stroke_width)
    baseline = y + height + _WORD_SIZE + 4
    label = truncate_to_pixels(word.word, _TILE_SIDE, _WORD_SIZE)
    picture.add_text(x, baseline, label, size=_WORD_SIZE)
    picture.add_text(x, baseline + _NOTE_SIZE + 5, word.summary, "soft", _NOTE_SIZE)


def render_page(caption: CaptionAttention) -> str:
    """Return a page with the image, the tiles and a table of the weights."""
    body = f'<h1 dir="auto">{escape_html(caption.caption)}</h1>\n{caption_strip(caption)}'
    return html_page(caption.caption, body, style=CAPTION_CSS)


def render_fragment(caption: CaptionAttention) -> str:
    """Return the same as a fragment of a page, for a notebook."""
    body = f'<h3 dir="auto">{escape_html(caption.caption)}</h3>\n{caption_strip(caption)}'
    return html_fragment(body, style=CAPTION_CSS)


def caption_strip(caption: CaptionAttention) -> str:
    """Return the image, one tile per word and a table, as HTML without a title."""
    image = shrink_to_fit(caption.image, MAX_IMAGE_SIDE)
    photo, (height, width) = encode_png_rgb(image), image.shape[:2]
    reference = f'<use href="#{image_id(photo)}" transform="scale({width} {height})"/>'
    alt = f"{caption.name}: the captioned image"
    image_svg = _svg_element(alt, width, height, define_image(photo) + reference)
    parts = [
        f'<p class="explanation">{escape_html(probability_note(caption))}</p>',
        f'<div class="captioned">{image_svg}</div>',
    ]
    words = word_attention(caption)
    if words:
        tiles = "\n".join(_word_tile(word, width, height, reference) for word in words)
        parts += [
            f'<p class="explanation">{legend_text()}</p>\n<ol class="strip">\n{tiles}\n</ol>',
            _weights_table(words),
        ]
    return "\n".join(parts)


def _svg_element(alt: str, width: int, height: int, content: str) -> str:
    attributes = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape_html(alt)}"'
    return f'<svg class="photo" {attributes}>{content}</svg>'


def _word_tile(word: WordAttention, width: int, height: int, image_reference: str) -> str:
    """Return the image under a transparent black image that darkens it where weights are small."""
    shadow = png_data_uri(encode_png_alpha(word_darkness(word), "#000000"))
    size = f'width="{width}" height="{height}" preserveAspectRatio="none"'
    alt = f"Attention for “{word.word}”: {word.location}, largest weight {word.max_weight:.2f}"
    frame = _peak_frame(word, width, height)
    content = f'{image_reference}<image {size} href="{shadow}"/>{frame}'
    tile = _svg_element(alt, width, height, content)
    return f'<li>{tile}<b dir="auto">{escape_html(word.word)}</b><span>{word.summary}</span></li>'


def _peak_frame(word: WordAttention, width: int, height: int) -> str:
    if word.peak_box is None:
        return ""
    x, y, box_width, box_height = word.peak_box
    box = f'x="{x * width:.2f}" y="{y * height:.2f}" width="{box_width * width:.2f}"'
    box += f' height="{box_height * height:.2f}" fill="none" vector-effect="non-scaling-stroke"'
    return "".join(
        f'<rect {box} stroke="{color}" stroke-width="{stroke_width}"/>'
        for color, stroke_width in FRAME_STROKES
    )


def _weights_table(words: Sequence[WordAttention]) -> str:
    rows = [
        (
            word.word,
            word.location,
            f"{word.max_weight:.3f}",
            *(str(index + 1) for index in word.peak_cell),
            str(word.cells_with_half_weight),
        )
        for word in words
    ]
    height, width = words[0].weights.shape
    caption = f"Attention for each word, over a grid of {height} × {width} cells"
    table = html_table(_TABLE_HEADER, rows, text_columns=2, caption=caption)
    return (
        "<details>\n<summary>The same as a table</summary>\n"
        f'<div class="scroll">{table}</div>\n</details>'
    )


def render_text(
    caption: CaptionAttention,
    *,
    width: int | None = None,
    color: bool = False,
    true_color: bool | None = None,
) -> str:
    """Draw the image and one tile per word for a terminal; without color, weights as shades.

    `true_color=False` uses 256 colors; None asks the terminal.
    """
    columns, styler = output_columns(width), AnsiStyler(color)
    true_color = has_true_color() if true_color is None else true_color
    title, *rest = wrap_to_columns(caption.caption, columns)
    note = wrap_to_columns(probability_note(caption), columns)
    blocks = [[styler(title, "strong"), *rest, *note]]
    if color:
        blocks.append(_draw_image(caption.image, min(_IMAGE_COLUMNS, columns), true_color))
    words = word_attention(caption)
    if words:
        blocks.append(wrap_to_columns(legend_text(by_brightness=color, has_frame=False), columns))
    tiles = [
        _draw_word(caption.image, word, true_color) if color else _shade_weights(word, columns)
        for word in words
    ]
    tile_width = (
        _TILE_COLUMNS if color else max((len(line) for t in tiles for line in t), default=0)
    )
    per_line = (columns + 2) // (tile_width + 2)
    panels = [
        [
            *tile,
            truncate_to_columns(word.word, tile_width),
            styler(truncate_to_columns(word.summary, tile_width), "dim"),
        ]
        for tile, word in zip(tiles, words, strict=True)
    ]
    for k in range(0, len(panels), per_line):
        blocks.append(join_panels(panels[k : k + per_line], tile_width))
    return "\n\n".join("\n".join(block) for block in blocks)


def _draw_image(image: NDArray[np.uint8], side: int, true_color: bool) -> list[str]:
    return _to_half_blocks(resize(image, *fitted_size(image, side)), true_color)


def _draw_word(image: NDArray[np.uint8], word: WordAttention, true_color: bool) -> list[str]:
    """Draw the image, darkened where the weights for the word are small."""
    size = fitted_size(image, _TILE_COLUMNS)
    brightness = 1 - DIMMING * (1 - resize(word_brightness(word), *size))
    return _to_half_blocks(resize(image, *size) * brightness[..., None], true_color)


def _to_half_blocks(pixels: NDArray[np.float64], true_color: bool) -> list[str]:
    return half_blocks(ansi_colors(np.rint(pixels).astype(np.uint8), true_color=true_color))


def _shade_weights(word: WordAttention, columns: int) -> list[str]:
    """Draw the weights as shades, pooled if the grid is wider than the terminal."""
    side = columns // 2
    grid = max_pool((word.weights / (word.max_weight or 1.0)).tolist(), side, side)
    return [f"{shade_blocks(row):{_MIN_TILE_COLUMNS}}" for row in grid]
