"""Read the text of one cell: numbers, percentages, powers of ten, constants such as e/(e+1)."""

import math
import re
from decimal import Decimal
from functools import lru_cache

from workings.errors import UserError
from workings.problems.documents import latex
from workings.problems.documents.sources.plain import to_plain
from workings.problems.numbers import read_number

_APPROX = re.compile(r"^\s*(?:≈|~|=|ca\.|approx\.?)\s*")
_FRACTION = re.compile(r"([+-]?)\s?\(?(\d{1,9})\)?\s?/\s?\(?(\d{1,9})\)?")
_PERCENT = re.compile(r"([+-]?\d+(?:[.,]\d+)?)\s*%")
_POWER = re.compile(
    r"([+-]?)\s*(?:(\d+(?:[.,]\d+)?)\s*[×x*·⋅]\s*)?10\s*\^\s*\{?\s*([+-]?\s*\d+)\s*\}?", re.ASCII
)
_ARITHMETIC = re.compile(r"[\d.,\s()+*×·-]+")  # 1·4 + 2·2: how a number is worked out
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[a-zA-Zπ]+|[-+*/^()√×·]")
_CONSTANTS = {"e": math.e, "pi": math.pi, "π": math.pi}
_FUNCTIONS = {"exp": math.exp, "sqrt": math.sqrt, "√": math.sqrt, "tanh": math.tanh}
_MAX_CHARS = 200


@lru_cache(8192)
def read_cell(text: str) -> str | None:
    """Return the cell as `read_number` takes it, "?" for a blank; None if it is not a number.

    >>> [read_cell(cell) for cell in ("0,5", "12 %", "7.3×10^-1", "1/√(2)", "…", "love")]
    ['0,5', '0.12', '7.3e-1', '0.707106781187', '?', None]
    """
    text = text.strip()
    if len(text) > _MAX_CHARS * 3:
        return None
    if "\\" in text or "$" in text or "*" in text:
        text = to_plain(text).replace("\v", " ").strip()
    text = _APPROX.sub("", text.strip("*_` ")).replace("−", "-").replace("–", "-")
    cleaned = latex.clean_cell(text)
    if cleaned == "?" or is_number(cleaned):
        return cleaned
    if match := _FRACTION.fullmatch(text):
        sign, numerator, denominator = match.groups()
        return f"{sign}{numerator}/{denominator}" if int(denominator) else None
    if match := _PERCENT.fullmatch(text):
        return str(Decimal(match[1].replace(",", ".")).scaleb(-2))
    if match := _POWER.fullmatch(text):
        sign, factor, exponent = match.groups()
        number = f"{sign}{(factor or '1').replace(',', '.')}e{exponent.replace(' ', '')}"
        return number if is_number(number) else None
    spaced = re.sub(r"^([+-])\s+(?=[\d.])", r"\1", text)
    if spaced != text and is_number(spaced):
        return spaced
    value = evaluate_constant(text)
    return None if value is None else f"{value:.12g}"


def is_arithmetic(text: str) -> bool:
    """Return True for sums and products of numbers, which show how a cell is worked out."""
    text = to_plain(text).replace("\v", " ").strip()
    return bool(_ARITHMETIC.fullmatch(text)) and bool(re.search(r"\d\s*[-+*×·]\s*[(\d]", text))


@lru_cache(8192)
def is_number(text: str) -> bool:
    """Return True if `read_number` takes the text."""
    try:
        read_number(text, "")
    except UserError:
        return False
    return True


def evaluate_constant(text: str) -> float | None:
    """Return the value of an expression of constants with e, π, a root or a fraction."""
    plain = text.replace(",", ".")
    if len(plain) > _MAX_CHARS or not re.search(r"[/√^πe]|sqrt|exp", plain):
        return None
    tokens = _TOKEN.findall(plain)
    if "".join(tokens) != "".join(plain.split()) or len(tokens) > 60:
        return None
    parser = _ConstantParser(tokens)
    try:
        value = parser.parse_sum()
    except (ValueError, ZeroDivisionError, OverflowError, IndexError, RecursionError):
        return None
    is_whole = parser.position == len(tokens) and isinstance(value, float) and math.isfinite(value)
    return value if is_whole else None


class _ConstantParser:
    """Evaluates sums, products, powers, roots and exponentials of constants."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.position = tokens, 0

    def _peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def _take(self) -> str:
        self.position += 1
        return self.tokens[self.position - 1]

    def parse_sum(self) -> float:
        """Return the value of a sum."""
        total = self._parse_product()
        while self._peek() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            total += sign * self._parse_product()
        return total

    def _parse_product(self) -> float:
        value = self._parse_power()
        while (symbol := self._peek()) and symbol not in "+-)":
            if symbol in "*×·":
                self._take()
                value *= self._parse_power()
            elif symbol == "/":
                self._take()
                value /= self._parse_power()
            else:
                value *= self._parse_power()
        return value

    def _parse_power(self) -> float:
        if self._peek() == "-":
            self._take()
            return -self._parse_power()
        base = self._parse_atom()
        if self._peek() == "^":
            self._take()
            exponent = self._parse_power()
            if abs(exponent) > 400:
                raise ValueError
            return float(base**exponent)
        return base

    def _parse_atom(self) -> float:
        symbol = self._take()
        if symbol == "(":
            value = self.parse_sum()
            if self._take() != ")":
                raise ValueError
            return value
        if symbol in _FUNCTIONS:
            return _FUNCTIONS[symbol](self._parse_power())
        if symbol in _CONSTANTS:
            return _CONSTANTS[symbol]
        return float(symbol)
