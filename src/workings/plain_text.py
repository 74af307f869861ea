"""Text from outside: made valid, escaped for a terminal and measured in terminal columns."""

import re
import unicodedata

_ALLOWED_CONTROLS = "\t\n"
# A str may hold unpaired surrogates, which UTF-8 cannot encode: from JSON escapes such as "\ud800",
# and from command lines and file names that are not valid UTF-8.
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


def escape_control(text: str) -> str:
    r"""Escape control characters, so that a text cannot move the cursor or hide other text.

    >>> escape_control("red \x1b[31m alert")
    'red \\x1b[31m alert'
    """
    return "".join(
        c
        if c in _ALLOWED_CONTROLS or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else _escape_character(c)
        for c in text
    )


def to_one_line(text: str) -> str:
    r"""Escape control characters, line breaks and tabs, so that a text fits on one line.

    >>> to_one_line("a\nb")
    'a\\nb'
    """
    return escape_control(text).replace("\n", "\\n").replace("\t", "\\t")


def show_whitespace(token: str) -> str:
    r"""Write a token so that its spaces are seen; one that only ends a letter begun before, as …

    >>> show_whitespace(" cat"), show_whitespace("\n"), show_whitespace("")
    ('␣cat', '⏎', '…')
    """
    return to_one_line(token.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")) or "…"


def display_width(text: str) -> int:
    """Return the number of terminal columns of a text without control characters.

    >>> display_width("cat"), display_width("猫"), display_width("e\u0301")
    (3, 2, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_character_width(c) for c in text)


def truncate_to_columns(text: str, columns: int, tail: int = 0) -> str:
    """Shorten text to at most `columns`, with … in place of the rest before its last `tail`.

    >>> truncate_to_columns("attention", 6), truncate_to_columns("Input 12", 6, tail=2)
    ('atten…', 'Inp…12')
    """
    if display_width(text) <= columns:
        return text
    end = text[len(text) - tail :]
    if display_width(end) + 2 > columns:
        end = ""
    start, remaining = "", columns - 1 - display_width(end)
    for c in text:
        remaining -= _character_width(c)
        if remaining < 0:
            break
        start += c
    return f"{start}…{end}"


def pad_right(text: str, columns: int) -> str:
    """Pad text with spaces on the right to `columns`."""
    return text + " " * (columns - display_width(text))


def pad_left(text: str, columns: int) -> str:
    """Pad text with spaces on the left to `columns`."""
    return " " * (columns - display_width(text)) + text


def wrap_to_columns(text: str, columns: int, subsequent_indent: str = "") -> list[str]:
    """Wrap text at spaces into lines of at most `columns`.

    Lines after the first begin with `subsequent_indent`. A no-break space joins words and is
    printed as a space.

    >>> wrap_to_columns("softmax of the scores", 12, subsequent_indent="  ")
    ['softmax of', '  the scores']
    """
    lines, line = [], ""
    for word in text.split(" "):
        if line.strip() and display_width(line) + 1 + display_width(word) > columns:
            lines.append(line)
            line = subsequent_indent + word
        else:
            line = f"{line} {word}" if line else word
        while display_width(line) > columns:  # a word longer than a line
            cut = len(truncate_to_columns(line, columns + 1)) - 1
            lines.append(line[:cut])
            line = subsequent_indent + line[cut:]
    return [part.rstrip().replace("\u00a0", " ") for part in [*lines, line]]


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
