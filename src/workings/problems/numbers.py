"""A number as somebody wrote it: its value, and how precisely it was written."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from workings.errors import UserError
from workings.views.plain import one_line

_LONGEST = 60  # characters; a hand-written number is shorter
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
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal | str):
        raise UserError(f'{where}: {_shown(cell)} is not a number: write 0.5, "1/2", "-inf" or "?"')
    text = str(cell).strip()
    if text == "?":
        return None
    plain = _TEN.sub(r"e\1", text.replace("−", "-").replace("∞", "inf"))
    if len(text) > _LONGEST:
        raise UserError(f"{where}: a number of {len(text)} characters; at most {_LONGEST} are read")
    if plain.lower() in ("-inf", "inf", "+inf"):
        return Number(text, float(plain), None)
    if _FRACTION.fullmatch(plain):
        top, bottom = plain.split("/")
        if int(bottom) == 0:
            raise UserError(f"{where}: {_shown(cell)} divides by zero")
        return Number(text, float(Fraction(int(top), int(bottom))), None)
    if _COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    if not _DECIMAL.fullmatch(plain):
        raise UserError(f'{where}: {_shown(cell)} is not a number: write 0.5, "1/2", "-inf" or "?"')
    try:
        exact = Decimal(plain)
        value = float(exact)
    except (InvalidOperation, OverflowError):
        value = math.inf
    if math.isinf(value):
        raise UserError(f"{where}: {_shown(cell)} is too large a number")
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    with_power = "e" in plain.lower()
    return Number(text, value, -exponent if with_power or exponent <= 0 else 0, with_power)


def _shown(cell: object) -> str:
    text = one_line(str(cell))
    return repr(text if len(text) <= 30 else text[:27] + "…")
