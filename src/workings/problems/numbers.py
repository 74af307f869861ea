"""A number as somebody wrote it: its value, and how precisely it was written."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from workings.errors import UserError
from workings.views.plain import one_line

LARGEST_SIDE = 1_024  # rows or columns of a matrix
_LONGEST = 60  # characters; a hand-written number is shorter
_MOST_PLACES = 400  # decimals, or the exponent of ten: beyond what a float tells from 0 or ∞
_TEN = re.compile(r"\s*[×x*·]\s*10\s*(?:\^\s*|\*\*\s*)\{?([+-]?\d+)\}?", re.IGNORECASE)
_COMMA = re.compile(r"[+-]?\d+,\d+(?:e[+-]?\d+)?", re.IGNORECASE)
_FRACTION = re.compile(r"[+-]?\d+\s*/\s*\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Number:
    """`places`: decimals written, None where the number is exact as it stands (1/2, −∞)."""

    text: str
    value: float
    places: int | None
    exponent: bool = False

    @property
    def whole(self) -> bool:
        """Was it written without decimals?"""
        return self.places == 0 and not self.exponent


def read_number(cell: object, where: str) -> Number | None:
    """Read a cell of a problem file; None is a blank. `where` names it in an error.

    >>> read_number("0,50", "X")
    Number(text='0,50', value=0.5, places=2, exponent=False)
    >>> read_number("?", "Q") is None
    True
    """
    hint = 'write 0.5, "1/2", "-inf" or "?"'
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | str):
        raise UserError(f"{where}: {shown(cell)} is not a number: {hint}")
    huge = isinstance(cell, int) and cell.bit_length() > 4 * _LONGEST  # Python may refuse str()
    text = "" if huge else str(cell).strip()
    if text == "?":
        return None
    if huge or len(text) > _LONGEST:
        raise UserError(f"{where}: {shown(cell)}: a number has at most {_LONGEST} characters")
    plain = _TEN.sub(r"e\1", text.replace("−", "-").replace("∞", "inf"))
    if plain.lower() in ("-inf", "inf", "+inf"):
        return Number(text, float(plain), None)
    if _FRACTION.fullmatch(plain):
        top, bottom = plain.split("/")
        if int(bottom) == 0:
            raise UserError(f"{where}: {shown(cell)} divides by zero")
        return Number(text, float(Fraction(int(top), int(bottom))), None)
    if _COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    if not _DECIMAL.fullmatch(plain):
        raise UserError(f"{where}: {shown(cell)} is not a number: {hint}")
    try:
        exact = Decimal(plain)
    except InvalidOperation:
        raise UserError(f"{where}: {shown(cell)} has too large an exponent") from None
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    value = float(exact)
    if math.isinf(value) or abs(exponent) > _MOST_PLACES or (value == 0 and exact != 0):
        raise UserError(f"{where}: {shown(cell)} is too large or too small a number")
    with_power = "e" in plain.lower()
    return Number(text, value, -exponent if with_power or exponent <= 0 else 0, with_power)


def shown(value: object, longest: int = 30) -> str:
    r"""Quote somebody's value in an error: on one line, never long.

    >>> shown("a\nb"), shown([0.5] * 99)
    ("'a\\nb'", "'[0.5, 0.5, 0.5, 0.5, 0.5, 0.5…'")
    """
    try:
        text = str(value)
    except (RecursionError, ValueError):  # nested a thousand deep; an integer of 5,000 digits
        return f"a huge {type(value).__name__}"
    return f"'{one_line(text if len(text) <= longest else text[: longest - 1] + '…')}'"
