"""Reading the tables of a problem file, with errors that name the key and what is expected."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import UserError, did_you_mean
from workings.io import parse_toml
from workings.plain_text import escape_control, to_one_line
from workings.problems.intervals import Bools, IntervalMatrix
from workings.problems.kinds import KINDS, Kind, Setting
from workings.problems.kinds.base import Sizes
from workings.problems.numbers import MAX_SIDE, Number, quote_value, read_number
from workings.problems.ops import ACTIVATIONS

MAX_PROBLEM_BYTES = 2_000_000  # bytes; a thousand times a page of matrices
_PART_NUMBER = re.compile(r"[1-9][0-9]{0,3}")  # of a head or a time
_TOP_LEVEL_KEYS = ("title", "kind", "vectors", "tokens", "context_tokens", "given", "claim")
_CHOICES = {
    "normalizer": ("softmax", "sigmoid", "sum"),
    "activation": tuple(name for name in ACTIVATIONS if name != "none"),
    "order": ("post", "pre"),
}


@contextmanager
def prefix_errors(path: str | Path) -> Iterator[None]:
    """Begin errors with the name of the file that they are about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{to_one_line(str(path))}: {error}") from None


def read_text_file(path: str | Path) -> str:
    """Read a file that a person may have written: not too large, and UTF-8."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_PROBLEM_BYTES + 1)  # a device or a pipe has no size to ask for
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise UserError(f"{getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_PROBLEM_BYTES:
        raise UserError(f"larger than {MAX_PROBLEM_BYTES // 1_000_000} MB: not a problem file")
    try:
        return content.decode("utf-8").removeprefix("\ufeff")  # with which Windows begins files
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 text (byte {error.start})") from None


def parse_problem_toml(text: str) -> dict[str, Any]:
    """Parse TOML; decimals stay as they are written."""
    try:
        return parse_toml(text, parse_float=lambda digits: digits.replace("_", ""))
    except UserError:
        raise
    except ValueError as error:  # a TOMLDecodeError, or an integer that Python refuses to read
        raise UserError(f"not TOML: {to_one_line(str(error)):.150}") from None


class ProblemReader:
    """Takes a problem's table apart, and says what nobody asked for."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self._given = self._get_subtable("given")
        self._claim = self._get_subtable("claim")

    def _get_subtable(self, name: str) -> Mapping[str, Any]:
        value = self._table.get(name, {})
        if not isinstance(value, Mapping):
            raise UserError(f"{name} must be a table: [{name}]")
        return value

    def read_kind(self) -> Kind:
        """Which kind of problem."""
        return KINDS[self.read_choice("kind", tuple(KINDS), default="attention")]

    def read_text(self, key: str, default: str) -> str:
        """Read a string."""
        value = self._table.get(key, default)
        if not isinstance(value, str):
            raise UserError(f"{key} must be text in quotes, not {quote_value(value)}")
        return value

    def read_choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Read one of several words."""
        value = self._table.get(key, default)
        return _check_choice(key, value, choices)

    def read_tokens(self, key: str, count: int | None) -> list[str] | None:
        """Read the names of tokens, one for each."""
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(t, str) for t in value):
            raise UserError(f'{key} must be a list of words: ["the", "cat"]')
        if count is not None and len(value) != count:
            raise UserError(f"{key} names {len(value)} tokens, but there are {count}")
        return value

    def read_matrices(self, kind: Kind, column_vectors: bool) -> dict[str, IntervalMatrix]:
        """Read the given matrices, as rows."""
        self._reject_unknown_keys(kind)
        given = {}
        for name in kind.matrices:
            if name in self._given:
                value, single = self._given[name], kind.matrices[name][0] == "1"
                if not single and _is_float64_matrix(value):
                    given[name] = IntervalMatrix.exact(
                        (value.T if column_vectors else value).copy()
                    )
                    continue
                numbers = self.read_numbers(f"given.{name}", value, column_vectors, single)
                given[name] = IntervalMatrix.exact(
                    [[_check_finite(n, f"given.{name}") for n in row] for row in numbers]
                )
        return given

    def read_setting(self, kind: Kind, column_vectors: bool, sizes: Sizes) -> Setting:
        """Read everything that is said beside the matrices."""
        values: dict[str, Any] = {}
        for key in kind.settings:
            where, value = self._find_setting(key)
            if value is None:
                continue
            if key in ("heads", "count", "width"):
                values[key] = _check_count(where, value)
            elif key == "scale":
                values[key] = _parse_scale(where, value)
            elif key == "mask":
                values |= self._read_mask(where, value, column_vectors, (sizes["n"], sizes["m"]))
            elif key in _CHOICES:
                values[key] = _check_choice(where, value, _CHOICES[key])
            else:  # base, eps
                number = _check_finite(read_number(value, where), where)
                if number < 0 or (key == "base" and number == 0):
                    raise UserError(f"{where} = {quote_value(value)}: it must be positive")
                values[key] = number
        for key in ("count", "width"):
            if key in kind.settings and key not in values:
                raise UserError(f"given.{key} is missing: kind {kind.name} needs it")
        return Setting(**values)

    def _find_setting(self, key: str) -> tuple[str, Any]:
        if key in self._given:
            return f"given.{key}", self._given[key]
        return key, self._table.get(key)

    def _read_mask(
        self, where: str, value: Any, column_vectors: bool, shape: tuple[int, int]
    ) -> dict[str, Any]:
        if hasattr(value, "tolist"):
            value = (value * 1).tolist()  # an array; True is 1
        if value == "none":
            return {}
        if value == "causal":
            queries, keys = shape
            return {"mask": np.tril(np.ones(shape, dtype=np.bool_), keys - queries), "causal": True}
        if isinstance(value, str) and "\n" not in value and "\\" not in value and "[" not in value:
            raise UserError(
                f'{where} = {quote_value(value)}: expected "none", "causal" or a 0/1 matrix'
            )
        numbers = self.read_matrix(where, value, shape, column_vectors)
        allowed: Bools = np.zeros(shape, dtype=np.bool_)
        for i, row in enumerate(numbers):
            for j, number in enumerate(row):
                if number is None or number.value not in (0, 1):
                    raise UserError(f"{where}: a cell is 1 (may look) or 0 (may not)")
                allowed[i, j] = number.value == 1
        return {"mask": allowed}

    def read_claims(self, kind: Kind) -> dict[tuple[str, int], Any]:
        """List the claimed steps, flat, by key and reprint."""
        flat: dict[tuple[str, int], Any] = {}
        reprints = self._claim.get("again", [])
        if not isinstance(reprints, list) or not all(isinstance(t, Mapping) for t in reprints):
            raise UserError("claim.again must be a list of tables: [[claim.again]]")
        first = {name: value for name, value in self._claim.items() if name != "again"}
        for again, table in enumerate([first, *reprints]):
            for key, value in _flatten_claims(table, kind):
                flat[key, again] = value
        return flat

    def read_numbers(
        self, where: str, value: Any, column_vectors: bool, is_vector: bool = False
    ) -> list[list[Number | None]]:
        """Read a matrix in the file's convention and turn it to rows; `single`: one vector."""
        value = _parse_matrix_text(value, where) if isinstance(value, str) else _to_lists(value)
        if not isinstance(value, list) or not value:
            raise UserError(f"{where} must be a matrix: [[1, 0], [0, 2]]")
        if not any(isinstance(row, list) for row in value):  # one vector, flat
            return [[read_number(cell, where) for cell in _check_side(value, where)]]
        rows = []
        for i, row in enumerate(_check_side(value, where)):
            if not isinstance(row, list) or not row:
                raise UserError(f"{where}: row {i + 1} must be a list of numbers")
            if len(row) != len(value[0]):
                raise UserError(
                    f"{where}: row {i + 1} has {len(row)} numbers, row 1 has {len(value[0])}"
                )
            rows.append([read_number(cell, where) for cell in _check_side(row, where)])
        turned = [list(column) for column in zip(*rows, strict=True)] if column_vectors else rows
        if is_vector and len(turned) > 1 and len(turned[0]) == 1:  # a vector, stood the other way
            turned = [[row[0] for row in turned]]
        return turned

    def read_matrix(
        self, where: str, value: Any, shape: tuple[int, int], column_vectors: bool
    ) -> list[list[Number | None]]:
        """Read a matrix that must have this shape (as rows)."""
        numbers = self.read_numbers(where, value, column_vectors)
        found = (len(numbers), len(numbers[0]))
        if found != shape and 1 in shape and found in ((1, max(shape)), (max(shape), 1)):
            flat = [cell for row in numbers for cell in row]  # a vector, written the other way
            numbers = [[cell] for cell in flat] if shape[1] == 1 else [flat]
            found = shape
        if found != shape:
            (r, c), (rows, cols) = (found[::-1], shape[::-1]) if column_vectors else (found, shape)
            raise UserError(f"{where} is {r}×{c}; it must be {rows}×{cols}")
        return numbers

    def read_first_row(self, value: Any, column_vectors: bool) -> list[Number | None]:
        """Read a matrix's first row, to see how wide it is."""
        return self.read_numbers("claim.angles", value, column_vectors)[0]

    def _reject_unknown_keys(self, kind: Kind) -> None:
        """Refuse keys that nobody knows, before their absence elsewhere is complained of."""
        top, given = (*_TOP_LEVEL_KEYS, *kind.settings), (*kind.matrices, *kind.settings)
        for key in self._table:
            if key in kind.matrices:
                raise UserError(f"{key} belongs in the table [given]")
            if key not in top:
                raise UserError(f"{_safe_key(key)}: no such key: {did_you_mean(key, top)}")
        for name in self._given:
            if name not in given:
                raise UserError(
                    f"given.{_safe_key(name)}: no such given: {did_you_mean(name, given)}"
                )


def format_claim_path(kind: Kind, key: str) -> str:
    """Write a claim's key as the file does: `scores.2` is head.2.scores."""
    *path, last = _safe_key(key).split(".")
    if path and last.isdecimal():
        path[-1:] = [str(kind.part_name), last, path[-1]]
        return ".".join(path)
    return ".".join([*path, last])


def _flatten_claims(
    table: Mapping[str, Any], kind: Kind, prefix: str = ""
) -> list[tuple[str, Any]]:
    """Flatten `head.2.scores` to the key `scores.2`, `attention.Q` to itself."""
    flat: list[tuple[str, Any]] = []
    for name, value in table.items():
        where = f"claim.{prefix}{_safe_key(name)}"
        if not isinstance(value, Mapping):
            if "." in name:
                raise UserError(f"{where}: no such step: its name has a dot in it")
            flat.append((f"{prefix}{name}", value))
        elif name in kind.prefixes and not prefix:
            flat += _flatten_claims(value, kind, f"{name}.")
        elif name == kind.part_name:
            for number, steps in value.items():
                part = str(number)  # from Python, a head may be a number
                if not _PART_NUMBER.fullmatch(part) or not isinstance(steps, Mapping):
                    raise UserError(f"{where}.{_safe_key(part)}: expected tables like [{where}.1]")
                flat += [(f"{prefix}{step}.{part}", cells) for step, cells in steps.items()]
        else:
            expected = [*kind.prefixes, *([kind.part_name] if kind.part_name else []), "again"]
            raise UserError(f"{where}: no such table: {did_you_mean(name, expected)}")
    return flat


def _safe_key(name: str) -> str:
    """Write a key of the file in an error."""
    return to_one_line(name[:60])


def _check_choice(where: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{where} = {quote_value(value)}: {did_you_mean(word, choices)}")
    return value


def _parse_matrix_text(text: str, where: str) -> list[list[str]]:
    from workings.problems.documents.matrices import parse_matrix

    return parse_matrix(text, where)


_SIGNIFICANT_DIGITS = {"float32": 6, "float16": 3, "bfloat16": 2}


def _is_float64_matrix(value: Any) -> bool:
    """Say whether it is a matrix of doubles that can be taken as it is, all at once."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != 2:
        return False
    return 0 < min(value.shape) <= max(value.shape) <= MAX_SIDE and bool(np.isfinite(value).all())


def _format_significant(value: Any, digits: int) -> Any:
    if isinstance(value, list):
        return [_format_significant(item, digits) for item in value]
    return f"{value:.{digits}g}"


def _to_lists(value: Any, depth: int = 2) -> Any:
    """Take arrays and tuples for lists; of short floats only the digits that they can hold."""
    digits = _SIGNIFICANT_DIGITS.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    value = value.tolist() if hasattr(value, "tolist") else value
    if digits is not None:
        value = _format_significant(value, digits)
    if depth and isinstance(value, list | tuple):
        return [_to_lists(item, depth - 1) for item in value]
    return value


def _check_side(value: list[Any], where: str) -> list[Any]:
    if len(value) > MAX_SIDE:
        raise UserError(f"{where}: a side of {len(value)}; at most {MAX_SIDE} are read")
    return value


def _check_finite(number: Number | None, where: str) -> float:
    if number is None or not np.isfinite(number.value):
        raise UserError(f"{where}: every cell must be a finite number")
    return number.value


def _check_count(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_SIDE:
        raise UserError(
            f"{where} = {quote_value(value)}: it must be a whole number from 1 to {MAX_SIDE}"
        )
    return value


def _parse_scale(where: str, value: Any) -> str | float:
    if isinstance(value, str) and value in ("sqrt(d_k)", "none"):
        return value
    try:
        number = _check_finite(read_number(value, where), where)
    except UserError:
        number = 0.0
    if number == 0:
        raise UserError(
            f'{where} = {quote_value(value)}: expected "sqrt(d_k)", "none" or a number to divide by'
        )
    return number


_TOML_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?")  # as TOML writes them
_MAX_LINE = 88  # characters; a longer matrix has a line a row


def format_toml(table: dict[str, Any], comment: str = "") -> str:
    """Write a problem's table; cells are numbers, or strings that hold one.

    >>> print(format_toml({"kind": "attention", "given": {"X": [[1, 0.5]]}, "claim": {"Q": [["?"]]}}))
    kind = "attention"
    <BLANKLINE>
    [given]
    X = [[1, 0.5]]
    <BLANKLINE>
    [claim]
    Q = [["?"]]
    <BLANKLINE>
    """
    lines = [f"# {escape_control(line)}" for line in comment.splitlines()]
    lines += [""] if lines else []
    lines += _format_entries({k: v for k, v in table.items() if not isinstance(v, dict)})
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _format_section(name, value)
    return "\n".join(lines) + "\n"


def _format_section(name: str, table: dict[str, Any]) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, dict) and k != "again"}
    lines = ["", f"[{name}]", *_format_entries(plain)] if plain or not table else []
    for inner, value in table.items():
        if isinstance(value, dict):
            lines += _format_section(f"{name}.{inner}", value)
    for reprint in table.get("again", []):
        lines += _format_reprint(f"{name}.again", reprint)
    return lines


def _format_reprint(name: str, table: dict[str, Any]) -> list[str]:
    """Write one of several tables of a name, `[[claim.again]]`, with the tables inside it."""
    lines = [
        "",
        f"[[{name}]]",
        *_format_entries({k: v for k, v in table.items() if isinstance(v, list)}),
    ]
    for inner, value in table.items():
        if isinstance(value, dict):
            lines += _format_section(f"{name}.{inner}", value)
    return lines


def _format_entries(table: dict[str, Any]) -> list[str]:
    width = max((len(name) for name in table), default=0)
    return [f"{name:<{width}} = {_format_value(value, width + 3)}" for name, value in table.items()]


def _format_value(value: Any, indent: int) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        rows = [f"[{', '.join(_format_cell(cell) for cell in row)}]" for row in value]
        one_line = f"[{', '.join(rows)}]"
        if len(one_line) <= _MAX_LINE - indent and len(rows) <= 2:
            return one_line
        return "[" + f",\n{' ' * (indent + 1)}".join(rows) + "]"
    if isinstance(value, list):
        return f"[{', '.join(_format_cell(cell) if _is_number(cell) else _format_string(cell) for cell in value)}]"
    return _format_cell(value) if _is_number(value) else _format_string(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _format_cell(cell: Any) -> str:
    """Write a cell; a number that was written with its decimals keeps them."""
    if _is_number(cell):
        return repr(cell)
    return cell if _TOML_NUMBER.fullmatch(cell) else _format_string(cell)


def _format_string(value: str) -> str:
    """Write a string of TOML: quotes, backslashes and control characters escaped."""
    written = []
    for c in value:
        if c in '"\\':
            written.append(f"\\{c}")
        elif ord(c) < 0x20 or ord(c) == 0x7F:
            written.append(f"\\u{ord(c):04X}")
        else:
            written.append(c)
    return f'"{"".join(written)}"'
