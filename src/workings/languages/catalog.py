"""The file of each language: its name, its numbers and plurals, its LaTeX and its messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from workings.errors import UserError, did_you_mean

SOURCE_LANGUAGE = "en"
_LATEX = r"""\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
"""
# How many forms a noun has after a number: which one is used.
_PLURAL_RULES: dict[str, Callable[[float], int]] = {
    "one": lambda _: 0,  # Chinese, Vietnamese
    "one, other": lambda count: int(count != 1),  # English, German
    "zero and one, other": lambda count: int(count > 1),  # French
}
NUM_FORMS = {"one": 1, "one, other": 2, "zero and one, other": 2}


@dataclass(frozen=True)
class Language:
    """A language: `messages` are by the English text, several forms in a list.

    `latex` is the part of the preamble that chooses fonts, `is_unicode_latex` tells that letters
    are written as they are, for XeLaTeX and LuaLaTeX. `page` has the texts of the page's scripts.
    """

    code: str = SOURCE_LANGUAGE
    name: str = "English"
    decimal_mark: str = "."
    plural: str = "one, other"
    capitalizes_nouns: bool = False
    latex: str = _LATEX
    is_unicode_latex: bool = False
    messages: Mapping[str, str | list[str]] = field(default_factory=dict)
    page: Mapping[str, str] = field(default_factory=dict)

    def select_form(self, count: float) -> int:
        """Return which form of a noun follows a number."""
        return _PLURAL_RULES[self.plural](count)


ENGLISH = Language()


@cache
def list_languages() -> dict[str, str]:
    """Return the name of each language by its code.

    >>> list_languages()["de"]
    'Deutsch'
    """
    codes = sorted(
        file.name.removesuffix(".toml")
        for file in files("workings.languages").iterdir()
        if file.name.endswith(".toml")
    )
    return {SOURCE_LANGUAGE: ENGLISH.name, **{code: load_language(code).name for code in codes}}


@cache
def load_language(code: str) -> Language:
    """Read the file of a language; English has none.

    >>> load_language("fr").decimal_mark
    ','
    """
    if code == SOURCE_LANGUAGE:
        return ENGLISH
    file = files("workings.languages") / f"{code}.toml"
    if not code.isalpha() or not file.is_file():
        raise UserError(f"--language {code!r:.20}: {did_you_mean(code, list_languages())}")
    import tomllib  # only where a language is chosen

    table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    messages, page = table["messages"], table.get("page", {})
    return Language(code=code, messages=messages, page=page, **table["language"])
