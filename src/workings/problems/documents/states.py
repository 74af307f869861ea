"""Attention of a decoder over the states of an encoder, in the letters of attention.

Books on translation write states h_1, h_2, …, a decoder's state s, scores e_j, weights α_j and a
context vector c. As attention these are keys and values, a query, scores, weights and mixed values.
"""

from collections.abc import Sequence
from dataclasses import replace

from workings.problems.documents.chains import Statement
from workings.problems.documents.entries import get_numbers, get_symbol, is_scalar, is_vector
from workings.problems.documents.symbols import Element, Symbol, Token, parse_symbol

_STATES = ("h", "h\u0304")
_QUERIES = ("s", "d", "z", "h", "h_t", "s_t", "h_dec", "s_dec", "h_d", "h'")
_SCORES = ("e", "score", "scores", "u", "a")
_WEIGHTS = ("α", "a", "w", "alpha", "weights", "attn", "attention")
_CONTEXTS = ("c", "ctx", "context")


def name_as_attention(statements: Sequence[Statement]) -> list[Statement]:
    """Return statements about attention over states with the letters q, k, v, e, α and z."""
    states = [s for s in statements if _is_state(s)]
    weights = [s for s in statements if _is_weight(s)]
    query = next((s for s in statements if _is_query(s)), None)
    has_others = any(_is_foreign(s) for s in statements)
    if len(states) < 2 or not weights or query is None or has_others:
        return list(statements)
    renamed: list[Statement] = []
    for statement in statements:
        if statement is query:
            renamed.append(_rename(statement, {_base(query): "q_1"}))
        elif any(statement is state for state in states):
            number = _number(statement)
            renamed += [_rename(statement, {_base(statement): f"{x}_{number}"}) for x in "kv"]
        elif _base(statement) in _CONTEXTS and not is_scalar(statement.value):
            renamed.append(_rename_left(statement, "z_1"))
        elif is_scalar(statement.value) and _number(statement) is not None:
            letter = "α" if _is_weight(statement) else "e" if _base(statement) in _SCORES else ""
            name = f"{letter}_{{1,{_number(statement)}}}"
            renamed.append(_rename_left(statement, name) if letter else statement)
        else:
            renamed.append(statement)
    return renamed


def _base(statement: Statement) -> str:
    symbol = get_symbol(statement)
    return symbol.base if symbol is not None else ""


def _number(statement: Statement) -> int | None:
    numbers = get_numbers(get_symbol(statement))
    return numbers[-1] if numbers else None


def _is_printed(statement: Statement) -> bool:
    return len(statement.elements) == 2 and is_vector(statement.value)


def _is_state(statement: Statement) -> bool:
    """Return True for h_2 = [1, 0], printed and not computed."""
    return _base(statement) in _STATES and _number(statement) is not None and _is_printed(statement)


def _is_query(statement: Statement) -> bool:
    symbol = get_symbol(statement)
    return (
        symbol is not None
        and _is_printed(statement)
        and not _is_state(statement)
        and symbol.name in _QUERIES
    )


def _is_weight(statement: Statement) -> bool:
    is_one = is_scalar(statement.value) and _number(statement) is not None
    return _base(statement) in _WEIGHTS and (is_one or is_vector(statement.value))


def _is_foreign(statement: Statement) -> bool:
    """Return True for a weight or projection: the document has letters of its own for attention."""
    symbol = get_symbol(statement)
    has_value = statement.value is not None or bool(statement.problem)
    return has_value and symbol is not None and symbol.base in ("W", "U", "Q", "K", "V", "q", "k")


def _rename_left(statement: Statement, name: str) -> Statement:
    """Return the statement with another name for what it defines."""
    symbol = Token("sym", name, parse_symbol(name))
    return replace(statement, elements=[(symbol,), *statement.elements[1:]])


def _rename(statement: Statement, names: dict[str, str]) -> Statement:
    """Return the statement with other symbols for those with some bases."""

    def change(token: Token) -> Token:
        symbol: Symbol | None = token.symbol
        if token.kind != "sym" or symbol is None or symbol.base not in names:
            return token
        return Token("sym", names[symbol.base], parse_symbol(names[symbol.base]))

    elements: list[Element] = [tuple(map(change, element)) for element in statement.elements]
    return replace(statement, elements=elements)
