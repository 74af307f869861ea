"""Find the matrices of a table: named blocks of numbers, rows of named numbers, traces over time.

A table is a list of rows of cells. A spreadsheet is one table with several matrices; a table of a
text is mostly one matrix, perhaps with labels.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workings.problems.documents.matrices import Rows
from workings.problems.documents.sources.cells import read_cell
from workings.problems.documents.sources.plain import to_plain
from workings.problems.documents.words import find_caption_role

_SCRIPT = r"[_^]\{?\(?[\w,'+-]{1,8}\)?\}?"
_SYMBOL = re.compile(
    rf"[A-Za-zα-ω][\u0300-\u036f]?'{{0,2}}(?:\d{{1,2}}|(?:{_SCRIPT}){{1,2}}|[QKVO])?"
)
_TIME = re.compile(r"t|time|step|tick|zeit|schritt|pas|paso|时间", re.IGNORECASE)
_COUNT = re.compile(
    r"\W*(?:pos(?:itions?)?|tokens?|index|idx|i|n|no|nr|#|row|wort|zeile|词|位置)\W*", re.IGNORECASE
)
_PREVIOUS = re.compile(r"_(?:\{?\(?t\s?-\s?1\)?\}?|\{?(?:prev|old|before)\}?)$")
_SUM = re.compile(r"(?:row\s+)?sum|Σ|Σ_j|total|(?:zeilen)?summe|somme|suma|总和|和", re.IGNORECASE)
_LETTER = re.compile(r"[a-z]|[a-z]_[a-z]")
_VECTOR = re.compile("\\**\ue000\\d+\ue001\\**")
_STEPS: frozenset[str | None] = frozenset({"scores", "scaled", "masked", "exponentials", "weights"})
_INDEXED = re.compile(r"([A-Za-zα-ω][\u0300-\u036f]?)_?\{?\(?(\d{1,3})\)?\}?")


@dataclass(frozen=True)
class TablePart:
    """A label with a matrix, or (without one) a text that stands in the table.

    `row` and `column` are where it begins in the table, label included.
    """

    label: str
    grid_rows: Rows | None
    row: int = 0
    column: int = 0
    problem: str = ""
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()


Cells = Sequence[Sequence[str]]


def find_table_parts(cells: Cells) -> Iterator[TablePart]:
    """Yield the matrices and texts of a table, from top to bottom."""
    width = max((len(row) for row in cells), default=0)
    texts = [[*(cell.strip() for cell in row), *[""] * (width - len(row))] for row in cells]
    numbers = [[_read(cell) for cell in row] for row in texts]
    if _has_counted_header(texts, numbers):
        numbers[0] = [None] * width
    if _is_counted_frame(texts):
        numbers[0] = [None] * width
    if _has_counted_column(texts) or _is_counted_frame(texts):
        numbers = [[None, *row[1:]] for row in numbers]
    yield from _take_traces(texts, numbers)
    used: set[tuple[int, int]] = set()
    blocks = []
    for i, row in enumerate(numbers):
        for j, cell in enumerate(row):
            if cell is not None and cell != "?" and (i, j) not in used:
                block = _grow(numbers, i, j, used)
                used |= {
                    (r, c) for r in range(block[0], block[2]) for c in range(block[1], block[3])
                }
                blocks.append(block)
    parts = [part for block in blocks for part in _label(texts, numbers, block, used)]
    parts += [
        TablePart(text, None, i, j)
        for i, line in enumerate(texts)
        for j, text in enumerate(line)
        if text and numbers[i][j] is None and (i, j) not in used
    ]
    yield from sorted(parts, key=lambda part: (part.row, part.column))


def _has_counted_header(texts: list[list[str]], numbers: list[list[str | None]]) -> bool:
    """Return True if the first row counts the columns, and every other row has a label."""
    if len(texts) < 2 or len(texts[0]) < 3 or numbers[0][0] is not None:
        return False
    counts = [str(k) for k in range(len(texts[0]))]
    is_counted = texts[0][1:] in (counts[1:], counts[:-1])
    return is_counted and all(
        row[0] and number[0] is None for row, number in zip(texts[1:], numbers[1:], strict=True)
    )


def _is_counted_frame(texts: list[list[str]]) -> bool:
    """Return True if the first row and the first column count from 1 and meet in no cell."""
    if len(texts) < 2 or len(texts[0]) < 3 or texts[0][0]:
        return False
    lines = texts[0][1:], [row[0] for row in texts[1:]]
    return all(line == [str(k + 1) for k in range(len(line))] for line in lines)


def _has_counted_column(texts: list[list[str]]) -> bool:
    """Return True if the first column counts the rows, and its header says so."""
    counts = [str(k) for k in range(len(texts) + 1)]
    column = [row[0] for row in texts if row]
    is_counted = column[1:] in (counts[1 : len(column)], counts[: len(column) - 1])
    return len(column) > 2 and is_counted and bool(_COUNT.fullmatch(to_plain(column[0])))


def _read(cell: str) -> str | None:
    return None if not cell else read_cell(cell)


def _take_traces(texts: list[list[str]], numbers: list[list[str | None]]) -> Iterator[TablePart]:
    """Yield the numbers of named columns over time, t | z | h, and blank their cells."""
    for top, line in enumerate(texts[:-1]):
        left = next((j for j, text in enumerate(line) if text), len(line) - 1)
        names = [to_plain(text).strip("\v ") for text in line]
        if not _TIME.fullmatch(names[left]):
            continue
        columns = [j for j in range(left + 1, len(line)) if names[j]]
        bottom = top + 1
        while bottom < len(texts) and texts[bottom][left].isdigit():
            bottom += 1
        if (
            bottom == top + 1
            or not columns
            or not all(_SYMBOL.fullmatch(names[j]) for j in columns)
        ):
            continue
        for i in range(top + 1, bottom):
            for j in columns:
                if (cell := numbers[i][j]) is not None and cell != "?":
                    yield TablePart(_name_at_time(names[j], int(texts[i][left])), [[cell]], i, j)
        for i in range(top, bottom):
            for j in (left, *columns):
                texts[i][j], numbers[i][j] = "", None


def list_vectors_over_time(cells: Cells) -> Iterator[str]:
    """Yield h_1 = [vector] for a table t | h_t of vectors; its cells are marks of grids."""
    names = [to_plain(cell).strip("\v ") for cell in cells[0]] if cells else []
    rows = [row for row in cells[1:] if len(row) == len(names)]
    is_trace = len(names) > 1 and rows and len(rows) == len(cells) - 1 and _TIME.fullmatch(names[0])
    if not is_trace or not all(_SYMBOL.fullmatch(name) for name in names[1:]):
        return
    if not all(row[0].isdigit() for row in rows) or "\ue000" not in "".join(rows[0]):
        return
    for row in rows:
        for name, cell in zip(names[1:], row[1:], strict=True):
            if cell.strip():
                yield f"{_name_at_time(name, int(row[0]))} = {cell.strip()}"


def list_vectors_by_word(cells: Cells) -> Iterator[str]:
    """Yield q_1 = [vector] for a table of words with a vector under q, k and v."""
    names = [to_plain(cell).strip("\v ") for cell in cells[0]] if cells else []
    rows = cells[1:]
    if len(names) < 2 or not rows or any(len(row) != len(names) for row in rows):
        return
    is_named = all(_LETTER.fullmatch(name) for name in names[1:])
    has_vectors = all(_VECTOR.fullmatch(cell.strip()) for row in rows for cell in row[1:])
    if is_named and has_vectors and not any("\ue000" in row[0] for row in rows):
        for number, row in enumerate(rows, start=1):
            for name, cell in zip(names[1:], row[1:], strict=True):
                yield f"{name}_{number} = {cell.strip()}"


def _name_at_time(name: str, time: int) -> str:
    """Return the name of a column in the row of a time: h_4 for h_t, h_3 for h_(t-1)."""
    base = _PREVIOUS.sub("", name)
    if base != name:
        return f"{base}_{time - 1}"
    return re.sub(r"_\{?\(?t\)?\}?$", "", name) + f"_{time}"


def _grow(
    numbers: list[list[str | None]], top: int, left: int, used: set[tuple[int, int]]
) -> tuple[int, int, int, int]:
    """Return the largest rectangle of numbers from a corner: top, left, bottom, right."""
    right = left
    while (
        right < len(numbers[top]) and numbers[top][right] is not None and (top, right) not in used
    ):
        right += 1
    bottom = top
    while bottom < len(numbers):
        row = numbers[bottom][left:right]
        is_inside = all(cell is not None for cell in row) and any(cell != "?" for cell in row)
        after = numbers[bottom][right] if right < len(numbers[bottom]) else None
        if not is_inside or (bottom > top and after is not None):
            break
        bottom += 1
    return top, left, max(bottom, top + 1), right


def _label(
    texts: list[list[str]],
    numbers: list[list[str | None]],
    block: tuple[int, int, int, int],
    used: set[tuple[int, int]],
) -> Iterator[TablePart]:
    """Yield the matrix of a block with its name: beside its rows, above it or in its corner."""
    top, left, bottom, right = block
    rows = [[cell or "?" for cell in row[left:right]] for row in numbers[top:bottom]]

    def text_at(i: int, j: int) -> str:
        is_inside = 0 <= i < len(texts) and 0 <= j < len(texts[i])
        return texts[i][j] if is_inside and numbers[i][j] is None else ""

    above = [text_at(top - 1, j) for j in range(left, right)]
    beside = [text_at(i, left - 1) for i in range(top, bottom)]
    has_columns = all(above) and len(above) > 1
    has_rows = all(beside) and (len(beside) > 1 or has_columns)
    row_labels = tuple(beside) if has_rows else ()
    column_labels = tuple(above) if has_columns else ()
    claimed: list[tuple[int, int]] = []
    are_names = has_rows and _are_names(beside) and not (_are_tokens(beside) or beside == above)
    if are_names and not has_columns and right - left == 1:
        for i, name in enumerate(beside):  # W_i | 0.5
            used.add((top + i, left - 1))
            yield TablePart(name, [rows[i]], top + i, left - 1)
        return
    if are_names and len(set(map(_base, beside))) > 1:
        for i, name in enumerate(beside):  # q_1 | 1 | 0 and k_1 | 2 | 1
            used.add((top + i, left - 1))
            yield TablePart(name, [rows[i]], top + i, left - 1)
        return
    if has_rows and _are_steps(beside):
        for i, name in enumerate(beside):  # query · key | 112 | 96, softmax | 0.88 | 0.12
            used.add((top + i, left - 1))
            yield TablePart(name, [rows[i]], top + i, left - 1)
        return
    claimed += [(i, left - 1) for i in range(top, bottom)] if has_rows else []
    claimed += [(top - 1, j) for j in range(left, right)] if has_columns else []
    label, corner = "", (top, left)
    candidates = [
        *([(top - 1, left - 1)] if has_columns or has_rows else []),
        *([(i, left - 1) for i in range(top, bottom)] if not has_rows else []),
        *([(top - 1, left)] if not has_columns else [(top - 2, left), (top - 2, left - 1)]),
        *([(top - 1, left - 1), (top - 2, left)] if not has_columns else []),
    ]
    for i, j in candidates:
        is_corner = has_rows and has_columns and (i, j) == (top - 1, left - 1)
        if is_corner and not _names_steps(text_at(i, j)):
            claimed += [(i, j)] if text_at(i, j) else []  # the header of the labels
            continue
        if text_at(i, j) and (i, j) not in used:
            label, corner = text_at(i, j), (min(i, top), min(j, left))
            claimed.append((i, j))
            break
    is_indexed = has_rows and all(
        _INDEXED.fullmatch(to_plain(name).strip("\v =:")) for name in beside
    )
    # q_1, q_2 beside and s_1, s_2 or e^(s_1) above: not the matrix Q
    is_product = has_columns and all(
        _INDEXED.fullmatch(name) or name.startswith(("e^", "exp"))
        for name in (to_plain(name).strip("\v =:") for name in above if not _SUM.fullmatch(name))
    )
    if not label and is_indexed and not is_product and len({_base(name) for name in beside}) == 1:
        label = _base(beside[0]).upper()
    used.update(claimed)
    if claimed:
        corner = min(corner[0], *(i for i, _ in claimed)), min(corner[1], *(j for _, j in claimed))
    # A frame of positions, as pandas prints one: 0 1 2 above and beside the numbers.
    rows = _strip_index(rows) if not has_rows and not has_columns else rows
    if has_rows and has_columns and len(above) > 2 and _SUM.fullmatch(above[-1]):
        sums, rows = [row[-1:] for row in rows], [row[:-1] for row in rows]
        yield TablePart("sum", sums, top, right - 1, "", row_labels)
        column_labels = column_labels[:-1]
    yield TablePart(label.rstrip(":= "), rows, *corner, "", row_labels, column_labels)


def is_symbol(label: str) -> bool:
    """Return True for a symbol of a formula: q_1, X, W^Q."""
    return _SYMBOL.fullmatch(to_plain(label).strip("\v =:")) is not None


def _are_names(labels: Sequence[str]) -> bool:
    return all(map(is_symbol, labels))


def _are_steps(labels: Sequence[str]) -> bool:
    """Return True for captions of different steps: score, divided by 8, softmax."""
    roles = [find_caption_role(to_plain(label)) for label in labels]
    return len(set(roles)) == len(roles) > 1 and _STEPS.issuperset(roles)


def _are_tokens(labels: Sequence[str]) -> bool:
    """Return True for a, b, c: letters for words, and no matrices."""
    letters = "".join(labels).lower()
    return len(letters) == len(labels) > 1 and letters in "abcdefghijklmnop"


def _names_steps(corner: str) -> bool:
    """Return True for a corner that names the table, not the words beside its rows."""
    return is_symbol(corner) or find_caption_role(corner) not in (None, "X")


def _base(name: str) -> str:
    match = _INDEXED.fullmatch(to_plain(name).strip("\v =:"))
    return match[1] if match else name


def _strip_index(rows: Rows) -> Rows:
    """Return the rows without a frame of positions 0, 1, 2, … beside and above them."""
    counts = [str(k) for k in range(max(len(rows), len(rows[0])))]
    has_header = rows[0][0] == "?" and rows[0][1:] == counts[: len(rows[0]) - 1]
    if has_header and [row[0] for row in rows[1:]] == counts[: len(rows) - 1] and len(rows) > 1:
        return [row[1:] for row in rows[1:]]
    return rows
