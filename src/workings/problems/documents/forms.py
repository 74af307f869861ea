"""What the formulas and numbers of one statement of attention look like."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from workings.problems.documents.chains import Statement
from workings.problems.documents.entries import get_symbol, is_scalar
from workings.problems.documents.formulas import (
    ATTENTION_ROLES,
    NORMALIZERS,
    normalize_name,
    split_factors,
)
from workings.problems.documents.symbols import Element, Token

DIVISOR_TEXTS = frozenset({"1", "/", "√", "d", "d_k", "dk", "2", "3", "4", "V"})


def find_summands(statements: Sequence[Statement]) -> set[str]:
    """Return the names of the matrices that X is stated to be the sum of: X = E + P."""
    names: set[str] = set()
    for statement in statements:
        symbol = get_symbol(statement)
        if symbol is None or symbol.name not in ("X", "x"):
            continue
        for element in statement.elements[1:]:
            if any(t.text == "+" for t in element) and not any(t.kind == "func" for t in element):
                names |= {t.symbol.name for t in element if t.kind == "sym" and t.symbol}
    return names - {"X", "x"}


def find_projection(element: Element) -> str | None:
    """Return Q for a printed matrix times a symbol: [1, 2] · W_Q."""
    pair = [token for token in element if token.text not in ("×", "·", "*", "@")]
    symbols = [token.symbol for token in pair if token.kind == "sym" and token.symbol is not None]
    if len(pair) != 2 or len(symbols) != 1 or not any(token.kind == "grid" for token in pair):
        return None
    role = ATTENTION_ROLES.get(normalize_name(symbols[0].name).lower(), "")
    return role.removeprefix("W_") if role in ("W_Q", "W_K", "W_V") else None


def find_divided(element: Element) -> Token | None:
    """Return the matrix of an element that divides it by a number: 1/√2 [matrix]."""
    grids = [token for token in element if token.kind == "grid"]
    others = [token for token in element if token.kind != "grid"]
    is_factor = all(
        t.kind in ("num", "open", "close") or t.text in DIVISOR_TEXTS - {"V"} | {"·", "×", "*"}
        for t in others
    )
    is_divided = any(token.text in ("/", "√") for token in others)
    return grids[0] if len(grids) == 1 and is_factor and is_divided else None


def calls_unknown(element: Element) -> bool:
    """Return True for a call of an unknown function: normalize(S / 2)."""
    return any(
        token.kind == "sym"
        and token.symbol is not None
        and (len(token.symbol.base) > 2 or token.symbol.base in "φϕψΦΨ")
        and token.text.lower() not in ATTENTION_ROLES
        and after.kind == "open"
        for token, after in pairwise(element)
    )


def list_projected(formula: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the names that a formula multiplies by W_Q, W_K or W_V."""
    factors = split_factors([symbol.lstrip("?") for symbol in formula])
    for name, weight in (factors, factors[::-1]) if factors is not None else ():
        if weight in ("W_Q", "W_K", "W_V"):
            yield name, weight


def list_uses(formula: list[str]) -> Iterator[tuple[str, str]]:
    """Yield open names (marked by ?) with the role that a formula shows."""
    factors = split_factors([symbol.lstrip("?") for symbol in formula])
    if factors is not None:
        marked = [symbol.removesuffix("ᵀ") for symbol in formula if symbol not in "×·*@"]
        for name, other in (marked, marked[::-1]):
            if not name.startswith("?"):
                continue
            if other in ("W_Q", "W_K", "W_V"):
                yield name[1:], "X"
            elif other in ("V", "W_O"):
                yield name[1:], "weights" if other == "V" else "mixed"
    for before, symbol in pairwise(formula):
        is_argument = before in ("(", *NORMALIZERS) and not NORMALIZERS.isdisjoint(formula)
        if is_argument and symbol.startswith("?"):
            yield symbol[1:].removesuffix("ᵀ"), "scaled" if "/" not in formula else "scores"


def is_plausible(role: str, statement: Statement) -> bool:
    """Return False for numbers that a matrix of this role cannot have: an infinite input."""
    rows = statement.value
    if role in ("scores", "masked") and not is_scalar(rows):
        left = [t.text for t in (statement.elements or [()])[0] if t.kind != "op"]
        return not (len(left) == 2 and all(re.fullmatch(r"[qk]_?\d", text) for text in left))
    if rows is None or role in ("scores", "scaled", "masked", "mask"):
        return True
    return not has_infinity(rows)


def is_check(statement: Statement) -> bool:
    """Return True for the sums 1, 1, 1 of the rows of weights."""
    cells = [cell for row in statement.value or [] for cell in row]
    return bool(cells) and all(re.fullmatch(r"1(?:[.,]0*)?|0?[.,]99+|1[.,]0+1", c) for c in cells)


def is_weighted_sum(element: Element) -> bool:
    """Return True for 0.67 · [1, 0] + 0.33 · [0, 1]."""
    kinds = "".join(
        "n" if t.kind == "num" else "g" if t.kind == "grid" else t.text if t.text == "+" else ""
        for t in element
        if t.text not in "·*×"
    )
    return re.fullmatch(r"ng(?:\+ng)+", kinds) is not None


def is_exponential(statement: Statement) -> bool:
    """Return True for exp(3.5) = 33.1 and e^3.5 = 33.1."""
    left = statement.elements[0] if statement.elements else ()
    if len(statement.elements) < 2 or not left or not is_scalar(statement.value):
        return False
    is_call = left[0].kind == "func" and left[0].text.lower() == "exp"
    is_power = left[0].kind == "sym" and re.fullmatch(r"e\^.*", left[0].text) is not None
    return (is_call or is_power) and all(
        t.kind in ("func", "sym", "num", "open", "close", "op") for t in left
    )


def has_infinity(rows: list[list[str]]) -> bool:
    """Return True if a number is infinite."""
    return any("inf" in cell.lower() or "∞" in cell for row in rows for cell in row)


def is_mask(statement: Statement) -> bool:
    """Return True for a matrix of 0 and −∞, of 0 and a huge negative number, or of 0 and 1."""
    rows = statement.value or []
    cells = {cell.lower() for row in rows for cell in row}
    is_additive = has_infinity(rows) and cells <= {"0", "0.", "0.0", "-inf", "-∞", "−∞"}
    is_huge = all(
        re.fullmatch(r"-?0(?:\.0*)?|-1e\d+|-1?0{3,}\.?0*|-9{4,}\.?0*", cell) for cell in cells
    )
    return bool(cells) and (is_additive or (is_huge and len(cells) > 1) or cells <= {"0", "1"})
