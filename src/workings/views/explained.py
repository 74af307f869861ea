"""What a classifier made of a text and which words decided, for the terminal."""

import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from workings.views.coloured import (
    Piece,
    Span,
    Strong,
    coloured_lines,
    largest,
    number,
    pieces,
    strongest,
)
from workings.views.drawing import Pen
from workings.views.plain import clip, left, one_line, width, wrap

NAMES = {"occlusion": "Occlusion", "gradient": "Gradient × input", "attention": "Attention"}
_NARROWEST = 24


class ToldShares(Protocol):
    """One way of asking: a number for each token."""

    @property
    def method(self) -> str: ...
    @property
    def values(self) -> Sequence[float]: ...
    @property
    def what(self) -> str: ...
    @property
    def signed(self) -> bool: ...
    @property
    def window(self) -> int: ...
    @property
    def layers(self) -> Sequence[Sequence[float]]: ...


class Told(Protocol):
    """A text, what a model made of it, and the numbers of its tokens."""

    @property
    def text(self) -> str: ...
    @property
    def spans(self) -> Sequence[Span]: ...
    @property
    def unknown(self) -> Sequence[int]: ...
    @property
    def cut(self) -> int: ...
    @property
    def label(self) -> str: ...
    @property
    def against(self) -> str: ...
    @property
    def lead(self) -> float: ...
    @property
    def probabilities(self) -> Mapping[str, float]: ...
    @property
    def shares(self) -> Sequence[ToldShares]: ...
    @property
    def unit(self) -> str: ...


def text(told: Told, *, width: int | None = None, color: bool = False, theme: str = "dark") -> str:
    """Write it for a terminal; without colour, only the words that matter, with their numbers."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _NARROWEST), Pen(color)
    likely = (f"{one_line(name)} {percent(p)}" for name, p in ranked(told)[:5])
    first, *rest = wrap(_dotted(likely), columns)
    blocks = [[pen(first, "strong"), *rest, *wrap(lead_note(told), columns)]]
    for shares in told.shares:
        name = NAMES.get(shares.method, shares.method)
        first, *rest = wrap(f"{name}: {one_line(shares.what)}", columns)
        lines = [pen(first[: len(name)], "strong") + first[len(name) :], *rest]
        if color and told.spans:
            lines += coloured_lines(
                as_read(told),
                told.spans,
                shares.values,
                width=columns,
                theme=theme,
                window=shares.window,
                marked=told.unknown,
            )
        blocks.append(lines + _lists(told, shares, columns))
    blocks.append([pen(line, "dim") for note in _notes(told) for line in wrap(note, columns)])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _lists(told: Told, shares: ToldShares, columns: int) -> list[str]:
    """List the strongest words on either side, with their numbers."""
    some = joined(told, shares)
    found, full = listed(told, some), largest(some)
    if not found:
        return ["no token was read" if not told.spans else "no token made a difference"]
    sides = [(f"for {told.label}", 1.0), (f"for {told.against}", -1.0)]
    names = [one_line(name) for name, _ in sides] if shares.signed else ["most"]
    margin = min(max(map(width, names)) + 2, columns // 2)
    lines = []
    for name, (_, side) in zip(names, sides, strict=False):
        words = _dotted(
            f"{word} {number(word.value, full, signed=shares.signed)}"
            for word in found
            if word.value * side > 0
        )
        if words:
            name = left(clip(name, margin - 2), margin).replace(" ", "\u00a0")
            lines += wrap(name + words, columns, " " * margin)
    return lines


def _dotted(items: Iterable[str]) -> str:
    """Put dots between items, so that a line breaks after a dot and nowhere else."""
    return "\u00a0· ".join(item.replace(" ", "\u00a0") for item in items)


def _notes(told: Told) -> list[str]:
    notes = []
    if told.unknown:
        places = (told.spans[k] for k in told.unknown)
        words = list(dict.fromkeys(told.text[a : min(b, a + 40)] for a, b in places))
        more = f" and {len(words) - 10} more" if len(words) > 10 else ""
        shown = ", ".join(clip(one_line(word), 24) for word in words[:10])
        notes.append(f"not in the vocabulary: {shown}{more}")
    if told.cut:
        notes.append(cut_note(told))
    return notes


def joined(told: Told, shares: ToldShares) -> list[Piece]:
    """The pieces of the text that have a number each."""
    return pieces(told.spans, shares.values, window=shares.window)


def listed(told: Told, some: list[Piece]) -> list[Strong]:
    """The strongest words, without those whose number would be written 0."""
    full = largest(some)
    return [word for word in strongest(told.text, some) if number(word.value, full) != "0"]


def ranked(told: Told) -> list[tuple[str, float]]:
    """The classes and their probabilities, the likeliest first."""
    return sorted(told.probabilities.items(), key=lambda item: -item[1])


def as_read(told: Told) -> str:
    """The text as far as the model read it."""
    return told.text[: len(told.text) - told.cut]


def lead_note(told: Told) -> str:
    """Write the lead, a logarithm, and the odds that it is one of."""
    who = f"The lead of {one_line(told.label)} over {one_line(told.against)}"
    odds = math.exp(min(told.lead, 20.0))
    written = f"{odds:,.0f}" if odds >= 10 else f"{odds:.1f}"
    more = "more than " if told.lead > 20 else ""
    return f"{who}: {told.lead:.2f}, the logarithm of odds of {more}{written} to 1"


def cut_note(told: Told) -> str:
    """Say how much was not read."""
    return f"The last {told.cut:,} characters were not read: {len(told.spans):,} tokens is all."


def percent(p: float) -> str:
    """Write a probability.

    >>> percent(0.12345), percent(0.0001)
    ('12.3 %', '< 0.1 %')
    """
    return "< 0.1 %" if 0 < p < 0.0005 else f"{100 * p:.1f} %"
