r"""Find the matrices inside a text: `\begin{bmatrix}`, lists in brackets, arrays, tensors."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from workings.errors import UserError
from workings.problems.documents import latex
from workings.problems.documents.matrices import Rows, parse_matrix
from workings.problems.documents.sources.array_prints import (
    restore_zeros,
    share_decimals,
    use_decimal_points,
)
from workings.problems.documents.sources.cells import is_arithmetic, read_cell
from workings.problems.numbers import MAX_SIDE, transpose_rows

_ENVIRONMENT = re.compile(r"\\(begin|end)[ \t]*\{([A-Za-z]+\*?)\}")
_CONSTRUCTOR = re.compile(r"[A-Za-z_][\w.]{0,40}\(\s{0,20}$")
_CONSTRUCTOR_NAMES = frozenset(
    {"array", "asarray", "tensor", "Tensor", "matrix", "Matrix", "Array", "DataFrame"}
)
_NUMBER = re.compile(r"[+-]?(?:\d+[.,/]?\d*|\.\d+)(?:e[+-]?\d+)?%?", re.IGNORECASE)
_SPLIT = re.compile(r"[\s&,;|\[\]()]+|\\\\")
_LOST_SPACE = re.compile(r"(?<=[\d.]) ([-+]) (?=[\d.])")  # [0.1 - 0.2] for [0.1 -0.2]
_MATRICES = re.compile(
    r"\]\s{0,9}\]\s{0,9}\)?\s{0,9},?\s{0,99}(?:[\w.]{1,20}\(\s{0,9})?\[\s{0,9}\["
)
_TRANSPOSE = re.compile(latex.TRANSPOSE)
_OPENING = re.compile(r"\\left\s*[\[(]\s*\Z|\\(?:big|Big|bigg|Bigg)l?\s*[\[(]\s*\Z")
_SYMBOLIC = re.compile(
    r"\\(?:alpha|beta|gamma|theta|sigma|mu|operatorname|text|mathrm|exp|sin|cos|tanh|vec|mathbf)"
    r"(?![a-z])|[A-Za-df-zα-ω]_|[A-Za-df-zα-ω][_{]*\d"
)
_FRACTION = re.compile(r"\\[a-z]?frac|\\sqrt")
_TUPLE = re.compile(
    r"(?<=[=≈:])\s{0,3}(?:\\left\s?)?\(((?:[^()=]|\([^()=]{1,400}\)){3,2000})\)"
    rf"(?!\s*(?!{latex.TRANSPOSE})[-+*/·×^\d])"
)
_TUPLE_ROW = re.compile(r"\(([^()]*)\)")
_LIST_OF_TUPLES = re.compile(r"\[\s*(?:\([^()\[\]]+\)[\s,;]*)+\]")
_REMARK = re.compile(  # [3 pts], [see Figure 4]
    r"\[\s*(?:[^\W\d_]{3,}[\s.:]+)*(?:\d+[\s.:]*(?:[^\W\d_]{2,}[.:]?\s*)+|[^\W\d_]{3,}[\s.:]+\d+\s*)\]"
)
_ROW_START = re.compile(r"\[\s*[^\[\s]")
_SYMBOL_PIECE = re.compile(r"[A-Za-zα-ω]\s?[_^]")
_MAX_LIST_CHARS = 200_000


@dataclass(frozen=True)
class FoundGrid:
    """A matrix in a text: its span, its rows and, if it could not be read, why."""

    start: int
    end: int
    rows: Rows
    problem: str = ""


def find_grids(text: str) -> list[FoundGrid]:
    """Return the matrices of a text in order, without overlaps."""
    grids = list(_find_environments(text)) if "\\begin" in text else []
    blanked = _blank(text, [(grid.start, grid.end) for grid in grids])
    last = 0
    for start, end in sorted(_find_lists(blanked)):
        if start >= last:
            grid = _read_list(blanked, start, end)
            if grid is not None:
                grids.append(grid)
                last = end
    if "(" in text:
        spans = [(grid.start, grid.end) for grid in grids]
        grids += _find_tuples(_blank(text, spans))
    ordered = sorted(grids, key=lambda grid: grid.start)
    return [_transpose(text, grid) for grid in _stack_rows(text, ordered)]


def _stack_rows(text: str, grids: list[FoundGrid]) -> list[FoundGrid]:
    """Return the grids with rows in brackets that stand below each other as one matrix."""
    stacked: list[FoundGrid] = []
    for grid in grids:
        above = stacked[-1] if stacked else None
        if above is not None and _is_next_row(text, above, grid):
            stacked[-1] = FoundGrid(above.start, grid.end, [*above.rows, *grid.rows])
        else:
            stacked.append(grid)
    return stacked


def _is_next_row(text: str, above: FoundGrid, row: FoundGrid) -> bool:
    """Return True for a row alone in its line, right below one of the same width and column."""
    between = text[above.end : row.start]
    is_row = len(row.rows) == 1 and text[row.start : row.end].count("[") == 1
    if not is_row or above.problem or row.problem or not above.rows:
        return False
    if not _ROW_START.match(text, above.start):
        return False
    columns = [grid.start - text.rfind("\n", 0, grid.start) for grid in (above, row)]
    return (
        between.count("\n") == 1
        and not between.strip()
        and not text[row.end :].partition("\n")[0].strip()
        and columns[0] == columns[1]
        and len(row.rows[0]) == len(above.rows[0]) > 1
    )


def _transpose(text: str, grid: FoundGrid) -> FoundGrid:
    """Return the grid with a sign of transposition that follows it taken into account."""
    after = re.compile(r"\s{0,3}(?:\\right\s*[\])])?\s{0,3}").match(text, grid.end)
    match = _TRANSPOSE.match(text, after.end() if after else grid.end)
    if match is None or not grid.rows or len(grid.rows[0]) == 0:
        return grid
    return FoundGrid(grid.start, match.end(), transpose_rows(grid.rows), grid.problem)


def _find_environments(text: str) -> Iterator[FoundGrid]:
    """Yield the innermost matrix environments; one that is not closed is skipped."""
    opened: list[re.Match[str]] = []
    last = -1
    for mark in _ENVIRONMENT.finditer(text):
        command, name = mark.groups()
        if name not in latex.MATRIX_ENVIRONMENTS:
            continue
        if command == "begin":
            opened.append(mark)
        elif opened and opened[-1][2] == name:
            begin = opened.pop()
            if begin.start() >= last:
                body = latex._strip_column_spec(name, text[begin.end() : mark.start()])
                if "\\begin" not in body:
                    yield _read_environment(begin.start(), mark.end(), name, body)
                    last = mark.end()
        else:
            opened.clear()


def _read_environment(start: int, end: int, name: str, body: str) -> FoundGrid:
    raw = [[cell.strip() for cell in row] for row in _split_rows(body)]
    raw = [row for row in raw if any(row)]
    if name in latex.LABELED_ENVIRONMENTS:
        raw = _strip_labels(raw)
    return make_grid(start, end, raw)


def _split_rows(body: str) -> list[list[str]]:
    """Split the body of a matrix at row ends and ampersands outside braces."""
    rows: list[list[str]] = [[]]
    depth = start = 0
    body = re.sub(r"\\(?:hline|toprule|midrule|bottomrule)(?![A-Za-z])|(?<!\\)%[^\n]*", " ", body)
    for mark in re.finditer(rf"(?P<row>{latex.ROW_END})|(?P<cell>&)|(?P<brace>[{{}}])|\\.", body):
        if mark.lastgroup == "brace":
            depth += 1 if mark.group() == "{" else -1
        elif depth <= 0 and mark.lastgroup:
            rows[-1].append(body[start : mark.start()])
            start = mark.end()
            if mark.lastgroup == "row":
                rows.append([])
    rows[-1].append(body[start:])
    return rows


def _strip_labels(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows without a header and a first column that have no numbers."""
    has_corner = not rows[0][0] and all(row[0] and not _is_cell(row[0]) for row in rows[1:])
    if len(rows) > 1 and (has_corner or not any(_is_cell(cell) for cell in rows[0] if cell)):
        rows = rows[1:]
    if all(len(row) > 1 and not _is_cell(row[0]) for row in rows):
        rows = [row[1:] for row in rows]
    return rows


def _is_cell(text: str) -> bool:
    return bool(text) and read_cell(text) is not None


def make_grid(start: int, end: int, raw: list[list[str]]) -> FoundGrid:
    """Read the cells of a matrix; say why if that is not possible."""
    width = max((len(row) for row in raw), default=0)
    if not raw or max(len(raw), width) > MAX_SIDE:
        return FoundGrid(start, end, [], "it is empty" if not raw else "it is too large")
    if any(_SYMBOLIC.search(_FRACTION.sub(" ", cell)) for row in raw for cell in row):
        return FoundGrid(start, end, [])  # a matrix of symbols
    rows: Rows = []
    problem = ""
    for row in raw:
        cells = [read_cell(cell) if cell else "?" for cell in row]
        if len(row) < width and None in cells:  # -0.36 - 0.08: a separator is lost
            cells = [read_cell(c) for cell in row for c in _LOST_SPACE.sub(r" \1", cell).split()]
        if None in cells:
            bad = row[cells.index(None)] if len(cells) == len(row) else " & ".join(row)
            is_sum = is_arithmetic(bad)
            problem = problem or (
                "its cells are sums and products"
                if is_sum
                else f"{bad.strip()[:30]!r} is not a number"
            )
        elif len(cells) != width:
            problem = problem or f"row {len(rows) + 1} has {len(cells)} numbers, not {width}"
        rows.append([cell or "?" for cell in cells])
    has_number = any(cell != "?" for row in rows for cell in row)
    if not has_number:
        return FoundGrid(start, end, [], "" if not problem else "it has no numbers")
    return FoundGrid(start, end, [] if problem else rows, problem)


def _find_lists(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of lists with numbers, and of array( … ) around them."""
    opened: list[tuple[int, int]] = []  # position, depth of the lists inside
    lists, closed = [], {}
    for mark in re.finditer(r"\\(?:left|right|[bB]igg?[lr]?)?\s?[\[\]()]|\\.|[\[\]()]", text):
        symbol = mark.group()[-1]
        if symbol not in "[]()" or (mark.group()[0] == "\\" and len(mark.group()) == 2):
            continue
        if symbol in "[(":
            opened.append((mark.end() - 1, 0))
        elif opened:
            start, depth = opened.pop()
            closed[start] = mark.end()
            if (text[start], symbol) == ("[", "]"):
                depth += 1
                lists.append((start, mark.end(), depth))
            if opened:
                opened[-1] = (opened[-1][0], max(opened[-1][1], depth))
    for start, end, depth in lists:
        if (
            depth > 4
            or end - start > _MAX_LIST_CHARS
            or _is_index(text[max(0, start - 30) : start])
        ):
            continue
        inside = text[start + 1 : end - 1]
        if any(_NUMBER.fullmatch(piece) for piece in _SPLIT.split(inside)):
            call = _CONSTRUCTOR.search(text, max(0, start - 60), start)
            if call and call[0].rstrip().rstrip("(").split(".")[-1] in _CONSTRUCTOR_NAMES:
                yield call.start(), closed.get(call.start() + call[0].index("("), end)
            yield start, end


def _find_tuples(text: str) -> Iterator[FoundGrid]:
    """Yield vectors and matrices in parentheses after an equals sign: x = (1; 0,5)."""
    for match in _TUPLE.finditer(text):
        body = match[1].removesuffix("\\right")
        grid = _read_tuples(match.start(), match.end(), body)
        if grid.rows and (len(grid.rows) > 1 or len(grid.rows[0]) > 1):
            yield grid


def _read_tuples(start: int, end: int, text: str) -> FoundGrid:
    """Read rows in parentheses, (0,5; 1) or (0.5, 1), or a single row without them."""
    rows = _TUPLE_ROW.findall(text) if "(" in text else [text]
    separator = ";" if any(";" in row for row in rows) else ","
    return make_grid(start, end, [[cell.strip() for cell in row.split(separator)] for row in rows])


def _is_index(before: str) -> bool:
    r"""Return True if a bracket after this text is an index, x[0], and not \times [0]."""
    return bool(re.search(r"[\w)\]]\Z", before)) and not re.search(r"\\[A-Za-z]+\s?\Z", before)


def _read_list(text: str, start: int, end: int) -> FoundGrid | None:
    """Read a list in brackets; None if it is a reference such as [12] or a shape."""
    raw = text[start:end]
    before = text[max(0, start - 40) : start].rstrip()
    if re.fullmatch(r"\[\s*\d+\s*\]", raw) and not before.endswith(("=", "≈", ":", "(", "approx")):
        return None
    if re.search(r"(?:size|shape|dim|Size|Shape)\W{0,8}$", before) or _REMARK.fullmatch(raw):
        return None
    body = raw[raw.index("[") :]
    while body.startswith("[[[") or re.match(r"\[\s*\[\s*\[", body):  # a batch of one
        body = body[1 : body.rindex("]")].strip()
    if _MATRICES.search(body):
        return None  # a list of matrices: each of them is one
    pieces = re.split(r"[,;]", body)
    if len(pieces) > 1 and all(_SYMBOL_PIECE.search(piece) for piece in pieces):
        return None  # [head_1; head_2]
    if _LIST_OF_TUPLES.fullmatch(body):
        return _read_tuples(start, end, body)
    if not re.search(r"[,;]", body):
        body = _LOST_SPACE.sub(r" \1", body)
    body = restore_zeros(body) if "." in body else use_decimal_points(body)
    head = raw[: raw.index("[")]
    try:
        rows = parse_matrix(head + body + (")" if head else ""), "it")
        return FoundGrid(start, end, share_decimals(rows))
    except UserError as error:
        message = str(error).removeprefix("it: ")
    lines = re.findall(r"\[([^\[\]]*)\]", body) or [body.strip("[]")]
    cells = [re.split(r"[,;&]" if re.search("[,;&]", s) else r"\s+", s.strip()) for s in lines]
    grid = make_grid(start, end, [[cell.strip() for cell in row] for row in cells])
    return grid if not grid.problem and grid.rows else FoundGrid(start, end, [], message)


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position:start], re.sub(r"[^\n]", " ", text[start:end])]
        position = end
    return "".join([*pieces, text[position:]])
