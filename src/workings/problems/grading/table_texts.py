r"""Rewrite tables and drawn matrices in texts so that every cell is seen, also those left empty.

A row of which nothing is filled in still is a row: `| 0.5 | | x |`, `0.5 & & - \\`.
"""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

_BLANK_MARKS = frozenset({"", "?", "x", "-", "–", "—", "n/a", "…", "..."})
_ENVIRONMENT = re.compile(
    r"(?P<begin>\\begin\{(?P<name>[a-zA-Z]?(?:small)?matrix\*?|array|tabular[xy]?\*?)\}"
    r"(?:\[\w\])?(?:\{[^{}\n]*\})*)(?P<body>(?:(?!\\begin\{).)*?)(?P<end>\\end\{(?P=name)\})",
    re.DOTALL,
)
_RULE = re.compile(r"\\(?:hline|toprule|midrule|bottomrule)(?![A-Za-z])|\\cline\{[^}]*\}")
_ROW_END = re.compile(r"\\\\(?:\[[^\]\n]*\])?")
_MARKDOWN_RULE = re.compile(r"[\s|:+]*-{2,}[\s|:+-]*")
_BLANK_CELL = re.compile(r"[|&\t][ ]*\?[ ]*(?=[|&\t\n\\]|$)|(?:^|(?<=\n))[ ]*\?[ ]*[&\t]")
_HIDDEN = re.compile(r"<(head|script|style)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_PAGE_CELL = re.compile(r"<t[dh]\b[^>]*>(?:\s*<(?:p|div)\b[^>]*>)*", re.IGNORECASE)
_PAGE_CELL_END = re.compile(r"(?:</(?:p|div)\s*>\s*)*</t[dh]\s*>", re.IGNORECASE)
_PAGE_BLOCK = re.compile(
    r"</?(?:p|div|h[1-6]|li|ul|ol|br|hr|pre|table|caption|tr|section|body)\b[^>]*>", re.IGNORECASE
)
_TAG = re.compile(r"<[a-z/!][^>]*>", re.IGNORECASE)
_BAR_ROW = re.compile(
    r"[ \t]*(?:(?P<name>[^|=\n]{1,60}?)[ \t]*(?::=|=|:)[ \t]*)?"
    r"[|│⎡⎢⎣⎛⎜⎝](?P<cells>[^|│⎤⎥⎦⎞⎟⎠=:\n]*)[|│⎤⎥⎦⎞⎟⎠][ \t]*"
)


def is_blank_mark(text: str) -> bool:
    """Return True for the text of a cell that was left out: nothing, a dash, an x."""
    return text.strip("${} \t\n").lower() in _BLANK_MARKS


def mark_blank_cells(text: str) -> str:
    r"""Return a text with "?" for the cells of its tables that are left out.

    >>> mark_blank_cells("| 0.5 | | x |"), mark_blank_cells("0.5\t-\t1")
    ('| 0.5 | ? | ? |', '0.5\t?\t1')
    """
    text = _ENVIRONMENT.sub(_mark_environment, text)
    lines = text.split("\n")
    indent = {k: _count_tabs(part) for part in _group_tabs(lines) for k, _ in part}
    return "\n".join(_mark_line(line, indent.get(k, 0)) for k, line in enumerate(lines))


def has_blank_cells(text: str) -> bool:
    """Return True if a cell of a table is marked as left out."""
    return _BLANK_CELL.search(text) is not None


def _mark_environment(match: re.Match[str]) -> str:
    rows = _ROW_END.split(_RULE.sub(" ", match["body"]))
    # A column may end with an empty cell; of other matrices, that is the end of the last row.
    is_column = len(rows) > 1 and not re.search(r"&|\\hline|\\bottomrule", match["body"])
    rows = rows if rows[-1].strip() or is_column else rows[:-1]
    body = " \\\\\n".join(" & ".join(map(_mark, row.split("&"))) for row in rows)
    return f"{match['begin']}\n{body}\n{match['end']}"


def _mark(cell: str) -> str:
    return "?" if is_blank_mark(cell) else cell.strip()


def _group_tabs(lines: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines of each table whose cells are separated by tabs."""
    for has_tab, group in groupby(enumerate(lines), key=lambda line: "\t" in line[1]):
        if has_tab:
            yield list(group)


def _count_tabs(lines: Sequence[tuple[int, str]]) -> int:
    """Return how many tabs all lines begin with."""
    return min(len(line) - len(line.lstrip("\t")) for _, line in lines)


def _mark_line(line: str, indent: int) -> str:
    content = line.strip()
    if content.startswith("|") and content.endswith("|") and len(content) > 1:
        if _MARKDOWN_RULE.fullmatch(content):
            return ""
        return f"| {' | '.join(map(_mark, content[1:-1].split('|')))} |"
    if "\t" in line:
        return "\t" * indent + "\t".join(map(_mark, line[indent:].split("\t")))
    return line


def read_page_text(page: str) -> str:
    """Return the text of a web page; the rows of a table are lines.

    >>> read_page_text("<p>Q</p><table><tr><td>1<td></tr></table>").split()
    ['Q', '|', '1', '|', '|']
    """
    text = re.sub(r"\s+", " ", _HIDDEN.sub(" ", page))
    text = _PAGE_BLOCK.sub("\n", _PAGE_CELL.sub(" | ", _PAGE_CELL_END.sub(" ", text)))
    lines = html.unescape(_TAG.sub("", text)).split("\n")
    return "\n".join(f"{line} |" if line.lstrip().startswith("|") else line for line in lines)


def join_bars(text: str) -> str:
    r"""Return a text with matrices drawn with bars, named beside any row, as lists of rows.

    >>> join_bars("    | 1 |\nh = | 2 |\n    | 3 |")
    'h = [[1], [2], [3]]\n\n'
    """
    joined: list[str] = []
    matched = [(line, _BAR_ROW.fullmatch(line)) for line in text.split("\n")]
    for is_row, group in groupby(matched, key=lambda line: line[1] is not None):
        lines = list(group)
        rows = [match for _, match in lines if match is not None]
        names = [row["name"].strip() for row in rows if row["name"]]
        if is_row and len(names) == 1:
            cells = (", ".join(re.split(r"[\s,;&]+", row["cells"].strip())) for row in rows)
            joined += [f"{names[0]} = [{', '.join(f'[{row}]' for row in cells)}]"]
            joined += [""] * (len(rows) - 1)
        else:
            joined += [line for line, _ in lines]
    return "\n".join(joined)
