"""Configuration: dataclasses that are read from TOML and overridden on the command line.

The docstring under a field is its help. An unknown key is an error that suggests the closest known
one; a value of the wrong type is an error that names the right type.
"""

import ast
import inspect
import math
import textwrap
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from workings.errors import UserError, closest_match, did_you_mean, safe_repr, truncate
from workings.io import parse_toml, read_limited

T = TypeVar("T")
MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class Field:
    """A configuration key as `--help` lists it: its name, type, default and help."""

    key: str
    kind: str
    default: object
    help: str


Sizes: TypeAlias = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A section that has several classes: the key `kind` selects one of them, `size` its defaults.

    A field whose type is a union of variants is built as the variant whose `kind` is in the table,
    or as the first one of the union if the table has no `kind`.
    """

    kind: ClassVar[str]
    sizes: ClassVar[Sizes] = {}

    def to_table(self) -> dict[str, Any]:
        """Return the table that this was built from; all settings, if it was made in Python."""
        table: dict[str, Any] | None = vars(self).get("_table")
        return {"kind": self.kind, **(self.full_table() if table is None else table)}

    def full_table(self) -> dict[str, Any]:
        """Return all settings as a table, without `kind` and `size`."""
        return _fields_to_table(self)

    def settings(self) -> dict[str, Any]:
        """Return all settings as keyword arguments."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


V = TypeVar("V", bound=Variant)


_VARIANTS: dict[tuple[Any, ...], dict[str, Any]] = {}


def variants(union: Any) -> dict[str, Any]:
    """Return the classes of a variant or a union of them by their kind.

    It is the same dictionary each time: plug-ins add kinds to it.
    """
    classes = get_args(union) or (union,)
    return _VARIANTS.setdefault(classes, {variant.kind: variant for variant in classes})


def build_variant(kinds: Mapping[str, type[V]], table: Any, where: str) -> V:
    """Build the variant that a table selects by `kind` and `size`."""
    for variant in kinds.values():
        if isinstance(table, variant):
            return table
    if not isinstance(table, Mapping):
        raise UserError(f"{where} must be a table: [{where}]")
    kind = check_choice(f"{where}.kind", table.get("kind", next(iter(kinds))), kinds)
    variant, size = kinds[kind], table.get("size")
    if size is not None and not variant.sizes:
        raise UserError(f"{where}.size: {kind} has no sizes to choose from")
    if size is not None:
        check_choice(f"{where}.size", size, variant.sizes)
    stated = {key: value for key, value in table.items() if key not in ("kind", "size")}
    defaults = variant.sizes[size] if size is not None else {}
    config = build(variant, {**defaults, **stated}, f"{where}.")
    plain = {key: _to_plain(value) for key, value in table.items() if key != "kind"}
    object.__setattr__(config, "_table", plain)
    return config


@dataclass(frozen=True)
class Range:
    """Bounds of whole numbers, declared with a field's type: `Annotated[int, Range(1, 1000)]`."""

    low: int
    high: int

    def check(self, name: str, value: int) -> None:
        """Raise a UserError if a value is out of bounds."""
        if not self.low <= value <= self.high:
            raise UserError(
                f"{name} = {safe_repr(value)}: "
                f"expected a whole number from {self.low} to {self.high:,}"
            )


@dataclass(frozen=True)
class BelowOne:
    """Bounds of a fraction that may be 0 but not 1: `Annotated[float, BelowOne()]`."""

    def check(self, name: str, value: float) -> None:
        """Raise a UserError if a value is out of bounds."""
        if not 0 <= value < 1:
            raise UserError(f"{name} = {value}: expected 0 to below 1")


def check_bounds(config: Any) -> None:
    """Check the numbers of a configuration against the bounds that its fields declare.

    A list must not be empty if its numbers have bounds.
    """
    for name, bound in _declared_bounds(type(config)).items():
        value = getattr(config, name)
        if value == ():
            raise UserError(f"{name} = []: expected at least one number")
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None:
                bound.check(name, number)


def _declared_bounds(cls: type) -> dict[str, Range | BelowOne]:
    hints = get_type_hints(cls, include_extras=True)
    bounds = {f.name: _find_bound(hints[f.name]) for f in fields(cls)}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _find_bound(kind: Any) -> Range | BelowOne | None:
    """Return the bounds of a type, or of the type that it is a tuple or an option of."""
    candidates = (*getattr(kind, "__metadata__", ()), *map(_find_bound, get_args(kind)))
    return next((c for c in candidates if isinstance(c, Range | BelowOne)), None)


def check_choice(key: str, value: object, choices: Iterable[str]) -> str:
    """Return a value that must be one of several names; else suggest the nearest one."""
    if not isinstance(value, str) or value not in choices:
        word = value if isinstance(value, str) else ""
        raise UserError(f"{key} = {safe_repr(value)}: {did_you_mean(word, choices)}")
    return value


def load_table(path: str | Path) -> dict[str, Any]:
    """Read a TOML file."""
    path = Path(path)
    with path.open("rb") as file:
        raw = read_limited(file, MAX_FILE_BYTES, path)
    try:
        return parse_toml(raw.decode("utf-8").removeprefix("\ufeff"))
    except ValueError as error:  # invalid TOML or UTF-8, or a number that Python refuses to parse
        raise UserError(f"{path}: not TOML: {truncate(str(error), 150)}") from None


def build(cls: type[T], table: Mapping[str, Any], where: str = "") -> T:
    """Build a configuration dataclass from a table; `where` prefixes the keys in errors.

    >>> @dataclass(frozen=True)
    ... class Toy:
    ...     epochs: int = 3
    >>> build(Toy, {"epochs": 5})
    Toy(epochs=5)
    >>> build(Toy, {"epoch": 5})
    Traceback (most recent call last):
    workings.errors.UserError: epoch: no such key: did you mean 'epochs'?
    """
    hints = get_type_hints(cls)
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            raise UserError(f"{where}{truncate(key)}: no such key: {did_you_mean(key, known)}")
    values = {key: _convert(hints[key], value, f"{where}{key}") for key, value in table.items()}
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise UserError(f"{where}{name} is missing")
    try:
        return cls(**values)
    except UserError as error:
        raise UserError(f"{where}{error}") from None


def _convert(kind: Any, value: Any, where: str) -> Any:
    """Check a value against a field's type, and convert it where TOML has another type."""
    if _is_variant(kind):
        return build_variant(variants(kind), value, where)
    if is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise UserError(f"{where} must be a table: [{where}]")
        return build(kind, value, f"{where}.")
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, where)
    if origin is Literal:
        if value not in arguments:
            word = value if isinstance(value, str) else ""
            raise UserError(
                f"{where} = {safe_repr(value)}: {did_you_mean(word, [str(a) for a in arguments])}"
            )
        return value
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_convert(arguments[0], item, where) for item in items)
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise UserError(f"{where} must be a table: [{where}]")
        return dict(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = _as_float(value)
    if kind is float and isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where} = {value}: it must be a finite number")
    if isinstance(value, kind) and not (kind in (int, float) and isinstance(value, bool)):
        return value
    name = _TYPE_NAMES.get(kind, str(kind))
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        name = f'text, in quotes: "{safe_repr(value)}"'
    raise UserError(f"{where} = {safe_repr(value)}: it must be {name}")


def _is_variant(kind: Any) -> bool:
    """Return True if a type is a variant or a union of them."""
    options = get_args(kind) or (kind,)
    return all(isinstance(option, type) and issubclass(option, Variant) for option in options)


def _convert_union(kinds: Sequence[Any], value: Any, where: str) -> Any:
    """Convert to the first type that fits; the text "none" is None, which TOML does not have."""
    options = [kind for kind in kinds if kind is not type(None)]
    if value is None or (value == "none" and type(None) in kinds and str not in options):
        return None
    errors = []
    for option in options:
        try:
            return _convert(option, value, where)
        except UserError as error:
            errors.append(error)
    raise errors[0]


def _as_float(number: int) -> float:
    """Convert to float; an int too large for it becomes infinity, which is refused later."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def override(
    table: Mapping[str, Any], arguments: Sequence[str], known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a table with command-line overrides: `--train.epochs 3` or `--train.epochs=3`.

    `known` maps every key to its type: then unknown keys are refused, and a value of a text key
    stays text even if it looks like a number (`--data.source 1`).

    >>> override({"train": {"epochs": 1, "batch_size": 8}}, ["--train.epochs", "3"])
    {'train': {'epochs': 3, 'batch_size': 8}}
    """
    changed = _copy_table(table)
    rest = list(arguments)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--") or len(flag) < 3:
            raise UserError(f"{flag!r}: expected --section.key VALUE")
        key, equals, text = flag[2:].partition("=")
        if any("\ud800" <= letter <= "\udfff" for word in (flag, *rest[:1]) for letter in word):
            raise UserError(f"--{truncate(key)}: not UTF-8")
        if known is not None and key not in known:
            raise UserError(f"--{truncate(key)}: no such key: {_suggest_key(key, known)}")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise UserError(f"{flag} needs a value: {flag} VALUE")
            text = rest.pop(0)
        *sections, name = key.split(".")
        target = changed
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise UserError(f"{flag}: {section} is not a section")
        value = _parse_value(text)
        is_text = known is not None and known[key] is str
        target[name] = text if is_text and not isinstance(value, str) else value
    return changed


def _suggest_key(key: str, known: Mapping[str, Any]) -> str:
    """Return a hint for an unknown key: the closest one, or one of this name in a section."""
    by_name = {k.rpartition(".")[2]: k for k in known}
    close = closest_match(key, known) or by_name.get(key.rpartition(".")[2])
    usage = "expected --section.key VALUE with a key that workings train --help lists"
    return f"did you mean --{close} VALUE?" if close else usage


def _copy_table(table: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copy_table(v) if isinstance(v, Mapping) else v for k, v in table.items()}


def _parse_value(text: str) -> Any:
    """Parse a value as TOML, or return the text itself if it is not TOML."""
    if "\n" in text or "#" in text.split('"')[0]:  # TOML would drop the rest as a comment
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, ValueError, RecursionError):
        return text


def key_types(cls: type, prefix: str = "") -> dict[str, Any]:
    """Return the type of every key of a configuration and its sections, by its dotted name."""
    kinds: dict[str, Any] = {}
    hints = get_type_hints(cls)
    for field in fields(cls):
        key, kind = f"{prefix}{field.name}", hints[field.name]
        kinds[key] = kind
        if _is_variant(kind):
            kinds |= {f"{key}.kind": str, f"{key}.size": str}
            for variant in variants(kind).values():
                kinds |= key_types(variant, f"{key}.")
        elif is_dataclass(kind) and isinstance(kind, type):
            kinds |= key_types(kind, f"{key}.")
    return kinds


def describe(cls: type, prefix: str = "") -> Iterator[Field]:
    """Yield every key of a configuration and its sections, with type, default and help."""
    helps, hints = _field_docstrings(cls), get_type_hints(cls)
    for field in fields(cls):
        kind, key = hints[field.name], f"{prefix}{field.name}"
        if is_dataclass(kind) and isinstance(kind, type) and not _is_variant(kind):
            yield from describe(kind, f"{key}.")
            continue
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        if isinstance(default, Variant):
            default = default.kind
        yield Field(
            key,
            _type_name(kind),
            None if default is MISSING else default,
            helps[field.name],
        )


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(str(a) for a in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " | ".join(map(_type_name, get_args(kind))).replace("NoneType", "None")
    return getattr(kind, "__name__", str(kind).replace("typing.", ""))


def _field_docstrings(cls: type) -> dict[str, str]:
    """Return the docstring under each field, of this class and its bases."""
    helps = {f.name: "" for f in fields(cls)}
    for base in reversed(cls.__mro__[:-1]):
        if not is_dataclass(base):
            continue
        try:
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except OSError:  # typed into an interpreter: there is no file to read
            continue
        assert isinstance(node, ast.ClassDef)
        for field, docstring in pairwise(node.body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(docstring, ast.Expr)
                and isinstance(docstring.value, ast.Constant)
            ):
                helps[field.target.id] = inspect.cleandoc(str(docstring.value.value))
    return helps


def to_table(config: Any) -> dict[str, Any]:
    """Return a configuration as the table that `build` reads; None becomes "none"."""
    return config.to_table() if isinstance(config, Variant) else _fields_to_table(config)


def _fields_to_table(config: Any) -> dict[str, Any]:
    return {field.name: _to_plain(getattr(config, field.name)) for field in fields(config)}


def _to_plain(value: Any) -> Any:
    """Return a value as TOML has it: sections as tables, tuples as lists, None as "none"."""
    if is_dataclass(value):
        return to_table(value)
    if value is None:  # TOML has no null, and a missing key would mean the default
        return "none"
    return list(value) if isinstance(value, tuple) else value


def to_toml(table: Mapping[str, Any], section: str = "") -> str:
    """Format a table of plain values as TOML: values first, then sections."""
    lines = [
        f"{_toml_key(key)} = {toml_value(value)}"
        for key, value in table.items()
        if not isinstance(value, Mapping)
    ]
    parts = ["\n".join(lines)] if lines else []
    for key, value in table.items():
        if isinstance(value, Mapping):  # an empty section is written as well
            name = f"{section}{_toml_key(key)}"
            parts.append(f"[{name}]\n{to_toml(value, f'{name}.')}".rstrip())
    return "\n\n".join(parts) + ("\n" if not section else "")


def _toml_key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else toml_value(key)


def toml_value(value: Any) -> str:
    """Format a plain value as TOML.

    >>> print(toml_value(True), toml_value("none"), toml_value([1, 2.5]))
    true "none" [1, 2.5]
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(v) for v in value)}]"
    text = str(value)
    escaped = "".join(
        c
        if c not in '"\\' and c.isprintable()
        else f"\\u{ord(c):04X}"
        if ord(c) < 0x10000
        else f"\\U{ord(c):08X}"
        for c in text
    )
    return f'"{escaped}"'
