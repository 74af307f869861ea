"""A text coloured by one number a token: orange above zero, blue below, as matrices are."""

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from html import escape
from typing import NamedTuple

from workings.plain_text import display_width, escape_control, to_one_line, truncate_to_columns
from workings.problems.notation import typeset
from workings.render.colors import INK, color_scale, color_step

Span = tuple[int, int]

_JOINER_CHARACTERS = re.compile("([\u200c\u200d])")  # inside words and emoji; harmless on a page
_CONTEXT_CHARACTERS = 10  # characters of a word to show on each side of a token that is part of it
_MAX_COLUMNS = 40  # columns; longer pieces are cut short in lists

_CSS = """
.workings .coloured { white-space: pre-wrap; font-size: 1.08rem; line-height: 1.8; margin: 0; }
.workings .coloured span { padding: .14em 0; border-radius: 2px; cursor: default;
  -webkit-box-decoration-break: clone; box-decoration-break: clone;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.workings .coloured span:hover { outline: 1.5px solid var(--soft); }
.workings .coloured .unknown, .workings .legend .unknown { text-decoration: underline dotted
  var(--soft) 2px; text-underline-offset: .25em; }
"""


def colored_text_css() -> str:
    """Write the rules that a coloured text needs beside those of `style.css`."""
    return _CSS


class ValuedSpan(NamedTuple):
    """A piece of the text that has one number."""

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
    """Join tokens that share a character, or stand in one `window`; their values add up.

    >>> join_spans([(0, 1), (0, 1), (2, 4)], [1.0, 2.0, 5.0])  # an emoji of two bytes, and a word
    [ValuedSpan(start=0, end=1, value=3.0, is_marked=False), ValuedSpan(start=2, end=4, value=5.0, is_marked=False)]
    """
    marks, found = frozenset(marked), list[ValuedSpan]()
    for k, ((start, end), value) in enumerate(zip(spans, values, strict=True)):
        mark = k in marks
        if found and (k % window or start < found[-1].end):
            last = found[-1]
            ends, total = max(end, last.end), last.value + value
            found[-1] = ValuedSpan(last.start, ends, total, last.is_marked or mark)
        else:
            found.append(ValuedSpan(start, end, value, mark))
    return found


def max_abs_value(spans: Sequence[ValuedSpan]) -> float:
    """Find the largest finite size: what full colour stands for."""
    return max((abs(p.value) for p in spans if math.isfinite(p.value)), default=0.0)


def format_value(value: float, full_scale: float, *, signed: bool = True) -> str:
    """Write a number to three digits of the largest, with its sign.

    >>> format_value(1.0, 2.5), format_value(-0.001, 2.5), format_value(-0.0204, 0.05), format_value(0.1, 0.5, signed=False)
    ('+1.00', '0', '−0.0204', '0.100')
    """
    if not math.isfinite(value):
        return typeset(f"{value:+}")
    decimals = 2 - math.floor(math.log10(full_scale)) if full_scale > 0 else 0
    written = f"{value:{'+' if signed else ''}.{min(max(decimals, 0), 9)}f}"
    return typeset(written) if float(written) else "0"


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
    """Write a text as HTML, every token on the colour of its value, the number as its title.

    It stands below `.workings`, with `style.css()` and `coloured_css()`. Tokens that are `marked`
    are underlined. What is at the `middle` has no colour, and what is as far from it as `reach`
    the full one; None: the furthest there is.

    >>> print(colored_html("a <b>", [(0, 1), (2, 5)], [0.0, -2.0]))
    <div class="coloured" dir="auto"><span title="0">a</span> <span class="n8" title="−2.00">\
&lt;b&gt;</span></div>
    """
    some = join_spans(spans, values, window=window, marked=marked)
    full, written, place = spread or max_abs_value(some), [], 0
    for piece in some:
        colour = color_step(piece.value - midpoint, full).replace("z", "")
        kinds = " ".join(filter(None, [colour, "unknown" if piece.is_marked else ""]))
        attributes = f' class="{kinds}"' if kinds else ""
        attributes += f' title="{format_value(piece.value, full, signed=signed)}"'
        written.append(_escape_lines(text[place : piece.start]))
        written.append(f"<span{attributes}>{_escape_lines(text[piece.start : piece.end])}</span>")
        place = piece.end
    written.append(_escape_lines(text[place:]))
    return f'<div class="coloured" dir="auto">{"".join(written)}</div>'


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
    """Write a text for a terminal of so many columns, in true colour.

    It stands on a ground of its own, so that it looks the same on a light and on a dark terminal.
    """
    some = join_spans(spans, [value - midpoint for value in values], window=window, marked=marked)
    lines = list(
        _wrap_characters(
            _colored_characters(text, some, spread or max_abs_value(some)), max(width - 2, 1)
        )
    )
    longest = max((sum(cell.columns for cell in line) for line in lines), default=0)
    grounds = {name: f"48;2;{_rgb_channels(colour)}" for name, colour in color_scale(theme).items()}
    return [
        _paint_line(line, longest, grounds, f"38;2;{_rgb_channels(INK[theme])}") for line in lines
    ]


class HighlightedSpan(NamedTuple):
    """A piece with the rest of the word that it is a part of."""

    before: str
    text: str
    after: str
    value: float

    def __str__(self) -> str:
        alone = not (self.before or self.after)
        return self.text if alone else f"{self.before}[{self.text}]{self.after}"


def strongest_spans(
    text: str, spans: Sequence[ValuedSpan], count: int = 10
) -> list[HighlightedSpan]:
    """List the pieces of the largest values, the largest first; those without any are left out.

    >>> [str(s) for s in strongest_spans("a cat sat", [ValuedSpan(0, 1, 0.0), ValuedSpan(3, 4, -1.0)])]
    ['c[a]t']
    """
    able = (piece for piece in spans if math.isfinite(piece.value) and piece.value)
    ranked = sorted(able, key=lambda piece: (-abs(piece.value), piece.start))
    return [_with_context(text, piece) for piece in ranked[:count]]


def _with_context(text: str, span: ValuedSpan) -> HighlightedSpan:
    raw = text[span.start : span.end]
    bare = raw.strip() or raw  # a space may be a token, too
    start = span.start + raw.index(bare)
    end = start + len(bare)
    first, last = start, end
    if not _is_word_end(bare[:1]):
        while first > max(start - _CONTEXT_CHARACTERS, 0) and _is_word_character(text[first - 1]):
            first -= 1
    if not _is_word_end(bare[-1:]):
        while last < min(end + _CONTEXT_CHARACTERS, len(text)) and _is_word_character(text[last]):
            last += 1
    shown = to_one_line(" ".join(bare.split()) or bare.replace(" ", "␣"))
    shown = truncate_to_columns(shown, _MAX_COLUMNS, tail=_MAX_COLUMNS // 3)
    return HighlightedSpan(
        to_one_line(text[first:start]), shown, to_one_line(text[end:last]), span.value
    )


def _is_word_end(character: str) -> bool:
    """Whether it ends a word: what stands beside it is then no part of the piece's word."""
    return not (_is_word_character(character) or character.isspace())


def _is_word_character(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character or " ")[0] == "M"


def _escape_lines(text: str) -> str:
    """Make anybody's text harmless on a page, lines and joined characters kept."""
    parts = _JOINER_CHARACTERS.split(text.replace("\r\n", "\n"))
    return escape(
        "".join(p if _JOINER_CHARACTERS.fullmatch(p) else escape_control(p) for p in parts)
    )


class _ColoredCharacter(NamedTuple):
    """A character on a terminal, on its colour."""

    character: str
    color: str
    is_marked: bool
    columns: int


def _colored_characters(
    text: str, spans: Sequence[ValuedSpan], full_scale: float
) -> Iterator[_ColoredCharacter]:
    place = 0
    for piece in [*spans, ValuedSpan(len(text), len(text), 0.0)]:
        runs = (
            (text[place : piece.start], "z", False),
            (
                text[piece.start : piece.end],
                color_step(piece.value, full_scale) or "z",
                piece.is_marked,
            ),
        )
        for run, colour, marked in runs:
            for character in escape_control(run.replace("\r\n", "\n")).replace("\t", "    "):
                yield _ColoredCharacter(character, colour, marked, display_width(character))
        place = piece.end


def _wrap_characters(
    characters: Iterator[_ColoredCharacter], columns: int
) -> Iterator[list[_ColoredCharacter]]:
    """Break at spaces, and where a word is longer than a line anywhere."""
    line: list[_ColoredCharacter] = []
    used, space = 0, -1  # columns of the line; where its last space stands
    for cell in characters:
        if cell.character == "\n":
            yield line
            line, used, space = [], 0, -1
            continue
        if cell.character == " " and used >= columns:  # the line's end is as good as a space
            yield line
            line, used, space = [], 0, -1
            continue
        if used + cell.columns > columns:
            cut = space + 1 if space >= 0 else len(line)
            yield line[:cut]
            line = line[cut:]
            used, space = sum(c.columns for c in line), -1
        if cell.character == " ":
            space = len(line)
        line.append(cell)
        used += cell.columns
    if line:
        yield line


def _paint_line(
    characters: list[_ColoredCharacter], columns: int, backgrounds: dict[str, str], foreground: str
) -> str:
    empty = f"\x1b[24;{backgrounds['z']};{foreground}m"
    written, now = [f"{empty} "], ("z", False)
    for cell in characters:
        if (cell.color, cell.is_marked) != now:
            now = cell.color, cell.is_marked
            under = "4" if cell.is_marked else "24"
            written.append(f"\x1b[{under};{backgrounds[cell.color]}m")
        written.append(cell.character)
    rest = " " * (columns - sum(cell.columns for cell in characters))
    return f"{''.join(written)}{empty}{rest} \x1b[0m"


def _rgb_channels(color: str) -> str:
    return ";".join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))
