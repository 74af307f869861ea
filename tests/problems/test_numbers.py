"""Parsing of cells: values, written precision and errors."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workings.errors import UserError, safe_repr
from workings.problems.numbers import Number, read_number, transpose_rows


@pytest.mark.parametrize(
    ("cell", "value", "places"),
    [
        (3, 3.0, 0),
        (-7, -7.0, 0),
        (0.25, 0.25, 2),
        (np.float64(0.5), 0.5, 1),
        (Decimal("0.50"), 0.5, 2),
        ("0.50", 0.5, 2),
        ("0,50", 0.5, 2),
        ("-0,5", -0.5, 1),
        ("1.", 1.0, 0),
        (".5", 0.5, 1),
        ("+2", 2.0, 0),
        ("−3.5", -3.5, 1),  # a typographic minus sign
        (" 1.20 ", 1.2, 2),
        ("1/2", 0.5, None),
        ("-3 / 4", -0.75, None),
        ("-inf", -math.inf, None),
        ("−∞", -math.inf, None),
        ("inf", math.inf, None),
        ("7.9e-32", 7.9e-32, 33),
        ("1E3", 1000.0, -3),
        ("1,5e2", 150.0, -1),
        ("7.9×10^-32", 7.9e-32, 33),
        ("7.9 x 10^{-32}", 7.9e-32, 33),
        ("2*10**3", 2000.0, -3),
        ("0", 0.0, 0),
        ("0.000", 0.0, 3),
        ("-0", 0.0, 0),
        ("5e-324", 5e-324, 324),  # the smallest positive float
    ],
)
def test_read_number_returns_value_and_places(
    cell: object, value: float, places: int | None
) -> None:
    number = read_number(cell, "X")
    assert number is not None
    assert number.value == value
    assert number.places == places


def test_question_mark_is_blank() -> None:
    assert read_number("?", "X") is None
    assert read_number(" ? ", "X") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", True), ("3.0", False), ("3e0", False), ("1/2", False), ("-inf", False)],
)
def test_is_integer(text: str, expected: bool) -> None:
    number = read_number(text, "X")
    assert number is not None
    assert number.is_integer is expected


@pytest.mark.parametrize(
    "cell",
    [
        "", "nan", "NaN", "abc", "1.2.3", "1,2,3", "1 2", "--1", "1/0", "1/2/3", "0.5/2", "e5",
        "0x10", "1_000", "1e", "½", "1e5e5", "∞∞", "-", "?1", "1×10^2×10^3", "True", "1j", "\x00",
        "\ud800", True, False, None, [1], (1,), {"a": 1}, b"1", 1j, float("nan"), object(),
        np.int64(1), "1e400", "-1e400", "1e-400", "1e999999999999999999999",
        "1e-999999999999999999999", "0e-99999", "0e99999", "9" * 61, 10**100, "1" + " " * 99 + "1",
    ],
)  # fmt: skip
def test_invalid_cell_is_rejected(cell: object) -> None:
    with pytest.raises(UserError) as error:
        read_number(cell, "given.X")
    message = str(error.value)
    assert message.startswith("given.X: ")
    assert "\n" not in message
    assert len(message) < 200


def test_huge_integer_is_rejected() -> None:
    for cell in (10**5000, -(10**5000), "9" * 5000):
        with pytest.raises(UserError, match="a number has at most 60 characters"):
            read_number(cell, "X")


def test_long_run_of_spaces_is_rejected_quickly() -> None:
    with pytest.raises(UserError):
        read_number("1" + " " * 1_000_000 + "x", "X")


@given(st.decimals(-(10**9), 10**9, places=6, allow_nan=False))
def test_decimals_round_trip(number: Decimal) -> None:
    read = read_number(format(number, "f"), "X")
    assert read == Number(format(number, "f"), float(number), 6)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_round_trip(number: float) -> None:
    read = read_number(number, "X")
    assert read is not None
    assert read.value == number


@given(st.fractions(max_denominator=10**6).filter(lambda f: f.denominator != 1))
def test_fractions_round_trip(number: object) -> None:
    read = read_number(str(number), "X")
    assert read is not None
    assert read.value == float(number)  # type: ignore[arg-type]
    assert read.places is None


@given(st.text(max_size=80) | st.text("0123456789.,/e+-− ×^{}10inf∞?", max_size=30))
def test_any_text_is_number_blank_or_user_error(text: str) -> None:
    try:
        number = read_number(text, "X")
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert number is None or not math.isnan(number.value)


def test_errors_quote_any_value_briefly_on_one_line() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    for value in ("x" * 10**6, "a\nb\u2028c\x1b[31m", nested, 10**5000, "\ud800"):
        text = safe_repr(value, 30)
        assert len(text) < 250
        assert text.isprintable()
        text.encode()


def test_transpose_rows() -> None:
    assert transpose_rows([["a", "b", "c"]]) == [["a"], ["b"], ["c"]]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        transpose_rows([[1, 2], [3]])
