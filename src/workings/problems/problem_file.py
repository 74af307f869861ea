"""Read and write problem files (TOML); errors name the key and the expected value."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import UserError, did_you_mean, safe_repr
from workings.io import parse_toml
from workings.plain_text import escape_control, to_one_line
from workings.problems.intervals import IntervalMatrix
from workings.problems.kind_names import read_kind
from workings.problems.kinds import Kind, Setting
from workings.problems.kinds.base import Sizes
from workings.problems.labels import read_label, split_label_text
from workings.problems.letters import TOP_LEVEL_KEYS, rename_letters
from workings.problems.numbers import MAX_SIDE, Number, read_number, transpose_rows
from workings.problems.ops import ACTIVATIONS
from workings.problems.options import parse_choice, parse_count
from workings.problems.spellings import find_choice, fold
from workings.problems.verdicts import MINUS_INFINITY_THRESHOLD, ClaimedMatrix

MAX_PROBLEM_BYTES = 2_000_000  # a page of matrices has about 2,000
_SCALAR = re.compile(r"[+\-−]?(?:[0-9][0-9.]*(?:[eE][+-]?[0-9]+|\s*/\s*[0-9]+)?|\.[0-9]+|inf|∞)")
_FILLED = re.compile(r"(?:b|gamma|beta)(?:_\w+)?|h0|c0|running_\w+")  # may be one number
_ROOT = re.compile(r"sqrt([0-9]+)")
_PART_NUMBER = re.compile(r"[1-9][0-9]{0,3}")  # of a head or a time step
_CONVENTIONS = ("vectors", "scale", "mask", "normalizer")
_CHOICES = {
    "normalizer": ("softmax", "sigmoid", "sum"),
    "activation": tuple(name for name in ACTIVATIONS if name != "none"),
    "order": ("post", "pre"),
}


@contextmanager
def prefix_errors(path: str | Path) -> Iterator[None]:
    """Prefix a UserError with the name of the file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{to_one_line(str(path))}: {error}") from None


def read_text_file(path: str | Path) -> str:
    """Read a UTF-8 text file of at most MAX_PROBLEM_BYTES."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_PROBLEM_BYTES + 1)  # a pipe has no size to check
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise UserError(f"{getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_PROBLEM_BYTES:
        raise UserError(f"larger than {MAX_PROBLEM_BYTES // 1_000_000} MB: not a problem file")
    try:
        return content.decode("utf-8").removeprefix(
            "\ufeff"
        )  # the byte order mark of Windows editors
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 text (byte {error.start})") from None


def parse_problem_toml(text: str) -> dict[str, Any]:
    """Parse TOML; floats stay strings, to keep the decimals they are written with."""
    try:
        return parse_toml(text, parse_float=lambda digits: digits.replace("_", ""))
    except UserError:
        raise
    except ValueError as error:  # TOMLDecodeError, or an integer with too many digits
        raise UserError(f"not TOML: {to_one_line(str(error)):.150}") from None


class ProblemReader:
    """Reads the values of a problem's table and rejects unknown keys."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table
        self._given = self._get_subtable("given")
        self._claim = self._get_subtable("claim")

    def _get_subtable(self, name: str) -> Mapping[str, Any]:
        value = self.table.get(name, {})
        if not isinstance(value, Mapping):
            raise UserError(f"{name} must be a table: [{name}]")
        return value

    def read_kind(self) -> Kind:
        """Read the kind of problem."""
        kind, settings = read_kind(self.table.get("kind", "attention"))
        if "kind" in self.table:
            self.table = {**self.table, "kind": kind.name}
        self.table = rename_letters(self.table, kind)
        for name, value in settings.items():
            if self._find_setting(name)[1] is None and name not in self._get_subtable("given"):
                self.table[name] = value
        given = _flatten_given(self._get_subtable("given"), kind)
        self._given = kind.rewrite_givens(given, self.table)
        self._claim = self._get_subtable("claim")
        return kind

    def read_text(self, key: str, default: str) -> str:
        """Read a string."""
        value = self.table.get(key, default)
        if not isinstance(value, str):
            raise UserError(f"{key} must be a string, not {safe_repr(value, 30)}")
        return value

    def read_choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """Read a string that must be one of the choices."""
        return parse_choice(key, self.table.get(key, default), choices)

    def read_tokens(self, key: str, count: int | None) -> list[str] | None:
        """Read the names of the tokens; there must be `count` of them."""
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(t, str) for t in value):
            raise UserError(f'{key} must be a list of strings: ["the", "cat"]')
        if count is not None and len(value) != count:
            raise UserError(f"{key} has {len(value)} names, but there are {count} tokens")
        return value

    def read_matrices(self, kind: Kind, column_vectors: bool) -> dict[str, IntervalMatrix]:
        """Read the given matrices; return them with vectors as rows."""
        self._reject_unknown_keys(kind)
        self._expand_sequences(kind, column_vectors)
        self._join_heads(kind, column_vectors)
        given = {}
        for name in kind.matrices:
            if name in self._given:
                value, is_vector = self._given[name], kind.matrices[name][0] == "1"
                if not is_vector and _is_float64_matrix(value):
                    rows = (value.T if column_vectors else value).copy()
                    given[name] = IntervalMatrix.exact(rows)
                    continue
                numbers = self.read_numbers(f"given.{name}", value, column_vectors, is_vector)
                given[name] = IntervalMatrix.exact(
                    [[_check_finite(n, f"given.{name}") for n in row] for row in numbers]
                )
        return given

    def _expand_sequences(self, kind: Kind, column_vectors: bool) -> None:
        """Write sequences as matrices: a flat list as one channel, a list of matrices stacked."""
        for name, counted_by in kind.sequences.items():
            value = _to_lists(self._given.get(name), 3)
            if not isinstance(value, list) or not value:
                continue
            depth = _count_depth(value)
            if depth == 3 and counted_by:
                count = self._find_setting(counted_by)[1]
                if count not in (None, len(value)):
                    raise UserError(
                        f"{counted_by} = {safe_repr(count, 30)}, but given.{name} has {len(value)}"
                    )
                if not all(_count_depth(part) == 2 for part in value):
                    raise UserError(f"given.{name}: expected a list of matrices")
                stacked = _stack_matrices(value, column_vectors)
                self._given = {**self._given, counted_by: len(value), name: stacked}
            elif depth == 1:
                matrix = [value] if column_vectors else [[number] for number in value]
                self._given = {**self._given, name: matrix}

    def _join_heads(self, kind: Kind, column_vectors: bool) -> None:
        """Join weights that are given for each head: `W_Q.1`, `W_Q.2`, or a list of matrices."""
        for name, axis in kind.per_head.items():
            parts = _split_heads(self._given.get(name), f"given.{name}", is_bias=name[0] == "b")
            if parts is None:
                continue
            counted_by = "heads"
            if name[2:] in ("K", "V") and len(parts) != self._find_setting("heads")[1]:
                counted_by = "kv_heads" if self._find_setting("heads")[1] is not None else "heads"
            declared = self._find_setting(counted_by)[1]
            if declared not in (None, len(parts)):
                raise UserError(
                    f"{counted_by} = {safe_repr(declared, 30)}, but given.{name} has {len(parts)}"
                )
            side_by_side = (axis == "columns") != column_vectors or name[0] == "b"
            if side_by_side and len({len(part) for part in parts}) > 1:
                raise UserError(f"given.{name}: every head must have as many rows as head 1")
            joined = (
                [[cell for row in rows for cell in row] for rows in zip(*parts, strict=True)]
                if side_by_side
                else [row for part in parts for row in part]
            )
            joined = joined[0] if name[0] == "b" else joined
            self._given = {**self._given, name: joined, counted_by: len(parts)}

    def find_scalars(self) -> frozenset[str]:
        """Return the givens that are written as a number."""
        return frozenset(
            name
            for name, value in self._given.items()
            if _is_scalar(_to_lists(value)) and _FILLED.fullmatch(name.rpartition(".")[2])
        )

    def find_flat_givens(self) -> frozenset[str]:
        """Return the givens that are written as a flat list: a row, or else a column."""
        values = {name: _to_lists(value) for name, value in self._given.items()}
        return frozenset(
            name
            for name, value in values.items()
            if isinstance(value, list) and not any(isinstance(row, list) for row in value)
        )

    def fill_vectors(self, widths: Mapping[str, int]) -> None:
        """Let a number stand for every number of a vector, as the zero of `h0 = 0`."""
        filled = {name: [self._given[name]] * width for name, width in widths.items()}
        self._given = {**self._given, **filled}

    def read_rounded(
        self, given: Mapping[str, IntervalMatrix], column_vectors: bool
    ) -> dict[str, IntervalMatrix]:
        """Return the givens that are printed rounded: each number may be a unit off."""
        names = self.table.get("rounded", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError('rounded must be a list of givens: ["Q"]')
        matrices = {}
        for name in names:
            if name not in given:
                raise UserError(f"rounded: {_safe_key(name)} is not given")
            matrix = given[name]
            claimed = ClaimedMatrix.from_numbers(
                self.read_given(name, matrix.shape, column_vectors)
            )
            unit = np.where(claimed.is_integer, 0.0, claimed.units)
            matrices[name] = replace(matrix, lo=matrix.mid - unit, hi=matrix.mid + unit)
        return matrices

    def read_given(
        self, name: str, shape: tuple[int, int], column_vectors: bool
    ) -> list[list[Number | None]]:
        """Read a given matrix as it is written, vectors as rows."""
        return self.read_matrix(f"given.{name}", self._given[name], shape, column_vectors)

    def read_setting(self, kind: Kind, column_vectors: bool, sizes: Sizes) -> Setting:
        """Read the settings, with defaults for those that are absent."""
        values: dict[str, Any] = {}
        for key in kind.settings:
            where, value = self._find_setting(key)
            if value is None:
                continue
            if key in ("heads", "count", "width"):
                values[key] = parse_count(where, value)
            elif key == "scale":
                values[key] = _parse_scale(where, value)
            elif key == "mask":
                values |= self._read_mask(where, value, column_vectors, (sizes["n"], sizes["m"]))
            elif key in _CHOICES:
                values[key] = parse_choice(where, value, _CHOICES[key])
            else:  # base, eps
                number = _check_finite(read_number(value, where), where)
                if number < 0 or (key == "base" and number == 0):
                    raise UserError(f"{where} = {safe_repr(value, 30)}: it must be positive")
                values[key] = number
        for key in ("count", "width"):
            if key in kind.settings and key not in values:
                raise UserError(f"given.{key} is missing: kind {kind.name} needs it")
        return Setting(**values, options=self._read_options(kind))

    def _read_options(self, kind: Kind) -> dict[str, Any]:
        """Read the settings that only this kind has."""
        options = {}
        for key, option in kind.options.items():
            where, value = self._find_setting(key)
            if value is None and option.is_required:
                raise UserError(f"given.{key} is missing: kind {kind.name} needs it")
            is_off = value is False or (isinstance(value, str) and value == "none")
            is_absent = value is None or (
                option.form == "choice" and option.default is None and is_off
            )
            options[key] = option.default if is_absent else option.parse(where, value)
        return options

    def find_undeclared(self, kind: Kind) -> frozenset[str]:
        """Return the conventions that the file leaves to their defaults."""
        names = [name for name in _CONVENTIONS if name == "vectors" or name in kind.settings]
        names += [name for name, option in kind.options.items() if option.alternatives]
        return frozenset(name for name in names if self._find_setting(name)[1] is None)

    def _find_setting(self, key: str) -> tuple[str, Any]:
        """Return the path and value of a setting, in [given] or at the top level."""
        if key in self._given:
            return f"given.{key}", self._given[key]
        return key, self.table.get(key)

    def _read_mask(
        self, where: str, value: Any, column_vectors: bool, shape: tuple[int, int]
    ) -> dict[str, Any]:
        if hasattr(value, "tolist"):
            value = (value * 1).tolist()  # an array or tensor; True becomes 1
        if value is False or isinstance(value, str):
            value = find_choice(value, ("none", "causal")) or value
        if value == "none":
            return {}
        if value == "causal":
            queries, keys = shape
            return {"mask": np.tril(np.ones(shape, dtype=np.bool_), keys - queries), "causal": True}
        is_text = isinstance(value, str) and not any(sign in value for sign in "\n\\[")
        if is_text or isinstance(value, bool):
            raise UserError(
                f'{where} = {safe_repr(value, 30)}: expected "none", "causal" or a 0/1 matrix'
            )
        numbers = self.read_matrix(where, value, shape, column_vectors)
        cells = np.array([[np.nan if n is None else n.value for n in row] for row in numbers])
        # A mask that is added to the scores has 0 where a query may attend, and −∞ elsewhere.
        allowed = cells == 0 if (cells <= MINUS_INFINITY_THRESHOLD).any() else cells == 1
        if not (allowed | (cells <= MINUS_INFINITY_THRESHOLD) | (cells == 0)).all():
            raise UserError(f"{where}: every cell must be 1 (may attend) or 0 (may not)")
        return {"mask": allowed}

    def read_claims(self, kind: Kind) -> dict[tuple[str, int], Any]:
        """Return the claimed values by key and reprint."""
        flat: dict[tuple[str, int], Any] = {}
        reprints = self._claim.get("again", [])
        if not isinstance(reprints, list) or not all(isinstance(t, Mapping) for t in reprints):
            raise UserError("claim.again must be a list of tables: [[claim.again]]")
        first = {name: value for name, value in self._claim.items() if name != "again"}
        for reprint, table in enumerate([first, *reprints]):
            for key, value in _flatten_claims(table, kind):
                flat[key, reprint] = value
        return flat

    def read_numbers(
        self,
        where: str,
        value: Any,
        column_vectors: bool,
        is_vector: bool = False,
        labels: tuple[str, ...] = (),
    ) -> list[list[Number | None]]:
        """Read a matrix and return it with vectors as rows.

        A number alone is a matrix with one cell, a flat list is one vector. `is_vector`: it must
        be one vector. `labels`: the cells are these words or their numbers.
        """
        value = _to_lists(value)
        if labels:
            value = _to_lists(split_label_text(value, labels, column_vectors))
        elif _is_scalar(value):
            value = [value]
        elif isinstance(value, str):
            value = _parse_matrix_text(value, where)

        def read_cell(cell: object) -> Number | None:
            return read_label(cell, where, labels) if labels else read_number(cell, where)

        if not isinstance(value, list) or not value:
            raise UserError(f"{where} must be a matrix: [[1, 0], [0, 2]]")
        if not any(isinstance(row, list) for row in value):  # a flat list is one vector
            return [[read_cell(cell) for cell in _check_side(value, where)]]
        rows = []
        for i, row in enumerate(_check_side(value, where)):
            if not isinstance(row, list) or not row:
                raise UserError(f"{where}: row {i + 1} must be a list of numbers")
            if len(row) != len(value[0]):
                raise UserError(
                    f"{where}: row {i + 1} has {len(row)} numbers, row 1 has {len(value[0])}"
                )
            rows.append([read_cell(cell) for cell in _check_side(row, where)])
        rows = transpose_rows(rows) if column_vectors else rows
        if is_vector and len(rows) > 1 and len(rows[0]) == 1:  # written in the other convention
            rows = transpose_rows(rows)
        return rows

    def read_matrix(
        self,
        where: str,
        value: Any,
        shape: tuple[int, int],
        column_vectors: bool,
        labels: tuple[str, ...] = (),
    ) -> list[list[Number | None]]:
        """Read a matrix that must have this shape, vectors as rows."""
        numbers = self.read_numbers(where, value, column_vectors, labels=labels)
        if 1 in shape and (len(numbers[0]), len(numbers)) == shape:
            return transpose_rows(numbers)  # a vector in the other convention
        if (len(numbers), len(numbers[0])) != shape:
            sides = [(len(numbers), len(numbers[0])), shape]
            actual, expected = (f"{c}×{r}" if column_vectors else f"{r}×{c}" for r, c in sides)
            raise UserError(f"{where} is {actual}; it must be {expected}")
        return numbers

    def read_first_row(self, value: Any, column_vectors: bool) -> list[Number | None]:
        """Read the first row of the claimed angles; its length is their number of columns."""
        return self.read_numbers("claim.angles", value, column_vectors)[0]

    def _reject_unknown_keys(self, kind: Kind) -> None:
        """Reject unknown keys; called first, since a misspelled key looks like a missing one."""
        settings = kind.setting_names
        top, given = (*TOP_LEVEL_KEYS, *settings), (*kind.matrices, *settings)
        for key in self.table:
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
    """Format the key of a claim as in the file: `scores.2` is head.2.scores."""
    *path, last = _safe_key(key).split(".")
    if path and last.isdecimal():
        path[-1:] = [str(kind.part_name), last, path[-1]]
        return ".".join(path)
    return ".".join([*path, last])


def remove_part_index(key: str) -> str:
    """Return the name of a step without its head or time: `scores` for `scores.2`."""
    name, _, part = key.rpartition(".")
    return name if name and part.isdecimal() else key


def set_nested(table: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """Set a value in nested tables, creating those that are missing; return the outer table.

    >>> set_nested({}, ("head", "2", "scores"), [[1]])
    {'head': {'2': {'scores': [[1]]}}}
    """
    *names, last = path
    inner = table
    for name in names:
        inner = inner.setdefault(name, {})
    inner[last] = value
    return table


def _flatten_claims(
    table: Mapping[str, Any], kind: Kind, prefix: str = ""
) -> list[tuple[str, Any]]:
    """Flatten claim tables: `head.2.scores` becomes `scores.2`, `attention.Q` stays."""
    flat: list[tuple[str, Any]] = []
    for name, value in table.items():
        where = f"claim.{prefix}{_safe_key(name)}"
        if not isinstance(value, Mapping):
            if "." in name:
                raise UserError(f"{where}: no such step: the name of a step has no dot")
            flat.append((f"{prefix}{name}", value))
        elif name in kind.prefixes and not prefix:
            flat += _flatten_claims(value, kind, f"{name}.")
        elif name == kind.part_name:
            for number, steps in value.items():
                part = str(number)  # in Python, the number may be an int
                if not _PART_NUMBER.fullmatch(part) or not isinstance(steps, Mapping):
                    raise UserError(f"{where}.{_safe_key(part)}: expected tables like [{where}.1]")
                flat += [(f"{prefix}{step}.{part}", cells) for step, cells in steps.items()]
        else:
            expected = [*kind.prefixes, *([kind.part_name] if kind.part_name else []), "again"]
            raise UserError(f"{where}: no such table: {did_you_mean(name, expected)}")
    return flat


def _safe_key(name: str) -> str:
    """Make a key of the file printable and short enough for an error."""
    return to_one_line(str(name)[:60])


def _flatten_given(given: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the givens with those of a part by their path: `self_attention.W_Q`."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        has_parts = any(matrix.startswith(f"{name}.") for matrix in kind.matrices)
        if has_parts and isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": matrix for inner, matrix in value.items()}
        else:
            flat[name] = value
    return flat


def _split_heads(value: Any, where: str, *, is_bias: bool) -> list[list[list[Any]]] | None:
    """Return the matrix of each head; None if they are given as one matrix."""
    if isinstance(value, Mapping):
        numbered = {str(number): _to_lists(part) for number, part in value.items()}
        if not numbered or sorted(numbered) != sorted(str(k + 1) for k in range(len(numbered))):
            raise UserError(f"{where}: expected one matrix per head: {where}.1, {where}.2, …")
        parts = [numbered[str(k + 1)] for k in range(len(numbered))]
        parts = [[part] if _count_depth(part) == 1 else part for part in parts]
    else:
        parts = _to_lists(value, 3)
        if is_bias or _count_depth(parts) != 3:
            return None
    for k, part in enumerate(parts, start=1):
        if _count_depth(part) != 2 or not all(isinstance(row, list) for row in part):
            raise UserError(f"{where}: head {k} must have a matrix: [[1, 0], [0, 2]]")
    return list(parts)


def _is_scalar(value: Any) -> bool:
    """Return True for a number alone, a string with one (floats of TOML are) or a blank."""
    if isinstance(value, str):
        return value.strip() == "?" or bool(_SCALAR.fullmatch(value.strip()))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parse_matrix_text(text: str, where: str) -> list[list[str]]:
    from workings.problems.documents.matrices import parse_matrix  # takes 10 ms; few files need it

    return parse_matrix(text, where)


# Decimal digits that a dtype represents exactly.
_SIGNIFICANT_DIGITS = {"float32": 6, "float16": 3, "bfloat16": 2}


def _is_float64_matrix(value: Any) -> bool:
    """Return True for a finite 2-D float64 array, which needs no cell-by-cell parsing."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != 2:
        return False
    return 0 < min(value.shape) <= max(value.shape) <= MAX_SIDE and bool(np.isfinite(value).all())


def _format_significant(value: Any, digits: int) -> Any:
    if isinstance(value, list):
        return [_format_significant(item, digits) for item in value]
    return f"{value:.{digits}g}"


def _to_lists(value: Any, depth: int = 2) -> Any:
    """Convert arrays and tuples to lists; low-precision floats become their exact digits."""
    digits = _SIGNIFICANT_DIGITS.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    value = value.tolist() if hasattr(value, "tolist") else value
    if digits is not None:
        value = _format_significant(value, digits)
    if depth and isinstance(value, list | tuple):
        return [_to_lists(item, depth - 1) for item in value]
    return value


def _count_depth(value: Any) -> int:
    """Return how many lists are nested in the first elements: 2 for a matrix."""
    depth = 0
    while isinstance(value, list) and value:
        value, depth = value[0], depth + 1
    return depth


def _stack_matrices(matrices: list[Any], column_vectors: bool) -> list[Any]:
    """Stack matrices, vectors as rows one below the other, as columns side by side."""
    if not column_vectors or len({len(matrix) for matrix in matrices}) > 1:
        return [row for matrix in matrices for row in matrix]
    if not all(isinstance(row, list) for matrix in matrices for row in matrix):
        return list(matrices[0])  # the error of its row is reported when it is read
    return [[cell for row in rows for cell in row] for rows in zip(*matrices, strict=True)]


def _check_side(value: list[Any], where: str) -> list[Any]:
    if len(value) > MAX_SIDE:
        raise UserError(f"{where}: a side of {len(value)}; at most {MAX_SIDE} are allowed")
    return value


def _check_finite(number: Number | None, where: str) -> float:
    if number is None or not np.isfinite(number.value):
        raise UserError(f"{where}: every cell must be a finite number")
    return number.value


def _parse_scale(where: str, value: Any) -> str | float:
    """Parse the `scale` of a problem: what the scores are divided by."""
    word = fold(value).casefold() if isinstance(value, str) else ""
    if word in ("sqrtdk", "1/sqrtdk"):  # this factor can only mean that √d_k divides
        return "sqrt(d_k)"
    if value is False or word in ("none", "no", "off"):
        return "none"
    root = _ROOT.fullmatch(word)
    try:
        number = _check_finite(read_number(root[1] if root else value, where), where)
    except UserError:
        number = 0.0
    if number == 0 or (root and number < 0):
        expected = '"sqrt(d_k)", "none" or a number to divide by'
        raise UserError(f"{where} = {safe_repr(value, 30)}: expected {expected}")
    return float(np.sqrt(number)) if root else number


_TOML_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?")  # as in TOML
_MAX_LINE = 88  # characters; a longer matrix has one row per line


def format_toml(table: dict[str, Any], comment: str = "") -> str:
    """Format the table of a problem as TOML; cells are numbers or strings of numbers.

    >>> print(format_toml({"kind": "rnn", "given": {"X": [[1, 0.5]]}, "claim": {"Q": [["?"]]}}))
    kind = "rnn"
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
    """Format an element of the array of tables `[[claim.again]]` with its subtables."""
    matrices = {k: v for k, v in table.items() if isinstance(v, list)}
    lines = ["", f"[[{name}]]", *_format_entries(matrices)]
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
        return f"[{', '.join(_format_scalar(item) for item in value)}]"
    return _format_scalar(value)


def _format_scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if _is_number(value) else _format_string(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _format_cell(cell: Any) -> str:
    """Format a cell; a string that is a number becomes one and keeps its decimals."""
    if _is_number(cell):
        return repr(cell)
    return str(cell) if _TOML_NUMBER.fullmatch(cell) else _format_string(cell)


def _format_string(value: str) -> str:
    """Format a TOML string with quotes, backslashes and control characters escaped."""
    chars = []
    for c in value:
        if c in '"\\':
            chars.append(f"\\{c}")
        elif ord(c) < 0x20 or ord(c) == 0x7F:
            chars.append(f"\\u{ord(c):04X}")
        else:
            chars.append(c)
    return f'"{"".join(chars)}"'
