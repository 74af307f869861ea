"""Writing problem files: TOML, laid out as a person would, so that matrices can be read."""

import re
from typing import Any

from workings.views.plain import printable

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?")  # as TOML writes them
_WIDE = 88  # characters; a longer matrix has a line a row


def toml(table: dict[str, Any], comment: str = "") -> str:
    """Write a problem's table; cells are numbers, or strings that hold one.

    >>> print(toml({"kind": "attention", "given": {"X": [[1, 0.5]]}, "claim": {"Q": [["?"]]}}))
    kind = "attention"
    <BLANKLINE>
    [given]
    X = [[1, 0.5]]
    <BLANKLINE>
    [claim]
    Q = [["?"]]
    <BLANKLINE>
    """
    lines = [f"# {printable(line)}" for line in comment.splitlines()]
    lines += [""] if lines else []
    lines += _entries({k: v for k, v in table.items() if not isinstance(v, dict)})
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _section(name, value)
    return "\n".join(lines) + "\n"


def _section(name: str, table: dict[str, Any]) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, dict) and k != "again"}
    lines = ["", f"[{name}]", *_entries(plain)] if plain or not table else []
    for inner, value in table.items():
        if isinstance(value, dict):
            lines += _section(f"{name}.{inner}", value)
    for reprint in table.get("again", []):
        lines += _reprint(f"{name}.again", reprint)
    return lines


def _reprint(name: str, table: dict[str, Any]) -> list[str]:
    """Write one of several tables of a name, `[[claim.again]]`, with the tables inside it."""
    lines = ["", f"[[{name}]]", *_entries({k: v for k, v in table.items() if isinstance(v, list)})]
    for inner, value in table.items():
        if isinstance(value, dict):
            lines += _section(f"{name}.{inner}", value)
    return lines


def _entries(table: dict[str, Any]) -> list[str]:
    width = max((len(name) for name in table), default=0)
    return [f"{name:<{width}} = {_value(value, width + 3)}" for name, value in table.items()]


def _value(value: Any, indent: int) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        rows = [f"[{', '.join(_cell(cell) for cell in row)}]" for row in value]
        one_line = f"[{', '.join(rows)}]"
        if len(one_line) <= _WIDE - indent and len(rows) <= 2:
            return one_line
        return "[" + f",\n{' ' * (indent + 1)}".join(rows) + "]"
    if isinstance(value, list):
        return f"[{', '.join(_cell(cell) if _numeric(cell) else _text(cell) for cell in value)}]"
    return _cell(value) if _numeric(value) else _text(value)


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float)


def _cell(cell: Any) -> str:
    """Write a cell; a number that was written with its decimals keeps them."""
    if _numeric(cell):
        return repr(cell)
    return cell if _NUMBER.fullmatch(cell) else _text(cell)


def _text(value: str) -> str:
    """Write a string of TOML: quotes, backslashes and control characters escaped."""
    written = []
    for c in value:
        if c in '"\\':
            written.append(f"\\{c}")
        elif ord(c) < 0x20 or ord(c) == 0x7F:
            written.append(f"\\u{ord(c):04X}")
        else:
            written.append(c)
    return f'"{"".join(written)}"'
