"""Read matrices that only their layout shows: columns of numbers beside, above or under a name.

    2  0          1  0
X = 1  1 ,  W_Q = 0  1        as `pdftotext -layout` leaves a formula, and as brackets are drawn
    0  3

Q =                           as Matlab, Octave and `pdftotext` print
    0.7000    0.3000
    0.5000    0.9000
"""

import re
from collections.abc import Callable

from workings.problems.documents.matrices import BRACKET_PIECES, Rows

_NUMBER = r"[+-]?(?:\d+(?:[.,]\d+)?|\.\d+)(?:e[+-]?\d+)?|-?(?:∞|inf|Inf)|\?"
_TOKEN = re.compile(_NUMBER, re.IGNORECASE)
_ROW = re.compile(rf"[\s\[\](|]*(?:{_NUMBER})(?:[\s,;&]+(?:{_NUMBER}))*[\s,;.\])|]*", re.IGNORECASE)
_LABELED_ROW = re.compile(rf"\s*([^\W\d]\w{{0,20}})\s+((?:{_NUMBER})(?:\s+(?:{_NUMBER}))*)\s*")
_COMMAS = re.compile(r"[+-]?\d+(?:\.\d+)?(?:,[+-]?\d+(?:\.\d+)?)+")  # 1,0 as in a CSV file
_NAME_END = re.compile(r"(?:=|≈|:)\s*$")
_EQUALS = re.compile(r"(?<![<>!=:])[=≈](?!=)")
_WORD_NEXT = re.compile(r"\s*[^\W\d_]")  # Var(q · k) = d_k: no matrix
_NAME_BEFORE = re.compile(r"[^\s,;=≈](?:[^,;=≈\n]{0,60}?[^\s,;=≈])?\s*$")
_DRAWN_ROW = re.compile(rf"[\[|(][ \t]*(?:{_NUMBER})(?:[ \t]+(?:{_NUMBER}))*[ \t]*[\])|]")
_MAX_ROWS = 64

AddGrid = Callable[[Rows, int], str]  # rows and the index of their line -> the mark of the grid


def blank_brackets(text: str) -> str:
    """Return a text with spaces for the brackets of matrices that are drawn side by side.

    Q = [ 1 0 ]   K = [ 1 1 ]
        [ 0 1 ]       [ 0 1 ]
    """
    lines = text.split("\n")
    for k, line in enumerate(lines[:-1]):
        pieces = [m.span() for m in _DRAWN_ROW.finditer(line)] if "=" in line else []
        if len(pieces) < 2 or not all(line[:start].rstrip().endswith("=") for start, _ in pieces):
            continue
        below = k + 1
        while below < len(lines) and _is_drawn_below(lines[below], pieces):
            below += 1
        for i in range(k, below if below > k + 1 else k):
            lines[i] = _DRAWN_ROW.sub(lambda m: f" {m[0][1:-1]} ", lines[i])
    return "\n".join(lines)


def _is_drawn_below(line: str, pieces: list[tuple[int, int]]) -> bool:
    """Return True for a line of nothing but rows that begin where those above begin."""
    starts = [m.start() for m in _DRAWN_ROW.finditer(line)]
    rest = _DRAWN_ROW.sub(" ", line).strip(" ,;.")
    return bool(starts) and not rest and set(starts) <= {start for start, _ in pieces}


def read_layout(lines: list[str], add_grid: AddGrid) -> list[str]:
    """Return the lines with marks in place of matrices that are laid out in columns."""
    lines = [_widen_brackets(line) for line in lines]
    lines = _read_beside(lines, add_grid)
    return _read_below(lines, add_grid)


def _widen_brackets(line: str) -> str:
    """Replace the pieces of drawn brackets by spaces of the same width."""
    if set(BRACKET_PIECES).isdisjoint(line):
        return line
    return re.sub(f"[{BRACKET_PIECES}]", " ", line)


def _read_beside(lines: list[str], add_grid: AddGrid) -> list[str]:
    """Read matrices beside their names, several in a line."""
    lines = list(lines)
    for index, line in enumerate(lines):
        if not _EQUALS.search(line) or len(line) > 2_000:
            continue
        marks = list(_EQUALS.finditer(line))
        inserts: list[tuple[int, int, str]] = []
        for k, mark in enumerate(marks):
            left = mark.end()
            right = _find_next_name(line, marks[k + 1].start()) if k + 1 < len(marks) else None
            right = _find_edge(lines, index, left) if right is None else right
            collected = _collect_rows(lines, index, left, right)
            if collected is not None:
                rows, own_end, others = collected
                for other in others:
                    lines[other] = _blank(lines[other], left, right)
                inserts.append((left, own_end, " " + add_grid(rows, index) + " "))
        for left, own_end, grid_mark in reversed(inserts):
            line = line[:left] + grid_mark.ljust(own_end - left) + line[own_end:]
        lines[index] = line
    return lines


def _find_edge(lines: list[str], index: int, left: int) -> int | None:
    """Return where the name of the next matrix begins that lines beside this one have."""
    edges = []
    for step in (-1, 1):
        k = index + step
        while 0 <= k < len(lines) and abs(k - index) < 12 and lines[k].strip():
            edges += [
                _find_next_name(lines[k], m.start())
                for m in _EQUALS.finditer(lines[k])
                if not _WORD_NEXT.match(lines[k], m.end())
            ]
            k += step
    return min((edge for edge in edges if edge > left + 1), default=None)


def _find_next_name(line: str, equals: int) -> int:
    """Return where the name before an equals sign begins."""
    match = _NAME_BEFORE.search(line[:equals])
    gap = re.search(r"\s{2,}\S(?:\S| \S)*\s*$", line[:equals])
    start = match.start() if match else equals
    return max(start, gap.start() if gap else 0)


def _collect_rows(
    lines: list[str], index: int, left: int, right: int | None
) -> tuple[Rows, int, list[int]] | None:
    """Return the rows at columns left…right around a line, where they end in it, and the others."""
    own, own_end = _read_slice(lines[index], left, right)
    above: list[tuple[int, list[str]]] = []
    below: list[tuple[int, list[str]]] = []
    count = len(own) if own else 0
    for step, rows in ((-1, above), (1, below)):
        k = index + step
        while 0 <= k < len(lines) and len(rows) < _MAX_ROWS:
            cells, _ = _read_slice(lines[k], max(0, left - 1), right, is_other=True)
            is_below = not own and bool(lines[k][: max(0, left - 1)].strip())
            if not cells or is_below or not _is_free(lines[k], left, right):
                break
            if count and len(cells) != count:
                break
            if len(cells) == 1 and not _ROW.fullmatch(lines[k]):
                break
            count = count or len(cells)
            rows.append((k, cells))
            k += step
    after = below[-1][0] + 1 if below else len(lines)
    if not own and after < len(lines) and _is_row_of_frame(lines[after], len(below), count):
        return None  # the names of the columns of a frame
    if not above and not below:
        return ([own], own_end, []) if own and len(own) > 1 else None
    matrix = [cells for _, cells in reversed(above)] + ([own] if own else [])
    matrix += [cells for _, cells in below]
    if not own and not (above and below) and lines[index][left:right].strip(" ,;."):
        return None
    return matrix, own_end, [k for k, _ in (*above, *below)]


def _is_free(line: str, left: int, right: int | None) -> bool:
    """Return True if no name of this line claims the numbers at these columns."""
    if _EQUALS.search(line, left, len(line) if right is None else right):
        return False
    before = line[:left]
    mark = max(before.rfind("="), before.rfind("≈"))
    return mark < 0 or bool(re.search(r"\d", before[mark:]))  # it has numbers of its own


def _is_row_of_frame(line: str, num_rows: int, count: int) -> bool:
    """Return True for a row with a label, a word or one more number than its only row above."""
    if _LABELED_ROW.fullmatch(line):
        return True
    is_longer = num_rows == 1 and _ROW.fullmatch(line) is not None
    return is_longer and len(_TOKEN.findall(line)) == count + 1


def _read_slice(
    line: str, left: int, right: int | None, is_other: bool = False
) -> tuple[list[str], int]:
    """Return the numbers of a part of a line, and where they end; [] if it has anything else."""
    part = line[left:right]
    if "\ue000" in part:
        return [], left
    if is_other and left and line[left - 1 : left].strip():  # a number across the edge
        return [], left
    match = re.match(
        rf"[\s\[(|]*((?:{_NUMBER})(?:[\s;&]+(?:{_NUMBER}))*)[\s\])|]*(?=$|[,;.])", part
    )
    if match is None or (is_other and part[match.end() :].strip(" ,;.")):
        return [], left
    rest = part[match.end() :]
    if not is_other and re.match(r"\s*[-+*/·×^]|\s*[A-Za-z]", rest):
        return [], left
    return _TOKEN.findall(match[1]), left + match.end()


def _blank(line: str, left: int, right: int | None) -> str:
    end = len(line) if right is None else min(right, len(line))
    left = max(0, left - 1)
    return line[:left] + " " * max(0, end - left) + line[end:]


def _read_below(lines: list[str], add_grid: AddGrid) -> list[str]:
    """Read rows of numbers that stand on lines of their own; append the mark to the name."""
    out: list[str] = []
    index = 0
    while index < len(lines):
        stop, rows = _take_rows(lines, index)
        if rows is None:
            out.append(lines[index])
            index += 1
            continue
        out.append(add_grid(rows, index))
        out += [""] * (stop - index - 1)
        index = stop
    return out


def _take_rows(lines: list[str], index: int) -> tuple[int, Rows | None]:
    """Return the rows of numbers from a line on, and the line after them."""
    if not lines[index].strip() or "\ue000" in lines[index]:
        return index, None
    header = lines[index].split() if index + 1 < len(lines) else []
    has_header = bool(header) and all(re.fullmatch(r"[\w.]+", name) for name in header)
    for skip in (0, 1) if has_header else (0,):  # pandas prints the names of the columns first
        rows: list[list[str]] = []
        stop = index + skip
        while stop < len(lines) and len(rows) < 1_024:
            line = lines[stop]
            if _ROW.fullmatch(line):
                is_list = _COMMAS.fullmatch(line.strip())
                cells = line.strip().split(",") if is_list else _TOKEN.findall(line)
            elif skip and (match := _LABELED_ROW.fullmatch(line)):
                cells = ["?", *_TOKEN.findall(match[2])]
            else:
                break
            if rows and len(cells) != len(rows[0]):
                break
            rows.append(cells)
            stop += 1
        is_frame = skip and rows and len(rows[0]) == len(header) + 1
        if is_frame:
            firsts = [row[0] for row in rows]
            is_labeled = set(firsts) == {"?"} and len(rows) * len(header) > 1  # not: Example 2
            if is_labeled or firsts == [str(k) for k in range(len(rows))]:
                return stop, [row[1:] for row in rows]
        if not skip and rows:
            if len(rows[0]) > 1 or len(rows) > 1:
                has_name = index and (_NAME_END.search(_last_text(lines, index)) is not None)
                is_numbered = len(rows[0]) == 1 and len(rows) == 1
                if (has_name or len(rows) > 1) and not is_numbered:
                    after = lines[stop] if stop < len(lines) else ""
                    is_frame_next = len(rows) == 1 and bool(_LABELED_ROW.fullmatch(after))
                    next_cells = _TOKEN.findall(after) if _ROW.fullmatch(after) else []
                    if not is_frame_next and len(next_cells) != len(rows[0]) + 1:
                        return stop, rows
            elif index and _NAME_END.search(_last_text(lines, index)):
                after = lines[stop] if stop < len(lines) else ""
                if not (rows == [["0"]] and _is_row_of_frame(after, 1, 1)):
                    return stop, rows
    return index, None


def _last_text(lines: list[str], index: int) -> str:
    for line in reversed(lines[max(0, index - 3) : index]):
        if line.strip():
            return line.strip()
    return ""
