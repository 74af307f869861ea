"""A number as somebody wrote it: its value, and how precisely it was written."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from workings.errors import UserError
from workings.plain_text import to_one_line

MAX_SIDE = 1_024  # rows or columns of a matrix
_MAX_CHARS = 60  # characters; a hand-written number is shorter
_MAX_PLACES = 400  # decimals, or the exponent of ten: beyond what a float tells from 0 or ∞
_POWER_OF_TEN = re.compile(r"\s*[×x*·]\s*10\s*(?:\^\s*|\*\*\s*)\{?([+-]?\d+)\}?", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:e[+-]?\d+)?", re.IGNORECASE)
_FRACTION = re.compile(r"[+-]?\d+\s*/\s*\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Number:
    """`places`: decimals written, None where the number is exact as it stands (1/2, −∞)."""

    text: str
    value: float
    places: int | None
    has_exponent: bool = False

    @property
    def is_integer(self) -> bool:
        """Was it written without decimals?"""
        return self.places == 0 and not self.has_exponent


def read_number(cell: object, where: str) -> Number | None:
    """Read a cell of a problem file; None is a blank. `where` names it in an error.

    >>> read_number("0,50", "X")
    Number(text='0,50', value=0.5, places=2, has_exponent=False)
    >>> read_number("?", "Q") is None
    True
    """
    hint = 'write 0.5, "1/2", "-inf" or "?"'
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | str):
        raise UserError(f"{where}: {quote_value(cell)} is not a number: {hint}")
    huge = isinstance(cell, int) and cell.bit_length() > 4 * _MAX_CHARS  # Python may refuse str()
    text = "" if huge else str(cell).strip()
    if text == "?":
        return None
    if huge or len(text) > _MAX_CHARS:
        raise UserError(
            f"{where}: {quote_value(cell)}: a number has at most {_MAX_CHARS} characters"
        )
    plain = _POWER_OF_TEN.sub(r"e\1", text.replace("−", "-").replace("∞", "inf"))
    if plain.lower() in ("-inf", "inf", "+inf"):
        return Number(text, float(plain), None)
    if _FRACTION.fullmatch(plain):
        top, bottom = plain.split("/")
        if int(bottom) == 0:
            raise UserError(f"{where}: {quote_value(cell)} divides by zero")
        return Number(text, float(Fraction(int(top), int(bottom))), None)
    if _DECIMAL_COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    if not _DECIMAL.fullmatch(plain):
        raise UserError(f"{where}: {quote_value(cell)} is not a number: {hint}")
    try:
        exact = Decimal(plain)
    except InvalidOperation:
        raise UserError(f"{where}: {quote_value(cell)} has too large an exponent") from None
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    value = float(exact)
    if math.isinf(value) or abs(exponent) > _MAX_PLACES or (value == 0 and exact != 0):
        raise UserError(f"{where}: {quote_value(cell)} is too large or too small a number")
    with_power = "e" in plain.lower()
    return Number(text, value, -exponent if with_power or exponent <= 0 else 0, with_power)


def quote_value(value: object, max_length: int = 30) -> str:
    r"""Quote somebody's value in an error: on one line, never long.

    >>> quote_value("a\nb"), quote_value([0.5] * 99)
    ("'a\\nb'", "'[0.5, 0.5, 0.5, 0.5, 0.5, 0.5…'")
    """
    try:
        text = str(value)
    except (RecursionError, ValueError):  # nested a thousand deep; an integer of 5,000 digits
        return f"a huge {type(value).__name__}"
    return f"'{to_one_line(text if len(text) <= max_length else text[: max_length - 1] + '…')}'"
