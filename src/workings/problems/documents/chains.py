"""Split lines into chains of equations: `A = softmax(S) ≈ [matrix]`, `h_1 = tanh(0.64) = 0.565`.

A run with relation signs is a chain; a chain with a number or matrix is a statement.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from workings.problems.documents.matrices import Rows
from workings.problems.documents.runs import MAX_FORMULA_LINE, find_runs, join_runs
from workings.problems.documents.sources import Grid, Line, Place, Source
from workings.problems.documents.sources.cells import evaluate_constant, is_number, read_cell
from workings.problems.documents.symbols import (
    Element,
    Token,
    format_element,
    parse_symbol,
    tokenize,
)

_REMARK = re.compile(r"\([^()\ue000]*=[^()\ue000]*\)")
_NUMBERS = re.compile(r"(?=[^\d]*\d)[\s\d.,:;√()≈~/\v]+")
_RESULT = re.compile(r"^[-+]?\d+(?:[.,]\d+)?\s+(?=[^\W\d_]{2})")
_LETTERS = re.compile(r"[^\W\d_]{3}")


@dataclass
class Statement:
    """A chain of equal elements; the last one that is a number or matrix is its value.

    `label` is the text that names it: words of its line, or the line above.
    """

    elements: list[Element]
    label: str
    line: int
    place: Place
    section: int = 0
    value: Rows | None = None
    value_grid: int = -1
    problem: str = ""
    reprints: list[Rows] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The formulas and names before the value."""
        return " = ".join(format_element(element) for element in self.elements)[:120]


def find_statements(source: Source) -> list[Statement]:
    """Return the statements of a document in order, with their values and labels."""
    statements: list[Statement] = []
    sections = _number_sections(source)
    known: dict[str, Rows] = {}
    for run in join_runs(find_runs(source)):
        for tokens in _split_statements(run.tokens, source.grids, known):
            elements = [tuple(element) for element in _split_at_relations(tokens)]
            if not elements:
                continue
            if len(elements) == 1 and statements and _is_product(elements[0]):
                previous = statements[-1]
                if (
                    previous.value is None
                    and not previous.problem
                    and run.joins
                    and len(previous.elements) > 1
                ):
                    previous.elements.append(elements[0])  # $$Q = X W_Q$$, then $$[A] × [B]$$
                    continue
            if len(elements) == 1 and not _is_worth_reading(
                elements[0], source.lines[run.line].text
            ):
                continue
            statement = Statement(elements, run.caption, run.line, run.place, sections[run.line])
            _read_value(statement, source)
            _drop_divisor(statement)
            if not statement.label and _is_bare(statement):
                statement.label = _find_label(source, run.line)
                _take_name(statement, source.lines)
            statements.append(statement)
            first = statement.elements[0][0] if statement.elements[0] else None
            if first is not None and first.symbol is not None and statement.value is not None:
                known[first.symbol.name] = statement.value
    return statements


def _is_worth_reading(element: Element, line: str) -> bool:
    """Return True for a matrix, and for a number beside an equation: exp(2) = 7.39, together 10."""
    if any(token.kind == "grid" for token in element):
        return True
    return len(element) == 1 and element[0].kind == "num" and ("=" in line or "≈" in line)


def _is_product(element: Element) -> bool:
    grids = [token for token in element if token.kind == "grid"]
    return len(grids) == 2 and all(t.kind == "grid" or t.text in "×·*@" for t in element)


def _number_sections(source: Source) -> list[int]:
    numbers, section = [], 0
    for line in source.lines:
        section += line.level > 0
        numbers.append(section)
    return numbers


def _split_statements(
    tokens: list[Token], grids: Sequence[Grid], known: Mapping[str, Rows]
) -> Iterator[list[Token]]:
    """Yield the statements of a run: X = [matrix] W_Q = [matrix] are two.

    `known` has the matrices so far: Z = [matrix] V = [matrix] is a product if V is another one.
    """
    start = 0
    relations = [k for k, token in enumerate(tokens) if token.kind == "rel"]
    for first, second in pairwise(relations):
        between = tokens[first + 1 : second]
        if (
            len(between) >= 2
            and between[0].kind in ("grid", "num")
            and between[1].kind in ("sym", "func")
            and all(
                token.kind in ("sym", "func", "open", "close", "punct") for token in between[1:]
            )
            and any(token.kind == "sym" for token in tokens[start:first])
            and not (between[0].kind == "num" and len(between) < 2)
            and not _is_projected(tokens[start:first], between[1])
            and not _is_known_factor(tokens[start:first], between[1], tokens[second:], grids, known)
        ):
            yield tokens[start : first + 2]
            start = first + 2
    yield tokens[start:]


def _is_projected(left: Sequence[Token], factor: Token) -> bool:
    """Return True for O = [matrix] W_O = …, a product and not two statements."""
    names = [token.symbol.name for token in left if token.symbol is not None]
    is_output = bool(names) and not names[-1].startswith(("W", "X"))
    return is_output and factor.symbol is not None and factor.symbol.name in ("W_O", "W_o")


_LEFT_OF_FACTOR = {"V": r"[^QKVXW].*", "W_Q": "[Qq]", "W_K": "[Kk]", "W_V": "[Vv]"}


def _is_known_factor(
    left: Sequence[Token],
    factor: Token,
    after: Sequence[Token],
    grids: Sequence[Grid],
    known: Mapping[str, Rows],
) -> bool:
    """Return True for Z = [weights] V = [matrix] where V has other numbers."""
    names = [token.symbol.name for token in left if token.symbol is not None]
    name = factor.symbol.name if factor.symbol is not None else ""
    pattern = _LEFT_OF_FACTOR.get(name)
    if not names or pattern is None or name not in known or not re.fullmatch(pattern, names[-1]):
        return False
    values = [grids[token.grid].rows for token in after[1:2] if token.kind == "grid"]
    return bool(values) and values[0] != known[name]


def _split_at_relations(tokens: list[Token]) -> Iterator[list[Token]]:
    element: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if token.kind == "rel" and depth <= 0:
            yield element
            element = []
        else:
            element.append(token)
    yield element


def _read_value(statement: Statement, source: Source) -> None:
    """Set the value of a statement: its last element that is a matrix or a number alone."""
    for element in reversed(statement.elements):
        literal = read_literal(element, source.grids)
        if literal is None:
            continue
        rows, problem, grid = literal
        if statement.value is None and not statement.problem:
            statement.value, statement.problem, statement.value_grid = rows, problem, grid
        elif rows is not None:
            statement.reprints.append(rows)
    if statement.value is None and not statement.problem and _is_torn(statement.elements[-1]):
        statement.problem = "its numbers are not one matrix"
        statement.value_grid = statement.elements[-1][0].grid


def _is_torn(element: Element) -> bool:
    """Return True for a matrix with numbers beside it, which its layout has torn apart."""
    kinds = [token.kind for token in element]
    return len(kinds) > 1 and kinds[0] == "grid" and set(kinds[1:]) == {"num"}


def read_literal(element: Element, grids: Sequence[Grid]) -> tuple[Rows | None, str, int] | None:
    """Return the rows of an element that is one matrix or number, or why it is not readable."""
    tokens = list(element)
    while tokens and tokens[0].kind == "open" and tokens[-1].kind == "close":
        tokens = tokens[1:-1]
    if len(tokens) == 1 and tokens[0].kind == "grid":
        grid = grids[tokens[0].grid] if tokens[0].grid < len(grids) else None
        if grid is None or (not grid.rows and not grid.problem):
            return None
        if not grid.rows and grid.problem == "it has no numbers":
            return None
        rows = (
            [list(row) for row in zip(*grid.rows, strict=True)] if tokens[0].symbol else grid.rows
        )
        return (rows or None), grid.problem, tokens[0].grid
    if not tokens or any(
        token.kind not in ("num", "op", "sym", "open", "close", "func") for token in tokens
    ):
        return None
    text = "".join(token.text for token in tokens)
    if re.fullmatch(
        r"[+-]?[\d.,]+(?:e[+-]?\d+)?(?:\s?[×x*·]\s?10\s?\^\s?\{?\s?[+-]?\d+\}?)?\s?%?|[+-]?∞",
        text,
        re.IGNORECASE,
    ):
        cell = read_cell(text.strip(",."))
        return ([[cell]], "", -1) if cell is not None and cell != "?" else None
    if (len(tokens) > 1 and "e" in text) or "√" in text:
        value = evaluate_constant(text)
        if value is not None and is_number(f"{value:.12g}"):
            return [[f"{value:.12g}"]], "", -1
    return None


def _drop_divisor(statement: Statement) -> None:
    """Drop √d_k = √2 before a matrix: "Divide by √2:" names it, and not the root."""
    rows = statement.value
    if statement.value_grid < 0 or rows is None or len(rows) * len(rows[0]) < 2:
        return
    kept = [element for element in statement.elements if not _is_root(element)]
    if len(kept) < len(statement.elements) and len(kept) == 1:
        statement.elements = kept
        statement.reprints = []


def _is_root(element: Element) -> bool:
    return bool(element) and all(
        token.kind in ("num", "open", "close")
        or token.text in ("√", "sqrt", "d", "d_k", "dk", "/", "÷")
        for token in element
    )


def _is_bare(statement: Statement) -> bool:
    return len([element for element in statement.elements if element]) == 1


def rename(statement: Statement, name: str) -> None:
    """Give the matrix of a statement another name; none leaves it out."""
    if not name:
        statement.value, statement.problem = None, "it is left out"
        return
    symbol = Token("sym", name, parse_symbol(name))
    statement.elements = [(symbol,), (Token("grid", "", grid=statement.value_grid),)]
    statement.label = ""


def _take_name(statement: Statement, lines: Sequence[Line]) -> None:
    """Make the line above a matrix its name if it is a symbol or formula alone: Q, QK^T / √2."""
    before = (line.text.strip(" \v") for line in reversed(lines[: statement.line]))
    above = next(filter(None, before), "")
    if statement.value_grid < 0 or above != statement.label or len(above) > MAX_FORMULA_LINE:
        return
    tokens = tokenize(statement.label)
    is_formula = all(
        token.kind in ("sym", "func", "num", "op", "open", "close") for token in tokens
    )
    if is_formula and any(token.kind in ("sym", "func") for token in tokens):
        statement.elements.insert(0, tuple(tokens))
        statement.label = ""
    elif 1 < len(tokens) < 5 and [token.kind for token in tokens] == ["word"] * (
        len(tokens) - 1
    ) + ["sym"]:
        statement.elements.insert(0, (tokens[-1],))  # weight matrix W_Q


def _find_label(source: Source, line: int) -> str:
    """Return the text above a line, for a matrix that has no name in its own."""
    for k in range(line - 1, max(-1, line - 4), -1):
        text = source.lines[k].text.strip(" \v")
        if text and source.lines[k].level:
            return text[:200]
        text = _drop_remarks(text)
        if text:
            pieces = re.split("\ue001|=", text)
            while len(pieces) > 1 and _NUMBERS.fullmatch(pieces[-1]):
                pieces.pop()  # divided by √d_k = √2 ≈ 1.41:
            after = pieces[-1].strip(" ,;.\v")
            after = _RESULT.sub("", after)  # √2 = 1.414 and take the softmax
            return after[-200:] if after and not after[0].isdigit() else ""
    return ""


def _drop_remarks(text: str) -> str:
    """Return a caption without an equation in parentheses: Weights (rows = queries)."""
    bare = _REMARK.sub(" ", re.sub(r"(?<=\w)\([^()]*\)", "", text))
    is_caption = text.endswith((":", ")"))
    return " ".join(bare.split()) if is_caption and _LETTERS.search(bare) else text
