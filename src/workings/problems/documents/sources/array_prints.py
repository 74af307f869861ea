"""Decimals of printed arrays: NumPy shows every number of an array with the same precision.

It drops the zeros at the end of a number, and puts spaces in their place.
"""

import re
from decimal import Decimal

from workings.problems.documents.matrices import Rows

_NUMBER = re.compile(r"-?\d+\.(\d*)(\s*)(?=([-\d,\]\[])|$)")
_SCIENTIFIC = re.compile(r"-?\d\.\d{1,12}e[+-]?\d{2}", re.IGNORECASE)
_INNER_LIST = re.compile(r"\[([^\[\]]*)\]")
_COMMA = re.compile(r"(?<=\d),(?=\d)")
_COMMA_CELL = re.compile(r"[-+−]?(?:\d+(?:,\d+)?|∞|inf)|[?…]", re.IGNORECASE)
_FRACTION_CELL = re.compile(r"[-+−]?0,\d{2,}")  # [0,1] is a vector of two numbers
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_MOST_PLACES = 6  # more are not rounded
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


def use_decimal_points(text: str) -> str:
    """Return a list with points for decimal commas, if something else separates its numbers.

    >>> use_decimal_points("[[0,71 ; 0], [1,41 ; 0,71]]"), use_decimal_points("[1,2; 3,4]")
    ('[[0.71 , 0], [1.41 , 0.71]]', '[1,2; 3,4]')
    >>> use_decimal_points("[0,71 0,29; 0,5 0,5]"), use_decimal_points("[0,71, 0,29]")
    ('[0.71 0.29; 0.5 0.5]', '[0.71, 0.29]')
    """
    lists = [inner for inner in _INNER_LIST.findall(text) if inner.strip()]
    is_nested = text.count("[") > 1
    has_commas = any(_COMMA.search(inner) for inner in lists)
    if not lists or not (has_commas or (is_nested and ";" in lists[0])):
        return text
    for separator in (r"\s*;\s*", r"\s*;\s*|(?<=\S)\s+(?=\S)", r",\s+"):
        rows = [re.split(separator, inner.strip()) for inner in lists]
        cells = [cell for row in rows for cell in row]
        if len(cells) == len(rows) or not all(_COMMA_CELL.fullmatch(cell) for cell in cells):
            continue
        is_between_rows = separator == r"\s*;\s*"
        is_plain = is_nested if is_between_rows else separator != r",\s+"
        is_plain &= is_between_rows or any(" " in inner.replace("; ", ";") for inner in lists)
        if is_plain or any(_FRACTION_CELL.fullmatch(cell) for cell in cells):
            pointed = _COMMA.sub(".", text)
            if not is_between_rows:
                return pointed
            return _INNER_LIST.sub(lambda match: match[0].replace(";", ","), pointed)
    return text


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


def pad_decimals(rows: Rows) -> Rows:
    """Return rows with the zeros that a spreadsheet drops, if most numbers have as many decimals.

    >>> pad_decimals([["0.67", "0.33"], ["0.4", "0.6"]])
    [['0.67', '0.33'], ['0.40', '0.60']]
    """
    cells = [cell for row in rows for cell in row if cell != "?"]
    if not all(_PLAIN.fullmatch(cell) for cell in cells):
        return rows
    places = [len(cell.partition(".")[2]) for cell in cells]
    most = max(places, default=0)
    if not 2 <= most <= _MOST_PLACES or places.count(most) * 2 < len(places):
        return rows

    def pad(cell: str) -> str:
        integer, _, decimals = cell.partition(".")
        return cell if cell == "?" else f"{integer}.{decimals.ljust(most, '0')}"

    return [[pad(cell) for cell in row] for row in rows]
