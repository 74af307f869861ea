"""A text colored by one value per token: orange above zero, blue below."""

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from html import escape
from typing import NamedTuple

from workings.data.tokenizers.base import Span
from workings.plain_text import (
    display_width,
    escape_control,
    rgb_code,
    to_one_line,
    truncate_to_columns,
)
from workings.problems.notation import typeset
from workings.render.colors import INK, color_scale, color_step

_JOINER_CHARACTERS = re.compile("([\u200c\u200d])")  # inside words and emoji
_CONTEXT_CHARACTERS = 10  # of the word around a token that are shown, on each side
_MAX_COLUMNS = 40  # of a span in a list; longer ones are truncated

COLORED_TEXT_CSS = """
.workings .colored { white-space: pre-wrap; font-size: 1.08rem; line-height: 1.8; margin: 0; }
.workings .colored span { padding: .14em 0; border-radius: 2px; cursor: default;
  -webkit-box-decoration-break: clone; box-decoration-break: clone;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.workings .colored span:hover { outline: 1.5px solid var(--soft); }
.workings .colored .unknown, .workings .legend .unknown { text-decoration: underline dotted
  var(--soft) 2px; text-underline-offset: .25em; }
"""


class ValuedSpan(NamedTuple):
    """A piece of text with a value."""

    start: int
    end: int
    value: float
    is_marked: bool = False


def join_spans(
    spans: Sequence[Span],
    values: Sequence[float],
    *,
    window: int = 1,
    marked: Collection[int] = (),
) -> list[ValuedSpan]:
    """Join tokens that share a character or belong to one `window`; their values are added.

    >>> spans = join_spans([(0, 1), (0, 1), (2, 4)], [1.0, 2.0, 5.0])  # an emoji of two tokens
    >>> [(span.start, span.end, span.value) for span in spans]
    [(0, 1, 3.0), (2, 4, 5.0)]
    """
    marks, joined = frozenset(marked), list[ValuedSpan]()
    for k, ((start, end), value) in enumerate(zip(spans, values, strict=True)):
        is_marked = k in marks
        if joined and (k % window or start < joined[-1].end):
            last = joined[-1]
            joined[-1] = ValuedSpan(
                last.start, max(end, last.end), last.value + value, last.is_marked or is_marked
            )
        else:
            joined.append(ValuedSpan(start, end, value, is_marked))
    return joined


def max_abs_value(spans: Sequence[ValuedSpan]) -> float:
    """Return the largest finite absolute value: the value of the full color."""
    return max((abs(p.value) for p in spans if math.isfinite(p.value)), default=0.0)


def format_value(value: float, full_scale: float, *, signed: bool = True) -> str:
    """Format a number with its sign, to three digits of the largest number, `full_scale`.

    >>> format_value(1.0, 2.5), format_value(-0.001, 2.5), format_value(-0.0204, 0.05)
    ('+1.00', '0', '−0.0204')
    """
    if not math.isfinite(value):
        return typeset(f"{value:+}")
    decimals = 2 - math.floor(math.log10(full_scale)) if full_scale > 0 else 0
    number = f"{value:{'+' if signed else ''}.{min(max(decimals, 0), 9)}f}"
    return typeset(number) if float(number) else "0"


def colored_html(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    *,
    window: int = 1,
    marked: Collection[int] = (),
    signed: bool = True,
    midpoint: float = 0.0,
    spread: float | None = None,
) -> str:
    """Return a text as HTML, each token on the color of its value, with the value as a tooltip.

    It needs `base_css()` and `COLORED_TEXT_CSS`. Tokens in `marked` are underlined. `midpoint` has
    no color; values `spread` away from it (None: as far as the furthest) have the full color.

    >>> print(colored_html("a <b>", [(0, 1), (2, 5)], [0.0, -2.0]))
    <div class="colored" dir="auto"><span title="0">a</span> <span class="n8" title="−2.00">\
&lt;b&gt;</span></div>
    """
    joined = join_spans(spans, values, window=window, marked=marked)
    full_scale, parts, position = spread or max_abs_value(joined), [], 0
    for span in joined:
        color = color_step(span.value - midpoint, full_scale).replace("z", "")
        classes = " ".join(filter(None, [color, "unknown" if span.is_marked else ""]))
        attributes = f' class="{classes}"' if classes else ""
        attributes += f' title="{format_value(span.value, full_scale, signed=signed)}"'
        parts.append(_escape_lines(text[position : span.start]))
        parts.append(f"<span{attributes}>{_escape_lines(text[span.start : span.end])}</span>")
        position = span.end
    parts.append(_escape_lines(text[position:]))
    return f'<div class="colored" dir="auto">{"".join(parts)}</div>'


def colored_lines(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    *,
    width: int,
    theme: str = "dark",
    window: int = 1,
    marked: Collection[int] = (),
    midpoint: float = 0.0,
    spread: float | None = None,
) -> list[str]:
    """Return a text in true color for a terminal of `width` columns.

    It has a background of its own, so that it looks the same on light and dark terminals.
    """
    joined = join_spans(spans, [value - midpoint for value in values], window=window, marked=marked)
    characters = _colored_characters(text, joined, spread or max_abs_value(joined))
    lines = list(_wrap_characters(characters, max(width - 2, 1)))
    columns = max((sum(character.columns for character in line) for line in lines), default=0)
    backgrounds = {name: f"48;2;{rgb_code(color)}" for name, color in color_scale(theme).items()}
    foreground = f"38;2;{rgb_code(INK[theme])}"
    return [_paint_line(line, columns, backgrounds, foreground) for line in lines]


class HighlightedSpan(NamedTuple):
    """A span with the rest of the word that it is part of."""

    before: str
    text: str
    after: str
    value: float

    def __str__(self) -> str:
        is_word = not (self.before or self.after)
        return self.text if is_word else f"{self.before}[{self.text}]{self.after}"


def strongest_spans(
    text: str, spans: Sequence[ValuedSpan], count: int = 10
) -> list[HighlightedSpan]:
    """Return the spans with the largest absolute values, largest first, without zeros.

    >>> spans = [ValuedSpan(0, 1, 0.0), ValuedSpan(3, 4, -1.0)]
    >>> [str(span) for span in strongest_spans("a cat sat", spans)]
    ['c[a]t']
    """
    nonzero = (span for span in spans if math.isfinite(span.value) and span.value)
    ranked = sorted(nonzero, key=lambda span: (-abs(span.value), span.start))
    return [_with_context(text, span) for span in ranked[:count]]


def _with_context(text: str, span: ValuedSpan) -> HighlightedSpan:
    raw = text[span.start : span.end]
    stripped = raw.strip() or raw  # a token may be a space
    start = span.start + raw.index(stripped)
    end = start + len(stripped)
    word_start, word_end = start, end
    if not _is_word_boundary(stripped[:1]):
        limit = max(start - _CONTEXT_CHARACTERS, 0)
        while word_start > limit and _is_word_character(text[word_start - 1]):
            word_start -= 1
    if not _is_word_boundary(stripped[-1:]):
        limit = min(end + _CONTEXT_CHARACTERS, len(text))
        while word_end < limit and _is_word_character(text[word_end]):
            word_end += 1
    label = to_one_line(" ".join(stripped.split()) or stripped.replace(" ", "␣"))
    label = truncate_to_columns(label, _MAX_COLUMNS, tail=_MAX_COLUMNS // 3)
    before, after = to_one_line(text[word_start:start]), to_one_line(text[end:word_end])
    return HighlightedSpan(before, label, after, span.value)


def _is_word_boundary(character: str) -> bool:
    """Return True for punctuation: a neighboring letter belongs to another word."""
    return not (_is_word_character(character) or character.isspace())


def _is_word_character(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character or " ")[0] == "M"


def _escape_lines(text: str) -> str:
    """Escape text for HTML, but keep line breaks and joiners of characters."""
    parts = _JOINER_CHARACTERS.split(text.replace("\r\n", "\n"))
    return escape(
        "".join(p if _JOINER_CHARACTERS.fullmatch(p) else escape_control(p) for p in parts)
    )


class _ColoredCharacter(NamedTuple):
    """A character on the terminal, with the color of its background."""

    character: str
    color: str
    is_marked: bool
    columns: int


def _colored_characters(
    text: str, spans: Sequence[ValuedSpan], full_scale: float
) -> Iterator[_ColoredCharacter]:
    position = 0
    for span in [*spans, ValuedSpan(len(text), len(text), 0.0)]:
        color = color_step(span.value, full_scale) or "z"
        for part, part_color, is_marked in (
            (text[position : span.start], "z", False),
            (text[span.start : span.end], color, span.is_marked),
        ):
            for character in escape_control(part.replace("\r\n", "\n")).replace("\t", "    "):
                width = display_width(character)
                yield _ColoredCharacter(character, part_color, is_marked, width)
        position = span.end


def _wrap_characters(
    characters: Iterator[_ColoredCharacter], columns: int
) -> Iterator[list[_ColoredCharacter]]:
    """Yield lines broken at spaces, or inside a word that is longer than a line."""
    line: list[_ColoredCharacter] = []
    used, last_space = 0, -1  # columns of the line; index of its last space
    for character in characters:
        is_space = character.character == " "
        # A space that does not fit is replaced by the line break.
        if character.character == "\n" or (is_space and used >= columns):
            yield line
            line, used, last_space = [], 0, -1
            continue
        if used + character.columns > columns:
            end = last_space + 1 if last_space >= 0 else len(line)
            yield line[:end]
            line = line[end:]
            used, last_space = sum(c.columns for c in line), -1
        if is_space:
            last_space = len(line)
        line.append(character)
        used += character.columns
    if line:
        yield line


def _paint_line(
    characters: list[_ColoredCharacter], columns: int, backgrounds: dict[str, str], foreground: str
) -> str:
    plain = f"\x1b[24;{backgrounds['z']};{foreground}m"
    parts, style = [f"{plain} "], ("z", False)
    for character in characters:
        if (character.color, character.is_marked) != style:
            style = character.color, character.is_marked
            underline = "4" if character.is_marked else "24"
            parts.append(f"\x1b[{underline};{backgrounds[character.color]}m")
        parts.append(character.character)
    padding = " " * (columns - sum(character.columns for character in characters))
    return f"{''.join(parts)}{plain}{padding} \x1b[0m"
