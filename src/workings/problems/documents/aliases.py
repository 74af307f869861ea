"""Matrices with two names: Q = Y and K = V = H, after Y and H were printed."""

from collections.abc import Sequence
from dataclasses import replace

from workings.problems.documents.chains import Statement
from workings.problems.documents.entries import get_symbol
from workings.problems.documents.symbols import Token, parse_symbol

_NAMES = frozenset({"Q", "K", "V"})
_INPUTS = frozenset({"X", "x", "I"})  # Q = X says that there are no weights


def replace_aliases(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements with Q, K and V in place of the letters that they are equal to."""
    aliases: dict[str, list[str]] = {}
    for statement in statements:
        names = _list_equal_names(statement)
        if len(names) > 1 and _NAMES.issuperset(names[:-1]) and names[-1] not in _NAMES | _INPUTS:
            aliases.setdefault(names[-1], []).extend(names[:-1])
    if not aliases:
        return list(statements)
    replaced: list[Statement] = []
    for statement in statements:
        symbol = get_symbol(statement)
        is_print = len(statement.elements) == 2 and statement.value_grid >= 0
        others = aliases.get(symbol.text, []) if symbol is not None and is_print else []
        replaced += [
            replace(
                statement,
                elements=[(Token("sym", name, parse_symbol(name)),), statement.elements[1]],
            )
            for name in others
        ] or [statement]
    return replaced


def _list_equal_names(statement: Statement) -> list[str]:
    """Return the names of K = V = H, which has no numbers; [] for any other statement."""
    if statement.value is not None or statement.problem:
        return []
    names = [e[0].text for e in statement.elements if len(e) == 1 and e[0].kind == "sym"]
    return names if len(names) == len(statement.elements) else []
