r"""Read a problem from a document: LaTeX, Markdown or plain text.

- `NAME = matrix` is read in any form that `documents.matrices` parses, in `$$…$$`, `\[…\]`, align,
  code or prose; so is `NAME:` above a table. In a chain `Q = X W_Q = [A][B] = [C]` the last matrix
  on its own is the value of Q; a line that begins with `=` continues the chain before it. The
  factors of a product are used only for names without a value of their own: here X = A and W_Q = B.
- `documents.names` resolves names. X, weights, biases and the context are givens, all else is
  claimed; without X, Q, K and V are givens. C is the context, or X if there is no X; if the text
  has Q = C W_Q and K = X W_K, C is the input and X the context. Kᵀ is the transpose of K. M is the
  mask, of 0 and −∞ or of 1 and 0.
- A claim that is repeated with other numbers is checked separately ([[claim.again]]); a given that
  is repeated with other numbers is an error.
- A matrix without numbers is a formula and is skipped. A matrix with numbers and an unknown name is
  an error, so that none goes unchecked; the setting `ignore = ["P"]` skips it.
- Settings are keywords, or TOML in comments of the text: `% workings: scale = "none"` and
  `<!-- workings: mask = "causal" -->`. Nothing is inferred from formulas.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError, safe_repr
from workings.problems.documents.matrices import MAX_TEXT_CHARS, Rows
from workings.problems.documents.names import (
    RoleResolver,
    mentions_matrix,
    normalize_name,
    parse_formula,
    parse_product,
)
from workings.problems.documents.statements import (
    Segment,
    Statement,
    find_statements,
    parse_numbers,
)
from workings.problems.numbers import read_number, transpose_rows
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    ProblemReader,
    parse_problem_toml,
    prefix_errors,
    read_text_file,
    set_nested,
)

_COMMENT = re.compile(
    r"<!--|(?<!\\)(?<!\d)(?<!\d )%[^\n]*|^[ \t]*#+[ \t]*workings:[^\n]*", re.MULTILINE
)
_PRODUCTS = {
    "Q": ("X", "W_Q"),
    "K": ("X", "W_K"),
    "V": ("X", "W_V"),
    "scores": ("Q", "Kᵀ"),
    "mixed": ("weights", "V"),
    "output": ("mixed", "W_O"),
}
_PROJECTIONS = ("Q", "K", "V")


def parse_problem_text(text: str, **settings: Any) -> Problem:
    r"""Read a problem from the text of a document; `settings` are those of a problem file.

    >>> slide = [r"$$X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$"]
    >>> slide += [r"$$E = Q K^T = \begin{bmatrix} 1 & 0 \\ 0 & 5 \end{bmatrix}$$"]
    >>> parse_problem_text("\n".join(slide), scale="none").check().first.step
    'scores'
    """
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are allowed")
    text, comments = _extract_comments(text.replace("\r\n", "\n"))
    settings = {**comments, **settings}
    ignored = settings.pop("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise UserError('ignore must be a list of names: ["P"]')
    heads = settings.get("heads", 1)
    resolver = RoleResolver(
        ProblemReader(settings).read_kind(), multi_head=isinstance(heads, int) and heads > 1
    )
    skipped = {normalize_name(name) for name in ignored}
    statements = [
        statement
        for statement in find_statements(text)
        if normalize_name(resolver.extract_name(statement.left)) not in skipped
    ]
    collector = _MatrixCollector(resolver, settings.get("vectors") == "columns", "mask" in settings)
    collector.collect(statements)
    return Problem(**collector.to_table(settings))


def load_problem_text(path: str | Path, **settings: Any) -> Problem:
    """Read a problem from a document file; errors name the file."""
    with prefix_errors(path):
        return parse_problem_text(read_text_file(path), **settings)


def _extract_comments(text: str) -> tuple[str, dict[str, Any]]:
    """Return the text without comments, and the settings that the comments hold."""
    pieces, settings, position = [], [], 0
    while mark := _COMMENT.search(text, position):
        end = mark.end()
        if mark.group() == "<!--":
            end = text.find("-->", end)
            end = end + 3 if end >= 0 else len(text)
        comment = text[mark.start() : end].strip("<!->%# \t\r\n")
        if comment.startswith("workings:"):
            settings.append(comment.removeprefix("workings:").strip())
        pieces.append(text[position : mark.start()])
        position = end
    try:
        return "".join([*pieces, text[position:]]), parse_problem_toml("\n".join(settings))
    except UserError as error:
        raise UserError(f"settings in a comment: {error}") from None


class _MatrixCollector:
    """Collects the matrices of a text by their role."""

    def __init__(self, resolver: RoleResolver, column_vectors: bool, has_mask: bool) -> None:
        self._resolver, self._column_vectors, self._has_mask = resolver, column_vectors, has_mask
        # role -> {cells: rows} in order of appearance; keyed by cells, since a long text may repeat
        # a matrix very often.
        self._values: dict[str, dict[tuple[tuple[str, ...], ...], Rows]] = {}
        self._products: dict[str, tuple[str, ...]] = {}  # role -> factors: Q -> (X, W_Q)

    def collect(self, statements: list[Statement]) -> None:
        """Collect the values, then the factors of products that have no value of their own."""
        formulas = [_parse_formulas(statement) for statement in statements]
        for statement, parsed in zip(statements, formulas, strict=True):
            for formula in parsed:
                self._resolver.learn(statement.left, formula)
        resolved: list[tuple[str, Statement]] = []
        for statement, parsed in zip(statements, formulas, strict=True):
            products = [product for product in map(parse_product, parsed) if product]
            if not products and not any(segment.matrices for segment in statement.segments):
                continue
            value, resolution = self._find_value(statement), self._resolver.resolve(statement.left)
            if resolution is None:
                if value is not None and self._resolver.extract_name(statement.left):
                    raise self._resolver.make_unknown_name_error(statement.left)
                continue
            role, transposed = resolution
            resolved.append((role, statement))
            if value is not None:
                self._add_value(role, transpose_rows(value) if transposed else value)
            if products and role in _PROJECTIONS:
                self._products.setdefault(role, products[0])
        if self._resolver.kind.name == "attention":
            self._read_products(resolved)
        for role, statement in resolved:
            if role not in self._values:
                self._reject_surrounding_text(statement)
        if self._resolver.kind.name == "attention":
            self._assign_inputs()

    def _find_value(self, statement: Statement) -> Rows | None:
        """Return the last matrix of a chain that has a segment to itself."""
        for segment in reversed(statement.segments):
            matrix = segment.get_single_matrix()
            name = self._resolver.extract_name(statement.left)
            rows = parse_numbers(matrix, name) if matrix else None
            if rows is not None:
                return rows
        return None

    def _reject_surrounding_text(self, statement: Statement) -> None:
        """Reject 2 [matrix] as a value, rather than skip it; X [matrix] is a formula."""
        name = self._resolver.extract_name(statement.left)
        for segment in statement.segments:
            text = segment.get_surrounding_text()
            is_formula = mentions_matrix(parse_formula(text[:400]))
            if len(segment.matrices) != 1 or not text or is_formula:
                continue
            if parse_numbers(segment.matrices[0], name):
                raise UserError(f"{name}: unexpected {safe_repr(text, 30)} beside the matrix")

    def _add_value(self, role: str, rows: Rows) -> None:
        self._values.setdefault(role, {}).setdefault(tuple(map(tuple, rows)), rows)

    def _read_products(self, statements: list[tuple[str, Statement]]) -> None:
        """Read factors that have no value of their own: X and W_Q from [A][B]."""
        implied: dict[str, Rows] = {}
        for role, statement in statements:
            default = _PRODUCTS.get(role, ())
            if role in _PROJECTIONS and "context" in self._values:
                default = ()  # of X or of the context: only the text can decide
            product = self._products.get(role, default[::-1] if self._column_vectors else default)
            for segment in statement.segments:
                parts = dict(zip(product, segment.get_factors(), strict=False))
                if len(parts) != len(product) or len(product) != len(segment.matrices):
                    parts = self._parse_softmax(segment) if role in ("weights", "mixed") else {}
                for name, matrix in parts.items():
                    base = name.removesuffix("ᵀ")
                    if base not in self._values and base not in implied:
                        rows = parse_numbers(matrix, base)
                        if rows is not None:
                            implied[base] = transpose_rows(rows) if name != base else rows
        for role, rows in implied.items():
            self._add_value(role, rows)

    def _parse_softmax(self, segment: Segment) -> dict[str, str]:
        """Return the matrices of softmax([scores]) or softmax([scores] + [mask]) by role."""
        texts = [parse_formula(text[:300]) for text in segment.texts]
        if "softmax" not in texts[0] or set(texts[0]) - {"softmax", "("}:
            return {}
        if len(texts) > 1 and texts[1][:1] == [")"]:
            has_mask = self._has_mask or "mask" in self._values
            return {"masked" if has_mask else "scaled": segment.matrices[0]}
        if len(texts) > 2 and texts[1] == ["+"] and texts[2][:1] == [")"]:
            return {"scaled": segment.matrices[0], "mask": segment.matrices[1]}
        return {}

    def _assign_inputs(self) -> None:
        """Decide which of X and C provides the queries and which is the context."""
        values, queries = self._values, self._products.get("Q", ())
        keys_values = self._products.get("K", ()) + self._products.get("V", ())
        is_swapped = "context" in queries and "X" not in queries and "X" in keys_values
        if "context" in values and ("X" not in values or is_swapped):
            context = values.pop("context")
            if "X" in values:
                values["context"] = values.pop("X")
            values["X"] = context

    def to_table(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table of the corresponding problem file."""
        kind, values = self._resolver.kind, self._values
        table, given, claims = dict(settings), _get_subtable(settings, "given"), []
        if not values and not given:
            raise UserError(
                "no matrix found: expected X = …, W_Q = … and claims such as scores = …"
            )
        is_attention = kind.name == "attention"
        for role, versions in values.items():
            first, *others = versions.values()
            is_mask = role == "mask" and is_attention
            is_claim = is_attention and role in _PROJECTIONS and "X" in values
            if not is_mask and (is_claim or role not in kind.matrices):
                claims.append((role, [first, *others]))
                continue
            if any(_parse_values(rows) != _parse_values(first) for rows in others):
                raise UserError(
                    f"{role} is given twice, with different numbers: expected a single problem"
                )
            if is_mask:
                table.setdefault("mask", _to_binary_mask(first))
            else:
                given.setdefault(role, first)
        has_weights = any(name.startswith(("W_", "b_")) for name in given)
        if (
            is_attention
            and "X" not in given
            and (has_weights or not given.keys() & {*_PROJECTIONS})
        ):
            raise UserError(f"X is missing: found {', '.join(values)}, but no X = …")
        claim = {**_nest_claims(claims), **_get_subtable(settings, "claim")}
        return {**table, "given": given, "claim": claim}


def _parse_formulas(statement: Statement) -> list[list[str]]:
    """Parse the segments without a matrix; longer ones are prose."""
    texts = [segment.texts[0] for segment in statement.segments if not segment.matrices]
    return [parse_formula(text) for text in texts if len(text) < 400]


def _get_subtable(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, Mapping):
        raise UserError(f"{name} must be a table: [{name}]")
    return dict(table)


def _nest_claims(claims: list[tuple[str, list[Rows]]]) -> dict[str, Any]:
    """Return the claims as nested tables: `head.2.scores`, and repetitions under `again`."""
    tables: list[dict[str, Any]] = [{}]
    for role, versions in claims:
        for reprint, rows in enumerate(versions):
            if reprint == len(tables):
                tables.append({})
            set_nested(tables[reprint], role.split("."), rows)
    first, *others = tables
    return {**first, "again": others} if others else first


def _to_binary_mask(rows: Rows) -> Rows:
    """Convert an additive mask of 0 and −∞ to one of 1 and 0; leave one of 1 and 0 as it is."""
    numbers = _parse_values(rows)
    if any(value == 1 for row in numbers for value in row):
        return rows

    def convert(value: float) -> str:  # "?" is rejected when the mask is read
        return "1" if value == 0 else "0" if value < -9_999 else "?"

    return [[convert(value) for value in row] for row in numbers]


def _parse_values(rows: Rows) -> list[list[float]]:
    """Return the values of the cells; a blank is NaN, which equals nothing."""
    numbers = [[read_number(cell, "") for cell in row] for row in rows]
    return [[float("nan") if n is None else n.value for n in row] for row in numbers]
