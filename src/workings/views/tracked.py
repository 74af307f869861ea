"""The cells of a model that track properties of a text, for the terminal."""

import shutil
from collections.abc import Iterator, Sequence
from typing import Protocol

from workings.views.coloured import Span, coloured_lines
from workings.views.drawing import Pen
from workings.views.plain import one_line, printable, width, wrap
from workings.views.table import text_table

HEAD = ("property", "cell", "there it", "measure", "score", "when chosen", "by chance", "p")
_NARROWEST = 24
_SHOWN = 500  # characters of an excerpt
_BARS = "▁▂▃▄▅▆▇█"


class ToldCell(Protocol):
    """A cell and how well it tracks the property."""

    @property
    def cell(self) -> str: ...
    @property
    def against(self) -> bool: ...
    @property
    def chosen(self) -> float: ...
    @property
    def score(self) -> float: ...
    @property
    def p(self) -> float: ...
    @property
    def values(self) -> Sequence[float]: ...
    @property
    def middle(self) -> float: ...
    @property
    def reach(self) -> float: ...


class ToldExcerpt(Protocol):
    """A piece of the text that the cells were scored on."""

    @property
    def text(self) -> str: ...
    @property
    def spans(self) -> Sequence[Span]: ...
    @property
    def marked(self) -> Sequence[int]: ...


class ToldProperty(Protocol):
    """A property and its best cells."""

    @property
    def name(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def measure(self) -> str: ...
    @property
    def share(self) -> float | None: ...
    @property
    def chance(self) -> float: ...
    @property
    def cells(self) -> Sequence[ToldCell]: ...
    @property
    def excerpt(self) -> ToldExcerpt: ...


class Told(Protocol):
    """What was asked about the cells of a model, and what was found."""

    @property
    def tried(self) -> int: ...
    @property
    def chosen_on(self) -> int: ...
    @property
    def scored_on(self) -> int: ...
    @property
    def shifts(self) -> int: ...
    @property
    def unit(self) -> str: ...
    @property
    def tracked(self) -> Sequence[ToldProperty]: ...
    @property
    def left_out(self) -> Sequence[str]: ...


def text(told: Told, *, width: int | None = None, color: bool = False, theme: str = "dark") -> str:
    """Write the table, and a piece of text for each property as its best cell sees it."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    columns, pen = max(columns, _NARROWEST), Pen(color)
    blocks = [wrap(summary(told), columns)]
    if told.tracked:
        blocks.append(text_table(HEAD, rows(told), left=4).splitlines())
    for tracked in told.tracked:
        best, shown = tracked.cells[0], tracked.excerpt
        kept = sum(end <= _ended(shown.text) for _, end in shown.spans)
        spans, values = shown.spans[:kept], best.values[:kept]
        piece = shown.text[: spans[-1][1]] if spans else ""
        name = heading(tracked)
        first, *rest = wrap(f"{name}: {one_line(best.cell)}, {measured(tracked, best)}", columns)
        lines = [pen(first[: len(name)], "strong") + first[len(name) :], *rest]
        if color:
            lines += coloured_lines(
                piece,
                spans,
                values,
                width=columns,
                theme=theme,
                marked=[k for k in shown.marked if k < kept],
                middle=best.middle,
                reach=best.reach,
            )
        else:
            lines += barred_lines(piece, spans, values, best.middle, best.reach, columns)
        blocks.append(lines)
    blocks.append([pen(line, "dim") for note in notes(told) for line in wrap(note, columns)])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _ended(text: str) -> int:
    """Where to end an excerpt: at the end of a line, if there is one in its later half."""
    end = text.rfind("\n", _SHOWN // 2, _SHOWN)
    return _SHOWN if end < 0 or len(text) <= _SHOWN else end


def summary(told: Told) -> str:
    """Say what was done."""
    return (
        f"{told.tried:,} cells, chosen on {told.chosen_on:,} {told.unit} and scored on "
        f"{told.scored_on:,} others"
    )


def notes(told: Told) -> list[str]:
    """Say what the columns are, and what is missing."""
    found = [
        f"by chance: what the best of all {told.tried:,} cells stays below on 95 of 100 texts "
        f"that the property is shifted round; p: how often it does as well, of {told.shifts} shifts"
    ]
    if told.unit == "tokens":
        found.append("a token has the property of its last character")
    if told.left_out:
        names = ", ".join(one_line(name) for name in told.left_out)
        found.append(f"the same all over the text, or half of it, and left out: {names}")
    return found


def rows(told: Told) -> list[tuple[str, ...]]:
    """The table's rows: a property's name beside its best cell only."""
    return [
        (
            one_line(tracked.name) if k == 0 else "",
            one_line(cell.cell),
            "falls" if cell.against else "rises",
            tracked.measure,
            f"{cell.score:.3f}",
            f"{cell.chosen:.3f}",
            f"{tracked.chance:.3f}",
            f"{cell.p:.3f}",
        )
        for tracked in told.tracked
        for k, cell in enumerate(tracked.cells)
    ]


def heading(tracked: ToldProperty) -> str:
    """Name a property in words."""
    what = one_line(tracked.what)
    return what[:1].upper() + what[1:]


def measured(tracked: ToldProperty, cell: ToldCell) -> str:
    """Write a score with what it is of."""
    falls = " (it falls there)" if cell.against else ""
    return f"{tracked.measure} {cell.score:.3f}{falls}"


def barred_lines(
    text: str,
    spans: Sequence[Span],
    values: Sequence[float],
    middle: float,
    reach: float,
    columns: int,
) -> list[str]:
    """Write a text with a bar below each character, as high as its value.

    >>> barred_lines("ab c", [(0, 1), (1, 2), (3, 4)], [-1.0, 0.0, 1.0], 0.0, 1.0, 80)
    ['ab c', '▁▅ █']
    """
    lines: list[str] = []
    above, below = "", ""
    for shown, bar in _barred(text, spans, values, middle, reach):
        if shown == "\n" or width(above) + width(shown) > columns:
            lines += [above.rstrip(), below.rstrip()] if above.strip() else [""]
            above, below = "", ""
        if shown != "\n":
            above, below = above + shown, below + bar * width(shown)
    return [*lines, above.rstrip(), below.rstrip()] if above.strip() else lines


def _barred(
    text: str, spans: Sequence[Span], values: Sequence[float], middle: float, reach: float
) -> Iterator[tuple[str, str]]:
    """Each character as it is shown, with its bar."""
    bars = [" "] * len(text)
    for (start, end), value in zip(spans, values, strict=True):
        share = (value - middle) / reach / 2 + 0.5 if reach else 0.5
        level = min(max(int(share * len(_BARS)), 0), len(_BARS) - 1)
        bars[start:end] = _BARS[level] * (end - start)
    for character, bar in zip(text, bars, strict=True):
        yield printable(character).replace("\t", "    "), bar
