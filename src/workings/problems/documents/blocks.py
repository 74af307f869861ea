"""Find matrices that take up lines of their own: tables under `NAME:`, drawn brackets, cells.

- `NAME:`, `## NAME` or `**NAME**` above a Markdown table, CSV or columns of numbers
- brackets that are drawn over several lines: ⎡ ⎢ ⎣
- a Markdown table whose cells are matrices, named by the cell before or by the header
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from workings.problems.documents.matrices import BRACKET_PIECES

NUMBER = re.compile(r"[+−-]?(?:\d+[.,/]?\d*|\.\d+)(?:e[+-]?\d+)?")
CELL_END = re.compile(r"[\s&,;|\[\]]+|\\\\")
_BAR = re.compile(r"(?<!\\)\|")
_MATRIX_CELL = re.compile(r"[`$\s]*(?:\[|\\begin|\\left|\w{0,9}\.?(?:array|tensor)\()[^=]*\d[^=]*")


@dataclass(frozen=True)
class Block:
    """A named matrix and the part of the text that it takes up."""

    name: str
    matrix: str
    start: int
    end: int


def find_blocks(text: str) -> list[Block]:
    """Return the matrices that take up lines of their own."""
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    blocks: list[Block] = []
    header: list[str] = []  # of the Markdown table that the line is part of
    i = 0
    while i < len(lines):
        cells = _split_table_line(lines[i])
        header = [] if not cells else header or cells
        named = list(_find_matrix_cells(cells, header))
        if named:
            blocks += [Block(name, cell, starts[i], starts[i + 1]) for name, cell in named]
            i += 1
            continue
        name, first, stop = (
            _find_drawing(lines, i) if _has_bracket_piece(lines[i]) else _find_table(lines, i)
        )
        if name:
            blocks.append(Block(name, "".join(lines[first:stop]), starts[i], starts[stop]))
        i = stop
    return blocks


def _split_table_line(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table; [] for any other line."""
    line = line.strip()
    if not line.startswith("|") or "=" in line:
        return []
    return [cell.strip() for cell in _BAR.split(line.strip("|"))]


def _find_matrix_cells(cells: list[str], header: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the cells that are matrices, with the name before them or above them."""
    for k, cell in enumerate(cells):
        if _MATRIX_CELL.fullmatch(cell):
            before = cells[k - 1] if k else ""
            is_name = bool(before) and not _MATRIX_CELL.fullmatch(before)
            name = before if is_name else header[k] if k < len(header) else ""
            if name and name != cell:
                yield name, cell.strip("`$ ")


def _has_bracket_piece(line: str) -> bool:
    return not set(BRACKET_PIECES).isdisjoint(line)


def _find_drawing(lines: list[str], start: int) -> tuple[str, int, int]:
    """Return the name of a drawn matrix, beside or above it, and its first and last line."""
    stop = start
    while stop < len(lines) and _has_bracket_piece(lines[stop]):
        stop += 1
    left = " ".join(re.split(f"[{BRACKET_PIECES}]", line)[0] for line in lines[start:stop]).strip()
    if not left and start and lines[start - 1].rstrip().endswith((":", "=")):
        left = lines[start - 1].strip()
    return left.rstrip(" :="), start, stop


def _find_table(lines: list[str], index: int) -> tuple[str, int, int]:
    """Find a table under `NAME:` or `## NAME`; return the name, its first and last line."""
    left = lines[index].strip().rstrip("*_ ")
    first = index + 1
    while first < len(lines) and first < index + 3 and not lines[first].strip():
        first += 1
    stop = first
    has_bars = first < len(lines) and lines[first].lstrip().startswith("|")
    if not (left.endswith((":", "=")) or (left.startswith(("#", "*")) and has_bars)):
        return "", first, index + 1
    while stop < len(lines) and _is_table_line(lines[stop], is_first=stop == first):
        stop += 1
    cells = [cell for cell in CELL_END.split(" ".join(lines[first:stop])) if cell.strip("-:+=")]
    numbers = sum(NUMBER.fullmatch(cell) is not None for cell in cells)
    if numbers and (has_bars or numbers * 2 >= len(cells)):
        return left.rstrip(":= "), first, stop
    return "", first, max(stop, index + 1)


def _is_table_line(line: str, is_first: bool) -> bool:
    line = line.strip()
    if not line or "=" in line or line.startswith(("[", "\\", "$", "array", "tensor", "(")):
        return False
    return (
        line.startswith("|")
        or any(c.isdigit() or c in "?-" for c in line)
        or (is_first and any(c in ",;\t" for c in line))
    )
