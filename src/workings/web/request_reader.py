"""Reads a request: JSON into a typed dataclass, with bounds for every number, text and list.

It needs no package, so that the server and a page that computes in its visitor's browser read
requests by the same rules. FastAPI asks a request class for its reader and its JSON schema.
"""

from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as resolve_type_hints

from workings.errors import UserError, did_you_mean, truncate

T = TypeVar("T")
Schema = dict[str, Any]


@dataclass(frozen=True)
class Length:
    """The most characters of a text, items of a list or keys: `Annotated[str, Length(60)]`."""

    maximum: int


@dataclass(frozen=True)
class Bounds:
    """The bounds of a number: `Annotated[int, Bounds(1, 64)]`."""

    low: int
    high: int


class InvalidFieldError(UserError):
    """A field that is not as declared; `path` leads to it from the outside."""

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        self.reason, self.path = reason, path
        field = ".".join(truncate(part, 40) for part in path) or "the request"
        super().__init__(f"{field}: {reason}")

    def inside(self, name: object) -> "InvalidFieldError":
        """Return the same error, seen from the table or list around the field."""
        return InvalidFieldError(self.reason, (str(name), *self.path))


class RequestModel:
    """A request body, as a dataclass; unknown fields are errors."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else read(cls, value)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: Any, _handler: Any) -> Schema:
        return _make_reader(cls).schema()


def read(cls: type[T], value: object) -> T:
    """Return a request dataclass from JSON; raise a `UserError` that names the first bad field.

    >>> from typing import Annotated
    >>> @dataclass
    ... class Sheet:
    ...     count: Annotated[int, Bounds(1, 6)] = 3
    >>> read(Sheet, {"count": 5})
    Sheet(count=5)
    >>> read(Sheet, {"count": 7})
    Traceback (most recent call last):
    workings.web.request_reader.InvalidFieldError: count: expected a whole number from 1 to 6
    """
    result: T = _make_reader(cls).read(value)
    return result


class _Reader(Protocol):
    """A type of JSON: `accepts` looks at the kind of a value only, `read` at all of it."""

    @property
    def expected(self) -> str: ...
    def accepts(self, value: object) -> bool: ...
    def read(self, value: Any) -> Any: ...
    def schema(self) -> Schema: ...


@dataclass(frozen=True)
class _Text:
    maximum: int | None
    expected: ClassVar[str] = "a text"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str)

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise InvalidFieldError("expected a text")
        if self.maximum is not None and len(value) > self.maximum:
            raise InvalidFieldError(f"expected at most {self.maximum:,} characters")
        return value

    def schema(self) -> Schema:
        return {"type": "string"} | _limit("maxLength", self.maximum)


@dataclass(frozen=True)
class _Number:
    is_whole: bool
    bounds: Bounds | None

    @property
    def expected(self) -> str:
        noun = "a whole number" if self.is_whole else "a finite number"
        return noun + (f" from {self.bounds.low} to {self.bounds.high:,}" if self.bounds else "")

    def accepts(self, value: object) -> bool:
        kinds = int if self.is_whole else int | float
        return isinstance(value, kinds) and not isinstance(value, bool)

    def read(self, value: Any) -> int | float:
        if not self.accepts(value) or not (isinstance(value, int) or isfinite(value)):
            raise InvalidFieldError(f"expected {self.expected}")
        if self.bounds is not None and not self.bounds.low <= value <= self.bounds.high:
            raise InvalidFieldError(f"expected {self.expected}")
        number: int | float = value
        return number

    def schema(self) -> Schema:
        kind = {"type": "integer" if self.is_whole else "number"}
        bounds = self.bounds
        return kind | ({"minimum": bounds.low, "maximum": bounds.high} if bounds else {})


@dataclass(frozen=True)
class _Flag:
    expected: ClassVar[str] = "true or false"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InvalidFieldError("expected true or false")
        return value

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class _Nothing:
    expected: ClassVar[str] = "null"

    def accepts(self, value: object) -> bool:
        return value is None

    def read(self, value: Any) -> None:
        assert value is None  # `accepts` was asked

    def schema(self) -> Schema:
        return {"type": "null"}


@dataclass(frozen=True)
class _Choice:
    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(word or '""' for word in self.words)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words

    def read(self, value: Any) -> str:
        if not self.accepts(value):
            raise InvalidFieldError(f"expected {self.expected}")
        return str(value)

    def schema(self) -> Schema:
        return {"type": "string", "enum": [*self.words]}


@dataclass(frozen=True)
class _List:
    item: _Reader
    maximum: int | None
    expected: ClassVar[str] = "a list"

    def accepts(self, value: object) -> bool:
        return isinstance(value, list)

    def read(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise InvalidFieldError("expected a list")
        if self.maximum is not None and len(value) > self.maximum:
            raise InvalidFieldError(f"expected at most {self.maximum:,} items")
        items = list[Any]()
        try:
            for item in value:
                items.append(self.item.read(item))
        except InvalidFieldError as error:
            raise error.inside(len(items)) from None
        return items

    def schema(self) -> Schema:
        return {"type": "array", "items": self.item.schema()} | _limit("maxItems", self.maximum)


@dataclass(frozen=True)
class _Table:
    key: _Reader
    item: _Reader
    maximum: int | None
    expected: ClassVar[str] = "an object"

    def accepts(self, value: object) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidFieldError("expected an object")
        if self.maximum is not None and len(value) > self.maximum:
            raise InvalidFieldError(f"expected at most {self.maximum:,} keys")
        return {
            self._read(name, self.key, name): self._read(name, self.item, value[name])
            for name in value
        }

    def _read(self, name: object, reader: _Reader, value: object) -> Any:
        try:
            return reader.read(value)
        except InvalidFieldError as error:
            raise error.inside(name) from None

    def schema(self) -> Schema:
        keys, items = self.key.schema(), self.item.schema()
        table = {"type": "object", "propertyNames": keys, "additionalProperties": items}
        return table | _limit("maxProperties", self.maximum)


@dataclass(frozen=True)
class _Union:
    options: tuple[_Reader, ...]

    @property
    def expected(self) -> str:
        return " or ".join(option.expected for option in self.options)

    def accepts(self, value: object) -> bool:
        return any(option.accepts(value) for option in self.options)

    def read(self, value: Any) -> Any:
        for option in self.options:
            if option.accepts(value):
                return option.read(value)
        raise InvalidFieldError(f"expected {self.expected}")

    def schema(self) -> Schema:
        return {"anyOf": [option.schema() for option in self.options]}


@dataclass(frozen=True, eq=False)
class _Record:
    cls: type
    readers: dict[str, _Reader]
    required: frozenset[str]
    expected: ClassVar[str] = "an object"

    def accepts(self, value: object) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise InvalidFieldError("expected an object")
        values = {}
        for name, item in value.items():
            if name not in self.readers:
                raise InvalidFieldError(
                    f"no such field: {did_you_mean(name, self.readers)}", (name,)
                )
            try:
                values[name] = self.readers[name].read(item)
            except InvalidFieldError as error:
                raise error.inside(name) from None
        for name in sorted(self.required - values.keys()):
            raise InvalidFieldError("is missing", (name,))
        return self.cls(**values)

    def schema(self) -> Schema:
        return {
            "title": self.cls.__name__,
            "type": "object",
            "properties": {name: reader.schema() for name, reader in self.readers.items()},
            "required": sorted(self.required),
            "additionalProperties": False,
        }


def _make_reader(kind: Any) -> _Reader:
    """Return the reader of a type; that of a dataclass is made once."""
    hashable: Any = kind
    return _make_record_reader(hashable) if is_dataclass(kind) else _make_simple_reader(kind)


def _make_simple_reader(kind: Any) -> _Reader:
    """Return the reader of a type, which may be `Annotated` with a length or with bounds."""
    bare, *extra = get_args(kind) if hasattr(kind, "__metadata__") else (kind,)
    length = next((limit.maximum for limit in extra if isinstance(limit, Length)), None)
    bounds = next((limit for limit in extra if isinstance(limit, Bounds)), None)
    origin, arguments = get_origin(bare), get_args(bare)
    if origin in (Union, UnionType):
        return _Union(tuple(map(_make_reader, arguments)))
    if origin is Literal:
        return _Choice(arguments)
    if origin is list:
        return _List(_make_reader(arguments[0]), length)
    if origin is dict:
        return _Table(_make_reader(arguments[0]), _make_reader(arguments[1]), length)
    simple: dict[Any, _Reader] = {
        str: _Text(length),
        int: _Number(True, bounds),
        float: _Number(False, bounds),
        bool: _Flag(),
        NoneType: _Nothing(),
    }
    return simple[bare]


@cache
def _make_record_reader(cls: Any) -> _Record:
    hints = resolve_type_hints(cls, include_extras=True)
    required = {
        field.name
        for field in fields(cls)
        if field.default is MISSING and field.default_factory is MISSING
    }
    readers = {field.name: _make_reader(hints[field.name]) for field in fields(cls)}
    return _Record(cls, readers, frozenset(required))


def _limit(name: str, maximum: int | None) -> Schema:
    return {} if maximum is None else {name: maximum}
