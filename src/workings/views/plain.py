"""Text from anybody, made safe for a terminal, and measured in its columns."""

import unicodedata

_KEPT = "\t\n"


def printable(text: str) -> str:
    r"""Write control characters out, so that no text can move the cursor or hide another.

    >>> printable("red \x1b[31m alert")
    'red \\x1b[31m alert'
    """
    return "".join(
        c
        if c in _KEPT or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else _escape(c)
        for c in text
    )


def one_line(text: str) -> str:
    r"""Make text printable and put it on one line.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def width(text: str) -> int:
    """Count the columns that text takes on a terminal; it has to be printable already.

    >>> width("cat"), width("猫"), width("e\u0301")
    (3, 2, 1)
    """
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def clip(text: str, columns: int, tail: int = 0) -> str:
    """Shorten text to so many columns, with … for what is left out before its last characters.

    >>> clip("attention", 6), clip("Input 12", 6, tail=2)
    ('atten…', 'Inp…12')
    """
    if width(text) <= columns:
        return text
    end = text[len(text) - tail :]
    if width(end) + 2 > columns:
        end = ""
    kept, room = "", columns - 1 - width(end)
    for c in text:
        room -= _columns(c)
        if room < 0:
            break
        kept += c
    return f"{kept}…{end}"


def left(text: str, columns: int) -> str:
    """Fill text up with spaces on its right."""
    return text + " " * (columns - width(text))


def right(text: str, columns: int) -> str:
    """Fill text up with spaces on its left."""
    return " " * (columns - width(text)) + text


def wrap(text: str, columns: int, hang: str = "") -> list[str]:
    """Break text at its spaces into lines of at most so many columns, `hang` before all but one.

    A no-break space holds words together and is printed as a space.

    >>> wrap("softmax of the scores", 12, hang="  ")
    ['softmax of', '  the scores']
    """
    lines, line = [], ""
    for word in text.split(" "):
        if line.strip() and width(line) + 1 + width(word) > columns:
            lines.append(line)
            line = hang + word
        else:
            line = f"{line} {word}" if line else word
        while width(line) > columns:  # a word longer than a line
            cut = len(clip(line, columns + 1)) - 1
            lines.append(line[:cut])
            line = hang + line[cut:]
    return [part.rstrip().replace("\u00a0", " ") for part in [*lines, line]]


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
