"""What the page may ask: tables with limits, and the problems that they stand for."""

from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems import Problem
from workings.problems.documents.matrices import parse_matrix
from workings.problems.kinds import KINDS
from workings.problems.problem_file import format_claim_path
from workings.web.problem_views import MAX_SIDE

MAX_TEXT_LENGTH = 400_000  # characters of a slide or a file

Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
CellInput: TypeAlias = Annotated[str, Field(max_length=200)] | int | Finite
RowInput: TypeAlias = Annotated[list[CellInput], Field(max_length=1024)]
RowsInput: TypeAlias = Annotated[list[RowInput], Field(max_length=1024)]
MatrixInput: TypeAlias = RowsInput | Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
Name: TypeAlias = Annotated[str, Field(max_length=60)]
RunName: TypeAlias = Annotated[str, Field(max_length=300)]  # a folder's, and a number
TokenText: TypeAlias = Annotated[str, Field(max_length=20_000)]
TokenTexts: TypeAlias = Annotated[list[TokenText], Field(max_length=MAX_SIDE)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Decimals: TypeAlias = Annotated[int, Field(ge=0, le=15)]


class RequestModel(BaseModel):
    """Something that was posted: nothing else than what is named is taken."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ClaimInput(RequestModel):
    """A step as somebody worked it out; `again` counts reprints of it."""

    key: Name
    reprint: Annotated[int, Field(ge=0, le=20)] = 0
    cells: MatrixInput


class ProblemInput(RequestModel):
    """A problem as its file has it; claims are a list, by the steps' keys (`scores.2`)."""

    title: Annotated[str, Field(max_length=2_000)] = ""
    kind: Name = "attention"
    vectors: Literal["rows", "columns"] = "rows"
    tokens: TokenTexts | None = None
    context_tokens: TokenTexts | None = None
    settings: dict[Name, Name | int | Finite | RowsInput] = Field(default={}, max_length=20)
    given: dict[Name, MatrixInput] = Field(default={}, max_length=40)
    claims: list[ClaimInput] = Field(default=[], max_length=200)

    def to_problem(self) -> Problem:
        """Read it as a problem; what is wrong with it is a `UserError`."""
        return _parse_problem(self.model_dump_json())

    def given_rows(self) -> dict[str, list[list[Any]]]:
        """The given matrices, row by row."""
        return {
            name: read_bounded_matrix(matrix, f"given.{name}")
            for name, matrix in self.given.items()
        }

    def nested_claims(self) -> dict[str, Any]:
        """The claims under the tables that a file has for them."""
        kind, prints = KINDS.get(self.kind), dict[int, dict[str, Any]]()
        for claim in self.claims:
            table = prints.setdefault(claim.reprint, {})
            *path, name = (format_claim_path(kind, claim.key) if kind else claim.key).split(".")
            for level in path:
                inner = table.setdefault(level, {})
                if not isinstance(inner, dict):
                    raise UserError(f"claim.{to_one_line(claim.key)}: {level} is a step already")
                table = inner
            if name in table:
                raise UserError(f"claim.{to_one_line(claim.key)} is there twice: again = 1, 2, …")
            table[name] = read_bounded_matrix(claim.cells, f"claim.{claim.key}")
        again = [prints.get(k, {}) for k in range(1, max(prints, default=0) + 1)]
        return {**prints.get(0, {}), **({"again": again} if again else {})}


class ProblemRequest(RequestModel):
    """A problem, and how many decimals to show."""

    table: ProblemInput
    decimals: Decimals = 3


class CellRequest(ProblemRequest):
    """One cell of a step, counted from 0 in the problem's own convention."""

    key: Name
    row: Annotated[int, Field(ge=0, lt=MAX_SIDE)]
    column: Annotated[int, Field(ge=0, lt=MAX_SIDE)]


class HintRequest(ProblemRequest):
    """A step to be helped with: its formula, a cell's working, the cell's number."""

    key: Name
    level: Annotated[int, Field(ge=1, le=3)]


class ExportRequest(ProblemRequest):
    """What to write as a file: the solution, or the report on what is claimed."""

    file_format: Literal["toml", "latex", "html", "svg"]
    report: bool = False


class TextRequest(RequestModel):
    """Pasted text: a matrix, a slide or a problem file."""

    text: Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]


class SheetRequest(RequestModel):
    """A sheet to be made; a few problems, because somebody waits for them."""

    kind: Name
    tokens: Annotated[int, Field(ge=1, le=6)] = 3
    width: Annotated[int, Field(ge=1, le=8)] = 3
    count: Annotated[int, Field(ge=1, le=6)] = 3
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1
    decimals: Annotated[int, Field(ge=1, le=6)] = 3
    vectors: Literal["rows", "columns"] = "rows"


@lru_cache(64)
def _parse_problem(table: str) -> Problem:
    """Read a problem. The page asks about the same one again and again, cell by cell."""
    asked = ProblemInput.model_validate_json(table)
    fields: dict[str, Any] = {"title": asked.title, "kind": asked.kind, "vectors": asked.vectors}
    for name, value in asked.settings.items():
        if name in _PROBLEM_FIELDS:
            raise UserError(f"settings.{name}: it has a place of its own")
        fields[name] = read_bounded_matrix(value, name) if isinstance(value, list) else value
    for name in ("tokens", "context_tokens"):
        if getattr(asked, name) is not None:
            fields[name] = getattr(asked, name)
    fields |= {"given": asked.given_rows(), "claim": asked.nested_claims()}
    _check_sizes(asked.settings)
    return Problem(**fields)


_PROBLEM_FIELDS = frozenset(ProblemInput.model_fields)


def read_bounded_matrix(matrix: MatrixInput, label: str) -> list[list[Any]]:
    """Take a matrix, written out or as text, unless it is too large to be looked at."""
    label = to_one_line(label)
    rows: list[list[Any]] = parse_matrix(matrix, label) if isinstance(matrix, str) else [*matrix]
    side = max(len(rows), *map(len, rows)) if rows else 0
    if side > MAX_SIDE:
        raise UserError(
            f"{label}: a side of {side}; the page takes {MAX_SIDE}: for more, `workings solve`"
        )
    return rows


def _check_sizes(settings: dict[str, Any]) -> None:
    for name in ("count", "width"):
        value = settings.get(name)
        if isinstance(value, int | float) and value > MAX_SIDE:
            raise UserError(f"{name} = {value:g}: the page takes at most {MAX_SIDE}")


MAX_INPUT_LENGTH = 20_000  # characters
MAX_PICTURE_LENGTH = 900_000  # characters of base64, in a request of 1 MB
MAX_NEW_TOKENS = 200  # of a completion

OneBasedIndex: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
CellIndex: TypeAlias = Annotated[int, Field(ge=0, lt=512)]
SceneNumber: TypeAlias = Annotated[int, Field(ge=1, le=200)]
AttentionPart: TypeAlias = Literal["encoder", "decoder", "cross"]


class AblatedHead(RequestModel):
    """A head to switch off."""

    part: AttentionPart
    layer: OneBasedIndex
    head: OneBasedIndex


class InspectRequest(RequestModel):
    """An input for a run: a text; for a captioner a drawn scene by number, or a picture."""

    run: RunName
    text: Annotated[str, Field(max_length=MAX_INPUT_LENGTH)] = ""
    scene: SceneNumber = 1
    picture: Annotated[str, Field(max_length=MAX_PICTURE_LENGTH)] | None = None
    ablated_heads: list[AblatedHead] = Field(default=[], max_length=64)


class HeatmapRequest(InspectRequest):
    """One head's map."""

    part: AttentionPart | Literal["alignment"]
    layer: OneBasedIndex = 1
    head: OneBasedIndex = 1


class DerivationRequest(InspectRequest):
    """One cell of a head's weights, counted from 0."""

    part: AttentionPart
    layer: OneBasedIndex
    head: OneBasedIndex
    row: CellIndex
    column: CellIndex


class CompletionRequest(InspectRequest):
    """How to go on with a text; a temperature of 0 takes the likeliest."""

    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_NEW_TOKENS)] = 40
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class CellsRequest(InspectRequest):
    """A cell of a group, both counted from 1; none: the one that varies most."""

    group: OneBasedIndex = 1
    cell: OneBasedIndex | None = None


class RunRequest(RequestModel):
    """A run."""

    run: RunName
