"""How wide text will be in a picture, before anybody knows in which font.

The widths are those of DejaVu Sans, one of the widest: what has room in it has room in others.
"""

import unicodedata

from workings.views.plain import width

_GROUPS = {
    0.3: "'ijlIJ", 0.35: " ,./:;\\|f\u00a0·", 0.4: "-()[]t!", 0.42: "r⁰¹²³⁴⁵⁶⁷⁸⁹", 0.53: '"*_`sz?⁻',
    0.58: "cLFk", 0.63: "vxyPTYaoeESbdghnpqu", 0.66: "$0123456789{}K", 0.7: "AVBRXZC",
    0.79: "UHNDG&OQ", 0.86: "w#+<=>^~M−×", 1.0: "%mW@…",
}  # fmt: skip
_EMS = {character: ems for ems, group in _GROUPS.items() for character in group}
_BOLD = 1.15


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Measure a line of text in a size, both in pixels, rather too wide than too narrow.

    >>> text_width("loss", 10) < text_width("loss", 10, bold=True) < text_width("LOSS", 12)
    True
    """
    return size * (_BOLD if bold else 1) * sum(_EMS.get(c) or _ems(c) for c in text)


def shortened(text: str, room: float, size: float, bold: bool = False) -> str:
    """Cut text down to so many pixels, with … for the rest.

    >>> shortened("a long name of a model", 60, 10)
    'a long na…'
    """
    if text_width(text, size, bold) <= room:
        return text
    room -= text_width("…", size, bold)
    kept = 0
    while kept < len(text) and (room := room - text_width(text[kept], size, bold)) >= 0:
        kept += 1
    return f"{text[:kept].rstrip()}…"


def wrapped(text: str, room: float, size: float, bold: bool = False) -> list[str]:
    """Break text at a space into two lines of so many pixels, the second one cut down to them.

    >>> wrapped("accuracy on the test reviews, by epoch", 150, 10)
    ['accuracy on the test', 'reviews, by epoch']
    """
    if text_width(text, size, bold) <= room:
        return [text]
    words, first = text.split(" "), ""
    while words and text_width(f"{first} {words[0]}", size, bold) <= room:
        first = f"{first} {words.pop(0)}".strip()
    lines = [first, " ".join(words)]
    return [shortened(line, room, size, bold) for line in lines if line]


def _ems(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.8 * width(character)
