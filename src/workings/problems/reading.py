"""Reading the tables of a problem file, with errors that name the key and what is expected."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import UserError, near
from workings.files import parse_toml
from workings.problems.cells import Bools, Cells
from workings.problems.kinds import KINDS, Kind, Setting
from workings.problems.kinds.base import Sizes
from workings.problems.numbers import LARGEST_SIDE, Number, read_number, shown
from workings.problems.ops import ACTIVATE
from workings.views.plain import one_line

LARGEST_FILE = 2_000_000  # bytes; a thousand times a page of matrices
_PART = re.compile(r"[1-9][0-9]{0,3}")  # of a head or a time
_TOP = ("title", "kind", "vectors", "tokens", "context_tokens", "given", "claim")
_CHOICES = {
    "normalizer": ("softmax", "sigmoid", "sum"),
    "activation": tuple(name for name in ACTIVATE if name != "none"),
    "order": ("post", "pre"),
}


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Begin errors with the name of the file that they are about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{one_line(str(path))}: {error}") from None


def text_of_file(path: str | Path) -> str:
    """Read a file that a person may have written: not too large, and UTF-8."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)  # a device or a pipe has no size to ask for
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise UserError(f"{getattr(error, 'strerror', None) or error}") from None
    if len(content) > LARGEST_FILE:
        raise UserError(f"larger than {LARGEST_FILE // 1_000_000} MB: not a problem file")
    try:
        return content.decode("utf-8").removeprefix("\ufeff")  # with which Windows begins files
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 text (byte {error.start})") from None


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML; decimals stay as they are written."""
    try:
        return parse_toml(text, parse_float=lambda digits: digits.replace("_", ""))
    except UserError:
        raise
    except ValueError as error:  # a TOMLDecodeError, or an integer that Python refuses to read
        raise UserError(f"not TOML: {one_line(str(error)):.150}") from None


class Reader:
    """Takes a problem's table apart, and says what nobody asked for."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table
        self._given = self._subtable("given")
        self._claim = self._subtable("claim")

    def _subtable(self, name: str) -> Mapping[str, Any]:
        value = self._table.get(name, {})
        if not isinstance(value, Mapping):
            raise UserError(f"{name} must be a table: [{name}]")
        return value

    def kind(self) -> Kind:
        """Which kind of problem."""
        return KINDS[self.choice("kind", tuple(KINDS), default="attention")]

    def text(self, key: str, default: str) -> str:
        """Read a string."""
        value = self._table.get(key, default)
        if not isinstance(value, str):
            raise UserError(f"{key} must be text in quotes, not {shown(value)}")
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Read one of several words."""
        value = self._table.get(key, default)
        return _choice(key, value, choices)

    def tokens(self, key: str, count: int | None) -> list[str] | None:
        """Read the names of tokens, one for each."""
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(t, str) for t in value):
            raise UserError(f'{key} must be a list of words: ["the", "cat"]')
        if count is not None and len(value) != count:
            raise UserError(f"{key} names {len(value)} tokens, but there are {count}")
        return value

    def matrices(self, kind: Kind, columns: bool) -> dict[str, Cells]:
        """Read the given matrices, as rows."""
        self._refuse_unknown(kind)
        given = {}
        for name in kind.matrices:
            if name in self._given:
                value, single = self._given[name], kind.matrices[name][0] == "1"
                if not single and _is_plain(value):
                    given[name] = Cells.exact((value.T if columns else value).copy())
                    continue
                numbers = self.numbers(f"given.{name}", value, columns, single)
                given[name] = Cells.exact(
                    [[_finite(n, f"given.{name}") for n in row] for row in numbers]
                )
        return given

    def setting(self, kind: Kind, columns: bool, sizes: Sizes) -> Setting:
        """Read everything that is said beside the matrices."""
        values: dict[str, Any] = {}
        for key in kind.settings:
            where, value = self._setting(key)
            if value is None:
                continue
            if key in ("heads", "count", "width"):
                values[key] = _count(where, value)
            elif key == "scale":
                values[key] = _scale(where, value)
            elif key == "mask":
                values |= self._mask(where, value, columns, (sizes["n"], sizes["m"]))
            elif key in _CHOICES:
                values[key] = _choice(where, value, _CHOICES[key])
            else:  # base, eps
                number = _finite(read_number(value, where), where)
                if number < 0 or (key == "base" and number == 0):
                    raise UserError(f"{where} = {shown(value)}: it must be positive")
                values[key] = number
        for key in ("count", "width"):
            if key in kind.settings and key not in values:
                raise UserError(f"given.{key} is missing: kind {kind.name} needs it")
        return Setting(**values)

    def _setting(self, key: str) -> tuple[str, Any]:
        if key in self._given:
            return f"given.{key}", self._given[key]
        return key, self._table.get(key)

    def _mask(
        self, where: str, value: Any, columns: bool, shape: tuple[int, int]
    ) -> dict[str, Any]:
        if hasattr(value, "tolist"):
            value = (value * 1).tolist()  # an array; True is 1
        if value == "none":
            return {}
        if value == "causal":
            queries, keys = shape
            return {"mask": np.tril(np.ones(shape, dtype=np.bool_), keys - queries), "causal": True}
        if isinstance(value, str) and "\n" not in value and "\\" not in value and "[" not in value:
            raise UserError(f'{where} = {shown(value)}: expected "none", "causal" or a 0/1 matrix')
        numbers = self.matrix(where, value, shape, columns)
        allowed: Bools = np.zeros(shape, dtype=np.bool_)
        for i, row in enumerate(numbers):
            for j, number in enumerate(row):
                if number is None or number.value not in (0, 1):
                    raise UserError(f"{where}: a cell is 1 (may look) or 0 (may not)")
                allowed[i, j] = number.value == 1
        return {"mask": allowed}

    def claimed(self, kind: Kind) -> dict[tuple[str, int], Any]:
        """List the claimed steps, flat, by key and reprint."""
        flat: dict[tuple[str, int], Any] = {}
        reprints = self._claim.get("again", [])
        if not isinstance(reprints, list) or not all(isinstance(t, Mapping) for t in reprints):
            raise UserError("claim.again must be a list of tables: [[claim.again]]")
        first = {name: value for name, value in self._claim.items() if name != "again"}
        for again, table in enumerate([first, *reprints]):
            for key, value in _flat(table, kind):
                flat[key, again] = value
        return flat

    def numbers(
        self, where: str, value: Any, columns: bool, single: bool = False
    ) -> list[list[Number | None]]:
        """Read a matrix in the file's convention and turn it to rows; `single`: one vector."""
        value = _rows_of_text(value, where) if isinstance(value, str) else _listed(value)
        if not isinstance(value, list) or not value:
            raise UserError(f"{where} must be a matrix: [[1, 0], [0, 2]]")
        if not any(isinstance(row, list) for row in value):  # one vector, flat
            return [[read_number(cell, where) for cell in _short(value, where)]]
        rows = []
        for i, row in enumerate(_short(value, where)):
            if not isinstance(row, list) or not row:
                raise UserError(f"{where}: row {i + 1} must be a list of numbers")
            if len(row) != len(value[0]):
                raise UserError(
                    f"{where}: row {i + 1} has {len(row)} numbers, row 1 has {len(value[0])}"
                )
            rows.append([read_number(cell, where) for cell in _short(row, where)])
        turned = [list(column) for column in zip(*rows, strict=True)] if columns else rows
        if single and len(turned) > 1 and len(turned[0]) == 1:  # a vector, stood the other way
            turned = [[row[0] for row in turned]]
        return turned

    def matrix(
        self, where: str, value: Any, shape: tuple[int, int], columns: bool
    ) -> list[list[Number | None]]:
        """Read a matrix that must have this shape (as rows)."""
        numbers = self.numbers(where, value, columns)
        found = (len(numbers), len(numbers[0]))
        if found != shape and 1 in shape and found in ((1, max(shape)), (max(shape), 1)):
            flat = [cell for row in numbers for cell in row]  # a vector, written the other way
            numbers = [[cell] for cell in flat] if shape[1] == 1 else [flat]
            found = shape
        if found != shape:
            (r, c), (rows, cols) = (found[::-1], shape[::-1]) if columns else (found, shape)
            raise UserError(f"{where} is {r}×{c}; it must be {rows}×{cols}")
        return numbers

    def row_of(self, value: Any, columns: bool) -> list[Number | None]:
        """Read a matrix's first row, to see how wide it is."""
        return self.numbers("claim.angles", value, columns)[0]

    def _refuse_unknown(self, kind: Kind) -> None:
        """Refuse keys that nobody knows, before their absence elsewhere is complained of."""
        top, given = (*_TOP, *kind.settings), (*kind.matrices, *kind.settings)
        for key in self._table:
            if key in kind.matrices:
                raise UserError(f"{key} belongs in the table [given]")
            if key not in top:
                raise UserError(f"{_key(key)}: no such key: {near(key, top)}")
        for name in self._given:
            if name not in given:
                raise UserError(f"given.{_key(name)}: no such given: {near(name, given)}")


def claim_path(kind: Kind, key: str) -> str:
    """Write a claim's key as the file does: `scores.2` is head.2.scores."""
    *path, last = _key(key).split(".")
    if path and last.isdecimal():
        path[-1:] = [str(kind.parts), last, path[-1]]
        return ".".join(path)
    return ".".join([*path, last])


def _flat(table: Mapping[str, Any], kind: Kind, prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten `head.2.scores` to the key `scores.2`, `attention.Q` to itself."""
    flat: list[tuple[str, Any]] = []
    for name, value in table.items():
        where = f"claim.{prefix}{_key(name)}"
        if not isinstance(value, Mapping):
            if "." in name:
                raise UserError(f"{where}: no such step: its name has a dot in it")
            flat.append((f"{prefix}{name}", value))
        elif name in kind.prefixes and not prefix:
            flat += _flat(value, kind, f"{name}.")
        elif name == kind.parts:
            for number, steps in value.items():
                part = str(number)  # from Python, a head may be a number
                if not _PART.fullmatch(part) or not isinstance(steps, Mapping):
                    raise UserError(f"{where}.{_key(part)}: expected tables like [{where}.1]")
                flat += [(f"{prefix}{step}.{part}", cells) for step, cells in steps.items()]
        else:
            expected = [*kind.prefixes, *([kind.parts] if kind.parts else []), "again"]
            raise UserError(f"{where}: no such table: {near(name, expected)}")
    return flat


def _key(name: str) -> str:
    """Write a key of the file in an error."""
    return one_line(name[:60])


def _choice(where: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{where} = {shown(value)}: {near(word, choices)}")
    return value


def _rows_of_text(text: str, where: str) -> list[list[str]]:
    from workings.problems.matrix_text import rows_of_text  # 10 ms that few files need

    return rows_of_text(text, where)


_DIGITS = {"float32": 6, "float16": 3, "bfloat16": 2}


def _is_plain(value: Any) -> bool:
    """Say whether it is a matrix of doubles that can be taken as it is, all at once."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != 2:
        return False
    return 0 < min(value.shape) <= max(value.shape) <= LARGEST_SIDE and bool(
        np.isfinite(value).all()
    )


def _to_digits(value: Any, digits: int) -> Any:
    if isinstance(value, list):
        return [_to_digits(item, digits) for item in value]
    return f"{value:.{digits}g}"


def _listed(value: Any, depth: int = 2) -> Any:
    """Take arrays and tuples for lists; of short floats only the digits that they can hold."""
    digits = _DIGITS.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    value = value.tolist() if hasattr(value, "tolist") else value
    if digits is not None:
        value = _to_digits(value, digits)
    if depth and isinstance(value, list | tuple):
        return [_listed(item, depth - 1) for item in value]
    return value


def _short(value: list[Any], where: str) -> list[Any]:
    if len(value) > LARGEST_SIDE:
        raise UserError(f"{where}: a side of {len(value)}; at most {LARGEST_SIDE} are read")
    return value


def _finite(number: Number | None, where: str) -> float:
    if number is None or not np.isfinite(number.value):
        raise UserError(f"{where}: every cell must be a finite number")
    return number.value


def _count(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_SIDE:
        raise UserError(
            f"{where} = {shown(value)}: it must be a whole number from 1 to {LARGEST_SIDE}"
        )
    return value


def _scale(where: str, value: Any) -> str | float:
    if isinstance(value, str) and value in ("sqrt(d_k)", "none"):
        return value
    try:
        number = _finite(read_number(value, where), where)
    except UserError:
        number = 0.0
    if number == 0:
        raise UserError(
            f'{where} = {shown(value)}: expected "sqrt(d_k)", "none" or a number to divide by'
        )
    return number
