"""Find numbers of an example that its problem leaves out: they were named, but fit nowhere."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from workings.problems.documents.entries import Entry, is_scalar, to_row
from workings.problems.documents.examples import is_print_of
from workings.problems.documents.matrices import Rows
from workings.problems.numbers import transpose_rows

_SCORES = frozenset({"scores", "scaled", "masked"})


def find_unplaced(entries: Sequence[Entry], table: Mapping[str, Any]) -> list[Entry]:
    """Return the printed steps whose numbers are in no claim of the table of a problem."""
    return [
        entry
        for entry in entries
        if entry.rows is not None
        and not entry.is_factor
        and not is_scalar(entry.rows)
        and entry.evidence != "value"
        and not any(_holds(rows, entry) for rows in _list_prints(table, entry))
    ]


def _list_prints(table: Mapping[str, Any], entry: Entry) -> Iterator[Rows]:
    """Yield the prints of the step of an entry, of all heads or times, and of its given."""
    roles = _SCORES if entry.role in _SCORES else {entry.role}
    claim = table.get("claim", {})
    yield from _list_steps([claim, *claim.get("again", []), table.get("given", {})], roles)


def _list_steps(scopes: Sequence[Mapping[str, Any]], roles: Collection[str]) -> Iterator[Rows]:
    for scope in scopes:
        yield from (rows for role in roles if isinstance(rows := scope.get(role), list))
        yield from _list_steps([part for part in scope.values() if isinstance(part, dict)], roles)


def _holds(printed: Rows, entry: Entry) -> bool:
    """Return True if a print has the numbers of an entry, perhaps turned, or a print of them."""
    rows = entry.rows or []
    turned = transpose_rows(rows)
    if any(printed == own or is_print_of(printed, own) for own in (rows, turned)):
        return True
    own = to_row(rows) if 1 in (len(rows), len(rows[0])) else None
    if own is not None:
        return any(_starts_with(line, own) for line in (*printed, *transpose_rows(printed))) or sum(
            map(len, printed)
        ) == len(own)
    return _is_part(printed, rows)


def _starts_with(line: Sequence[str], own: Sequence[str]) -> bool:
    return len(line) >= len(own) and list(line[: len(own)]) == list(own)


def _is_part(printed: Rows, rows: Rows) -> bool:
    """Return True for the matrix of one head inside that of all."""
    if len(printed) != len(rows):
        return False
    width = len(rows[0])
    return any(
        [row[k : k + width] for row in printed] == rows for k in range(len(printed[0]) - width + 1)
    )
