"""Matrices pasted as text: LaTeX, a NumPy or PyTorch print, a list, Markdown, CSV, a drawing.

Each form is split into cells in one pass over the text, and nothing is evaluated. What all forms
have in common comes last: every cell is a number or a blank, and all rows are as long as the first.
"""

import csv
import re
from functools import lru_cache
from typing import TypeAlias

from workings.errors import UserError
from workings.problems.documents import latex
from workings.problems.numbers import MAX_SIDE, quote_value, read_number

MAX_TEXT_CHARS = 2_000_000  # characters

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
_EXPECTED_FORMS = "expected LaTeX, a NumPy or PyTorch print, a list, Markdown or CSV"

Rows: TypeAlias = list[list[str]]


def parse_matrix(text: str, where: str) -> Rows:
    r"""Split a pasted matrix into rows of cells that `read_number` understands.

    >>> parse_matrix(r"\begin{bmatrix} 1 & \frac{1}{2} \\ -\infty & \dots \end{bmatrix}", "X")
    [['1', '1/2'], ['-inf', '?']]
    >>> parse_matrix("tensor([[0.5, 1.0]], device='cuda:0')", "X")
    [['0.5', '1.0']]
    >>> parse_matrix("|     | the | cat |\n|-----|-----|-----|\n| cat | 0.5 | 0.5 |", "weights")
    [['0.5', '0.5']]
    """
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(
            f"{where}: {len(text)} characters of text; at most {MAX_TEXT_CHARS} are read"
        )
    if "\x08egin" in text or "\x0crac" in text:  # "\begin" in TOML's double quotes
        raise UserError(f"{where}: its backslashes were taken for escapes: quote LaTeX with '''")
    text = text.strip("\ufeff \t\r\n")
    rows = _parse_latex(text, where) if "\\begin" in text else _parse_plain(text, where)
    if not any(rows):
        raise UserError(f"{where}: empty: {_EXPECTED_FORMS}")
    side = max(len(rows), *map(len, rows))
    if side > MAX_SIDE:
        raise UserError(f"{where}: a side of {side}; at most {MAX_SIDE} are read")
    if not any(_is_number(cell) for row in rows for cell in row):
        raise UserError(f"{where}: {quote_value(text)} is not a matrix: {_EXPECTED_FORMS}")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UserError(
                f"{where}: row {i + 1} has {len(row)} numbers, row 1 has {len(rows[0])}"
            )
        for cell in row:
            read_number(cell, f"{where}: row {i + 1}")
    return rows


def _parse_latex(text: str, where: str) -> Rows:
    r"""Read the one `\begin{…matrix}` of a text."""
    found, unclosed = latex.find_environments(text)
    if unclosed:
        raise UserError(f"{where}: \\begin{{{unclosed}}} has no \\end{{{unclosed}}}")
    if len(found) != 1:
        problem = f"{len(found)} matrices where one belongs" if found else "not a matrix"
        raise UserError(f"{where}: {problem}: expected one \\begin{{bmatrix}} … \\end{{bmatrix}}")
    matrix = found[0]
    name, equals, rest = text[: matrix.start].partition("=")
    named = equals and _NAME.fullmatch(latex.strip_decoration(name)[0])
    before, _ = latex.strip_decoration(rest if named else text[: matrix.start])
    after, transposed = latex.strip_decoration(text[matrix.end :])
    if before or after:
        raise _make_extra_text_error(before or after, where)
    if "\\begin" in matrix.body:
        raise UserError(f"{where}: a matrix inside a matrix")
    rows = latex.split_rows(matrix.body)
    rows = _strip_labels(rows) if matrix.name in latex.LABELED_ENVIRONMENTS else rows
    return _transpose(rows) if transposed else rows


def _parse_plain(text: str, where: str) -> Rows:
    """Read a form that is told by its brackets, bars and separators."""
    if any(piece in text for piece in BRACKET_PIECES):
        return _parse_drawing(text, where)
    text = _MATH_DELIMITER.sub(" ", text).strip()
    named = _ASSIGNMENT.match(text)
    text = text[named.end() :].lstrip() if named else text
    if text.startswith(("[", "(", "\\left")) and "\\" in text:  # [0.1 \; 0.2]
        text = latex.to_plain_text(text)
    if text.startswith("(") and text.endswith(")") and "[" not in text:
        text = f"[{text[1:-1]}]"
    maker = _CONSTRUCTOR.match(text)
    if maker:
        return _parse_nested_list(text[maker.end() :], where)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("|") or (_is_table_rule(line) and "|" in line) for line in lines[:2]):
        ruled = len(lines) > 1 and _is_table_rule(lines[1])
        table = [_BAR.split(_strip_bars(line)) for line in lines if not _is_table_rule(line)]
        return _strip_labels([[_clean_cell(c) for c in row] for row in table], ruled)
    if "\\\\" in text or "&" in text:
        return latex.split_rows(text)
    return _parse_separated(lines, where)


def _parse_drawing(text: str, where: str) -> Rows:
    """Read a matrix between brackets drawn over several lines."""
    rows = []
    for line in text.splitlines():
        places = [i for i, c in enumerate(line) if c in BRACKET_PIECES]
        if sum(line[i] in _LEFT_BRACKET_PIECES for i in places) > 1:
            raise UserError(f"{where}: two drawn matrices side by side: write one alone")
        inside = line[places[0] + 1 : places[-1] if places[1:] else None] if places else ""
        if inside.strip():  # a line between two rows is empty
            rows.append([_clean_cell(c) for c in inside.replace(", ", " ").split()])
    return rows


def _parse_nested_list(text: str, where: str) -> Rows:
    """Read a nested list: commas or spaces between cells, `;` also between rows (MATLAB)."""
    text = _SCALAR.sub(r"\1", text)
    rows: list[tuple[int, list[str]]] = []  # how deep it is nested, its cells
    opened: list[list[str]] = []
    end = 0
    for piece in _LIST_TOKEN.finditer(text):
        mark = piece.group()
        if mark == "[" or (mark == ";" and opened):
            if mark == ";":
                opened.pop()
            if len(opened) == 2:
                raise UserError(
                    f"{where}: more than two dimensions: write one matrix of the tensor"
                )
            opened.append([])
            rows.append((len(opened), opened[-1]))
        elif mark == "]" and opened:
            opened.pop()
            end = piece.end()
        elif mark in ("...", "…"):
            raise UserError(
                f"{where}: the print leaves numbers out (…): print it whole, "
                "after set_printoptions(threshold=10**6)"
            )
        elif opened and mark != ",":
            opened[-1].append(_clean_cell(mark.strip("\"'")))
        elif not opened and mark != ",":
            break  # what follows the list
    if opened:
        raise UserError(f"{where}: a [ is not closed")
    rest = " ".join(text[end:].split())
    extra, transposed = ("", False) if _OPTIONS.fullmatch(rest) else latex.strip_decoration(rest)
    if extra:
        raise _make_extra_text_error(extra, where)
    deepest = max(depth for depth, _ in rows)
    outer = [row for depth, row in rows if depth < deepest]
    if len(outer) > 1 or any(outer):
        raise UserError(f"{where}: not one matrix: expected a list of rows, [[1, 0], [0, 2]]")
    cells = [row for depth, row in rows if depth == deepest]
    if len(cells) > 1 and not cells[-1] and ";" in text:  # [1 2; 3 4;]
        cells.pop()
    return _transpose(cells) if transposed else cells


def _parse_separated(lines: list[str], where: str) -> Rows:
    """Read CSV, TSV, semicolons (decimal commas allowed), or numbers with spaces between them."""
    text = "\n".join(lines)
    if ";" in text:
        pieces = [piece.split() for piece in text.replace("\n", ";").split(";")]
        if any(len(p) > 1 for p in pieces) and all(_is_number(c) for p in pieces for c in p):
            return [piece for piece in pieces if piece]  # 1 2; 3 4 as in MATLAB
    spaced = [[_clean_cell(c) for c in line.split()] for line in lines]
    separator = next((s for s in ";\t," if s in text), "")
    # 0,5 1,5: the commas are decimal if with spaces as separators every cell is a number.
    decimal = any(len(row) > 1 for row in spaced) and all(_is_number(c) for r in spaced for c in r)
    if not separator or (separator == "," and decimal):
        return spaced
    try:
        table = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise UserError(f"{where}: not CSV: {error}") from None
    return _strip_labels([[_clean_cell(c) for c in row] for row in table])


def _strip_labels(rows: Rows, has_rule: bool = False) -> Rows:
    """Drop a header row without numbers and a first column without numbers.

    `ruled`: a line under the first row says that it is a header, so that it may also be empty, or
    be numbers over the columns if the rows have names.
    """
    if len(rows) > 1:
        header, named = rows[0], all(len(row) > 1 and not _is_number(row[0]) for row in rows[1:])
        numbered = any(_is_number(c) and c != "?" for c in header)
        worded = not all(_is_number(c) for c in header)
        over_names = named and (header[0] == "?" or (has_rule and not _is_number(header[0])))
        if over_names or (not numbered and (worded or has_rule)):
            rows = rows[1:]
    if all(len(row) > 1 and not _is_number(row[0]) for row in rows):
        rows = [row[1:] for row in rows]
    return rows


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
    """Tell |---|:-:| of Markdown, or +---+ of a drawn table."""
    return "-" in line and not set(line) - set("|:+-= \t")


def _strip_bars(line: str) -> str:
    line = line[1:] if line.startswith("|") else line
    return line[:-1] if line.endswith("|") and not line.endswith("\\|") else line


def _transpose(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=False)]


def _make_extra_text_error(extra: str, where: str) -> UserError:
    return UserError(
        f"{where}: {quote_value(extra)} stands beside the matrix: write the matrix alone"
    )
