"""Texts colored by one value per token, as a picture: passages with color bars below each other."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from workings.data.tokenizers.base import Span
from workings.plain_text import escape_control
from workings.render.colored_text import ValuedSpan, format_value, join_spans, max_abs_value
from workings.render.colors import STEPS, color_step
from workings.render.pictures import Picture, text_width, truncate_to_pixels, wrap_to_pixels

_WIDTH, _MARGIN = 760.0, 16.0  # all lengths are in pixels
_TITLE_SIZE, _HEADING_SIZE, _TEXT_SIZE, _NOTE_SIZE = 16, 13, 13, 11  # font sizes
_LINE_HEIGHT, _GAP = 22.0, 16.0
_BAR_WIDTH = 140.0


@dataclass(frozen=True)
class Passage:
    """A text with a value per token: `midpoint` has no color, `spread` away the full one."""

    heading: str
    text: str
    spans: Sequence[Span]
    values: Sequence[float]
    window: int = 1
    marked: Collection[int] = ()
    midpoint: float = 0.0
    spread: float | None = None
    is_signed: bool = True
    note: str = ""

    @property
    def joined(self) -> list[ValuedSpan]:
        """The tokens with their values, those that share a character as one."""
        return join_spans(self.spans, self.values, window=self.window, marked=self.marked)

    @property
    def legend_lines(self) -> int:
        """The color bar, and below it the note if there is one."""
        return 2 if self.note else 1

    @property
    def full_scale(self) -> float:
        """How far from the midpoint a value has the full color."""
        return self.spread or max_abs_value(self.joined)


@dataclass
class _Line:
    """A line of text in pieces: x, text, step of the scale and whether it is underlined."""

    pieces: list[tuple[float, str, str, bool]] = field(default_factory=list)
    width: float = 0.0


def draw_passages(passages: Sequence[Passage], title: str, *, width: float = _WIDTH) -> Picture:
    """Draw texts below each other, each token on the color of its value, with color bars."""
    width = max(width, 2 * _MARGIN + _BAR_WIDTH + 100)
    room = width - 2 * _MARGIN
    lines = [_break_lines(passage, room) for passage in passages]
    headings = [
        wrap_to_pixels(p.heading, room, _HEADING_SIZE, bold=True, max_lines=4) for p in passages
    ]
    titles = wrap_to_pixels(title, room, _TITLE_SIZE, bold=True, max_lines=4)
    y = _MARGIN + (_TITLE_SIZE + 4) * len(titles)
    height = y + _GAP + _LINE_HEIGHT * sum(passage.legend_lines for passage in passages)
    for passage_lines, heading in zip(lines, headings, strict=True):
        height += 18 * len(heading) + _LINE_HEIGHT * len(passage_lines) + _GAP
    redraw: Callable[[float], Picture] = lambda w: draw_passages(passages, title, width=w)  # noqa: E731
    picture = Picture(width, height, title, redraw)
    for k, line in enumerate(titles, start=1):
        picture.add_text(
            _MARGIN, _MARGIN + k * (_TITLE_SIZE + 4) - 7, line, size=_TITLE_SIZE, bold=True
        )
    for passage, passage_lines, heading in zip(passages, lines, headings, strict=True):
        y += _GAP
        for heading_line in heading:
            picture.add_text(_MARGIN, y + 10, heading_line, size=_HEADING_SIZE, bold=True)
            y += 18
        for row in passage_lines:
            _draw_line(picture, row, y)
            y += _LINE_HEIGHT
        _draw_bar(picture, passage, y)
        y += _LINE_HEIGHT * passage.legend_lines
    return picture


def _draw_line(picture: Picture, line: _Line, top: float) -> None:
    for x, text, step, is_marked in line.pieces:
        width = text_width(text, _TEXT_SIZE)
        if step:
            picture.add_rectangle(x, top, width, _LINE_HEIGHT - 3, step)
        if is_marked:
            picture.add_line([(x, top + 17.5), (x + width, top + 17.5)], "soft", 1.2)
    for x, text, _, _ in line.pieces:
        center = x + text_width(text, _TEXT_SIZE) / 2
        picture.add_text(center, top + 14, text, size=_TEXT_SIZE, anchor="middle")


def _draw_bar(picture: Picture, passage: Passage, top: float) -> None:
    """Draw the colors from the lowest to the highest value, and a note below them."""
    full, baseline = passage.full_scale, top + 13
    low = passage.midpoint - full if passage.is_signed else passage.midpoint
    size = abs(passage.midpoint) + full
    low_label = format_value(low, size, signed=passage.is_signed)
    high_label = format_value(passage.midpoint + full, size, signed=passage.is_signed)
    picture.add_text(_MARGIN, baseline, low_label, "soft", _NOTE_SIZE)
    x = _MARGIN + text_width(low_label, _NOTE_SIZE) + 5
    first = -STEPS if passage.is_signed else 0
    steps = range(first, STEPS + 1)
    for k, step in enumerate(steps):
        cell = _BAR_WIDTH / len(steps)
        name = color_step(float(step), float(STEPS))
        picture.add_rectangle(x + k * cell, baseline - 9, cell, 10, name)
    x += _BAR_WIDTH + 5
    picture.add_text(x, baseline, high_label, "soft", _NOTE_SIZE)
    note = truncate_to_pixels(passage.note, picture.width - 2 * _MARGIN, _NOTE_SIZE)
    picture.add_text(_MARGIN, baseline + _LINE_HEIGHT - 4, note, "soft", _NOTE_SIZE)


def _break_lines(passage: Passage, room: float) -> list[_Line]:
    """Break a text at spaces into lines of a width in pixels."""
    lines = [_Line()]
    for word in _words(passage):
        width = sum(text_width(text, _TEXT_SIZE) for text, _, _ in word)
        if lines[-1].width and lines[-1].width + width > room:
            lines.append(_Line())
        for text, step, is_marked in word:
            if text == "\n":
                lines.append(_Line())
                continue
            piece_width = text_width(text, _TEXT_SIZE)
            if lines[-1].width + piece_width > room and lines[-1].width:
                lines.append(_Line())
            line = lines[-1]
            line.pieces.append((_MARGIN + line.width, text, step, is_marked))
            line.width += piece_width
    return lines


def _words(passage: Passage) -> Iterator[list[tuple[str, str, bool]]]:
    """Yield the characters, with step and mark, in groups between which a line may break."""
    steps, marks = [""] * len(passage.text), [False] * len(passage.text)
    for span in passage.joined:
        step = color_step(span.value - passage.midpoint, passage.full_scale)
        for k in range(span.start, span.end):
            steps[k], marks[k] = step, span.is_marked
    word: list[tuple[str, str, bool]] = []
    for character, step, is_marked in zip(passage.text, steps, marks, strict=True):
        text = character if character == "\n" else escape_control(character)
        text = "\u00a0\u00a0" if character == "\t" else text.replace(" ", "\u00a0")
        if word and word[-1][1:] == (step, is_marked) and text != "\n" and word[-1][0] != "\n":
            word[-1] = (word[-1][0] + text, step, is_marked)
        else:
            word.append((text, step, is_marked))
        if character.isspace():
            yield word
            word = []
    if word:
        yield word
