"""A picture, its caption and where the model looked, as one HTML page."""

from collections.abc import Sequence

from workings.views.captioned import FINEST, FRAME, Captioned, Look, legend, probability_note
from workings.views.page import harmless, piece, whole_page
from workings.views.pixels import png_levels, png_rgb
from workings.views.scaling import reduced
from workings.views.svg import photo_defined, photo_id, png_uri
from workings.views.table import html_table

_HEAD = ("word", "where it looked most", "largest weight", "row", "column", "parts with half of it")

_RULES = """
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


def page(told: Captioned) -> str:
    """Write a whole page."""
    body = f'<h1 dir="auto">{harmless(told.caption)}</h1>\n{strip(told)}'
    return whole_page(told.caption, body, style=captioned_css())


def fragment(told: Captioned) -> str:
    """Write a piece to stand in somebody else's page, a notebook say."""
    body = f'<h3 dir="auto">{harmless(told.caption)}</h3>\n{strip(told)}'
    return piece(body, style=captioned_css())


def captioned_css() -> str:
    """The rules that a strip needs beside those of `style.css`."""
    return _RULES


def strip(told: Captioned) -> str:
    """Write the picture, then a tile a word and the same as a table; a caption stands above."""
    image = reduced(told.picture, FINEST)
    photo, (height, width) = png_rgb(image), image.shape[:2]
    used = f'<use href="#{photo_id(photo)}" transform="scale({width} {height})"/>'
    alt = f"{told.name}: the picture that the caption is about"
    whole = _seen(alt, width, height, photo_defined(photo) + used)
    parts = [
        f'<p class="what">{harmless(probability_note(told))}</p>',
        f'<div class="whole">{whole}</div>',
    ]
    looks = told.looks()
    if looks:
        tiles = "\n".join(_tile(look, width, height, used) for look in looks)
        parts += [
            f'<p class="what">{legend()}</p>\n<ol class="strip">\n{tiles}\n</ol>',
            _table(looks),
        ]
    return "\n".join(parts)


def _seen(alt: str, width: int, height: int, inside: str) -> str:
    what = f'viewBox="0 0 {width} {height}" role="img" aria-label="{harmless(alt)}"'
    return f'<svg class="seen" {what}>{inside}</svg>'


def _tile(look: Look, width: int, height: int, used: str) -> str:
    """Lay dark over what was not looked at: an image that can be seen through."""
    shadow = png_uri(png_levels(look.shadow(), "#000000"))
    size = f'width="{width}" height="{height}" preserveAspectRatio="none"'
    alt = f"Looked at for “{look.word}”: {look.where}, at most {look.largest:.2f}"
    inside = f'{used}<image {size} href="{shadow}"/>{_frame(look, width, height)}'
    seen = _seen(alt, width, height, inside)
    return f'<li>{seen}<b dir="auto">{harmless(look.word)}</b><span>{look.note}</span></li>'


def _frame(look: Look, width: int, height: int) -> str:
    if look.frame is None:
        return ""
    x, y, wide, tall = look.frame
    box = f'x="{x * width:.2f}" y="{y * height:.2f}" width="{wide * width:.2f}"'
    box += f' height="{tall * height:.2f}" fill="none" vector-effect="non-scaling-stroke"'
    return "".join(f'<rect {box} stroke="{colour}" stroke-width="{n}"/>' for colour, n in FRAME)


def _table(looks: Sequence[Look]) -> str:
    rows = [
        (
            look.word,
            look.where,
            f"{look.largest:.3f}",
            *(str(place + 1) for place in look.cell),
            str(look.parts),
        )
        for look in looks
    ]
    tall, wide = looks[0].grid.shape
    caption = f"Where the model looked for each word, in a picture of {tall} × {wide} parts"
    table = html_table(_HEAD, rows, left=2, caption=caption)
    return (
        "<details>\n<summary>The same as a table</summary>\n"
        f'<div class="scroll">{table}</div>\n</details>'
    )
