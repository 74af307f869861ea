"""Numbers as they are written in a problem: the value, and the precision they were written with."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeVar

from workings.errors import UserError, safe_repr

T = TypeVar("T")

MAX_SIDE = 1_024  # rows or columns of a matrix
_MAX_CHARS = 60  # without zeros at the start; a handwritten number is shorter
_MAX_ZEROS = 400  # with zeros at the start: a weight of e⁻¹⁵⁰ has 65
_MAX_PLACES = 400  # decimals, or power of ten; a float underflows or overflows before this
_POWER_OF_TEN = re.compile(r"\s*[×x*·]\s*10\s*(?:\^\s*|\*\*\s*)\{?([+-]?\d+)\}?", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:e[+-]?\d+)?", re.IGNORECASE)
_INFINITY = (
    re.compile(  # -inf, −∞, -\infty, -np.inf, -.inf, -1.#INF, &minus;&infin;, minus infinity
        r"(?P<sign>[+–—-]|minus|negative|neg|moins|âm|负|負)?\s*\\?(?:\w{2,5}\.|\.|1\.#|&)?"
        r"(?:inf|infinity|infty|infin|oo|unendlich|infini|vô cực|无穷大?|無窮大?)[;.]?",
        re.IGNORECASE,
    )
)
_FLOAT_CALL = re.compile(
    r"([+-]?)\s*float\(\s*['\"]([+-]?)(inf(?:inity)?)['\"]\s*\)", re.IGNORECASE
)
_FRACTION = re.compile(r"[+-]?\d+\s*/\s*\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
_HINT = 'write 0.5, "1/2", "-inf" or "?"'


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a problem: its text and value.

    `places` is the number of decimals written; None for a number that is exact (1/2, −∞).
    """

    text: str
    value: float
    places: int | None
    has_exponent: bool = False

    @property
    def is_integer(self) -> bool:
        """True if the number was written without decimals and without an exponent."""
        return self.places == 0 and not self.has_exponent


def read_number(cell: object, where: str) -> Number | None:
    """Parse a cell of a problem file; return None for a blank. `where` names the cell in errors.

    >>> read_number("0,50", "X")
    Number(text='0,50', value=0.5, places=2, has_exponent=False)
    >>> read_number("?", "Q") is None
    True
    """
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | str):
        raise _make_error(cell, where, f"is not a number: {_HINT}")
    # Python refuses str() of an integer with thousands of digits.
    is_huge = isinstance(cell, int) and cell.bit_length() > 4 * _MAX_CHARS
    text = "" if is_huge else str(cell).strip()
    if text == "?":
        return None
    if is_huge or len(text.lstrip("+-−0.,")) > _MAX_CHARS or len(text) > _MAX_ZEROS:
        raise _make_error(cell, where, f"is too long: a number has at most {_MAX_CHARS} characters")
    plain = _POWER_OF_TEN.sub(r"e\1", text.replace("−", "-").replace("∞", "inf").strip("$ "))
    if infinity := _INFINITY.fullmatch(_FLOAT_CALL.sub(r"\1\2\3", plain)):
        is_negative = infinity["sign"] not in (None, "+")
        return Number(text, -math.inf if is_negative else math.inf, None)
    if _FRACTION.fullmatch(plain):
        numerator, denominator = (int(part) for part in plain.split("/"))
        if denominator == 0:
            raise _make_error(cell, where, "divides by zero")
        return Number(text, float(Fraction(numerator, denominator)), None)
    if _DECIMAL_COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    if not _DECIMAL.fullmatch(plain):
        raise _make_error(cell, where, f"is not a number: {_HINT}")
    try:
        exact = Decimal(plain)
    except InvalidOperation:
        raise _make_error(cell, where, "has too large an exponent") from None
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    value = float(exact)
    if math.isinf(value) or abs(exponent) > _MAX_PLACES or (value == 0 and exact != 0):
        raise _make_error(cell, where, "is too large or too small for a 64-bit float")
    has_exponent = "e" in plain.lower()
    return Number(text, value, -exponent if has_exponent or exponent <= 0 else 0, has_exponent)


def _make_error(cell: object, where: str, message: str) -> UserError:
    return UserError(f"{where}: {safe_repr(cell, 30)} {message}")


def transpose_rows(rows: Sequence[Sequence[T]]) -> list[list[T]]:
    """Return the transpose of a list of equally long rows.

    >>> transpose_rows([[1, 2, 3], [4, 5, 6]])
    [[1, 4], [2, 5], [3, 6]]
    """
    return [list(column) for column in zip(*rows, strict=True)]
