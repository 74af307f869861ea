r"""Read text: Markdown, LaTeX, plain text as `pdftotext` leaves it, prints of programs."""

import re
from collections.abc import Callable

from workings.problems.documents.sources.base import Grid, Place, Source
from workings.problems.documents.sources.dialects import rewrite_dialects
from workings.problems.documents.sources.grids import find_grids
from workings.problems.documents.sources.layout import blank_brackets, read_layout
from workings.problems.documents.sources.macros import expand_macros
from workings.problems.documents.sources.plain import normalize_characters, to_plain, unify_roots
from workings.problems.documents.sources.programs import name_outputs
from workings.problems.documents.sources.rows import join_listed_rows, stack_labeled_rows
from workings.problems.documents.sources.tables import (
    is_symbol,
    list_vectors_by_word,
    list_vectors_over_time,
)
from workings.problems.documents.words import find_caption_role

_HTML_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_LATEX_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_HASH_SETTING = re.compile(r"^[ \t]*#+[ \t]*workings:([^\n]*)", re.MULTILINE)
_PREAMBLE = re.compile(r"\A.*?\\begin\{document\}", re.DOTALL)
_TABLE = re.compile(r"\\begin\{(table|figure)\*?\}(?:\[[^\]\n]*\])?(.*?)\\end\{\1\*?\}", re.DOTALL)
_CAPTION = re.compile(r"\\caption(?:\[[^\]\n]*\])?\{((?:[^{}]|\{[^{}]*\}){0,400})\}")
_TABULAR = re.compile(r"\\begin\{(?:tabular|array|[bpv]matrix)")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(.*)")
_LATEX_HEADING = re.compile(
    r"\\(part|chapter|section|subsection|subsubsection|paragraph|frametitle|framesubtitle)\*?"
    r"\s*(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}"
    r"|\\begin\{frame\}(?:\[[^\]]*\])?(?:\{((?:[^{}]|\{[^{}]*\})*)\})?|\\(frame)(?=\s*\{)"
)
_LATEX_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4}
_NUMBERED_HEADING = re.compile(
    r"\s*\(?(?:part|example|exercise|problem|case|variant|question|task|aufgabe|beispiel|übung|teil"
    r"|exemple|exercice|partie|ejemplo|ejercicio|parte|esempio|esercizio|例|例题|例子|练习)"
    r"\s*(?:\d+|[A-Da-d])\b[^=]{0,80}|\s*\d{1,2}[.)]{1,2}\s+[^=\d]{3,60}:?\s*",
    re.IGNORECASE,
)
_PART_HEADING = re.compile(  # Head 2: and --- t = 1 ---
    r"\s*(?:[-=*#]{2,}\s*)?(?:head|kopf|tête|cabeza|time\s?step|zeitschritt|t\s*=)\s*#?\d{1,2}\s*:?"
    r"(?:\s*[-=*#]{2,})?\s*",
    re.IGNORECASE,
)
_LIST_OF_MATRICES = re.compile(  # W_Q = [[matrix], [matrix]]
    r"\s*([A-Za-z]\w{0,20})\s*=\s*\[\s*(\ue000\d+\ue001(?:\s*,\s*\ue000\d+\ue001)+)\s*,?\s*\]\s*"
)
_MATLAB_PROMPT = re.compile(r"\s*>> ?(?=\w)")
_TRANSPOSED = re.compile(r"(?<=[\w)\]])'")
_TUPLE_ASSIGNMENT = re.compile(  # X, W_Q = [matrix], [matrix]
    r"\s*\w{1,12}(?:,\s*\w{1,12})+\s*=\s*\ue000\d+\ue001(?:\s*,\s*\ue000\d+\ue001)+[\s.;]*"
)
_DRAWN_ROW = re.compile(r"\s*\|\s*[-+]?[\d.,]+(?:\s+[-+]?[\d.,]+)+\s*\|\s*")
_WIDTH = re.compile(r"\b[A-Za-z_]\w{0,24}\.(?:shape\[-?1\]|size\(-1\))")
_TURN = re.compile(r"\b(\w+)\.(?:transpose\([^()]*\)|t\(\)|mT\b|permute\([^()]*\))")
_TURN_CALL = re.compile(r"\btranspose\((\w+)\)")
_PRODUCT = re.compile(
    r"\b(?:dot|matmul|mm|bmm)\(\s*(?P<a>[\w.]+)\s*,\s*(?P<b>[\w.]+)\s*"
    r"(?:,\s*transpose_b\s*=\s*(?P<turned>True))?\s*\)"
)
_EINSUM = re.compile(  # einsum("qd,kd->qk", q, k)
    r"\beinsum\(\s*['\"](?P<left>[\w.]+)\s*,\s*(?P<right>[\w.]+)\s*->\s*[\w.]+['\"]\s*,"
    r"\s*(?P<a>[\w.]+)\s*,\s*(?P<b>[\w.]+)\s*\)"
)
_FILL = re.compile(r"\b(\w+)\.masked_fill_?\(")
_FILL_HIDDEN = re.compile(r"^\s*(\w+)\[[^\]]{1,80}\]\s*=\s*-?[\w.(\"']*(?:inf|1e\d|Inf).*$")
_UNDERLINE = re.compile(r"\s*(?:={3,}|-{3,})\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_TABLE_RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
_STRUCK = re.compile(r"~~[^~\n]{1,200}~~")
_BAR = re.compile(r"(?<!\\)\|")
_R_PRINT = re.compile(  # [1,] before every row, [,1] above every column, as R prints a matrix
    r"^(?:> ?(?:print\()?([\w.]{1,40})\)?[ \t]*\n)?([ \t]*(?:\[,\d+\][ \t]*)+\n)"
    r"((?:[ \t]*\[\d+,\][^\n]*\n?)+)",
    re.MULTILINE,
)
_R_ROW = re.compile(r"^[ \t]*\[\d+,\]", re.MULTILINE)

_WEIGHT = re.compile(r"(?<![\d.,])[01][.,]\d+(?!\d)")
_SPOKEN_WEIGHTS = re.compile(  # softmax: 0.88 and 0.12
    r"((?:soft-?max|weights|gewichte|poids|pesos|权重)[^.:=≈\n\d\[(]{0,60}"
    r"(?::|\bare|\bgives?|\bsind|\bsont|\bson|[=≈])\s*)"
    r"((?:[01][.,]\d+,?\s+){1,8}(?:and|und|et|y)\s+[01][.,]\d+)(?![\d%])",
    re.IGNORECASE,
)

_SPOKEN_INPUTS = re.compile(  # inputs: 1.0, 2.0, -1.0
    r"((?:^|[\s$*])(?:x|inputs?|eingaben?|entr[ée]es?|entradas?|输入)(?:\s+[^\W\d_]{3,}){0,2}\$?\s*"
    r"(?:[:=]|\bare\b|\bsind\b|\bsont\b|\bson\b)\s*)"
    r"(-?\d+(?:[.,]\d+)?(?:(?:,\s+|;\s*|,?\s+(?:and|und|et|y)\s+)-?\d+(?:[.,]\d+)?)+)(?=\$?[.;]?\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_CAPTIONED_NUMBERS = re.compile(  # Scores: 1, 0
    r"^(\W{0,6}(?P<caption>[^\W\d][^=≈\[\]:\n\ue000]{2,60})\*{0,2}:\*{0,2}\s+)"
    r"(?P<numbers>-?\d+(?:\.\d+)?(?:,\s+-?\d+(?:\.\d+)?)+)(?=[.;]?\s*$)",
    re.MULTILINE,
)

_JULIA_PRINT = re.compile(  # 2×3 Matrix{Float64}: above the numbers
    r"^(?:julia> ?([^\n]*)\n)?\s*(?:\d+×\d+|\d+-element) [^\n\[\]]{3,80}:[ \t]*$", re.MULTILINE
)
_DIMENSIONS = re.compile(r"[;,]\s*(?:dims|axis|dim)\s*=\s*-?\d+")

PlaceOf = Callable[[int], Place]  # of a line, counted from 0


def stand_at(place: Place) -> PlaceOf:
    """Return a function that gives every line the same place: a page, a slide, a cell."""
    return lambda _: place


def add_text(source: Source, raw: str, place_of: PlaceOf, *, is_code: bool = False) -> None:
    """Add a text to a source; `is_code`: number signs begin comments, not headings."""
    text = normalize_characters(raw)
    text = rewrite_dialects(_take_comments(source, text))
    text = text if is_code else name_outputs(text)
    text = _R_PRINT.sub(_strip_indices, text) if "[,1]" in text else text
    text = _JULIA_PRINT.sub(_name_julia_print, text) if "×" in text or "-element" in text else text
    text = _SPOKEN_WEIGHTS.sub(_bracket_weights, text) if "0" in text else text
    text = _SPOKEN_INPUTS.sub(_bracket_inputs, text)
    text = _CAPTIONED_NUMBERS.sub(_bracket_captioned, text)
    text = _mark_grids(source, blank_brackets(text), place_of)
    lines, numbers = _split_lines(text)
    tabled = _add_tables(source, lines, numbers, place_of)
    reader = _LineReader(source, numbers, place_of, is_code)
    for start, stop in _find_stretches(tabled):
        stretch = [
            _STRUCK.sub(" ", line or "").replace("\t", "    ") for line in tabled[start:stop]
        ]

        def add_grid(rows: list[list[str]], index: int, start: int = start) -> str:
            return source.add_grid(Grid(rows, place_of(numbers[start + index])))

        marked = stack_labeled_rows(read_layout(stretch, add_grid), source.grids, add_grid)
        marked = join_listed_rows(marked, source.grids, add_grid)
        for k, line in enumerate(marked):
            reader.read(line, start + k, marked[k + 1] if k + 1 < len(marked) else "")


def _put_captions_first(text: str) -> str:
    r"""Return LaTeX with the caption of each table at its beginning; lines stay lines."""

    def move(match: re.Match[str]) -> str:
        body, captions = match[2], _CAPTION.findall(match[2])
        if len(captions) != 1 or len(_TABULAR.findall(body)) != 1:
            return match[0]
        body = _CAPTION.sub(lambda m: "\n" * m[0].count("\n"), body)
        return f"{' '.join(captions[0].split())} {body}"

    return _TABLE.sub(move, text)


def _take_comments(source: Source, text: str) -> str:
    """Return the text without comments; keep the settings that they declare."""

    def replace_comment(match: re.Match[str]) -> str:
        comment = match.group().strip("<!->%# \t\n")
        if comment.startswith("workings:"):
            source.settings.append(comment.removeprefix("workings:").strip())
        return "\n" * match.group().count("\n")

    text = _HASH_SETTING.sub(replace_comment, _HTML_COMMENT.sub(replace_comment, text))
    if "\\" in text:
        text = expand_macros(_LATEX_COMMENT.sub(replace_comment, text))
        text = _PREAMBLE.sub(lambda m: "\n" * m[0].count("\n"), text)
        text = _put_captions_first(text) if "\\caption" in text else text
    elif "workings:" in text:
        text = re.sub(r"(?m)^[ \t]*%[ \t]*workings:[^\n]*", replace_comment, text)
    return text


def _bracket_weights(match: re.Match[str]) -> str:
    """Return the weights of a sentence as a row: softmax gives [0.88, 0.12]."""
    numbers = _WEIGHT.findall(match[2])
    separator = "; " if "," in numbers[0] else ", "
    return f"{match[1]}[{separator.join(numbers)}]"


def _bracket_inputs(match: re.Match[str]) -> str:
    """Return the inputs of a sentence as a row: inputs = [1.0, 2.0]."""
    numbers = re.findall(r"-?\d+(?:[.,]\d+)?", match[2])
    return f"{match[1]}[{', '.join(number.replace(',', '.') for number in numbers)}]"


def _bracket_captioned(match: re.Match[str]) -> str:
    """Return the numbers after the caption of a step as a row; other lists stay as they are."""
    is_step = find_caption_role(match["caption"]) not in (None, "X", "W_Q", "W_K", "W_V")
    return f"{match[1]}[{match['numbers']}]" if is_step else match[0]


def _strip_indices(match: re.Match[str]) -> str:
    """Return a matrix that R prints without its indices; its lines stay where they are."""
    name, _, rows = match.groups()
    return (f"{name} =\n" if name else "") + "\n" + _R_ROW.sub("    ", rows)


def _name_julia_print(match: re.Match[str]) -> str:
    """Return the assignment before a print of Julia, open for the numbers if it has none."""
    line_ends = "\n" * match[0].count("\n")
    if match[1] is None:
        return line_ends
    code = _DIMENSIONS.sub("", match[1]).replace("./", "/").replace(".*", "*")
    code = _TRANSPOSED.sub("^T", code)
    return f"{code}{'' if '[' in code else ' ='}{line_ends}"


def _mark_grids(source: Source, text: str, place_of: PlaceOf) -> str:
    """Replace matrices by marks; a unit separator stands for each line end inside them."""
    pieces, position, line = [], 0, 0
    for grid in find_grids(text):
        line += text.count("\n", position, grid.start)
        inner = text.count("\n", grid.start, grid.end)
        mark = source.add_grid(Grid(grid.rows, place_of(line), grid.problem))
        pieces += [text[position : grid.start], mark, "\x1f" * inner]
        position = grid.end
        line += inner
    return "".join([*pieces, text[position:]])


def _split_lines(text: str) -> tuple[list[str], list[int]]:
    """Return the lines and the number of each, from 0."""
    lines, numbers, number = [], [], 0
    for line in text.split("\n"):
        lines.append(line.replace("\x1f", ""))
        numbers.append(number)
        number += 1 + line.count("\x1f")
    return lines, numbers


def _add_tables(
    source: Source, lines: list[str], numbers: list[int], place_of: PlaceOf
) -> list[str | None]:
    """Mark the lines of tables: bars of Markdown, tabs. A table becomes one line in a stretch."""
    out: list[str | None] = list(lines)
    index = 0
    while index < len(lines):
        stop = index
        for is_row, split in ((_is_bar_row, _split_bars), (_is_tab_row, _split_tabs)):
            stop = index
            while stop < len(lines) and is_row(lines[stop]):
                stop += 1
            if stop - index >= (2 if is_row is _is_tab_row else 1) and stop > index:
                cells = [
                    split(line) for line in lines[index:stop] if not _TABLE_RULE.fullmatch(line)
                ]
                parts = Source(grids=source.grids)
                listed = [*list_vectors_over_time(cells)] or [*list_vectors_by_word(cells)]
                if listed:
                    for text in listed:
                        parts.add_line(text, place_of(numbers[index]))
                elif _is_table_of_matrices(cells):
                    for row in cells[1:]:
                        for name, cell in zip(cells[0], row, strict=True):
                            parts.add_line(f"{name} = {cell}", place_of(numbers[index]))
                else:
                    parts.add_table(cells, place_of(numbers[index]))
                if parts.lines:
                    out[index] = "\n".join(line.text for line in parts.lines)
                    out[index + 1 : stop] = [None] * (stop - index - 1)
                    break
                stop = index
        index = max(stop, index + 1)
    return out


def _is_table_of_matrices(cells: list[list[str]]) -> bool:
    """Return True for a header of names with a matrix under each of them."""
    is_even = len(cells) > 1 and len({len(row) for row in cells}) == 1
    return (
        is_even
        and all(map(is_symbol, cells[0]))
        and all("\ue000" in cell for row in cells[1:] for cell in row)
    )


def _is_bar_row(line: str) -> bool:
    is_drawn = _DRAWN_ROW.fullmatch(line) is not None  # | 1.0  0.5 |, a row between brackets
    return line.strip().startswith("|") and line.count("|") > 1 and not is_drawn


def _split_bars(line: str) -> list[str]:
    return [cell.strip() for cell in _BAR.split(line.strip().strip("|"))]


def _is_tab_row(line: str) -> bool:
    return "\t" in line.strip("\n") and bool(line.strip()) and bool(re.search(r"\S\t|\t\S", line))


def _split_tabs(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")]


def _find_stretches(lines: list[str | None]) -> list[tuple[int, int]]:
    """Return the runs of lines between tables; a table is a run of its own."""
    stretches, start = [], 0
    for index, line in enumerate(lines):
        if line is None or "\n" in line:
            if index > start:
                stretches.append((start, index))
            stretches.append((index, index + 1))
            start = index + 1
    if start < len(lines):
        stretches.append((start, len(lines)))
    return stretches


class _LineReader:
    """Adds lines to a source: headings, fences of code, text."""

    def __init__(
        self, source: Source, numbers: list[int], place_of: PlaceOf, is_code: bool
    ) -> None:
        self._source, self._numbers, self._place_of = source, numbers, place_of
        self._is_code = self._in_fence = is_code

    def read(self, line: str, index: int, following: str) -> None:
        """Add one line."""
        place = self._place_of(self._numbers[index])
        if not self._is_code and _FENCE.match(line):
            self._in_fence = not self._in_fence
            self._source.add_line("", place)
            return
        if (self._in_fence or self._is_code) and _PART_HEADING.fullmatch(line):
            self._source.add_line(line.strip(" -=*#:"), place, 5)
            return
        if matrices := _LIST_OF_MATRICES.fullmatch(line):
            marks = matrices[2].split(",")
            line = " \v ".join(f"{matrices[1]}_{k} = {mark}" for k, mark in enumerate(marks, 1))
        if self._in_fence:
            code, _, comment = line.partition("#")
            self._source.add_line(_strip_code(code), place, is_code=True)
            if comment.strip():
                self._source.add_line(to_plain(comment), place)
            return
        if prompt := _MATLAB_PROMPT.match(line):
            code = (
                _TRANSPOSED.sub(r"^T", line[prompt.end() :]).replace("./", "/").replace(".*", "*")
            )
            self._source.add_line(_strip_code(code.rstrip(" ;")), place, is_code=True)
            return
        heading = _HEADING.fullmatch(line)
        if heading:
            self._source.add_line(to_plain(heading[2]).strip(" #"), place, len(heading[1]))
            return
        if "\\" in line and (match := _LATEX_HEADING.search(line)):
            title = match[2] or match[3] or ""
            self._source.add_line(to_plain(title), place, _LATEX_LEVELS.get(match[1] or "", 3))
            line = line[: match.start()] + " " + line[match.end() :]
        elif (
            _UNDERLINE.fullmatch(following) and line.strip() and len(line) < 80 and "=" not in line
        ):
            self._source.add_line(to_plain(line), place, 2)
            return
        elif (
            _NUMBERED_HEADING.fullmatch(line) or _PART_HEADING.fullmatch(line)
        ) and "\ue000" not in line:
            self._source.add_line(to_plain(line), place, 4)
            return
        elif _UNDERLINE.fullmatch(line):
            self._source.add_line("", place)
            return
        if _TUPLE_ASSIGNMENT.fullmatch(line):
            line = _split_assignment(line)
        for part in line.split("\n"):
            part = re.sub(r"^\s*(?:[>•]\s*|[-*+]\s+|\d{1,2}[.)]\s+)+", "", part)
            self._source.add_line(_separate(to_plain(part)), place)


def _strip_code(code: str) -> str:
    """Return a line of code in plain notation: products as @, functions by their last name."""
    code = re.sub(r"\b(?:np|numpy|torch|F|nn|math|tf|jnp|functional)\.", "", code)
    code = _TURN.sub(r"\1.T", _TURN_CALL.sub(r"\1.T", code))
    code = _FILL_HIDDEN.sub(r"\1 = where(mask, \1)", _FILL.sub(r"where(mask, \1, ", code))
    code = _EINSUM.sub(_write_product, _PRODUCT.sub(_write_product, code))
    code = unify_roots(_WIDTH.sub("d_k", code))
    code = re.sub(r"(?:,\s*|(?<=\())(?:axis|dim|keepdims?|k|dtype|device)\s*=\s*[^,()]+", "", code)
    code = re.sub(r"\.(?:sum|astype|mean|round|float|detach|numpy)\([^()]*\)", "", code)
    code = _split_assignment(code)
    return re.sub(r"\bprint\((?:f?(['\"])(.*?)\1\s*,?\s*)?(.*?)\)\s*$", r"\2 \3", code)


def _write_product(match: re.Match[str]) -> str:
    """Return a product of two matrices with its sign; the second may be transposed."""
    groups = match.groupdict()
    is_turned = groups.get("turned") or (
        groups.get("left") and groups["left"][-1] == groups["right"][-1]
    )
    return f"({match['a']} @ {match['b']}{'.T' if is_turned else ''})"


def _split_assignment(code: str) -> str:
    """Return Q, K = X @ W_Q, X @ W_K as two assignments."""
    names, equals, values = code.partition("=")
    left, right = names.split(","), re.split(r",\s*(?![^()\[\]]*[)\]])", values)
    if not equals or len(left) < 2 or len(left) != len(right):
        return code
    return " \v ".join(f"{name} = {value}" for name, value in zip(left, right, strict=True))


def _separate(text: str) -> str:
    """Return a line of an alignment with its ampersands as breaks, except beside equals signs."""
    if "&" not in text:
        return text
    text = re.sub(r"\s*&\s*(?==|≈)", " ", text)
    return re.sub(r"(?<!\w)&(?!\w)|\s&\s|&", " \v ", text)
