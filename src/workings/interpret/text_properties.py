"""Properties of each character of a text: in a quotation, in a comment, bracket depth, …

The value at a character is the one after reading it, since that is what a model can know: an
opening quotation mark is inside the quotation, the closing one is not.
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

_SAMPLE_CHARACTERS = 50_000  # from which the kind of a text is detected
_TEXT_LINE = re.compile(r"\S[^\n]*")
_C_LINE = re.compile(r"[;{}][ \t]*$", re.MULTILINE)
_PYTHON_LINE = re.compile(
    r"^[ \t]*(?:#|@\w|def \w+\(|class \w+|import \w|return\b|self\.\w"
    r"|(?:if|elif|for|while|with|else|try|except)\b[^\n]*:$)",
    re.MULTILINE,
)
_PROSE = re.compile(
    r"""(?P<open_quote>[“«])|(?P<close_quote>[”»])|(?P<plain_quote>")
    |(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<paragraph>\n[ \t\r]*\n)""",
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
    """The syntactic context of each character of a text."""

    in_quotes: Bool[np.ndarray, " characters"]
    in_comment: Bool[np.ndarray, " characters"]
    in_condition: Bool[np.ndarray, " characters"]
    bracket_depth: Int[np.ndarray, " characters"]


def detect_kind(text: str) -> TextKind:
    r"""Detect the kind of a text from the beginnings and ends of its lines.

    >>> detect_kind("int f(void)\n{\n\treturn 0;\n}\n"), detect_kind("def f():\n    return 0\n")
    ('c', 'python')
    """
    text = text[:_SAMPLE_CHARACTERS]
    lines = len(_TEXT_LINE.findall(text))
    if len(_C_LINE.findall(text)) > 0.15 * lines:
        return "c"
    return "python" if len(_PYTHON_LINE.findall(text)) > 0.1 * lines else "prose"


@lru_cache(maxsize=1)  # several properties use the same scan
def scan_text(text: str, kind: TextKind) -> TextScan:
    """Return for each character whether it is quoted, commented or in a condition, and its depth.

    >>> "".join("+" if c else "." for c in scan_text("a = 'b' # c", "python").in_quotes)
    '....++.....'
    >>> "".join("+" if c else "." for c in scan_text("if (f(a)) b /* c */", "c").in_condition)
    '...+++++...........'
    """
    if kind == "prose":
        return _scan_prose(text)
    return _scan_code(text, _C if kind == "c" else _PYTHON)


class _BracketDepth:
    """A count of the open brackets; an unmatched closing bracket is ignored."""

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
    """Scan prose. A quotation ends with its paragraph: the next paragraph would reopen it."""
    quoted, none = np.zeros(len(text), bool), np.zeros(len(text), bool)
    depth, quote_start = _BracketDepth(len(text)), -1
    for match in _PROSE.finditer(text):
        kind, position = match.lastgroup, match.end() - 1
        if kind == "open":
            depth.open(position)
        elif kind == "close":
            depth.close(position)
        elif quote_start >= 0 and kind != "open_quote":
            quoted[quote_start:position] = True
            quote_start = -1
        elif quote_start < 0 and kind in ("open_quote", "plain_quote"):
            quote_start = position
        if kind == "paragraph":
            depth.close(position, close_all=True)
    if quote_start >= 0:
        quoted[quote_start:] = True
    return TextScan(quoted, none, none, depth.to_array())


def _scan_code(text: str, pattern: re.Pattern[str]) -> TextScan:
    """Scan source code.

    A closing brace at the start of a C line resets the depth to 0, since braces in both branches of
    `#if` and `#else` would count twice.
    """
    quoted, commented, conditional = (np.zeros(len(text), bool) for _ in range(3))
    depth = _BracketDepth(len(text))
    condition_start, condition_depth = -1, 0
    for match in pattern.finditer(text):
        kind, (start, end) = match.lastgroup, match.span()
        if kind == "comment":
            commented[_inner_slice(match)] = True
        elif kind == "string":
            quoted[_inner_slice(match)] = True
        elif kind == "if" and condition_start < 0:
            has_bracket = text[end - 1] == "("  # in C
            condition_start, condition_depth = end - has_bracket, depth.current
        is_end = False
        if kind == "open" or (kind == "if" and text[end - 1] == "("):
            depth.open(end - 1)
        elif kind in ("close", "reset"):
            depth.close(start, close_all=kind == "reset")
            is_end = depth.current < condition_depth + (pattern is _C)
        elif kind == "then":
            is_end = depth.current == (0 if text[start] == "\n" else condition_depth)
        if is_end and condition_start >= 0:
            conditional[condition_start:start] = True
            condition_start, condition_depth = -1, 0
    return TextScan(quoted, commented, conditional, depth.to_array())


def _inner_slice(match: re.Match[str]) -> slice:
    """Return the slice from the last opening character to the one before the last closing."""
    matched = match[0]
    opening = next(mark for mark in _DELIMITERS if matched.startswith(mark))
    closing = _DELIMITERS[opening]
    has_room = len(matched) >= len(opening + closing)
    is_closed = bool(closing) and has_room and matched.endswith(closing)
    return slice(match.start() + len(opening) - 1, match.end() - is_closed)


TAB_WIDTH = 8  # columns
PATTERN_TIMEOUT = 20.0  # seconds
_INDENTED_LINE = re.compile(r"^([ \t]*)(\S?)[^\n]*\n?", re.MULTILINE)
# A regular expression that does not terminate can be stopped only by ending its process.
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
    """A boolean or a number for each character of a text.

    `function` takes a text and returns one value per character: the value after reading it.

    >>> vowels = Property("vowels", "a vowel", lambda text: [c in "aeiou" for c in text])
    >>> vowels.compute_values("tea")
    array([False,  True,  True])
    """

    name: str
    description: str
    """where it holds, or what is counted"""
    function: Callable[[str], Sequence[Any] | np.ndarray]

    def compute_values(self, text: str) -> CharacterValues:
        """Return the value at each character."""
        values = np.asarray(self.function(text))
        if values.shape != (len(text),):
            raise UserError(
                f"{self.name}: expected {len(text):,} values, one per character, "
                f"got an array of shape {values.shape}"
            )
        if values.dtype == bool:
            return values
        if values.dtype.kind not in "iuf":
            raise UserError(f"{self.name}: expected booleans or numbers, got {values.dtype}")
        numbers = values.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise UserError(f"{self.name}: a value is NaN or infinite")
        return numbers


def list_properties(kind: TextKind) -> dict[str, Property]:
    """Return the properties of a kind of text by name.

    >>> list(list_properties("prose"))
    ['quotes', 'brackets', 'line']
    """
    is_code = kind != "prose"
    quotes = "inside a string" if is_code else "inside a quotation"
    properties = [Property("quotes", quotes, lambda t: scan_text(t, kind).in_quotes)]
    if is_code:
        properties += [
            Property("comments", "inside a comment", lambda t: scan_text(t, kind).in_comment),
            Property("if", "inside an if's condition", lambda t: scan_text(t, kind).in_condition),
        ]
    properties.append(
        Property("brackets", "number of open brackets", lambda t: scan_text(t, kind).bracket_depth)
    )
    if is_code:
        properties.append(Property("indentation", "indentation of the line", _compute_indentation))
    properties.append(Property("line", "position in the line", _compute_line_offsets))
    return {prop.name: prop for prop in properties}


def select_properties(
    text: str,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    patterns: Sequence[str] = (),
) -> list[Property]:
    """Return properties by name and from patterns NAME=REGEX; all of the kind if none is given."""
    known = list_properties(detect_kind(text) if kind is None else _check_kind(kind))
    for name in names or ():
        if name not in known:
            raise UserError(f"property {name!r}: {did_you_mean(name, known)}")
    selected = [known[name] for name in dict.fromkeys(names or (() if patterns else known))]
    for argument in patterns:
        name, equals, pattern = argument.partition("=")
        if not (name and equals and pattern):
            raise UserError(f"pattern {truncate(argument)}: expected NAME=REGEX")
        selected.append(from_pattern(name, pattern))
    return selected


def _check_kind(kind: str) -> TextKind:
    for known in TEXT_KINDS:
        if kind == known:
            return known
    raise UserError(f"kind of text {kind!r}: {did_you_mean(kind, TEXT_KINDS)}")


def from_pattern(name: str, pattern: str, *, timeout: float = PATTERN_TIMEOUT) -> Property:
    r"""Build a property that holds inside the matches of a regular expression, or its first group.

    `^` and `$` match at the beginning and end of a line.

    >>> from_pattern("numbers", r"\d+").compute_values("a 12")
    array([False, False,  True,  True])
    """
    try:
        re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UserError(
            f"{name}: invalid regular expression: {error}: {truncate(pattern)}"
        ) from None

    def is_matched(text: str) -> Bool[np.ndarray, " characters"]:
        matched = np.zeros(len(text), bool)
        for start, end in _find_matches(name, pattern, text, timeout):
            matched[start:end] = True
        return matched

    return Property(name, f"inside a match of {pattern}", is_matched)


def _find_matches(name: str, pattern: str, text: str, timeout: float) -> list[tuple[int, int]]:
    """Search in a subprocess, which is ended after `timeout` seconds."""
    try:
        process = subprocess.run(  # noqa: S603 - this Python, with the program above
            [sys.executable, "-I", "-c", _SEARCH_PROGRAM],
            input=json.dumps([pattern, text]),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{name}: the pattern took more than {timeout:g} s on {len(text):,} characters; use a "
            f"simpler one or less text: {truncate(pattern)}"
        ) from None
    if process.returncode:
        message = truncate(process.stderr.strip()[-200:], 200)
        raise UserError(f"{name}: the pattern failed: {message}")
    return [(start, end) for start, end in json.loads(process.stdout)]


def _compute_line_offsets(text: str) -> Float[np.ndarray, " characters"]:
    """Return the number of characters since the line began; a newline has 0."""
    positions = np.arange(len(text))
    last_newlines = np.maximum.accumulate(np.where(_find_newlines(text), positions, -1))
    offsets: Float[np.ndarray, " characters"] = (positions - last_newlines).astype(float)
    return offsets


def _find_newlines(text: str) -> Bool[np.ndarray, " characters"]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    newlines: Bool[np.ndarray, " characters"] = codes == ord("\n")
    return newlines


def _compute_indentation(text: str) -> Float[np.ndarray, " characters"]:
    """Return the columns before the line's first word; an empty line has those of the last one."""
    indentation, columns = np.zeros(len(text)), 0
    for match in _INDENTED_LINE.finditer(text):
        if match[2]:
            columns = len(match[1].expandtabs(TAB_WIDTH))
        indentation[match.start() : match.end()] = columns
    return indentation
