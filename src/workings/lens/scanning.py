"""What a character stands in: quotations, strings, comments, conditions, brackets.

A value is what holds once its character has been read, for that is what a model can know: the mark
that opens a quotation is inside of it, the one that closes it is not.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Int

TextKind: TypeAlias = Literal["prose", "python", "c"]
KINDS: tuple[TextKind, ...] = get_args(TextKind)

_SAMPLE = 50_000  # characters that are looked at to guess what kind of text it is
_TEXT_LINE = re.compile(r"\S[^\n]*")
_C_LINE = re.compile(r"[;{}][ \t]*$", re.MULTILINE)
_PYTHON_LINE = re.compile(
    r"^[ \t]*(?:#|@\w|def \w+\(|class \w+|import \w|return\b|self\.\w"
    r"|(?:if|elif|for|while|with|else|try|except)\b[^\n]*:$)",
    re.MULTILINE,
)
_PROSE = re.compile(
    r"""(?P<begin>[“«])|(?P<finish>[”»])|(?P<turn>")
    |(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<reset>\n[ \t\r]*\n)""",
    re.VERBOSE,
)
_C = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)|//[^\n]*)
    |(?P<string>"(?:\\.|[^"\\\n])*"?)
    |'(?:\\[^\n][^'\n]{0,8}|[^'\\\n])'
    |(?P<if>(?<![\#\w])if[ \t]*\()
    |(?P<open>[(\[{])
    |(?P<reset>^\})
    |(?P<close>[)\]}])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_PYTHON = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:\"{3}|\Z)
               |'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'{3}|\Z)
               |"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    |(?P<if>\b(?:if|elif)\b)
    |(?P<then>:(?!=)|\belse\b|\n)
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])""",
    re.VERBOSE | re.DOTALL,
)
_FRAMES = {"/*": "*/", "//": "", "#": "", '"""': '"""', "'''": "'''", '"': '"', "'": "'"}


@dataclass(frozen=True)
class Scanned:
    """What each character of a text stands in."""

    quoted: Bool[np.ndarray, " characters"]
    commented: Bool[np.ndarray, " characters"]
    conditional: Bool[np.ndarray, " characters"]
    depth: Int[np.ndarray, " characters"]


def kind_of(text: str) -> TextKind:
    r"""Guess what a text is, by how its lines begin and end.

    >>> kind_of("int f(void)\n{\n\treturn 0;\n}\n"), kind_of("def f():\n    return 0\n")
    ('c', 'python')
    """
    text = text[:_SAMPLE]
    lines = len(_TEXT_LINE.findall(text))
    if len(_C_LINE.findall(text)) > 0.15 * lines:
        return "c"
    return "python" if len(_PYTHON_LINE.findall(text)) > 0.1 * lines else "prose"


@lru_cache(maxsize=1)  # several properties are read off one scan
def scanned(text: str, kind: TextKind) -> Scanned:
    """Say of each character whether it is quoted, in a comment or a condition, and how deep.

    >>> "".join("+" if c else "." for c in scanned("a = 'b' # c", "python").quoted)
    '....++.....'
    >>> "".join("+" if c else "." for c in scanned("if (f(a)) b /* c */", "c").conditional)
    '...+++++...........'
    """
    if kind == "prose":
        return _prose(text)
    return _code(text, _C if kind == "c" else _PYTHON)


class _Depth:
    """How many brackets are open; a stray closing one counts for nothing."""

    def __init__(self, size: int) -> None:
        self.now, self._steps = 0, np.zeros(size, np.int32)

    def open(self, place: int) -> None:
        self.now += 1
        self._steps[place] += 1

    def close(self, place: int, *, all_of_them: bool = False) -> None:
        closed = self.now if all_of_them else min(self.now, 1)
        self.now -= closed
        self._steps[place] -= closed

    def everywhere(self) -> Int[np.ndarray, " characters"]:
        depth: Int[np.ndarray, " characters"] = np.cumsum(self._steps)
        return depth


def _prose(text: str) -> Scanned:
    """Where a paragraph ends, its quotation does: the next one would open it again."""
    quoted, none = np.zeros(len(text), bool), np.zeros(len(text), bool)
    depth, begun = _Depth(len(text)), -1
    for match in _PROSE.finditer(text):
        what, place = match.lastgroup, match.end() - 1
        if what == "open":
            depth.open(place)
        elif what == "close":
            depth.close(place)
        elif begun >= 0 and what != "begin":
            quoted[begun:place] = True
            begun = -1
        elif begun < 0 and what in ("begin", "turn"):
            begun = place
        if what == "reset":
            depth.close(place, all_of_them=True)
    if begun >= 0:
        quoted[begun:] = True
    return Scanned(quoted, none, none, depth.everywhere())


def _code(text: str, pattern: re.Pattern[str]) -> Scanned:
    """A brace that begins a line of C closes all: between `#if` and `#else`, some open twice."""
    quoted, commented, conditional = (np.zeros(len(text), bool) for _ in range(3))
    depth, begun = _Depth(len(text)), (-1, 0)  # where a condition began, and in how many brackets
    for match in pattern.finditer(text):
        what, (start, end) = match.lastgroup, match.span()
        if what == "comment":
            commented[_inside(match)] = True
        elif what == "string":
            quoted[_inside(match)] = True
        elif what == "if" and begun[0] < 0:
            bracket = text[end - 1] == "("  # of C
            begun = (end - bracket, depth.now)
        ended = False
        if what == "open" or (what == "if" and text[end - 1] == "("):
            depth.open(end - 1)
        elif what in ("close", "reset"):
            depth.close(start, all_of_them=what == "reset")
            ended = depth.now <= begun[1] if pattern is _C else depth.now < begun[1]
        elif what == "then":
            ended = depth.now == (0 if text[start] == "\n" else begun[1])
        if ended and begun[0] >= 0:
            conditional[begun[0] : start] = True
            begun = (-1, 0)
    return Scanned(quoted, commented, conditional, depth.everywhere())


def _inside(match: re.Match[str]) -> slice:
    """From the last character of what opens it to the last but one of what closes it."""
    found = match[0]
    opening = next(mark for mark in _FRAMES if found.startswith(mark))
    closing = _FRAMES[opening]
    closed = bool(closing) and len(found) >= len(opening + closing) and found.endswith(closing)
    return slice(match.start() + len(opening) - 1, match.end() - closed)
