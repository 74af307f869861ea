"""A document as its source leaves it: lines of plain text in which grids have places of their own.

Every format ends here, so that what follows knows neither LaTeX nor HTML nor Office.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from workings.problems.documents.matrices import Rows

Place: TypeAlias = int | str  # a line number, or "page 1", "slide 2", "cell 3", "Sheet!A1"

GRID_OPEN, GRID_CLOSE = "\ue000", "\ue001"  # around the index of a grid in the text of a line
BREAK = "\v"  # ends a statement inside a line: \\ of LaTeX, the end of a formula
MAX_GRIDS = 20_000
MAX_LINES = 400_000


@dataclass(frozen=True)
class Grid:
    """A matrix of written numbers, or why it could not be read.

    `row_labels` and `column_labels` are those that a table has beside its numbers.
    """

    rows: Rows
    place: Place
    problem: str = ""
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and columns."""
        return len(self.rows), len(self.rows[0]) if self.rows else 0


@dataclass(frozen=True)
class Line:
    """A line of text; `level` is 0 for text, otherwise that of a heading (1 is the highest)."""

    text: str
    place: Place
    level: int = 0
    is_code: bool = False


@dataclass
class Source:
    """The lines and grids of a document, and the settings that its comments declare."""

    lines: list[Line] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)  # TOML of `% workings:` comments

    def add_line(self, text: str, place: Place, level: int = 0, *, is_code: bool = False) -> None:
        """Add a line of plain text, or of a program and its output."""
        if len(self.lines) < MAX_LINES:
            self.lines.append(Line(text, place, level, is_code))

    def add_grid(self, grid: Grid) -> str:
        """Add a grid; return the mark that stands for it in the text of a line."""
        if len(self.grids) >= MAX_GRIDS:
            return ""
        self.grids.append(grid)
        return f"{GRID_OPEN}{len(self.grids) - 1}{GRID_CLOSE}"

    def add_table(self, cells: Sequence[Sequence[str]], place: Place) -> None:
        """Add the matrices of a table as lines `NAME = grid`."""
        from workings.problems.documents.sources.tables import find_table_parts

        for part in find_table_parts(cells):
            if part.grid_rows is None:
                self.add_line(part.label, place)
                continue
            mark = self.add_grid(
                Grid(part.grid_rows, place, part.problem, part.row_labels, part.column_labels)
            )
            self.add_line(f"{part.label} = {mark}" if part.label else mark, place)
