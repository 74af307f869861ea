"""The request bodies of the API, with limits; a problem is sent and returned as the same table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

from workings.errors import UserError
from workings.plain_text import to_one_line
from workings.problems import Problem
from workings.problems.documents.matrices import parse_matrix
from workings.problems.kinds import KINDS, Setting
from workings.problems.numbers import transpose_rows
from workings.problems.problem_file import format_claim_path
from workings.web.problem_views import MAX_SIDE, format_as_given, list_given_names
from workings.web.request_reader import Bounds, Length, RequestModel, read

MAX_TEXT_LENGTH = 400_000  # characters of a document
MAX_SHEET_PROBLEMS = 6  # the page waits for them
MAX_WORK_CELLS, MAX_CHECK_CELLS = 500_000, 100_000
"""Numbers in the steps of a problem on the page: at most a few seconds to solve or to check."""

CellInput: TypeAlias = Annotated[str, Length(200)] | int | float
RowInput: TypeAlias = Annotated[list[CellInput], Length(1024)]
RowsInput: TypeAlias = Annotated[list[RowInput], Length(1024)]
MatrixInput: TypeAlias = RowsInput | Annotated[str, Length(MAX_TEXT_LENGTH)]
Name: TypeAlias = Annotated[str, Length(60)]
RunName: TypeAlias = Annotated[str, Length(300)]  # name of a folder, plus a number
TokenText: TypeAlias = Annotated[str, Length(20_000)]
TokenTexts: TypeAlias = Annotated[list[TokenText], Length(MAX_SIDE)]
Count: TypeAlias = Annotated[int, Bounds(1, MAX_SIDE)]
OptionText: TypeAlias = Annotated[str, Length(4_000)]  # JSON: each kind has its own
Decimals: TypeAlias = Annotated[int, Bounds(0, 15)]


@dataclass(frozen=True, kw_only=True)
class ClaimTable(RequestModel):
    """The claimed cells of a step; `reprint` is 0, or k for its k-th repetition in the source."""

    key: Name
    reprint: Annotated[int, Bounds(0, 20)] = 0
    cells: MatrixInput


@dataclass(frozen=True, kw_only=True)
class ProblemTable(RequestModel):
    """A problem as the page edits it: the fields of its file; claims have keys like `scores.2`.

    Without a declared convention, `vectors` is empty, and a setting is left out. `options` are the
    settings that only its kind has, as JSON.
    """

    title: Annotated[str, Length(2_000)] = ""
    kind: Name = "attention"
    vectors: Literal["rows", "columns", ""] = "rows"
    rounded: Annotated[list[Name], Length(40)] = field(default_factory=list)
    tokens: TokenTexts | None = None
    context_tokens: TokenTexts | None = None
    settings: Annotated[dict[Name, Name | int | float | RowsInput], Length(20)] = field(
        default_factory=dict
    )
    options: Annotated[dict[Name, OptionText], Length(20)] = field(default_factory=dict)
    given: Annotated[dict[Name, MatrixInput], Length(40)] = field(default_factory=dict)
    claims: Annotated[list[ClaimTable], Length(200)] = field(default_factory=list)

    @classmethod
    def from_problem(cls, problem: Problem) -> "ProblemTable":
        """Return the table of a problem; raise a `UserError` if it exceeds the page's limits."""
        given: dict[str, Any] = {
            name: format_as_given(problem.orient(problem.given[name].mid))
            for name in list_given_names(problem)
        }
        table = {
            "title": problem.title,
            "kind": problem.kind.name,
            "vectors": _get_vectors(problem),
            "rounded": [*problem.table.get("rounded", [])],
            "tokens": problem.tokens,
            "context_tokens": problem.context_tokens,
            "settings": _collect_settings(problem),
            "options": _collect_options(problem),
            "given": given,
            "claims": [
                {
                    "key": claim.key,
                    "reprint": claim.reprint,
                    "cells": _transpose_claim(problem, claim.numbers),
                }
                for claim in (*problem.claims, *problem.given_reprints)
            ],
        }
        return read(cls, table)

    def to_problem(self) -> Problem:
        """Return the problem; raise a `UserError` if it is invalid."""
        return _parse_problem(_TableKey(json.dumps(self, default=vars), self))

    def to_checked_problem(self) -> Problem:
        """Return the problem; raise a `UserError` if checking it would take too long."""
        problem = self.to_problem()
        _check_cost(problem, MAX_CHECK_CELLS)
        return problem

    def given_rows(self) -> dict[str, list[list[Any]]]:
        """Return the given matrices as rows."""
        return {
            name: read_bounded_matrix(matrix, f"given.{name}")
            for name, matrix in self.given.items()
        }

    def nested_claims(self) -> dict[str, Any]:
        """Return the claims as the nested tables of a problem file."""
        kind, by_reprint = KINDS.get(self.kind), dict[int, dict[str, Any]]()
        for claim in self.claims:
            table = by_reprint.setdefault(claim.reprint, {})
            *path, name = (format_claim_path(kind, claim.key) if kind else claim.key).split(".")
            for level in path:
                inner = table.setdefault(level, {})
                if not isinstance(inner, dict):
                    raise UserError(f"claim.{to_one_line(claim.key)}: {level} is a step already")
                table = inner
            if name in table:
                raise UserError(
                    f"claim.{to_one_line(claim.key)} is given twice: number its reprints 1, 2, …"
                )
            table[name] = read_bounded_matrix(claim.cells, f"claim.{claim.key}")
        reprints = [by_reprint.get(k, {}) for k in range(1, max(by_reprint, default=0) + 1)]
        return {**by_reprint.get(0, {}), **({"again": reprints} if reprints else {})}


def _get_vectors(problem: Problem) -> Literal["rows", "columns", ""]:
    if problem.column_vectors:
        return "columns"
    return "" if "vectors" in problem.undeclared else "rows"


def _collect_settings(problem: Problem) -> dict[str, Any]:
    setting, settings = problem.setting, dict[str, Any]()
    for name in problem.kind.settings:
        value = getattr(setting, name)
        if name in problem.undeclared and value == getattr(Setting(), name):
            continue
        if name == "mask" and setting.causal:
            value = "causal"
        elif name == "mask":
            value = "none" if value is None else format_as_given(problem.orient(value))
        settings[name] = value
    return settings


def _collect_options(problem: Problem) -> dict[str, str]:
    """Return the options that the table of a problem sets, as JSON."""
    fields = {**problem.table.get("given", {}), **problem.table}
    return {
        name: json.dumps(fields[name], ensure_ascii=False)
        for name in problem.kind.options
        if name in fields
    }


def read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of options; raise a `UserError` for one that is not JSON."""
    values = {}
    for name, text in options.items():
        if name in _PROBLEM_FIELDS:
            raise UserError(f"options.{name}: {name} is a field of the table, not an option")
        try:
            values[name] = json.loads(text)
        except (ValueError, RecursionError):
            raise UserError(f"options.{to_one_line(name)}: expected JSON") from None
    return values


def _transpose_claim(problem: Problem, numbers: list[list[Any]]) -> list[list[Any]]:
    cells = [["?" if n is None else n.text for n in row] for row in numbers]
    return transpose_rows(cells) if problem.column_vectors else cells


@dataclass(frozen=True, kw_only=True)
class ProblemRequest(RequestModel):
    """A problem and the number of decimals to show."""

    table: ProblemTable
    decimals: Decimals = 3


@dataclass(frozen=True, kw_only=True)
class CellRequest(ProblemRequest):
    """One cell of a step, counted from 0 in the problem's own convention."""

    key: Name
    row: Annotated[int, Bounds(0, MAX_SIDE - 1)]
    column: Annotated[int, Bounds(0, MAX_SIDE - 1)]


@dataclass(frozen=True, kw_only=True)
class HintRequest(ProblemRequest):
    """A step; level 1 to 3: its formula, a cell's computation, the cell's number."""

    key: Name
    level: Annotated[int, Bounds(1, 3)]


@dataclass(frozen=True, kw_only=True)
class ExportRequest(ProblemRequest):
    """A file to download: the problem, its solution or its report."""

    file_format: Literal["toml", "latex", "html", "svg"]
    report: bool = False


@dataclass(frozen=True, kw_only=True)
class AnswersRequest(RequestModel):
    """The problems of a problem sheet, in order, with the answers so far as claims."""

    tables: Annotated[list[ProblemTable], Length(MAX_SHEET_PROBLEMS)]


@dataclass(frozen=True, kw_only=True)
class TextRequest(RequestModel):
    """Pasted text: a matrix, a slide or a problem file."""

    text: Annotated[str, Length(MAX_TEXT_LENGTH)]


@dataclass(frozen=True, kw_only=True)
class DocumentRequest(RequestModel):
    """A document: its text, or its bytes in base 64; `names` corrects those of its matrices.

    The keys of `names` are the numbers of matrices in the document, from 0.
    """

    content: Annotated[str, Length(900_000)]
    is_base64: bool = False
    file: Annotated[str, Length(300)] = ""
    names: Annotated[dict[Name, Name], Length(400)] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SheetRequest(RequestModel):
    """The options of a problem sheet; few problems, because the page waits for them.

    Without both sizes, they are those that suit the kind.
    """

    kind: Name
    tokens: Annotated[int, Bounds(1, 99)] | None = None
    width: Annotated[int, Bounds(1, 99)] | None = None
    level: Annotated[int, Bounds(1, 3)] = 2
    count: Annotated[int, Bounds(1, MAX_SHEET_PROBLEMS)] = 3
    seed: Annotated[int, Bounds(0, 2**31)] = 1
    decimals: Annotated[int, Bounds(1, 6)] = 3
    vectors: Literal["rows", "columns"] = "rows"
    mistakes: bool = False  # solutions with one planted mistake each, to be found


@dataclass(frozen=True)
class _TableKey:
    """A table that is equal to another if their JSON is."""

    text: str
    table: ProblemTable = field(compare=False)


@lru_cache(64)
def _parse_problem(key: _TableKey) -> Problem:
    """Return the problem; cached, because the page requests one cell of it after the other."""
    body = key.table
    fields: dict[str, Any] = {"title": body.title, "kind": body.kind}
    for name in ("vectors", "rounded"):
        if getattr(body, name):
            fields[name] = getattr(body, name)
    for name, value in body.settings.items():
        if name in _PROBLEM_FIELDS:
            raise UserError(f"settings.{name}: {name} is a field of the table, not a setting")
        fields[name] = read_bounded_matrix(value, name) if isinstance(value, list) else value
    for name in ("tokens", "context_tokens"):
        if getattr(body, name) is not None:
            fields[name] = getattr(body, name)
    fields |= read_options(body.options)
    fields |= {"given": body.given_rows(), "claim": body.nested_claims()}
    _check_sizes(body.settings)
    problem = Problem(**fields)
    _check_cost(problem, MAX_WORK_CELLS)
    return problem


def _check_cost(problem: Problem, max_cells: int) -> None:
    """Raise a `UserError` if the steps of a problem, of all heads, have too many numbers."""
    cells = sum(problem.exact_matrices[step.key].mid.size for step in problem.steps)
    if cells > max_cells:
        raise UserError(
            f"the steps have {cells:,} numbers; the page takes at most {max_cells:,}:"
            " use `workings solve` or `workings check`"
        )


_PROBLEM_FIELDS = frozenset(field.name for field in fields(ProblemTable))


def read_bounded_matrix(matrix: MatrixInput, label: str) -> list[list[Any]]:
    """Return the rows of a matrix or of its text; raise a `UserError` if it is too large."""
    label = to_one_line(label)
    rows: list[list[Any]] = parse_matrix(matrix, label) if isinstance(matrix, str) else [*matrix]
    side = max(len(rows), *map(len, rows)) if rows else 0
    if side > MAX_SIDE:
        raise UserError(
            f"{label}: a side of {side}; the page takes at most {MAX_SIDE}:"
            " use `workings solve` for larger ones"
        )
    return rows


def _check_sizes(settings: dict[str, Any]) -> None:
    for name in ("count", "width"):
        value = settings.get(name)
        if isinstance(value, int | float) and value > MAX_SIDE:
            raise UserError(f"{name} = {value:g}: at most {MAX_SIDE} on the page")


MAX_INPUT_LENGTH = 20_000  # characters of a text
MAX_PICTURE_LENGTH = 900_000  # characters of base64, in a request of 1 MB
MAX_NEW_TOKENS = 200

OneBasedIndex: TypeAlias = Annotated[int, Bounds(1, 4096)]
CellIndex: TypeAlias = Annotated[int, Bounds(0, 511)]
SceneNumber: TypeAlias = Annotated[int, Bounds(1, 200)]
AttentionPart: TypeAlias = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True, kw_only=True)
class AblatedHead(RequestModel):
    """A head to ablate."""

    part: AttentionPart
    layer: OneBasedIndex
    head: OneBasedIndex


@dataclass(frozen=True, kw_only=True)
class InspectRequest(RequestModel):
    """An input for a run: a text; for a captioner the number of a scene, or a picture."""

    run: RunName
    text: Annotated[str, Length(MAX_INPUT_LENGTH)] = ""
    scene: SceneNumber = 1
    picture: Annotated[str, Length(MAX_PICTURE_LENGTH)] | None = None
    ablated_heads: Annotated[list[AblatedHead], Length(64)] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class OutcomeRequest(InspectRequest):
    """How to show the probabilities of an input: at a temperature, of the most probable alone."""

    temperature: Annotated[float, Bounds(0.05, 10)] = 1.0
    top_k: Annotated[int, Bounds(0, 1000)] = 0


@dataclass(frozen=True, kw_only=True)
class HeatmapRequest(InspectRequest):
    """One head of an attention stack."""

    part: AttentionPart | Literal["alignment"]
    layer: OneBasedIndex = 1
    head: OneBasedIndex = 1


@dataclass(frozen=True, kw_only=True)
class DerivationRequest(InspectRequest):
    """One cell of a head's attention weights, counted from 0."""

    part: AttentionPart
    layer: OneBasedIndex
    head: OneBasedIndex
    row: CellIndex
    column: CellIndex


@dataclass(frozen=True, kw_only=True)
class CompletionRequest(InspectRequest):
    """How to continue a text; a temperature of 0 takes the most probable token."""

    max_new_tokens: Annotated[int, Bounds(1, MAX_NEW_TOKENS)] = 40
    temperature: Annotated[float, Bounds(0, 10)] = 0.0
    seed: Annotated[int, Bounds(0, 2**31)] = 0


@dataclass(frozen=True, kw_only=True)
class CellsRequest(InspectRequest):
    """A cell of a group, both counted from 1; without a cell, the one that varies most."""

    group: OneBasedIndex = 1
    cell: OneBasedIndex | None = None


@dataclass(frozen=True, kw_only=True)
class StageRequest(InspectRequest):
    """The path of one stage of the model."""

    stage: Annotated[str, Length(200)]


@dataclass(frozen=True, kw_only=True)
class RunRequest(RequestModel):
    """A run."""

    run: RunName


@dataclass(frozen=True, kw_only=True)
class SideRequest(RequestModel):
    """One side of a comparison: a run and its input."""

    run: RunName
    text: Annotated[str, Length(MAX_INPUT_LENGTH)] = ""
    scene: SceneNumber = 1


@dataclass(frozen=True, kw_only=True)
class CompareRequest(RequestModel):
    """Two sides, and a head to compare; without a part, the first that both have."""

    first: SideRequest
    second: SideRequest
    part: AttentionPart | Literal["alignment"] | None = None
    layer: OneBasedIndex = 1
    head: OneBasedIndex = 1


@dataclass(frozen=True, kw_only=True)
class PermuteRequest(RequestModel):
    """A permutation of a text's tokens, and a head; added position vectors can be left out."""

    run: RunName
    text: Annotated[str, Length(MAX_INPUT_LENGTH)]
    order: Literal["reversed", "swapped", "shuffled"] = "reversed"
    seed: Annotated[int, Bounds(0, 2**31)] = 1
    use_positions: bool = True
    layer: OneBasedIndex = 1
    head: OneBasedIndex = 1
