"""The prints of each given and step of an example, put together from rows and cells."""

from workings.problems.documents.entries import Entry, is_scalar, to_row
from workings.problems.documents.examples import Example, is_given
from workings.problems.documents.matrices import Rows
from workings.problems.reprints import is_reprint


def shape_of(rows: Rows) -> tuple[int, int]:
    """Return the number of rows and columns."""
    return len(rows), len(rows[0])


class Prints:
    """The prints of each role of an example, whole matrices put together from rows and cells."""

    def __init__(
        self, example: Example, num_tokens: int | None = None, columns: bool = False
    ) -> None:
        self.by_key: dict[tuple[str, int | None], list[tuple[Rows, Entry, bool]]] = {}
        self.problems: dict[tuple[str, int | None], Entry] = {}
        self._pieces: dict[tuple[str, int | None], list[Entry]] = {}
        for entry in (*_keep_valid(example), *example.entries):
            if entry.rows is None:
                if entry.problem:
                    self.problems.setdefault(entry.key, entry)
            elif entry.row is not None or (
                not columns and self._is_piece(example, entry, num_tokens)
            ):
                self._pieces.setdefault(entry.key, []).append(entry)
            else:
                self.by_key.setdefault(entry.key, []).append((entry.rows, entry, False))
        for key, pieces in self._pieces.items():
            rows = self._stack(pieces, num_tokens)
            if rows is not None:
                prints = self.by_key.setdefault(key, [])
                is_partial = any("?" in row for row in rows) and any(
                    not e.is_factor for _, e, _ in prints
                )
                prints.insert(len(prints) if is_partial else 0, (rows, pieces[0], True))

    @staticmethod
    def _is_piece(example: Example, entry: Entry, num_tokens: int | None) -> bool:
        """Return True for one of several rows or numbers that are printed one after the other."""
        if example.kind != "attention" or is_given(example.kind, entry.role):
            return False
        if entry.role in ("exponentials", "sums") and is_scalar(entry.rows):
            return True
        return bool(
            num_tokens and num_tokens > 1 and entry.rows is not None and len(entry.rows) == 1
        )

    @staticmethod
    def _stack(pieces: list[Entry], num_tokens: int | None) -> Rows | None:
        """Return the matrix of rows or cells that are printed one by one; "?" where none is."""
        cells: dict[tuple[int, int], str] = {}
        numbered = [entry for entry in pieces if entry.row is not None]
        if numbered:
            offset = min(min(entry.row or 0 for entry in numbered), 0)
            if any((entry.column or 0) < 0 for entry in numbered):
                offset = -1
            for entry in numbered:
                assert entry.rows is not None
                assert entry.row is not None
                if entry.column is not None:
                    column = entry.column - offset
                    cells.setdefault((entry.row - offset, column), entry.rows[0][0])
                    continue
                for j, cell in enumerate(to_row(entry.rows)):
                    cells.setdefault((entry.row - offset, j), cell)
        elif all(is_scalar(entry.rows) for entry in pieces):  # one line of the text per row
            lines: dict[int, list[str]] = {}
            for entry in pieces:
                assert entry.rows is not None
                lines.setdefault(entry.statement.line, []).append(entry.rows[0][0])
            for i, row in enumerate(lines.values()):
                cells |= {(i, j): cell for j, cell in enumerate(row)}
        else:
            for i, entry in enumerate(_drop_repeats(pieces, num_tokens)):
                assert entry.rows is not None
                cells |= {(i, j): cell for j, cell in enumerate(entry.rows[0])}
        if not cells or max(max(key) for key in cells) > 200:
            return None
        height = max(i for i, _ in cells) + 1
        width = max(j for _, j in cells) + 1
        if num_tokens and not is_given("attention", pieces[0].role):
            height = max(height, num_tokens)
            if any(entry.column is not None for entry in numbered):
                width = max(width, num_tokens)
        return [[cells.get((i, j), "?") for j in range(width)] for i in range(height)]

    def first(self, role: str, part: int | None = None) -> Rows | None:
        """Return the first print of a role that is not merely a factor, or else the first."""
        prints = self.by_key.get((role, part), [])
        own = [rows for rows, entry, _ in prints if not entry.is_factor]
        if not own and (role, part) in self.problems and not is_given("attention", role):
            return None  # what is printed again is no substitute for a print that is not readable
        return own[0] if own else prints[0][0] if prints else None

    def is_by_token(self, role: str, part: int | None = None) -> bool:
        """Return True if the first print is put together from rows, one per token."""
        prints = self.by_key.get((role, part), [])
        return bool(prints) and prints[0][2]

    def parts(self, role: str) -> list[int]:
        """Return the heads that have a print of a role."""
        return sorted({part for name, part in self.by_key if name == role and part is not None})


def _keep_valid(example: Example) -> list[Entry]:
    """Return the inherited givens that the example does not define again, readable or not."""
    kept: list[Entry] = []
    for entry in example.list_valid_inherited():
        own = [e for e in example.entries if e.key == entry.key]
        is_anew = any(not e.is_factor or e.rows is None for e in own)
        is_other = any(
            e.rows is not None and entry.rows is not None and entry.row is None and e.row is None
            and not (shape_of(e.rows) == shape_of(entry.rows) and is_reprint(entry.rows, e.rows))
            for e in own
        )  # fmt: skip
        if not is_anew and not is_other:
            kept.append(entry)
    return kept


def _drop_repeats(pieces: list[Entry], num_tokens: int | None) -> list[Entry]:
    """Return the pieces without those that repeat an earlier one, if there are too many."""
    if num_tokens is None or len(pieces) <= num_tokens:
        return pieces
    kept: list[Entry] = []
    for entry in pieces:
        if all(entry.rows != other.rows for other in kept):
            kept.append(entry)
    return kept[:num_tokens] if len(kept) >= num_tokens else pieces[:num_tokens]
