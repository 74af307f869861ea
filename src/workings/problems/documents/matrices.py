"""Parse a pasted matrix: LaTeX, printed arrays or tensors, lists, Markdown, CSV, drawn brackets.

Each form is split into cells in one pass over the text, and nothing is evaluated. The checks that
all forms share come last: every cell is a number or a blank, and all rows are equally long.
"""

import csv
import re
from functools import lru_cache
from typing import TypeAlias

from workings.errors import UserError, safe_repr
from workings.problems.documents import latex
from workings.problems.numbers import MAX_SIDE, read_number, transpose_rows

MAX_TEXT_CHARS = 2_000_000

BRACKET_PIECES = "⎡⎢⎣⎤⎥⎦⎛⎜⎝⎞⎟⎠⎧⎨⎩⎫⎬⎭⎪┌└┐┘│"
_LEFT_BRACKET_PIECES = "⎡⎢⎣⎛⎜⎝⎧⎨⎩┌└"
_NAME = re.compile(r"[\\\w^.']{1,40}")
_ASSIGNMENT = re.compile(r"[\\\w^{}.']{1,40}\s*:?=")
_MATH_DELIMITER = re.compile(r"\$+|(?<!\\)\\[\[\]()]")
_CONSTRUCTOR = re.compile(r"(?:Parameter containing:\s*)?(?:[A-Za-z_][\w.]{0,40}\s?\(\s*)?(?=\[)")
_SCALAR = re.compile(r"\b(?:(?:np|numpy|torch)\.)?(?:u?int|float|tensor)\d*\(([^()\[\]]*)\)")
_OPTIONS = re.compile(
    r"""(?: ?, ?\w+ ?= ?(?:'[^']*'|"[^"]*"|<[^>]*>|\([^()]*\)|[\w.:]+))* ?,? ?\)? ?[;.]?"""
)
_LIST_TOKEN = re.compile(r"""[\[\],;]|"[^"\n]*"|'[^'\n]*'|[^\s\[\],;]+""")
_BAR = re.compile(r"(?<!\\)\|")
_EXPECTED_FORMS = "expected LaTeX, a printed array, a list, Markdown or CSV"

Rows: TypeAlias = list[list[str]]


def parse_matrix(text: str, where: str) -> Rows:
    r"""Return the rows of a pasted matrix; `read_number` can parse every cell.

    >>> parse_matrix(r"\begin{bmatrix} 1 & \frac{1}{2} \\ -\infty & \dots \end{bmatrix}", "X")
    [['1', '1/2'], ['-inf', '?']]
    >>> parse_matrix("tensor([[0.5, 1.0]], device='cuda:0')", "X")
    [['0.5', '1.0']]
    >>> parse_matrix("|     | the | cat |\n|-----|-----|-----|\n| cat | 0.5 | 0.5 |", "weights")
    [['0.5', '0.5']]
    """
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(
            f"{where}: {len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed"
        )
    if "\x08egin" in text or "\x0crac" in text:  # "\begin" in a TOML string
        raise UserError(f"{where}: TOML read the backslashes as escapes: quote LaTeX with '''")
    text = text.strip("\ufeff \t\r\n")
    rows = _parse_latex(text, where) if "\\begin" in text else _parse_plain(text, where)
    if not any(rows):
        raise UserError(f"{where}: the matrix is empty: {_EXPECTED_FORMS}")
    side = max(len(rows), *map(len, rows))
    if side > MAX_SIDE:
        raise UserError(f"{where}: a side of {side}; at most {MAX_SIDE} are allowed")
    if not any(_is_number(cell) for row in rows for cell in row):
        raise UserError(f"{where}: {safe_repr(text, 30)} is not a matrix: {_EXPECTED_FORMS}")
    _check_row_lengths(rows, where)
    for i, row in enumerate(rows):
        for cell in row:
            read_number(cell, f"{where}: row {i + 1}")
    return rows


def _check_row_lengths(rows: Rows, where: str) -> None:
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UserError(
                f"{where}: row {i + 1} has {len(row)} numbers, row 1 has {len(rows[0])}"
            )


def _parse_latex(text: str, where: str) -> Rows:
    r"""Parse a text with one `\begin{…matrix}`."""
    matrices, unclosed = latex.find_environments(text)
    if unclosed:
        raise UserError(f"{where}: \\begin{{{unclosed}}} has no \\end{{{unclosed}}}")
    if len(matrices) != 1:
        problem = f"{len(matrices)} matrices instead of one" if matrices else "not a matrix"
        raise UserError(f"{where}: {problem}: expected one \\begin{{bmatrix}} … \\end{{bmatrix}}")
    matrix = matrices[0]
    name, equals, rest = text[: matrix.start].partition("=")
    has_name = equals and _NAME.fullmatch(latex.strip_decoration(name)[0])
    before, _ = latex.strip_decoration(rest if has_name else text[: matrix.start])
    after, transposed = latex.strip_decoration(text[matrix.end :])
    if before or after:
        raise _make_extra_text_error(before or after, where)
    if "\\begin" in matrix.body:
        raise UserError(f"{where}: a matrix is nested in a matrix")
    rows = latex.split_rows(matrix.body)
    rows = _strip_labels(rows) if matrix.name in latex.LABELED_ENVIRONMENTS else rows
    return _transpose(rows, where) if transposed else rows


def _parse_plain(text: str, where: str) -> Rows:
    """Parse any form but LaTeX; brackets, bars and separators determine which."""
    if any(piece in text for piece in BRACKET_PIECES):
        return _parse_drawing(text, where)
    text = _MATH_DELIMITER.sub(" ", text).strip()
    assignment = _ASSIGNMENT.match(text)
    text = text[assignment.end() :].lstrip() if assignment else text
    if text.startswith(("[", "(", "\\left")) and "\\" in text:  # [0.1 \; 0.2]
        text = latex.to_plain_text(text)
    if text.startswith("(") and text.endswith(")") and "[" not in text:
        text = f"[{text[1:-1]}]"
    constructor = _CONSTRUCTOR.match(text)
    if constructor:
        return _parse_nested_list(text[constructor.end() :], where)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("|") or (_is_table_rule(line) and "|" in line) for line in lines[:2]):
        has_rule = len(lines) > 1 and _is_table_rule(lines[1])
        table = [_BAR.split(_strip_bars(line)) for line in lines if not _is_table_rule(line)]
        return _strip_labels([[_clean_cell(c) for c in row] for row in table], has_rule)
    if "\\\\" in text or "&" in text:
        return latex.split_rows(text)
    return _parse_separated(lines, where)


def _parse_drawing(text: str, where: str) -> Rows:
    """Parse a matrix between brackets that are drawn over several lines."""
    rows = []
    for line in text.splitlines():
        brackets = [i for i, c in enumerate(line) if c in BRACKET_PIECES]
        if sum(line[i] in _LEFT_BRACKET_PIECES for i in brackets) > 1:
            raise UserError(f"{where}: two drawn matrices side by side: write only one")
        inside = line[brackets[0] + 1 : brackets[-1] if brackets[1:] else None] if brackets else ""
        if inside.strip():  # a line between two rows is empty
            rows.append([_clean_cell(c) for c in inside.replace(", ", " ").split()])
    return rows


def _parse_nested_list(text: str, where: str) -> Rows:
    """Parse a nested list: commas or spaces between cells, `;` between rows (MATLAB)."""
    text = _SCALAR.sub(r"\1", text)
    rows: list[tuple[int, list[str]]] = []  # nesting depth, cells
    opened: list[list[str]] = []
    end = 0
    for match in _LIST_TOKEN.finditer(text):
        symbol = match.group()
        if symbol == "[" or (symbol == ";" and opened):
            if symbol == ";":
                opened.pop()
            if len(opened) == 2:
                raise UserError(f"{where}: more than two dimensions: write a single matrix")
            opened.append([])
            rows.append((len(opened), opened[-1]))
        elif symbol == "]" and opened:
            opened.pop()
            end = match.end()
        elif symbol in ("...", "…"):
            raise UserError(
                f"{where}: the print leaves numbers out (…): print all of them with "
                "set_printoptions(threshold=10**6)"
            )
        elif opened and symbol != ",":
            opened[-1].append(_clean_cell(symbol.strip("\"'")))
        elif not opened and symbol != ",":
            break  # the list has ended
    if opened:
        raise UserError(f"{where}: a [ is not closed")
    rest = " ".join(text[end:].split())
    extra, transposed = ("", False) if _OPTIONS.fullmatch(rest) else latex.strip_decoration(rest)
    if extra:
        raise _make_extra_text_error(extra, where)
    max_depth = max(depth for depth, _ in rows)
    outer = [row for depth, row in rows if depth < max_depth]
    if len(outer) > 1 or any(outer):
        raise UserError(f"{where}: not one matrix: expected a list of rows, [[1, 0], [0, 2]]")
    cells = [row for depth, row in rows if depth == max_depth]
    if len(cells) > 1 and not cells[-1] and ";" in text:  # [1 2; 3 4;]
        cells.pop()
    return _transpose(cells, where) if transposed else cells


def _parse_separated(lines: list[str], where: str) -> Rows:
    """Parse numbers separated by commas, tabs, semicolons (decimal commas allowed) or spaces."""
    text = "\n".join(lines)
    if ";" in text:
        rows = [row.split() for row in text.replace("\n", ";").split(";")]
        if any(len(row) > 1 for row in rows) and all(_is_number(c) for row in rows for c in row):
            return [row for row in rows if row]  # 1 2; 3 4 as in MATLAB
    spaced = [[_clean_cell(c) for c in line.split()] for line in lines]
    separator = next((s for s in ";\t," if s in text), "")
    # 0,5 1,5: the commas are decimal if splitting at spaces gives only numbers.
    is_decimal = any(len(row) > 1 for row in spaced) and all(
        _is_number(c) for r in spaced for c in r
    )
    if not separator or (separator == "," and is_decimal):
        return spaced
    try:
        table = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise UserError(f"{where}: not CSV: {error}") from None
    return _strip_labels([[_clean_cell(c) for c in row] for row in table])


def _strip_labels(rows: Rows, has_rule: bool = False) -> Rows:
    """Drop a header row without numbers and a first column without numbers.

    `has_rule`: a rule under the first row marks it as a header; it may then be empty, or number the
    columns if the rows have labels.
    """
    if len(rows) > 1:
        header = rows[0]
        has_numbers = any(_is_number(c) and c != "?" for c in header)
        has_words = not all(_is_number(c) for c in header)
        has_corner = header[0] == "?" or (has_rule and not _is_number(header[0]))
        is_header = has_corner and _has_row_labels(rows[1:])
        if is_header or (not has_numbers and (has_words or has_rule)):
            rows = rows[1:]
    return [row[1:] for row in rows] if _has_row_labels(rows) else rows


def _has_row_labels(rows: Rows) -> bool:
    return all(len(row) > 1 and not _is_number(row[0]) for row in rows)


def _clean_cell(text: str) -> str:
    return latex.clean_cell(text.strip().strip("*`"))


@lru_cache(4096)
def _is_number(cell: str) -> bool:
    try:
        read_number(cell, "")
    except UserError:
        return False
    return True


def _is_table_rule(line: str) -> bool:
    """Return True for a rule: |---|:-:| in Markdown, +---+ in a drawn table."""
    return "-" in line and not set(line) - set("|:+-= \t")


def _strip_bars(line: str) -> str:
    line = line[1:] if line.startswith("|") else line
    return line[:-1] if line.endswith("|") and not line.endswith("\\|") else line


def _transpose(rows: Rows, where: str) -> Rows:
    _check_row_lengths(rows, where)
    return transpose_rows(rows)


def _make_extra_text_error(extra: str, where: str) -> UserError:
    return UserError(
        f"{where}: unexpected {safe_repr(extra, 30)} beside the matrix: write only the matrix"
    )
