"""Texts in the current language: `gettext("row {row}", row=2)`."""

import string
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from workings.languages.catalog import ENGLISH, Language, load_language

_current: ContextVar[Language] = ContextVar("language", default=ENGLISH)
_THIN_SPACE = "\u202f"


def get_language() -> Language:
    """Return the current language."""
    return _current.get()


@contextmanager
def use_language(code: str, *, decimal_point: bool = False) -> Iterator[Language]:
    """Make a language the current one; `decimal_point`: numbers keep the point.

    >>> with use_language("de"):
    ...     gettext("row {row}, column {column}", row=2, column=1)
    'Zeile 2, Spalte 1'
    """
    language = load_language(code)
    language = replace(language, decimal_mark=".") if decimal_point else language
    token = _current.set(language)
    try:
        yield language
    finally:
        _current.reset(token)


def gettext(text: str, /, **values: Any) -> str:
    """Return a text in the current language, with its values.

    >>> gettext("row {row}, column {column}", row=2, column=1)
    'row 2, column 1'
    """
    language = _current.get()
    translation = language.messages.get(text, text)
    assert isinstance(translation, str)
    return _format(translation, values, language)


def ngettext(one: str, other: str, count: float, /, **values: Any) -> str:
    """Return the form of a text that follows a number, which it has as {count}.

    >>> ngettext("{count} point", "{count} points", 2)
    '2 points'
    """
    language = _current.get()
    forms = language.messages.get(one, [one, other])
    return _format(forms[language.select_form(count)], {"count": count, **values}, language)


def gettext_noop(text: str) -> str:
    """Return a text as it is: it is translated where it is shown, by `gettext`."""
    return text


def lower_first(title: str) -> str:
    """Return a title as part of a sentence: without its capital, unless nouns have one anyway.

    >>> lower_first("Self-attention"), lower_first("An LSTM"), lower_first("LSTM")
    ('self-attention', 'an LSTM', 'LSTM')
    """
    is_kept = _current.get().capitalizes_nouns or title[1:2].isupper()
    return title if is_kept else title[:1].lower() + title[1:]


def localize_number(text: str) -> str:
    """Return a number with the decimal mark of the current language.

    >>> with use_language("de"):
    ...     localize_number("1,234.5")
    '1\u202f234,5'
    """
    mark = _current.get().decimal_mark
    return text if mark == "." else text.replace(",", _THIN_SPACE).replace(".", mark)


def _format(text: str, values: dict[str, Any], language: Language) -> str:
    if not values:
        return text
    return (
        text.format(**values) if language.decimal_mark == "." else _FORMATTER.format(text, **values)
    )


class _Formatter(string.Formatter):
    """Formats numbers with the decimal mark of the current language."""

    def format_field(self, value: Any, format_spec: str) -> str:
        text: str = super().format_field(value, format_spec)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return localize_number(text) if is_number else text


_FORMATTER = _Formatter()
