"""Read answers from any text by what the sheet asks: a step's name, then its count of numbers.

How the numbers are set does not matter: brackets of any kind, rows under the name, labels of rows,
the syntax of R, MATLAB, YAML or Typst. The sheet knows the names of the steps and how many numbers
each has; a count that fits is a strong sign. Cells that are set one by one are read, too:
`Q[1,2] = 3`, `q_{12} = 3`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from workings.errors import UserError
from workings.problems.documents.matrices import MAX_TEXT_CHARS, Rows
from workings.problems.grading.answer_names import StepNames, find_problem_name
from workings.problems.grading.answer_tables import arrange_cells
from workings.problems.grading.answer_text import FileAnswers, normalize_text
from workings.problems.grading.headings import split_problems
from workings.problems.grading.marking import SheetProblem
from workings.problems.problem_file import set_nested

StepPath: TypeAlias = tuple[str, ...]
Shape: TypeAlias = tuple[int, int]

_MAX_NAME_WORDS = 4
_WRAPPER = re.compile(
    r"\\(?:mathbf|mathrm|mathit|mathsf|text\w*|boldsymbol|bm|operatorname\*?|num)\s*\{([^{}]*)\}"
)
# Labels of rows and columns, sizes and LaTeX that have no number of an answer.
_DECORATION = re.compile(
    r"\\(?:begin|end)\s*\{[^}]*\}(?:\s*\{[lcr|\s]*\})?|\\(?:left|right|qquad|quad|displaystyle)\b"
    r"|\[\s*\d+\s*,\s*\]|\[\s*,\s*\d+\s*\]"  # R prints [1,] and [,1]
    r"|^[ \t]*\W*(?:row|token|line|zeile|reihe|ligne|dòng|hàng|第)[ _]?\d+\s*行?[ \t]*[:=|)\]]"
    r"|\b(?:nrow|ncol|nr|nc|dtype|dim|size|shape)\s*=\s*(?:\([^)]*\)|[\w.]+)"
    r"|\b\d+[ ]?(?:[x×]|by|mal)[ ]?\d+\b|\.\.\.[ \t]*(?=\n)",
    re.IGNORECASE | re.MULTILINE,
)
_INFINITY = r"[+-]?[ ]?(?:\\infty|∞|(?:[a-z]{2,5})?\.?inf(?:ty|inity)?|oo)(?![a-z])"
_PATTERN = (
    r"(?P<label>{labels})|(?P<number>(?<![\w.^_])(?<![_^]\{{)(?:[+-]?float\(\s*['\"][+-]?inf(?:inity)?['\"]\s*\)|{infinity}"
    r"|[+-]?(?:\d+(?:{point}\d*)?|\.\d+)(?:e[+-]?\d+)?(?:[ ]?/[ ]?\d+)?(?![^\W\d])))"
    r"|(?P<blank>(?<![\w?])(?:\?|n/a|_{{2,}}|…|(?<=[\t|&,;\[ ])[-–—](?=[ ]*[\t|&,;\]\\\n]))"
    r"(?![\w?]))"
    r"|(?P<word>[^\W\d](?:[^\W_]|_(?![{{(]))*(?:[.^'_]+(?:\{{[\w()]*\}}|\(\w+\)|\w+))*'*)"
    r"|(?P<open>[\[({{⎡⎛])|(?P<close>[\])}}⎦⎠])|(?P<equals>:=|<-|≈|=|:)|(?P<line>\n+)"
)
_POINTS = (r"\.", r"(?:\.|\{?,\}?(?=\d))")  # a comma separates numbers, or it is a decimal comma
_DECIMAL_COMMA = re.compile(r"(?<=\d)\{?,\}?(?=\d)")
_FRACTION_PART = re.compile(r"0\d+")  # the 050 of 1,050
_NO_LABEL = "(?!)"
_NUMBERED_NAME = re.compile(
    r"^[ \t]*(?P<name>[A-Za-z][A-Za-z_.]*?)_?(?P<number>\d{1,2})[ \t]*(?::=|<-|=|:)", re.MULTILINE
)
_CELL = re.compile(
    r"(?<![\w.\\])(?P<name>[A-Za-z][A-Za-z.]*?(?:\.\d{1,2})?)\s*_?"
    r"(?:[\[({]\s*(?P<i>\d{1,3})\s*(?:[,;]|\]\s*\[)\s*(?P<j>\d{1,3})\s*[\])}]"
    r"|\{?(?<=[_{])(?P<i2>\d)[_,]?(?P<j2>\d)\}?)"
    r"\s*(?::=|<-|=|:)\s*\$?(?P<value>[^\s,;$&]*[\w∞?])"
)


@dataclass(frozen=True)
class _Token:
    kind: str  # label, number, blank, word, open, close, equals or line
    text: str


def scan_answers(text: str, problems: Sequence[SheetProblem], name: str | None) -> FileAnswers:
    """Return the steps of which a text has as many numbers as the sheet asks for."""
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    text = normalize_text(text)
    by_name = {problem.name: StepNames(problem) for problem in problems}
    claims: dict[str, dict[StepPath, Rows]] = {}
    for problem_name, part in _split_by_name(text, list(by_name), name):
        claims.setdefault(problem_name, {}).update(_scan_problem(part, by_name[problem_name]))
    answers = FileAnswers()
    for problem_name, matrices in claims.items():
        for path, rows in matrices.items():
            set_nested(answers.tables.setdefault(problem_name, {}), ("claim", *path), rows)
    return answers


def _split_by_name(text: str, names: Sequence[str], name: str | None) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text by headings or, without any, by names that end in a number: Q_1."""
    try:
        yield from ((problem, part) for problem, _, part in split_problems(text, names, name))
        return
    except UserError:
        if not _NUMBERED_NAME.search(text):
            raise
    matches = list(_NUMBERED_NAME.finditer(text))
    for index, match in enumerate(matches):
        end = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        problem = find_problem_name(match["number"], names)
        if problem is not None:
            yield problem, f"{match['name']} = {text[match.end() : end]}"


def _scan_problem(text: str, names: StepNames) -> dict[StepPath, Rows]:
    """Return the matrices of one problem, with points or commas as decimal marks."""
    plain = _DECORATION.sub(" ", _WRAPPER.sub(r"\1", text))
    labels = sorted(names.list_labels(), key=len, reverse=True)
    words = "|".join(rf"(?<!\w){re.escape(label)}(?!\w)" for label in labels) or _NO_LABEL
    readings = [_read_cells(text, names)]
    for point in _POINTS:
        pattern = _PATTERN.format(point=point, infinity=_INFINITY, labels=words)
        readings.append(_read_statements(list(_tokenize(plain, pattern)), names))
    return max(readings, key=_count_likely_cells)


def _count_likely_cells(reading: dict[StepPath, Rows]) -> int:
    """Return how many numbers were found, without matrices that decimal commas took apart."""
    return sum(
        len(rows) * len(rows[0])
        for rows in reading.values()
        if not any(_FRACTION_PART.fullmatch(cell) for row in rows for cell in row)
    )


def _tokenize(text: str, pattern: str) -> Iterator[_Token]:
    for match in re.finditer(pattern, text, re.IGNORECASE):
        assert match.lastgroup is not None, "every alternative is named"
        yield _Token(match.lastgroup, match[0])


def _read_statements(tokens: Sequence[_Token], names: StepNames) -> dict[StepPath, Rows]:
    """Return the last matrix of each step: from its name to the next name."""
    matrices: dict[StepPath, Rows] = {}
    starts = list(_find_names(tokens, names))
    for index, (path, start) in enumerate(starts):
        end = starts[index + 1][1] if index + 1 < len(starts) else len(tokens)
        if path is None:
            continue
        part = [
            replace(token, kind="number" if names.is_cell(path, token.text) else "word")
            if token.kind == "label"
            else token
            for token in tokens[start:end]
        ]
        rows = _take_matrix(part, names.get_shape(path))
        if rows is not None:
            matrices[path] = rows
    return matrices


def _find_names(
    tokens: Sequence[_Token], names: StepNames
) -> Iterator[tuple[StepPath | None, int]]:
    """Yield the path of each step that is stated, and the token after its name.

    A name that stands within a formula, before the numbers of another, states nothing. None stands
    for another name at the beginning of a line, such as a given.
    """
    is_open = False  # a name and an equals sign, and no numbers yet
    index = 0
    while index < len(tokens):
        token = tokens[index]
        is_open = is_open and token.kind not in ("number", "label", "line")
        length, path = _match_name(tokens, index, names) if token.kind == "word" else (1, None)
        following = tokens[index + length].kind if index + length < len(tokens) else "line"
        begins_line = index == 0 or tokens[index - 1].kind == "line"
        if path is not None and not is_open and (begins_line or following != "word"):
            yield path, index + length
            is_open = following == "equals"
        elif token.kind == "word" and begins_line and following == "equals":
            yield None, index + length
        index += length


def _match_name(
    tokens: Sequence[_Token], index: int, names: StepNames
) -> tuple[int, StepPath | None]:
    """Return the number of tokens of the longest name that begins at a token, and its path."""
    words: list[str] = []
    for token in tokens[index : index + 2 * _MAX_NAME_WORDS]:
        if token.kind in ("line", "equals"):
            break
        words.append(token.text)
    begins_line = index == 0 or tokens[index - 1].kind == "line"
    is_label = begins_line and words[1:2] != [")"]  # a) V is no product
    path = names.find_path(" ".join(words)) if is_label else None
    if path is not None:
        return len(words), path
    for length in range(len(words), 0, -1):
        path = names.find_exact_path(" ".join(words[:length]))
        if path is not None:
            return length, path
    return 1, None


def _take_matrix(tokens: Sequence[_Token], shape: Shape) -> Rows | None:
    """Return the numbers of a statement that fit the shape; None if none do.

    They stand after the last equals sign, in one pair of brackets, or they are all there are.
    """
    for part in (*_list_segments(tokens), *_list_groups(tokens)):
        lines = _split_lines(part)
        rows = _fit(lines, shape)
        if rows is not None:
            return _transpose_columns(tokens, rows, shape)
    return None


def _list_segments(tokens: Sequence[_Token]) -> Iterator[Sequence[_Token]]:
    """Yield what stands after each equals sign, the last first, and then all before a remark."""
    signs = [k + 1 for k, token in enumerate(tokens) if token.kind == "equals"]
    for start in (*reversed(signs), 0):
        yield tokens[start:]
    for start in (*reversed(signs), 0):  # the numbers before a sentence
        part = tokens[start:]
        first = next((k for k, t in enumerate(part) if t.kind in ("number", "blank")), 0)
        word = next((k for k, t in enumerate(part) if k > first and t.kind == "word"), len(part))
        yield part[:word]


def _list_groups(tokens: Sequence[_Token]) -> Iterator[Sequence[_Token]]:
    """Yield what stands in each pair of brackets."""
    open_at: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "open":
            open_at.append(index)
        elif token.kind == "close" and open_at:
            yield tokens[open_at.pop() + 1 : index]


def _split_lines(tokens: Sequence[_Token]) -> list[list[str]]:
    lines: list[list[str]] = [[]]
    for token in tokens:
        if token.kind == "line":
            lines.append([])
        elif token.kind in ("number", "blank"):
            text = "?" if token.kind == "blank" else token.text.replace(" ", "").strip("{}")
            lines[-1].append(text)
    return [line for line in lines if line]


def _fit(lines: list[list[str]], shape: Shape) -> Rows | None:
    """Return lines of numbers as a matrix, without a row and a column that number the others."""
    height, width = shape
    countings = [[str(k + first) for k in range(max(shape))] for first in (0, 1)]
    header = lines[0] if lines else []
    header = header[1:] if header[:1] == ["?"] else header  # without the corner
    is_header = header in [c[:width] for c in countings] or set(header) <= {"?"}
    has_header = len(lines) == height + 1 and is_header
    lines = lines[1:] if has_header else lines
    numbers = [line[0] for line in lines]
    may_be_numbered = len(lines) == height and (height > 1 or has_header)
    is_numbered = may_be_numbered and numbers in [c[:height] for c in countings]
    if is_numbered and all(len(line) == width + 1 for line in lines):
        lines = [line[1:] for line in lines]
    cells = [_DECIMAL_COMMA.sub(".", cell) for line in lines for cell in line]
    if len(cells) == (height + 1) * width and set(cells[-width:]) == {"?"}:  # 1 \\ 2 \\
        cells = cells[:-width]
    if len(cells) != height * width:
        return None
    return [cells[k : k + width] for k in range(0, len(cells), width)]


def _transpose_columns(tokens: Sequence[_Token], rows: Rows, shape: Shape) -> Rows:
    """Return the matrix of R's matrix(c(…)), which fills columns unless it says byrow."""
    words = [token.text.lower() for token in tokens if token.kind == "word"]
    if words[:2] != ["matrix", "c"] or "byrow" in words:
        return rows
    cells = [cell for row in rows for cell in row]
    return [cells[i :: shape[0]] for i in range(shape[0])]


def _read_cells(text: str, names: StepNames) -> dict[StepPath, Rows]:
    """Return matrices whose cells are set one by one; indices count from 0 if one is 0."""
    cells: dict[StepPath, dict[tuple[int, int], str]] = {}
    for match in _CELL.finditer(text):
        path = names.find_path(match["name"])
        if path is not None:
            i, j = (int(match[n] or match[f"{n}2"]) for n in ("i", "j"))
            cells.setdefault(path, {})[i, j] = match["value"].replace("\\", "")
    return {path: arrange_cells(entries, names.get_shape(path)) for path, entries in cells.items()}
