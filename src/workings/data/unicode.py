r"""Unpaired surrogates: code points that a str may hold, but that UTF-8 cannot encode.

They come from JSON escapes such as "\ud800", and from command lines and file names that are not
valid UTF-8.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def find_surrogate(text: str) -> str | None:
    r"""Return the first unpaired surrogate as an escape, or None if the text is valid.

    >>> find_surrogate("a\ud800"), find_surrogate("naïve 🙂")
    ('\\ud800', None)
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"\\u{ord(text[error.start]):04x}"
    return None


def replace_surrogates(text: str) -> str:
    r"""Replace unpaired surrogates by U+FFFD, the replacement character.

    >>> replace_surrogates("a\ud800")
    'a�'
    """
    return text if find_surrogate(text) is None else _SURROGATE.sub("\ufffd", text)
