"""Read the text of an answer file as students write it: encodings, quotes, minus signs, bad lines.

A TOML file that does not parse is read entry by entry: what can be read counts, and the rest is
reported with its line.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from workings.errors import UserError, truncate
from workings.plain_text import to_one_line
from workings.problems.documents.matrices import parse_matrix
from workings.problems.problem_file import parse_problem_toml, set_nested

_LOOKALIKES = {
    **dict.fromkeys("“”„‟″«»", '"'),
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("−–—‒﹣", "-"),
    **dict.fromkeys("\u00a0\u2007\u2009\u202f\u3000", " "),
    **dict.fromkeys("\u200b\u200e\u200f\ufeff", ""),
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # full width
}
# A matrix as Word's equation editor writes it in a line: ■(1&2@3&4).
_LINEAR_MATRIX = re.compile(r"[\[(|]?[ \t]*■\(([^()]*)\)[ \t]*[\])|]?")
_TRANSLATION = str.maketrans(_LOOKALIKES)
_HEADER = re.compile(r"\[\s*([^\[\]=,]+?)\s*\]?")  # the last bracket may be forgotten
_ENTRY = re.compile(r"([A-Za-z_][\w.\- ]*?|\"[^\"]+\")\s*(?:=|:(?=\s*[\[\"]))\s*(.*)", re.DOTALL)
_TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*|[\[\],\n]|[^\[\],\"'#\n]+")
_TOML_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass
class FileAnswers:
    """The answers of one file: a table per problem, and what could not be read."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


def decode_text(content: bytes) -> str:
    """Decode a text file: UTF-8, UTF-16 or UTF-32, or else Windows-1252.

    >>> decode_text("a = −1".encode("utf-16"))
    'a = −1'
    """
    if content.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return content.decode("utf-32", errors="replace")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace")
    if b"\x00" in content:
        return _decode_wide(content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")


def _decode_wide(content: bytes) -> str:
    """Decode UTF-16 or UTF-32 without a byte order mark: most characters are ASCII."""
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        text = content.decode(encoding, errors="replace")
        if sum(" " <= char <= "~" or char in "\r\n\t" for char in text) > 0.5 * len(text):
            return text
    raise UserError("not a text file")


def normalize_text(text: str) -> str:
    """Replace characters that word processors and keyboards put for quotes, minus and digits.

    >>> normalize_text("“−1，5”")
    '"-1,5"'
    """
    text = _LINEAR_MATRIX.sub(_list_rows, text)
    return text.translate(_TRANSLATION).replace("\r\n", "\n").replace("\r", "\n")


def _list_rows(match: re.Match[str]) -> str:
    rows = (", ".join(row.split("&")) for row in match[1].split("@"))
    return "[" + ", ".join(f"[{row}]" for row in rows) + "]"


def parse_answer_toml(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse TOML; return the table and, of the entries that cannot be read, lines and reasons."""
    try:
        return parse_problem_toml(text), []
    except UserError:
        return _parse_entries(text)


def _parse_entries(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse each entry of a TOML file by itself."""
    table: dict[str, Any] = {}
    errors = []
    section: tuple[str, ...] = ()
    for line, entry in _split_entries(text):
        header = _HEADER.fullmatch(entry)
        if header is not None and not _is_row(header[1]):
            section = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            continue
        match = _ENTRY.fullmatch(entry)
        try:
            if match is None:
                raise UserError(f"{truncate(entry, 30)!r}: expected NAME = [[1, 0], [0, 2]]")
            path = tuple(part.strip().strip("\"'") for part in match[1].split("."))
            value = parse_value(match[2])
            set_nested(table, (*section, *path), value)
        except (UserError, TypeError, AttributeError) as error:
            name = "" if match is None else f"{to_one_line(match[1])}: "
            reason = error if isinstance(error, UserError) else "used as a table and as a value"
            errors.append(f"line {line}: {name}{reason}")
    return table, errors


def _is_row(text: str) -> bool:
    return bool(re.fullmatch(r"[-+.\d\s,?\"']*", text))


def _split_entries(text: str) -> Iterator[tuple[int, str]]:
    """Yield the entries with their line numbers; a new name ends an entry with open brackets."""
    pending, start, depth = "", 0, 0
    for number, line in enumerate(text.split("\n"), start=1):
        content = _strip_comment(line).strip()
        if not content:
            continue
        begins = not pending or depth <= 0 or re.match(r"[A-Za-z_\"][\w.\-\" ]*?\s*=", content)
        begins = begins or re.fullmatch(r"\[[A-Za-z][\w.\- ]*\]", content)
        if begins:
            if pending:
                yield start, pending
            pending, start, depth = content, number, 0
        else:
            pending += "\n" + content
        depth += content.count("[") - content.count("]")
    if pending:
        yield start, pending


def _strip_comment(line: str) -> str:
    """Remove a comment; a # inside quotes is none."""
    parts = [t for t in _TOKEN.findall(line) if not t.startswith("#")]
    return "".join(parts)


def parse_value(text: str) -> Any:
    """Parse the value of an entry: TOML with cells that lack their quotes, or another matrix.

    >>> parse_value("[[1, ?], [-∞, .5]]")
    [[1, '?'], ['-∞', '.5']]
    """
    quoted = quote_cells(text)
    missing = quoted.count("[") - quoted.count("]")
    try:
        return parse_problem_toml(f"x = {quoted}")["x"]
    except UserError as error:
        if missing:
            raise UserError(
                f"{abs(missing)} bracket{'s' * (abs(missing) > 1)} too "
                f"{'few' if missing > 0 else 'many'} at the end"
            ) from None
        try:
            return parse_matrix(text, "the value")
        except UserError:
            raise UserError(str(error)) from None


def quote_cells(text: str) -> str:
    """Put quotes around cells of a matrix that are not numbers: `?`, `-∞`, `1/2`, `.5`.

    An empty cell is blank.
    """
    pieces: list[str] = []
    previous = ""
    for token in _TOKEN.findall(text):
        content = token.strip()
        if not content:
            pieces.append(token)
            continue
        if content in (",", "]") and previous == ",":
            # A comma may end a row; between two commas is an empty cell.
            pieces.append('"?"' if content == "," else "")
        elif content == "," and previous == "[":
            pieces.append('"?"')
        is_bare = content[0] not in "[],\"'#" and not _TOML_NUMBER.fullmatch(content)
        is_word = content in ("true", "false")
        pieces.append(f'"{content}"' if is_bare and not is_word else token)
        previous = content
    return "".join(pieces)
