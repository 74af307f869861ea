"""Decimals of printed arrays: NumPy shows every number of an array with the same precision.

It drops the zeros at the end of a number, and puts spaces in their place.
"""

import re
from decimal import Decimal

from workings.problems.documents.matrices import Rows

_NUMBER = re.compile(r"-?\d+\.(\d*)(\s*)(?=([-\d,\]\[])|$)")
_SCIENTIFIC = re.compile(r"-?\d\.\d{1,12}e[+-]?\d{2}", re.IGNORECASE)
_SMALLEST_UNIT = Decimal("1e-20")


def restore_zeros(text: str) -> str:
    """Return a printed array with the zeros that NumPy replaced by spaces.

    >>> restore_zeros("[[0.    0.76 ] [0.099 0.1  ]]"), restore_zeros("[0.5 0.25]")
    ('[[0.000 0.760] [0.099 0.100]]', '[0.5 0.25]')
    """
    cells = list(_NUMBER.finditer(text))
    places = max((len(cell[1]) for cell in cells), default=0)
    if not places or len(cells) != len(re.findall(r"\d+", _NUMBER.sub("0 ", text))):
        return text  # a whole number or a number with an exponent
    for cell in cells:
        is_last = cell[3] in (None, ",", "]")
        if len(cell[2]) < places - len(cell[1]) + (0 if is_last else 1):
            return text

    def pad(cell: re.Match[str]) -> str:
        missing = places - len(cell[1])
        number = cell[0][: len(cell[0]) - len(cell[2])]
        return number + "0" * missing + cell[2][missing:]

    return _NUMBER.sub(pad, text)


def share_decimals(rows: Rows) -> Rows:
    """Return rows in scientific notation with the decimals that their numbers share.

    NumPy prints 0.4856 and 0.0001, rounded to four decimals, as 4.856e-01 and 1.000e-04.
    """
    if not rows or not all(_SCIENTIFIC.fullmatch(cell) for row in rows for cell in row):
        return rows
    numbers = [[Decimal(cell) for cell in row] for row in rows]
    largest = max((number for row in numbers for number in row), key=abs)
    unit = Decimal(1).scaleb(int(largest.as_tuple().exponent))
    if not _SMALLEST_UNIT < unit < 1 or any(number % unit for row in numbers for number in row):
        return rows
    return [[f"{number.quantize(unit):f}" for number in row] for row in numbers]
