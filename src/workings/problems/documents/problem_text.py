r"""A whole problem read from a slide or a note, in LaTeX, Markdown or plain text.

What is read:

- `NAME = matrix`, in any of the forms of `matrix_text`, in `$$…$$`, `\[…\]`, align, code or prose;
  `NAME:` above a table. In a chain `Q = X W_Q = [A][B] = [C]` the last matrix that stands alone is
  Q's value; a line that begins with `=` goes on with the chain before it. The factors of a product
  count only for names that have no value of their own: here X = A and W_Q = B, if nothing else
  says what they are.
- Names: see `names`. X, weights, biases and the context are givens, all else is claimed; without
  X, Q, K and V are the givens. C is the context, or X where there is no X; where the text says
  Q = C W_Q and K = X W_K, it is the other way round. Kᵀ is K, turned over. M is the mask, of 0 and
  −∞ or of 1 and 0.
- A claim printed again with other numbers is judged on its own ([[claim.again]]); a given printed
  again with other numbers is refused.
- A matrix without numbers is a formula and says nothing. A matrix with numbers and an unknown name
  is refused, so that none goes unchecked unnoticed; the setting `ignore = ["P"]` leaves it out.
- Settings: keywords, or comments in the text that hold TOML, `% workings: scale = "none"` and
  `<!-- workings: mask = "causal" -->`. Nothing is guessed from formulas.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.errors import UserError
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
from workings.problems.numbers import quote_value, read_number
from workings.problems.problem import Problem
from workings.problems.problem_file import (
    ProblemReader,
    parse_problem_toml,
    prefix_errors,
    read_text_file,
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
    r"""Read a problem from the text of a slide; `settings` are those of a problem file.

    >>> slide = [r"$$X = \begin{bmatrix} 1 & 0 \\ 0 & 2 \end{bmatrix}$$"]
    >>> slide += [r"$$E = Q K^T = \begin{bmatrix} 1 & 0 \\ 0 & 5 \end{bmatrix}$$"]
    >>> parse_problem_text("\n".join(slide), scale="none").check().first.step
    'scores'
    """
    if len(text) > MAX_TEXT_CHARS:
        raise UserError(f"{len(text)} characters of text; at most {MAX_TEXT_CHARS} are read")
    text, said = _extract_comments(text.replace("\r\n", "\n"))
    settings = {**said, **settings}
    ignored = settings.pop("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise UserError('ignore must be a list of names: ["P"]')
    heads = settings.get("heads", 1)
    names = RoleResolver(
        ProblemReader(settings).read_kind(), multi_head=isinstance(heads, int) and heads > 1
    )
    left_out = {normalize_name(name) for name in ignored}
    found = _MatrixCollector(names, settings.get("vectors") == "columns", "mask" in settings)
    found.collect(
        [
            s
            for s in find_statements(text)
            if normalize_name(names.extract_name(s.left)) not in left_out
        ]
    )
    return Problem(**found.to_table(settings))


def load_problem_text(path: str | Path, **settings: Any) -> Problem:
    """Read a problem from the file of a slide; errors name it."""
    with prefix_errors(path):
        return parse_problem_text(read_text_file(path), **settings)


def _extract_comments(text: str) -> tuple[str, dict[str, Any]]:
    """Take the comments out of a text, and the settings out of the comments."""
    pieces, said, position = [], [], 0
    while mark := _COMMENT.search(text, position):
        end = mark.end()
        if mark.group() == "<!--":
            end = text.find("-->", end)
            end = end + 3 if end >= 0 else len(text)
        comment = text[mark.start() : end].strip("<!->%# \t\r\n")
        if comment.startswith("workings:"):
            said.append(comment.removeprefix("workings:").strip())
        pieces.append(text[position : mark.start()])
        position = end
    try:
        return "".join([*pieces, text[position:]]), parse_problem_toml("\n".join(said))
    except UserError as error:
        raise UserError(f"workings: {error}") from None


class _MatrixCollector:
    """Collects the matrices of a text by their role."""

    def __init__(self, resolver: RoleResolver, column_vectors: bool, has_mask: bool) -> None:
        self._resolver, self._column_vectors, self._has_mask = resolver, column_vectors, has_mask
        # Different ones in order, each under its cells: a long text may hold very many.
        self._values: dict[str, dict[tuple[tuple[str, ...], ...], Rows]] = {}
        self._products: dict[str, tuple[str, ...]] = {}  # Q: (X, W_Q)

    def collect(self, chains: list[Statement]) -> None:
        """Read the values, then what products tell beside them."""
        formulas = [_parse_formulas(chain) for chain in chains]
        for chain, said in zip(chains, formulas, strict=True):
            for formula in said:
                self._resolver.learn(chain.left, formula)
        named: list[tuple[str, Statement]] = []
        for chain, said in zip(chains, formulas, strict=True):
            products = [product for product in map(parse_product, said) if product]
            if not products and not any(segment.matrices for segment in chain.segments):
                continue
            value, known = self._find_value(chain), self._resolver.resolve(chain.left)
            if known is None:
                if value is not None and self._resolver.extract_name(chain.left):
                    raise self._resolver.make_unknown_name_error(chain.left)
                continue
            role, transposed = known
            named.append((role, chain))
            if value is not None:
                self._add_value(role, _transpose(value) if transposed else value)
            if products and role in _PROJECTIONS:
                self._products.setdefault(role, products[0])
        if self._resolver.kind.name == "attention":
            self._read_products(named)
        for role, chain in named:
            if role not in self._values:
                self._reject_surrounding_text(chain)
        if self._resolver.kind.name == "attention":
            self._assign_inputs()

    def _find_value(self, chain: Statement) -> Rows | None:
        """Read the last matrix of a chain that stands alone."""
        for segment in reversed(chain.segments):
            matrix = segment.get_single_matrix()
            rows = (
                parse_numbers(matrix, self._resolver.extract_name(chain.left)) if matrix else None
            )
            if rows is not None:
                return rows
        return None

    def _reject_surrounding_text(self, chain: Statement) -> None:
        """Refuse 2 [matrix] as a value, rather than pass it over; X [matrix] is a formula."""
        name = self._resolver.extract_name(chain.left)
        for segment in chain.segments:
            beside = segment.get_surrounding_text()
            if (
                len(segment.matrices) != 1
                or not beside
                or mentions_matrix(parse_formula(beside[:400]))
            ):
                continue
            if parse_numbers(segment.matrices[0], name):
                raise UserError(f"{name}: {quote_value(beside)} stands beside its matrix")

    def _add_value(self, role: str, rows: Rows) -> None:
        self._values.setdefault(role, {}).setdefault(tuple(map(tuple, rows)), rows)

    def _read_products(self, chains: list[tuple[str, Statement]]) -> None:
        """Take from products what is printed nowhere else: [A][B] for X W_Q."""
        implied: dict[str, Rows] = {}
        for role, chain in chains:
            usual = _PRODUCTS.get(role, ())
            if role in _PROJECTIONS and "context" in self._values:
                usual = ()  # from X or from the context? only the text can tell
            product = self._products.get(role, usual[::-1] if self._column_vectors else usual)
            for segment in chain.segments:
                parts = dict(zip(product, segment.get_factors(), strict=False))
                if len(parts) != len(product) or len(product) != len(segment.matrices):
                    parts = self._parse_softmax(segment) if role in ("weights", "mixed") else {}
                for name, matrix in parts.items():
                    base = name.removesuffix("ᵀ")
                    if base not in self._values and base not in implied:
                        rows = parse_numbers(matrix, base)
                        if rows is not None:
                            implied[base] = _transpose(rows) if name != base else rows
        for role, rows in implied.items():
            self._add_value(role, rows)

    def _parse_softmax(self, segment: Segment) -> dict[str, str]:
        """Read softmax([scores] + [mask])."""
        texts = [parse_formula(text[:300]) for text in segment.texts]
        if "softmax" not in texts[0] or set(texts[0]) - {"softmax", "("}:
            return {}
        if len(texts) > 1 and texts[1][:1] == [")"]:
            masked = self._has_mask or "mask" in self._values
            return {"masked" if masked else "scaled": segment.matrices[0]}
        if len(texts) > 2 and texts[1] == ["+"] and texts[2][:1] == [")"]:
            return {"scaled": segment.matrices[0], "mask": segment.matrices[1]}
        return {}

    def _assign_inputs(self) -> None:
        """Tell which of X and C asks, and which is asked."""
        values, queries = self._values, self._products.get("Q", ())
        asked = self._products.get("K", ()) + self._products.get("V", ())
        swapped = "context" in queries and "X" not in queries and "X" in asked
        if "context" in values and ("X" not in values or swapped):
            context = values.pop("context")
            if "X" in values:
                values["context"] = values.pop("X")
            values["X"] = context

    def to_table(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out what a problem file would hold."""
        kind, values = self._resolver.kind, self._values
        table, given, claims = dict(settings), _get_subtable(settings, "given"), []
        if not values and not given:
            raise UserError("no matrix found: expected X = …, W_Q = … and claims like scores = …")
        attention = kind.name == "attention"
        for role, printed in values.items():
            first, *others = printed.values()
            masks = role == "mask" and attention
            claimed = attention and role in _PROJECTIONS and "X" in values
            if not masks and (claimed or role not in kind.matrices):
                claims.append((role, [first, *others]))
                continue
            if any(_parse_values(rows) != _parse_values(first) for rows in others):
                raise UserError(
                    f"{role} is given twice, with different numbers: a text holds one problem"
                )
            if masks:
                table.setdefault("mask", _to_binary_mask(first))
            else:
                given.setdefault(role, first)
        projected = "X" in given or not any(name.startswith(("W_", "b_")) for name in given)
        if attention and not (projected and given.keys() & {"X", *_PROJECTIONS}):
            raise UserError(f"X is missing: found {', '.join(values)}, but no X = …")
        claim = {**_nest_claims(claims), **_get_subtable(settings, "claim")}
        return {**table, "given": given, "claim": claim}


def _parse_formulas(chain: Statement) -> list[list[str]]:
    return [
        parse_formula(s.texts[0])
        for s in chain.segments
        if not s.matrices and len(s.texts[0]) < 400
    ]


def _get_subtable(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, Mapping):
        raise UserError(f"{name} must be a table: [{name}]")
    return dict(table)


def _nest_claims(claims: list[tuple[str, list[Rows]]]) -> dict[str, Any]:
    """Nest `head.2.scores`; what is printed again goes under `again`."""
    tables: list[dict[str, Any]] = [{}]
    for role, different in claims:
        for again, rows in enumerate(different):
            if again == len(tables):
                tables.append({})
            table = tables[again]
            *path, step = role.split(".")
            for part in path:
                table = table.setdefault(part, {})
            table[step] = rows
    first, *others = tables
    return {**first, "again": others} if others else first


def _to_binary_mask(rows: Rows) -> Rows:
    """Turn a mask of 0 and −∞ that is added to the scores into one of 1 and 0."""
    numbers = _parse_values(rows)
    if any(value == 1 for row in numbers for value in row):
        return rows
    said = {True: "0", False: "?"}  # "?" is refused where the mask is read
    return [["1" if value == 0 else said[value < -9_999] for value in row] for row in numbers]


def _parse_values(rows: Rows) -> list[list[float]]:
    """Read the cells' values; a blank is NaN, which equals nothing."""
    read = [[read_number(cell, "") for cell in row] for row in rows]
    return [[float("nan") if n is None else n.value for n in row] for row in read]


def _transpose(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]
