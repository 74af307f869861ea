"""What a character stands in: quotations, strings, comments, conditions, brackets.

A value is what holds once its character has been read, for that is what a model can know: the mark
that opens a quotation is inside of it, the one that closes it is not.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from workings.errors import UserError, did_you_mean, truncate

TextKind: TypeAlias = Literal["prose", "python", "c"]
TEXT_KINDS: tuple[TextKind, ...] = get_args(TextKind)

_SAMPLE_CHARACTERS = 50_000  # characters that are looked at to guess what kind of text it is
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
_DELIMITERS = {"/*": "*/", "//": "", "#": "", '"""': '"""', "'''": "'''", '"': '"', "'": "'"}


@dataclass(frozen=True)
class TextScan:
    """What each character of a text stands in."""

    in_quotes: Bool[np.ndarray, " characters"]
    in_comment: Bool[np.ndarray, " characters"]
    in_condition: Bool[np.ndarray, " characters"]
    bracket_depth: Int[np.ndarray, " characters"]


def detect_kind(text: str) -> TextKind:
    r"""Guess what a text is, by how its lines begin and end.

    >>> detect_kind("int f(void)\n{\n\treturn 0;\n}\n"), detect_kind("def f():\n    return 0\n")
    ('c', 'python')
    """
    text = text[:_SAMPLE_CHARACTERS]
    lines = len(_TEXT_LINE.findall(text))
    if len(_C_LINE.findall(text)) > 0.15 * lines:
        return "c"
    return "python" if len(_PYTHON_LINE.findall(text)) > 0.1 * lines else "prose"


@lru_cache(maxsize=1)  # several properties are read off one scan
def scan_text(text: str, kind: TextKind) -> TextScan:
    """Say of each character whether it is quoted, in a comment or a condition, and how deep.

    >>> "".join("+" if c else "." for c in scan_text("a = 'b' # c", "python").in_quotes)
    '....++.....'
    >>> "".join("+" if c else "." for c in scan_text("if (f(a)) b /* c */", "c").in_condition)
    '...+++++...........'
    """
    if kind == "prose":
        return _scan_prose(text)
    return _scan_code(text, _C if kind == "c" else _PYTHON)


class _BracketDepth:
    """How many brackets are open; a stray closing one counts for nothing."""

    def __init__(self, size: int) -> None:
        self.current, self._steps = 0, np.zeros(size, np.int32)

    def open(self, position: int) -> None:
        self.current += 1
        self._steps[position] += 1

    def close(self, position: int, *, close_all: bool = False) -> None:
        closed = self.current if close_all else min(self.current, 1)
        self.current -= closed
        self._steps[position] -= closed

    def to_array(self) -> Int[np.ndarray, " characters"]:
        depth: Int[np.ndarray, " characters"] = np.cumsum(self._steps)
        return depth


def _scan_prose(text: str) -> TextScan:
    """Where a paragraph ends, its quotation does: the next one would open it again."""
    quoted, none = np.zeros(len(text), bool), np.zeros(len(text), bool)
    depth, begun = _BracketDepth(len(text)), -1
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
            depth.close(place, close_all=True)
    if begun >= 0:
        quoted[begun:] = True
    return TextScan(quoted, none, none, depth.to_array())


def _scan_code(text: str, pattern: re.Pattern[str]) -> TextScan:
    """A brace that begins a line of C closes all: between `#if` and `#else`, some open twice."""
    quoted, commented, conditional = (np.zeros(len(text), bool) for _ in range(3))
    depth, begun = (
        _BracketDepth(len(text)),
        (-1, 0),
    )  # where a condition began, and in how many brackets
    for match in pattern.finditer(text):
        what, (start, end) = match.lastgroup, match.span()
        if what == "comment":
            commented[_inner_slice(match)] = True
        elif what == "string":
            quoted[_inner_slice(match)] = True
        elif what == "if" and begun[0] < 0:
            bracket = text[end - 1] == "("  # of C
            begun = (end - bracket, depth.current)
        ended = False
        if what == "open" or (what == "if" and text[end - 1] == "("):
            depth.open(end - 1)
        elif what in ("close", "reset"):
            depth.close(start, close_all=what == "reset")
            ended = depth.current <= begun[1] if pattern is _C else depth.current < begun[1]
        elif what == "then":
            ended = depth.current == (0 if text[start] == "\n" else begun[1])
        if ended and begun[0] >= 0:
            conditional[begun[0] : start] = True
            begun = (-1, 0)
    return TextScan(quoted, commented, conditional, depth.to_array())


def _inner_slice(match: re.Match[str]) -> slice:
    """From the last character of what opens it to the last but one of what closes it."""
    found = match[0]
    opening = next(mark for mark in _DELIMITERS if found.startswith(mark))
    closing = _DELIMITERS[opening]
    closed = bool(closing) and len(found) >= len(opening + closing) and found.endswith(closing)
    return slice(match.start() + len(opening) - 1, match.end() - closed)


TAB_WIDTH = 8  # columns
PATTERN_TIMEOUT = 20.0  # that a pattern may take
_INDENTED_LINE = re.compile(r"^([ \t]*)(\S?)[^\n]*\n?", re.MULTILINE)
# A search that never ends cannot be stopped but with the process that it is in.
_SEARCH_PROGRAM = """
import json, re, sys
pattern, text = json.load(sys.stdin)
group = 1 if re.compile(pattern).groups else 0
spans = [match.span(group) for match in re.finditer(pattern, text, re.MULTILINE)]
json.dump(spans, sys.stdout)
"""

CharacterValues = Bool[np.ndarray, " characters"] | Float[np.ndarray, " characters"]


@dataclass(frozen=True)
class Property:
    """Something that holds of each character of a text, or has a size there.

    `of` takes a text and gives a value for each of its characters, as it is once that character has
    been read: booleans for yes and no, numbers for a size.

    >>> vowels = Property("vowels", "a vowel", lambda text: [c in "aeiou" for c in text])
    >>> vowels.compute_values("tea")
    array([False,  True,  True])
    """

    name: str
    description: str
    """in words: where it holds, or what is counted"""
    function: Callable[[str], Sequence[Any] | np.ndarray]

    def compute_values(self, text: str) -> CharacterValues:
        """The value at each character."""
        found = np.asarray(self.function(text))
        if found.shape != (len(text),):
            raise UserError(
                f"{self.name}: expected {len(text):,} values, one for each character, "
                f"got an array of shape {found.shape}"
            )
        if found.dtype == bool:
            return found
        if found.dtype.kind not in "iuf":
            raise UserError(f"{self.name}: expected booleans or numbers, got {found.dtype}")
        numbers = found.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise UserError(f"{self.name}: a value is not finite")
        return numbers


def list_properties(kind: TextKind) -> dict[str, Property]:
    """List by name what can be asked about a kind of text.

    >>> list(list_properties("prose"))
    ['quotes', 'brackets', 'line']
    """
    always, code = True, kind != "prose"
    quotes = "inside a string" if code else "inside a quotation"
    known = {  # each with whether it makes sense in such a text
        Property("quotes", quotes, lambda text: scan_text(text, kind).in_quotes): always,
        Property(
            "comments", "inside a comment", lambda text: scan_text(text, kind).in_comment
        ): code,
        Property("if", "inside an if's condition", lambda t: scan_text(t, kind).in_condition): code,
        Property(
            "brackets", "how many brackets are open", lambda t: scan_text(t, kind).bracket_depth
        ): always,
        Property("indentation", "how far the line is indented", _compute_indentation): code,
        Property("line", "how far along the line", _compute_line_offsets): always,
    }
    return {p.name: p for p, there in known.items() if there}


def select_properties(
    text: str,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    patterns: Sequence[str] = (),
) -> list[Property]:
    """Take properties by name, and patterns written NAME=REGEX; neither: all that the text has."""
    known = list_properties(detect_kind(text) if kind is None else _check_kind(kind))
    for name in names or ():
        if name not in known:
            raise UserError(f"property {name!r}: {did_you_mean(name, known)}")
    found = [known[name] for name in dict.fromkeys(names or (() if patterns else known))]
    for given in patterns:
        name, equals, pattern = given.partition("=")
        if not (name and equals and pattern):
            raise UserError(f"pattern {truncate(given)}: expected NAME=REGEX")
        found.append(from_pattern(name, pattern))
    return found


def _check_kind(kind: str) -> TextKind:
    for known in TEXT_KINDS:
        if kind == known:
            return known
    raise UserError(f"a text as {kind!r}: {did_you_mean(kind, TEXT_KINDS)}")


def from_pattern(name: str, pattern: str, *, timeout: float = PATTERN_TIMEOUT) -> Property:
    r"""Make a property of a regular expression: yes inside of its matches, or of its first group.

    `^` and `$` stand for the beginning and end of a line.

    >>> from_pattern("numbers", r"\d+").compute_values("a 12")
    array([False, False,  True,  True])
    """
    try:
        re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UserError(f"{name}: no regular expression: {error}: {truncate(pattern)}") from None

    def inside(text: str) -> Bool[np.ndarray, " characters"]:
        found = np.zeros(len(text), bool)
        for start, end in _find_matches(name, pattern, text, timeout):
            found[start:end] = True
        return found

    return Property(name, f"inside a match of {pattern}", inside)


def _find_matches(name: str, pattern: str, text: str, timeout: float) -> list[tuple[int, int]]:
    """Search in a process of its own, which is ended when it takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a program that stands above
            [sys.executable, "-I", "-c", _SEARCH_PROGRAM],
            input=json.dumps([pattern, text]),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{name}: its pattern took longer than {timeout:g} s on {len(text):,} characters: "
            f"a simpler one, or less text: {truncate(pattern)}"
        ) from None
    if done.returncode:
        raise UserError(f"{name}: its pattern failed: {truncate(done.stderr.strip()[-200:], 200)}")
    return [(start, end) for start, end in json.loads(done.stdout)]


def _compute_line_offsets(text: str) -> Float[np.ndarray, " characters"]:
    """Count the characters since the line began; its end counts as none of the next."""
    places = np.arange(len(text))
    ends = np.where(_find_newlines(text), places, -1)
    along: Float[np.ndarray, " characters"] = (places - np.maximum.accumulate(ends)).astype(float)
    return along


def _find_newlines(text: str) -> Bool[np.ndarray, " characters"]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    newlines: Bool[np.ndarray, " characters"] = codes == ord("\n")
    return newlines


def _compute_indentation(text: str) -> Float[np.ndarray, " characters"]:
    """The columns before the line's first word; an empty line is as far in as the one before."""
    found, before = np.zeros(len(text)), 0
    for match in _INDENTED_LINE.finditer(text):
        if match[2]:
            before = len(match[1].expandtabs(TAB_WIDTH))
        found[match.start() : match.end()] = before
    return found
