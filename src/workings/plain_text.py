"""Plain text: made valid, escaped and measured for a terminal; its width, ANSI styles, panels."""

import os
import re
import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

MIN_COLUMNS = 24  # narrower terminals are treated as this wide
BARS = "▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_ANSI_CODE = re.compile(r"\x1b\[[\d;]*m")
_STYLES = {
    "strong": "1", "dim": "2", "masked": "2", "blank": "2", "wrong": "31", "first": "1;7;31",
    "follows": "33", "rounded": "36", "right verdict": "32",
}  # fmt: skip
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
    if text.isprintable():
        return text
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
    r"""Make a token's whitespace visible; one that only completes a character is shown as ….

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


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


# -- drawing on a terminal -------------------------------------------------------------------------


def output_columns(width: int | None = None) -> int:
    """Return the columns to write in: `width`, or those of this terminal (80 without one)."""
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    return max(columns, MIN_COLUMNS)


@dataclass(frozen=True)
class AnsiStyler:
    """Adds ANSI styles to text, or leaves it plain."""

    color: bool = False

    def __call__(self, text: str, style: str) -> str:
        if not self.color or style not in _STYLES or not text.strip():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def visible_width(line: str) -> int:
    """Count the columns of a line, ANSI codes excluded.

    >>> visible_width(AnsiStyler(color=True)("cat", "strong"))
    3
    """
    return display_width(_ANSI_CODE.sub("", line))


def rgb_code(color: str) -> str:
    """Return the red, green and blue of `#rrggbb` as in an ANSI code.

    >>> rgb_code("#ff8000")
    '255;128;0'
    """
    return ";".join(str(int(color[k : k + 2], 16)) for k in (1, 3, 5))


def has_true_color() -> bool:
    """Return True if the terminal reports more than 256 colors."""
    return os.environ.get("COLORTERM") in ("truecolor", "24bit")


def shade_blocks(fractions: Sequence[float], cell_width: int = 2) -> str:
    """Draw fractions (0 to 1) as shaded cells; two characters are about square.

    >>> shade_blocks([0, 0.5, 1])
    '  ▒▒██'
    """
    return "".join(cell_width * _SHADES[round((len(_SHADES) - 1) * f)] for f in fractions)


def half_blocks(rows: Sequence[Sequence[str]]) -> list[str]:
    """Draw two rows of pixels per line: the upper one as ▀, the lower one as its background.

    A pixel is the end of its ANSI color code: `2;red;green;blue` or `5;number`.
    """
    lines = []
    for k in range(0, len(rows), 2):
        upper = rows[k]
        lower = [f"48;{code}" for code in rows[k + 1]] if k + 1 < len(rows) else ["49"] * len(upper)
        cells = (f"\x1b[38;{code};{below}m▀" for code, below in zip(upper, lower, strict=True))
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def join_panels(
    panels: Sequence[Sequence[str]],
    panel_width: int,
    row_names: Sequence[str] = (),
    margin: int = 0,
) -> list[str]:
    """Join panels of lines side by side, each padded to a width, with row names in the margin."""
    lines = []
    for name, *parts in zip_longest(row_names, *panels, fillvalue=""):
        padded = [part + " " * (panel_width - visible_width(part)) for part in parts]
        prefix = name + " " * (margin - visible_width(name))
        lines.append((prefix + "  ".join(padded)).rstrip(" "))
    return lines
