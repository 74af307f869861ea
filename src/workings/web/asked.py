"""What the page may ask: tables with limits, and the problems that they stand for."""

from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from workings.errors import UserError
from workings.problems import Problem
from workings.problems.kinds import KINDS
from workings.problems.matrix_text import rows_of_text
from workings.problems.reading import claim_path
from workings.views.plain import one_line
from workings.web.laid import MOST_SIDE

LONGEST_TEXT = 400_000  # characters of a slide or a file

Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Cell: TypeAlias = Annotated[str, Field(max_length=200)] | int | Finite
Row: TypeAlias = Annotated[list[Cell], Field(max_length=1024)]
Rows: TypeAlias = Annotated[list[Row], Field(max_length=1024)]
Matrix: TypeAlias = Rows | Annotated[str, Field(max_length=LONGEST_TEXT)]
Name: TypeAlias = Annotated[str, Field(max_length=60)]
RunName: TypeAlias = Annotated[str, Field(max_length=300)]  # a folder's, and a number
Word: TypeAlias = Annotated[str, Field(max_length=20_000)]
Words: TypeAlias = Annotated[list[Word], Field(max_length=MOST_SIDE)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST_SIDE)]
Decimals: TypeAlias = Annotated[int, Field(ge=0, le=15)]


class Asked(BaseModel):
    """Something that was posted: nothing else than what is named is taken."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Claimed(Asked):
    """A step as somebody worked it out; `again` counts reprints of it."""

    key: Name
    again: Annotated[int, Field(ge=0, le=20)] = 0
    cells: Matrix


class Table(Asked):
    """A problem as its file has it; claims are a list, by the steps' keys (`scores.2`)."""

    title: Annotated[str, Field(max_length=2_000)] = ""
    kind: Name = "attention"
    vectors: Literal["rows", "columns"] = "rows"
    tokens: Words | None = None
    context_tokens: Words | None = None
    settings: dict[Name, Name | int | Finite | Rows] = Field(default={}, max_length=20)
    given: dict[Name, Matrix] = Field(default={}, max_length=40)
    claims: list[Claimed] = Field(default=[], max_length=200)

    def problem(self) -> Problem:
        """Read it as a problem; what is wrong with it is a `UserError`."""
        return _problem(self.model_dump_json())

    def rows_given(self) -> dict[str, list[list[Any]]]:
        """The given matrices, row by row."""
        return {name: bounded(matrix, f"given.{name}") for name, matrix in self.given.items()}

    def nested_claims(self) -> dict[str, Any]:
        """The claims under the tables that a file has for them."""
        kind, prints = KINDS.get(self.kind), dict[int, dict[str, Any]]()
        for claim in self.claims:
            table = prints.setdefault(claim.again, {})
            *path, name = (claim_path(kind, claim.key) if kind else claim.key).split(".")
            for level in path:
                inner = table.setdefault(level, {})
                if not isinstance(inner, dict):
                    raise UserError(f"claim.{one_line(claim.key)}: {level} is a step already")
                table = inner
            if name in table:
                raise UserError(f"claim.{one_line(claim.key)} is there twice: again = 1, 2, …")
            table[name] = bounded(claim.cells, f"claim.{claim.key}")
        again = [prints.get(k, {}) for k in range(1, max(prints, default=0) + 1)]
        return {**prints.get(0, {}), **({"again": again} if again else {})}


class Work(Asked):
    """A problem, and how many decimals to show."""

    table: Table
    decimals: Decimals = 3


class CellAsked(Work):
    """One cell of a step, counted from 0 in the problem's own convention."""

    key: Name
    row: Annotated[int, Field(ge=0, lt=MOST_SIDE)]
    column: Annotated[int, Field(ge=0, lt=MOST_SIDE)]


class Hint(Work):
    """A step to be helped with: its formula, a cell's working, the cell's number."""

    key: Name
    level: Annotated[int, Field(ge=1, le=3)]


class Export(Work):
    """What to write as a file: the solution, or the report on what is claimed."""

    form: Literal["toml", "latex", "html", "svg"]
    report: bool = False


class Text(Asked):
    """Pasted text: a matrix, a slide or a problem file."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)]


class Sheet(Asked):
    """A sheet to be made; a few problems, because somebody waits for them."""

    kind: Name
    tokens: Annotated[int, Field(ge=1, le=6)] = 3
    width: Annotated[int, Field(ge=1, le=8)] = 3
    count: Annotated[int, Field(ge=1, le=6)] = 3
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1
    decimals: Annotated[int, Field(ge=1, le=6)] = 3
    vectors: Literal["rows", "columns"] = "rows"


@lru_cache(64)
def _problem(table: str) -> Problem:
    """Read a problem. The page asks about the same one again and again, cell by cell."""
    asked = Table.model_validate_json(table)
    fields: dict[str, Any] = {"title": asked.title, "kind": asked.kind, "vectors": asked.vectors}
    for name, value in asked.settings.items():
        if name in _OWN:
            raise UserError(f"settings.{name}: it has a place of its own")
        fields[name] = bounded(value, name) if isinstance(value, list) else value
    for name in ("tokens", "context_tokens"):
        if getattr(asked, name) is not None:
            fields[name] = getattr(asked, name)
    fields |= {"given": asked.rows_given(), "claim": asked.nested_claims()}
    _expect_small(asked.settings)
    return Problem(**fields)


_OWN = frozenset(Table.model_fields)


def bounded(matrix: Matrix, where: str) -> list[list[Any]]:
    """Take a matrix, written out or as text, unless it is too large to be looked at."""
    where = one_line(where)
    rows: list[list[Any]] = rows_of_text(matrix, where) if isinstance(matrix, str) else [*matrix]
    side = max(len(rows), *map(len, rows)) if rows else 0
    if side > MOST_SIDE:
        raise UserError(
            f"{where}: a side of {side}; the page takes {MOST_SIDE}: for more, `workings solve`"
        )
    return rows


def _expect_small(settings: dict[str, Any]) -> None:
    for name in ("count", "width"):
        value = settings.get(name)
        if isinstance(value, int | float) and value > MOST_SIDE:
            raise UserError(f"{name} = {value:g}: the page takes at most {MOST_SIDE}")
