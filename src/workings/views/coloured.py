"""A text coloured by one number a token: orange above zero, blue below, as matrices are."""

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from html import escape
from typing import NamedTuple

from workings.views.colours import INK, scale, step
from workings.views.notation import typeset
from workings.views.plain import clip, one_line, printable, width

Span = tuple[int, int]

_JOINERS = re.compile("([\u200c\u200d])")  # inside words and emoji; harmless on a page
_AROUND = 10  # characters of a word to show on each side of a token that is part of it
_LONG = 40  # columns; longer pieces are cut short in lists

_RULES = """
.workings .coloured { white-space: pre-wrap; font-size: 1.08rem; line-height: 1.8; margin: 0; }
.workings .coloured span { padding: .14em 0; border-radius: 2px; cursor: default;
  -webkit-box-decoration-break: clone; box-decoration-break: clone;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.workings .coloured span:hover { outline: 1.5px solid var(--soft); }
.workings .coloured .unknown, .workings .legend .unknown { text-decoration: underline dotted
  var(--soft) 2px; text-underline-offset: .25em; }
"""


def coloured_css() -> str:
    """Write the rules that a coloured text needs beside those of `style.css`."""
    return _RULES


class Piece(NamedTuple):
    """A piece of the text that has one number."""

    start: int
    end: int
    value: float
    marked: bool = False


def pieces(
    spans: Sequence[Span],
    values: Sequence[float],
    *,
    window: int = 1,
    marked: Collection[int] = (),
) -> list[Piece]:
    """Join tokens that share a character, or stand in one `window`; their values add up.

    >>> pieces([(0, 1), (0, 1), (2, 4)], [1.0, 2.0, 5.0])  # an emoji of two bytes, and a word
    [Piece(start=0, end=1, value=3.0, marked=False), Piece(start=2, end=4, value=5.0, marked=False)]
    """
    marks, found = frozenset(marked), list[Piece]()
    for k, ((start, end), value) in enumerate(zip(spans, values, strict=True)):
        mark = k in marks
        if found and (k % window or start < found[-1].end):
            last = found[-1]
            ends, total = max(end, last.end), last.value + value
            found[-1] = Piece(last.start, ends, total, last.marked or mark)
        else:
            found.append(Piece(start, end, value, mark))
    return found


def largest(some: Sequence[Piece]) -> float:
    """Find the largest finite size: what full colour stands for."""
    return max((abs(p.value) for p in some if math.isfinite(p.value)), default=0.0)


def number(value: float, full: float, *, signed: bool = True) -> str:
    """Write a number to three digits of the largest, with its sign.

    >>> number(1.0, 2.5), number(-0.001, 2.5), number(-0.0204, 0.05), number(0.1, 0.5, signed=False)
    ('+1.00', '0', '−0.0204', '0.100')
    """
    if not math.isfinite(value):
        return typeset(f"{value:+}")
    decimals = 2 - math.floor(math.log10(full)) if full > 0 else 0
    written = f"{value:{'+' if signed else ''}.{min(max(decimals, 0), 9)}f}"
    return typeset(written) if float(written) else "0"


def coloured_html(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    *,
    window: int = 1,
    marked: Collection[int] = (),
    signed: bool = True,
    middle: float = 0.0,
    reach: float | None = None,
) -> str:
    """Write a text as HTML, every token on the colour of its value, the number as its title.

    It stands below `.workings`, with `style.css()` and `coloured_css()`. Tokens that are `marked`
    are underlined. What is at the `middle` has no colour, and what is as far from it as `reach`
    the full one; None: the furthest there is.

    >>> print(coloured_html("a <b>", [(0, 1), (2, 5)], [0.0, -2.0]))
    <div class="coloured" dir="auto"><span title="0">a</span> <span class="n8" title="−2.00">\
&lt;b&gt;</span></div>
    """
    some = pieces(spans, values, window=window, marked=marked)
    full, written, place = reach or largest(some), [], 0
    for piece in some:
        colour = step(piece.value - middle, full).replace("z", "")
        kinds = " ".join(filter(None, [colour, "unknown" if piece.marked else ""]))
        attributes = f' class="{kinds}"' if kinds else ""
        attributes += f' title="{number(piece.value, full, signed=signed)}"'
        written.append(_shown(text[place : piece.start]))
        written.append(f"<span{attributes}>{_shown(text[piece.start : piece.end])}</span>")
        place = piece.end
    written.append(_shown(text[place:]))
    return f'<div class="coloured" dir="auto">{"".join(written)}</div>'


def coloured_lines(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    *,
    width: int,
    theme: str = "dark",
    window: int = 1,
    marked: Collection[int] = (),
    middle: float = 0.0,
    reach: float | None = None,
) -> list[str]:
    """Write a text for a terminal of so many columns, in true colour.

    It stands on a ground of its own, so that it looks the same on a light and on a dark terminal.
    """
    some = pieces(spans, [value - middle for value in values], window=window, marked=marked)
    lines = list(_wrapped(_cells(text, some, reach or largest(some)), max(width - 2, 1)))
    longest = max((sum(cell.columns for cell in line) for line in lines), default=0)
    grounds = {name: f"48;2;{_channels(colour)}" for name, colour in scale(theme).items()}
    return [_painted(line, longest, grounds, f"38;2;{_channels(INK[theme])}") for line in lines]


class Strong(NamedTuple):
    """A piece with the rest of the word that it is a part of."""

    before: str
    piece: str
    after: str
    value: float

    def __str__(self) -> str:
        alone = not (self.before or self.after)
        return self.piece if alone else f"{self.before}[{self.piece}]{self.after}"


def strongest(text: str, some: Sequence[Piece], count: int = 10) -> list[Strong]:
    """List the pieces of the largest values, the largest first; those without any are left out.

    >>> [str(s) for s in strongest("a cat sat", [Piece(0, 1, 0.0), Piece(3, 4, -1.0)])]
    ['c[a]t']
    """
    able = (piece for piece in some if math.isfinite(piece.value) and piece.value)
    ranked = sorted(able, key=lambda piece: (-abs(piece.value), piece.start))
    return [_in_context(text, piece) for piece in ranked[:count]]


def _in_context(text: str, piece: Piece) -> Strong:
    raw = text[piece.start : piece.end]
    bare = raw.strip() or raw  # a space may be a token, too
    start = piece.start + raw.index(bare)
    end = start + len(bare)
    first, last = start, end
    if not _apart(bare[:1]):
        while first > max(start - _AROUND, 0) and _inside_word(text[first - 1]):
            first -= 1
    if not _apart(bare[-1:]):
        while last < min(end + _AROUND, len(text)) and _inside_word(text[last]):
            last += 1
    shown = one_line(" ".join(bare.split()) or bare.replace(" ", "␣"))
    shown = clip(shown, _LONG, tail=_LONG // 3)
    return Strong(one_line(text[first:start]), shown, one_line(text[end:last]), piece.value)


def _apart(character: str) -> bool:
    """Whether it ends a word: what stands beside it is then no part of the piece's word."""
    return not (_inside_word(character) or character.isspace())


def _inside_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character or " ")[0] == "M"


def _shown(text: str) -> str:
    """Make anybody's text harmless on a page, lines and joined characters kept."""
    parts = _JOINERS.split(text.replace("\r\n", "\n"))
    return escape("".join(p if _JOINERS.fullmatch(p) else printable(p) for p in parts))


class _Cell(NamedTuple):
    """A character on a terminal, on its colour."""

    character: str
    colour: str
    marked: bool
    columns: int


def _cells(text: str, some: Sequence[Piece], full: float) -> Iterator[_Cell]:
    place = 0
    for piece in [*some, Piece(len(text), len(text), 0.0)]:
        runs = (
            (text[place : piece.start], "z", False),
            (text[piece.start : piece.end], step(piece.value, full) or "z", piece.marked),
        )
        for run, colour, marked in runs:
            for character in printable(run.replace("\r\n", "\n")).replace("\t", "    "):
                yield _Cell(character, colour, marked, width(character))
        place = piece.end


def _wrapped(cells: Iterator[_Cell], columns: int) -> Iterator[list[_Cell]]:
    """Break at spaces, and where a word is longer than a line anywhere."""
    line: list[_Cell] = []
    used, space = 0, -1  # columns of the line; where its last space stands
    for cell in cells:
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


def _painted(line: list[_Cell], columns: int, grounds: dict[str, str], ink: str) -> str:
    empty = f"\x1b[24;{grounds['z']};{ink}m"
    written, now = [f"{empty} "], ("z", False)
    for cell in line:
        if (cell.colour, cell.marked) != now:
            now = cell.colour, cell.marked
            under = "4" if cell.marked else "24"
            written.append(f"\x1b[{under};{grounds[cell.colour]}m")
        written.append(cell.character)
    rest = " " * (columns - sum(cell.columns for cell in line))
    return f"{''.join(written)}{empty}{rest} \x1b[0m"


def _channels(colour: str) -> str:
    return ";".join(str(int(colour[k : k + 2], 16)) for k in (1, 3, 5))
