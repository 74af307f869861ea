"""Settings that belong to one kind of problem: their defaults and the values they accept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from workings.errors import UserError, did_you_mean, safe_repr
from workings.problems.numbers import MAX_SIDE, read_number
from workings.problems.spellings import find_choice

MAX_WORDS = 200  # of a text that is worked by hand


@dataclass(frozen=True)
class Alternative:
    """A value that is tried if an option is not declared and one of these steps is wrong.

    `min_steps`: so many wrong steps it must explain.
    """

    value: str
    description: str
    steps: tuple[str, ...]
    min_steps: int = 1


Form: TypeAlias = Literal["choice", "flag", "number", "text"]


@dataclass(frozen=True)
class Option:
    """A setting of a kind; `parse(where, value)` returns its value or raises a `UserError`.

    `form` and `choices` say how it is entered.
    """

    default: Any
    parse: Callable[[str, Any], Any]
    is_required: bool = False
    alternatives: tuple[Alternative, ...] = ()
    is_given: bool = False  # a text or number that is shown beside the given matrices
    form: Form = "text"
    choices: tuple[str, ...] = ()


def make_choice(*choices: str, default: str | None = None) -> Option:
    """Return an option that is one of several words; the first is the default."""
    return Option(
        choices[0] if default is None else default,
        lambda w, v: parse_choice(w, v, choices),
        form="choice",
        choices=choices,
    )


def make_convention(*choices: str, alternatives: tuple[Alternative, ...]) -> Option:
    """Return an option that a problem may leave open (None): the alternatives are then tried."""
    return Option(
        None,
        lambda w, v: parse_choice(w, v, choices),
        alternatives=alternatives,
        form="choice",
        choices=choices,
    )


def make_count(default: int | None, minimum: int = 1, maximum: int = MAX_SIDE) -> Option:
    """Return an option that is a whole number; without a default it may be left out (None)."""
    return Option(default, lambda w, v: parse_count(w, v, minimum, maximum), form="number")


def make_number(default: float | None, minimum: float = -np.inf, maximum: float = np.inf) -> Option:
    """Return an option that is a finite number in a range."""
    return Option(default, lambda w, v: parse_finite_number(w, v, minimum, maximum), form="number")


def make_flag(default: bool = False) -> Option:
    """Return an option that is true or false."""
    return Option(default, _parse_flag, form="flag")


def make_words(is_required: bool = True) -> Option:
    """Return an option that is a text: a string that is split at spaces, or a list of words."""
    return Option((), _parse_words, is_required, is_given=True)


def parse_choice(where: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return one of several words, which may be spelled in another usual way."""
    choice = find_choice(value, choices)
    if choice is None:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{where} = {safe_repr(value, 30)}: {did_you_mean(word, choices)}")
    return choice


def parse_count(where: str, value: Any, minimum: int = 1, maximum: int = MAX_SIDE) -> int:
    """Return a whole number within its bounds."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if not is_integer or not minimum <= value <= maximum:
        raise UserError(
            f"{where} = {safe_repr(value, 30)}: it must be a whole number"
            f" from {minimum} to {maximum}"
        )
    return int(value)


def parse_finite_number(
    where: str, value: Any, minimum: float = -np.inf, maximum: float = np.inf
) -> float:
    """Return a finite number within its bounds; it may be written as a fraction."""
    number = read_number(value, where)
    if number is None or not np.isfinite(number.value):
        raise UserError(f"{where} = {safe_repr(value, 30)}: it must be a finite number")
    if not minimum <= number.value <= maximum:
        bounds = (
            f"at least {minimum:g}" if np.isinf(maximum) else f"from {minimum:g} to {maximum:g}"
        )
        raise UserError(f"{where} = {safe_repr(value, 30)}: it must be {bounds}")
    return number.value


def _parse_words(where: str, value: Any) -> tuple[str, ...]:
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(w, str) and w for w in words):
        raise UserError(f'{where} must be a text: "the cat sat", or a list of words')
    if not 1 <= len(words) <= MAX_WORDS:
        raise UserError(f"{where} has {len(words)} words: it must have from 1 to {MAX_WORDS}")
    return tuple(words)


def _parse_flag(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{where} = {safe_repr(value, 30)}: it must be true or false")
    return value
