"""A picture, its caption, and where the model looked for each word: plain data, and a picture."""

import shutil
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workings.interpret.results import CaptionAttention, WordAttention
from workings.plain_text import to_one_line, truncate_to_columns, wrap_to_columns
from workings.render.attention_maps import join_columns, max_pool
from workings.render.images import (
    ansi_colors,
    encode_png_alpha,
    encode_png_rgb,
    fitted_size,
    half_blocks,
    has_true_color,
    resize,
    shade_blocks,
    shrink_to_fit,
    smooth_upsample,
)
from workings.render.matrix import AnsiStyler
from workings.render.page import escape_html, html_fragment, html_page
from workings.render.pictures import Picture, truncate_to_pixels, wrap_to_pixels
from workings.render.svg_writer import Point, define_image, image_id, png_data_uri
from workings.render.tables import html_table

MAX_IMAGE_SIDE = 384  # pixels of a picture's longer side that are shown
DIMMING = 0.8  # how much of the light is taken from where nobody looked
FRAME_STROKES = (("#000000", 3.0), ("#ffffff", 1.5))  # seen on every picture: colours and widths
_MARGIN, _GAP = 16, 14
_TITLE_SIZE, _WORD_SIZE, _NOTE_SIZE = 16, 13, 11  # sizes of text
_IMAGE_SIDE, _TILE_SIDE = 320, 150  # pixels of the longer side
_TILES_PER_ROW = 6  # tiles


def word_brightness(word: WordAttention) -> NDArray[np.float64]:
    """Return the brightness of each pixel, 0 to 1, smoothed; 1 at the largest weight."""
    return smooth_upsample(word.weights / (word.max_weight or 1.0))


def word_darkness(word: WordAttention) -> list[list[float]]:
    """Return how much each pixel is darkened, 0 to 1."""
    dark: list[list[float]] = (DIMMING * (1 - word_brightness(word))).tolist()
    return dark


def legend_text(*, by_brightness: bool = True, has_frame: bool = True) -> str:
    """Say how to read a tile, of light or of shades."""
    frame = "; the frame is where the largest is" if has_frame else ""
    how = "brighter" if by_brightness else "fuller"
    return f"The {how}, the more it was looked at for the word, up to its largest weight{frame}."


def probability_note(caption: CaptionAttention) -> str:
    """Say how likely the model thinks the caption is.

    >>> caption = CaptionAttention(np.zeros((1, 1, 3), np.uint8), ["a", "dog"], None, -3.0, "dog.png")
    >>> probability_note(caption)
    'dog.png: log-probability −3.00, −1.50 a word'
    """
    each = caption.log_probability / max(len(caption.words), 1)
    said = f"log-probability {caption.log_probability:z.2f}, {each:z.2f} a word".replace("-", "−")
    return f"{to_one_line(caption.name)}: {said.replace('log−', 'log-')}"


def render_picture(caption: CaptionAttention) -> Picture:
    """Draw the picture, and below it one a word with light where the model looked."""
    looks = caption.word_attention()
    photo = encode_png_rgb(shrink_to_fit(caption.image, MAX_IMAGE_SIDE))
    tall, wide = fitted_size(caption.image, _IMAGE_SIDE)
    size = fitted_size(caption.image, _TILE_SIDE)
    width = (
        max(min(len(looks), _TILES_PER_ROW) * (_TILE_SIDE + _GAP) - _GAP, _IMAGE_SIDE) + 2 * _MARGIN
    )
    lines = wrap_to_pixels(caption.caption, width - 2 * _MARGIN, _TITLE_SIZE, bold=True)
    top = _MARGIN + len(lines) * (_TITLE_SIZE + 6) + _NOTE_SIZE + 12
    below, step = top + tall + _NOTE_SIZE + 28, size[0] + _WORD_SIZE + _NOTE_SIZE + 28
    rows = -(-len(looks) // _TILES_PER_ROW)
    drawn = Picture(width, below + rows * step if looks else top + tall + _MARGIN, caption.caption)
    for k, line in enumerate(lines, 1):
        drawn.add_text(
            _MARGIN, _MARGIN + k * (_TITLE_SIZE + 6) - 8, line, size=_TITLE_SIZE, bold=True
        )
    notes = {top - 14: probability_note(caption), below - 10: legend_text() if looks else ""}
    for y, note in notes.items():
        drawn.add_text(
            _MARGIN,
            y,
            truncate_to_pixels(note, width - 2 * _MARGIN, _NOTE_SIZE),
            "soft",
            _NOTE_SIZE,
        )
    drawn.add_image((_MARGIN, top, wide, tall), photo)
    for k, look in enumerate(looks):
        row, column = divmod(k, _TILES_PER_ROW)
        _draw_tile(
            drawn, look, photo, (_MARGIN + column * (_TILE_SIDE + _GAP), below + row * step), size
        )
    return drawn


def _draw_tile(
    picture: Picture, word: WordAttention, image: bytes, position: Point, size: Point
) -> None:
    (x, y), (tall, wide) = position, size
    picture.add_image((x, y, wide, tall), image)
    picture.add_grid((x, y, wide, tall), word_darkness(word), "#000000")
    if word.peak_box:
        left, top, across, down = word.peak_box
        xs, ys = (
            (x + left * wide, x + (left + across) * wide),
            (y + top * tall, y + (top + down) * tall),
        )
        corners = [(xs[i], ys[j]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0))]
        for colour, width in FRAME_STROKES:
            picture.add_line(corners, colour, width)
    under = y + tall + _WORD_SIZE + 4
    picture.add_text(
        x, under, truncate_to_pixels(word.word, _TILE_SIDE, _WORD_SIZE), size=_WORD_SIZE
    )
    picture.add_text(x, under + _NOTE_SIZE + 5, word.summary, "soft", _NOTE_SIZE)


_TABLE_HEADER = (
    "word",
    "where it looked most",
    "largest weight",
    "row",
    "column",
    "parts with half of it",
)

_CSS = """
.workings .what { color: var(--soft); max-width: 46rem; margin: 0 0 1rem; }
.workings .seen { display: block; width: 100%; height: auto; }
.workings .whole { max-width: 22rem; margin: 0 0 1.2rem; }
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
  .workings .whole { max-width: 14rem; }
  .workings details:not([open]) { display: none; }
}
"""


def render_page(caption: CaptionAttention) -> str:
    """Write a whole page."""
    body = f'<h1 dir="auto">{escape_html(caption.caption)}</h1>\n{caption_strip(caption)}'
    return html_page(caption.caption, body, style=caption_css())


def render_fragment(caption: CaptionAttention) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    body = f'<h3 dir="auto">{escape_html(caption.caption)}</h3>\n{caption_strip(caption)}'
    return html_fragment(body, style=caption_css())


def caption_css() -> str:
    """The rules that a strip needs beside those of `style.css`."""
    return _CSS


def caption_strip(caption: CaptionAttention) -> str:
    """Write the picture, then a tile a word and the same as a table; a caption stands above."""
    image = shrink_to_fit(caption.image, MAX_IMAGE_SIDE)
    photo, (height, width) = encode_png_rgb(image), image.shape[:2]
    used = f'<use href="#{image_id(photo)}" transform="scale({width} {height})"/>'
    alt = f"{caption.name}: the picture that the caption is about"
    whole = _svg_element(alt, width, height, define_image(photo) + used)
    parts = [
        f'<p class="what">{escape_html(probability_note(caption))}</p>',
        f'<div class="whole">{whole}</div>',
    ]
    looks = caption.word_attention()
    if looks:
        tiles = "\n".join(_word_tile(look, width, height, used) for look in looks)
        parts += [
            f'<p class="what">{legend_text()}</p>\n<ol class="strip">\n{tiles}\n</ol>',
            _weights_table(looks),
        ]
    return "\n".join(parts)


def _svg_element(alt: str, width: int, height: int, content: str) -> str:
    what = f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape_html(alt)}"'
    return f'<svg class="seen" {what}>{content}</svg>'


def _word_tile(word: WordAttention, width: int, height: int, image_reference: str) -> str:
    """Lay dark over what was not looked at: an image that can be seen through."""
    shadow = png_data_uri(encode_png_alpha(word_darkness(word), "#000000"))
    size = f'width="{width}" height="{height}" preserveAspectRatio="none"'
    alt = f"Looked at for “{word.word}”: {word.location}, at most {word.max_weight:.2f}"
    inside = f'{image_reference}<image {size} href="{shadow}"/>{_peak_frame(word, width, height)}'
    seen = _svg_element(alt, width, height, inside)
    return f'<li>{seen}<b dir="auto">{escape_html(word.word)}</b><span>{word.summary}</span></li>'


def _peak_frame(word: WordAttention, width: int, height: int) -> str:
    if word.peak_box is None:
        return ""
    x, y, wide, tall = word.peak_box
    box = f'x="{x * width:.2f}" y="{y * height:.2f}" width="{wide * width:.2f}"'
    box += f' height="{tall * height:.2f}" fill="none" vector-effect="non-scaling-stroke"'
    return "".join(
        f'<rect {box} stroke="{colour}" stroke-width="{n}"/>' for colour, n in FRAME_STROKES
    )


def _weights_table(words: Sequence[WordAttention]) -> str:
    rows = [
        (
            look.word,
            look.location,
            f"{look.max_weight:.3f}",
            *(str(place + 1) for place in look.peak_cell),
            str(look.cells_with_half_weight),
        )
        for look in words
    ]
    tall, wide = words[0].weights.shape
    caption = f"Where the model looked for each word, in a picture of {tall} × {wide} parts"
    table = html_table(_TABLE_HEADER, rows, text_columns=2, caption=caption)
    return (
        "<details>\n<summary>The same as a table</summary>\n"
        f'<div class="scroll">{table}</div>\n</details>'
    )


_MIN_WIDTH = 24
_IMAGE_COLUMNS, _TILE_COLUMNS = 40, 18  # columns of the picture, of a word's
_MIN_TILE_COLUMNS = 17  # columns that a word and where it looked may have below a narrow tile


def render_text(
    caption: CaptionAttention,
    *,
    width: int | None = None,
    color: bool = False,
    true_color: bool | None = None,
) -> str:
    """Draw the picture, then a tile a word, side by side; without colour, the weights in shades.

    `true_colour` is asked of the terminal where nobody says; else there are 256 colours.
    """
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _MIN_WIDTH), AnsiStyler(color)
    true_color = has_true_color() if true_color is None else true_color
    first, *rest = wrap_to_columns(caption.caption, columns)
    blocks = [[pen(first, "strong"), *rest, *wrap_to_columns(probability_note(caption), columns)]]
    if color:
        blocks.append(_draw_image(caption.image, min(_IMAGE_COLUMNS, columns), true_color))
    looks = caption.word_attention()
    if looks:
        blocks.append(wrap_to_columns(legend_text(by_brightness=color, has_frame=False), columns))
    tiles = [
        _draw_word(caption.image, look, true_color) if color else _shade_weights(look, columns)
        for look in looks
    ]
    wide = max(
        [_TILE_COLUMNS] if color else (len(line) for tile in tiles for line in tile), default=0
    )
    across = (columns + 2) // (wide + 2)
    for k in range(0, len(looks), across):
        some = [
            [
                *tile,
                truncate_to_columns(look.word, wide),
                pen(truncate_to_columns(look.summary, wide), "dim"),
            ]
            for tile, look in zip(tiles[k : k + across], looks[k : k + across], strict=True)
        ]
        blocks.append(join_columns(some, wide))
    return "\n\n".join("\n".join(block) for block in blocks)


def _draw_image(image: NDArray[np.uint8], side: int, true_color: bool) -> list[str]:
    return _to_half_blocks(resize(image, *fitted_size(image, side)), true_color)


def _draw_word(image: NDArray[np.uint8], word: WordAttention, true_color: bool) -> list[str]:
    """Draw the picture with light where the model looked."""
    size = fitted_size(image, _TILE_COLUMNS)
    light = 1 - DIMMING * (1 - resize(word_brightness(word), *size))
    return _to_half_blocks(resize(image, *size) * light[..., None], true_color)


def _to_half_blocks(pixels: NDArray[np.float64], true_color: bool) -> list[str]:
    return half_blocks(ansi_colors(np.rint(pixels).astype(np.uint8), true_color=true_color))


def _shade_weights(word: WordAttention, columns: int) -> list[str]:
    """Draw the weights in shades, cells joined where there is no room for all."""
    side = columns // 2
    grid = max_pool((word.weights / (word.max_weight or 1.0)).tolist(), side, side)
    return [f"{shade_blocks(row):{_MIN_TILE_COLUMNS}}" for row in grid]
