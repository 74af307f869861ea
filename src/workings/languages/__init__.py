"""The language of texts for people who learn: sheets, sentences, feedback, the page.

The English text is the key of its translation. Each other language is one file, `de.toml`.
Names of mistakes and steps, keys, options and errors of the program stay English.
"""

from workings.languages.catalog import SOURCE_LANGUAGE, Language, list_languages, load_language
from workings.languages.messages import (
    get_language,
    gettext,
    gettext_noop,
    localize_number,
    lower_first,
    ngettext,
    use_language,
)

__all__ = [
    "SOURCE_LANGUAGE",
    "Language",
    "get_language",
    "gettext",
    "gettext_noop",
    "list_languages",
    "load_language",
    "localize_number",
    "lower_first",
    "ngettext",
    "use_language",
]
