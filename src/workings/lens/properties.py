"""Properties of a text that a cell may track: one value a character, yes or no or a number."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from workings.errors import UserError, brief, near
from workings.lens.scanning import KINDS, TextKind, kind_of, scanned

TAB = 8  # columns
SECONDS = 20.0  # that a pattern may take
_INDENTED = re.compile(r"^([ \t]*)(\S?)[^\n]*\n?", re.MULTILINE)
# A search that never ends cannot be stopped but with the process that it is in.
_SEARCH = """
import json, re, sys
pattern, text = json.load(sys.stdin)
group = 1 if re.compile(pattern).groups else 0
spans = [match.span(group) for match in re.finditer(pattern, text, re.MULTILINE)]
json.dump(spans, sys.stdout)
"""

Values = Bool[np.ndarray, " characters"] | Float[np.ndarray, " characters"]


@dataclass(frozen=True)
class Property:
    """Something that holds of each character of a text, or has a size there.

    `of` takes a text and gives a value for each of its characters, as it is once that character has
    been read: booleans for yes and no, numbers for a size.

    >>> vowels = Property("vowels", "a vowel", lambda text: [c in "aeiou" for c in text])
    >>> vowels.values("tea")
    array([False,  True,  True])
    """

    name: str
    what: str
    """in words: where it holds, or what is counted"""
    of: Callable[[str], Sequence[Any] | np.ndarray]

    def values(self, text: str) -> Values:
        """The value at each character."""
        found = np.asarray(self.of(text))
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


def properties(kind: TextKind) -> dict[str, Property]:
    """List by name what can be asked about a kind of text.

    >>> list(properties("prose"))
    ['quotes', 'brackets', 'line']
    """
    always, code = True, kind != "prose"
    quotes = "inside a string" if code else "inside a quotation"
    known = {  # each with whether it makes sense in such a text
        Property("quotes", quotes, lambda text: scanned(text, kind).quoted): always,
        Property("comments", "inside a comment", lambda text: scanned(text, kind).commented): code,
        Property("if", "inside an if's condition", lambda t: scanned(t, kind).conditional): code,
        Property(
            "brackets", "how many brackets are open", lambda t: scanned(t, kind).depth
        ): always,
        Property("indentation", "how far the line is indented", _indentation): code,
        Property("line", "how far along the line", _place_in_line): always,
    }
    return {p.name: p for p, there in known.items() if there}


def asked_for(
    text: str,
    kind: str | None = None,
    names: Sequence[str] | None = None,
    patterns: Sequence[str] = (),
) -> list[Property]:
    """Take properties by name, and patterns written NAME=REGEX; neither: all that the text has."""
    known = properties(kind_of(text) if kind is None else _known_kind(kind))
    for name in names or ():
        if name not in known:
            raise UserError(f"property {name!r}: {near(name, known)}")
    found = [known[name] for name in dict.fromkeys(names or (() if patterns else known))]
    for given in patterns:
        name, equals, pattern = given.partition("=")
        if not (name and equals and pattern):
            raise UserError(f"pattern {brief(given)}: expected NAME=REGEX")
        found.append(from_pattern(name, pattern))
    return found


def _known_kind(kind: str) -> TextKind:
    for known in KINDS:
        if kind == known:
            return known
    raise UserError(f"a text as {kind!r}: {near(kind, KINDS)}")


def from_pattern(name: str, pattern: str, *, seconds: float = SECONDS) -> Property:
    r"""Make a property of a regular expression: yes inside of its matches, or of its first group.

    `^` and `$` stand for the beginning and end of a line.

    >>> from_pattern("numbers", r"\d+").values("a 12")
    array([False, False,  True,  True])
    """
    try:
        re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UserError(f"{name}: no regular expression: {error}: {brief(pattern)}") from None

    def inside(text: str) -> Bool[np.ndarray, " characters"]:
        found = np.zeros(len(text), bool)
        for start, end in _matches(name, pattern, text, seconds):
            found[start:end] = True
        return found

    return Property(name, f"inside a match of {pattern}", inside)


def _matches(name: str, pattern: str, text: str, seconds: float) -> list[tuple[int, int]]:
    """Search in a process of its own, which is ended when it takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - this Python, with a program that stands above
            [sys.executable, "-I", "-c", _SEARCH],
            input=json.dumps([pattern, text]),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{name}: its pattern took longer than {seconds:g} s on {len(text):,} characters: "
            f"a simpler one, or less text: {brief(pattern)}"
        ) from None
    if done.returncode:
        raise UserError(f"{name}: its pattern failed: {brief(done.stderr.strip()[-200:], 200)}")
    return [(start, end) for start, end in json.loads(done.stdout)]


def _place_in_line(text: str) -> Float[np.ndarray, " characters"]:
    """Count the characters since the line began; its end counts as none of the next."""
    places = np.arange(len(text))
    ends = np.where(_newlines(text), places, -1)
    along: Float[np.ndarray, " characters"] = (places - np.maximum.accumulate(ends)).astype(float)
    return along


def _newlines(text: str) -> Bool[np.ndarray, " characters"]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    newlines: Bool[np.ndarray, " characters"] = codes == ord("\n")
    return newlines


def _indentation(text: str) -> Float[np.ndarray, " characters"]:
    """The columns before the line's first word; an empty line is as far in as the one before."""
    found, before = np.zeros(len(text)), 0
    for match in _INDENTED.finditer(text):
        if match[2]:
            before = len(match[1].expandtabs(TAB))
        found[match.start() : match.end()] = before
    return found
