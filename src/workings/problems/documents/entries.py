"""An entry is what a statement says about a problem: this given or step has these numbers."""

from dataclasses import dataclass

from workings.problems.documents.chains import Statement
from workings.problems.documents.matrices import Rows
from workings.problems.documents.symbols import Symbol


@dataclass(frozen=True)
class Entry:
    """Numbers of a given or step of a problem, or that they could not be read.

    `part` is a head or time step, `row` and `column` (from 0) say that only those are printed.
    `evidence` is what named it: formula, caption, letter or value. `is_factor`: it is printed
    inside a product or function; it counts only where there is no other print, or as a reprint.
    """

    role: str
    rows: Rows | None
    statement: Statement
    evidence: str
    part: int | None = None
    row: int | None = None
    column: int | None = None
    is_factor: bool = False
    problem: str = ""

    @property
    def key(self) -> tuple[str, int | None]:
        """The role and the part."""
        return self.role, self.part


def is_vector(rows: Rows | None) -> bool:
    """Return True for a single row or column of at least two numbers."""
    return rows is not None and (len(rows) == 1) != (len(rows[0]) == 1)


def is_scalar(rows: Rows | None) -> bool:
    """Return True for a single number."""
    return rows is not None and len(rows) == 1 and len(rows[0]) == 1


def to_row(rows: Rows) -> list[str]:
    """Return the numbers of a row or column."""
    return rows[0] if len(rows) == 1 else [row[0] for row in rows]


def get_symbol(statement: Statement) -> Symbol | None:
    """Return the symbol that a statement defines: its first element, if it is one symbol."""
    for element in statement.elements[:1]:
        tokens = [token for token in element if token.kind not in ("open", "close")]
        if len(tokens) == 1 and tokens[0].kind in ("sym", "func"):
            return tokens[0].symbol
    return None


def get_numbers(symbol: Symbol | None) -> tuple[int, ...]:
    """Return the index of a symbol as numbers: (1, 2) for α_{1,2} and α_{12}."""
    numbers: list[int] = []
    for text in symbol.index if symbol is not None else ():
        pieces = [piece for piece in text.replace(";", ",").split(",") if piece]
        numbers += [int(piece) for piece in pieces if len(piece) < 4]
    return tuple(numbers)
