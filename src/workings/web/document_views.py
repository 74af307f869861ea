"""Show a document beside its reading: every matrix with its name, its evidence and its verdicts."""

import base64
import binascii
import re
from dataclasses import dataclass

from workings.errors import UserError
from workings.problems.documents.entries import Entry
from workings.problems.documents.marks import find_marks
from workings.problems.documents.reading import read_document
from workings.problems.documents.reports import (
    DocumentReport,
    ExampleReport,
    describe_reading,
    format_places,
)
from workings.problems.kinds import KINDS
from workings.problems.numbers import transpose_rows
from workings.problems.problem import Problem
from workings.web.requests import DocumentRequest, ProblemTable
from workings.web.responses import Cells

_GRID = re.compile("\ue000(\\d+)\ue001")
_MAX_LINES = 2_000
_STEPS = ("Q", "K", "V", "scores", "scaled", "masked", "weights", "mixed", "output")
_GIVENS = ("X", "context", "W_Q", "W_K", "W_V", "W_O", "mask")


@dataclass
class DocumentMatrix:
    """A matrix of a document: its number, the name it was read as, and the verdict of each cell."""

    index: int
    name: str
    evidence: str
    why: str  # it is not read
    rows: Cells
    verdicts: Cells
    is_factor: bool = False  # inside a product or function: printed again, not named by itself


@dataclass
class DocumentReading:
    """One of two ways to read an example, and what follows from it."""

    read_as: str
    verdict: str
    summary: list[str]


@dataclass
class DocumentLine:
    """A line of a document: its place, and texts and matrices in order."""

    place: str
    level: int
    parts: list[str | DocumentMatrix]


@dataclass
class DocumentExample:
    """A worked example of a document; `table` opens it in the checker, `names` may be its names."""

    place: str
    kind: str
    verdict: str
    summary: list[str]
    matrices: list[int]
    names: list[str]
    table: ProblemTable | None
    readings: list[DocumentReading]  # two whose verdicts differ; empty if there is no doubt


@dataclass
class DocumentView:
    """A document beside its reading."""

    summary: str
    lines: list[DocumentLine]
    examples: list[DocumentExample]


def build_document_view(request: DocumentRequest) -> DocumentView:
    """Read a document and return it with its examples."""
    content = request.content.encode("utf-8", "replace")
    if request.is_base64:
        try:
            content = base64.b64decode(content, validate=True)
        except binascii.Error:
            raise UserError("content: not base 64") from None
    if not all(key.isdigit() for key in request.names):
        raise UserError("names: each key is the number of a matrix")
    names = {int(key): name for key, name in request.names.items()}
    report = read_document(content, request.file, names=names)
    matrices = _build_matrices(report)
    return DocumentView(
        summary=report.summarize_counts(),
        lines=list(_build_lines(report, matrices)),
        examples=[_build_example(e) for e in (*report.examples, *report.unclaimed)],
    )


def _build_matrices(report: DocumentReport) -> list[DocumentMatrix]:
    """Return every matrix of the document with its name and its verdicts."""
    matrices = [
        DocumentMatrix(index, "", "", grid.problem, grid.rows, [["" for _ in r] for r in grid.rows])
        for index, grid in enumerate(report.source.grids)
    ]
    for example in (*report.examples, *report.unclaimed):
        for entry in example.entries:
            grid = entry.statement.value_grid
            if grid >= 0 and not entry.is_factor:
                matrices[grid].name, matrices[grid].evidence = _format_name(entry), entry.evidence
        for entry in filter(lambda entry: entry.is_factor, example.entries):
            _name_factor(entry, matrices)
        if example.report is None:
            continue
        for grid, rows in find_marks(example.report, example.entries).items():
            for i, row in enumerate(rows[: len(matrices[grid].verdicts)]):
                for j, mark in enumerate(row[: len(matrices[grid].verdicts[i])]):
                    first = " first" if mark is not None and mark.is_first else ""
                    matrices[grid].verdicts[i][j] = f"{mark.verdict}{first}" if mark else ""
    return matrices


def _name_factor(entry: Entry, matrices: list[DocumentMatrix]) -> None:
    """Name the matrix without a name in a statement that a factor was read from."""
    if entry.rows is None:
        return
    forms = (entry.rows, transpose_rows(entry.rows))
    for element in entry.statement.elements:
        for token in element:
            matrix = matrices[token.grid] if token.kind == "grid" else None
            if matrix is not None and not matrix.name and matrix.rows in forms:
                is_turned = matrix.rows != entry.rows and matrix.rows == forms[1]
                matrix.name = _format_name(entry) + ("ᵀ" if is_turned else "")
                matrix.evidence, matrix.is_factor = "its place in the formula", True
                return


def _format_name(entry: Entry) -> str:
    row = f", row {entry.row + 1}" if entry.row is not None else ""
    return f"{entry.role}{'' if entry.part is None else f'_{entry.part}'}{row}"


def _build_lines(report: DocumentReport, matrices: list[DocumentMatrix]) -> list[DocumentLine]:
    lines = []
    for line in report.source.lines[:_MAX_LINES]:
        pieces = _GRID.split(line.text.replace("\v", " "))
        parts: list[str | DocumentMatrix] = []
        for k, piece in enumerate(pieces):
            if k % 2:
                parts.append(matrices[int(piece)])
            elif piece.strip():
                parts.append(piece)
        if parts:
            lines.append(DocumentLine(str(line.place), line.level, parts))
    return lines


def _build_readings(example: ExampleReport) -> list[DocumentReading]:
    if example.report is None or example.other is None:
        return []
    return [
        DocumentReading(
            ", ".join(describe_reading(report.problem)), report.verdict, _split(report.summarize())
        )
        for report in (example.report, example.other)
    ]


def _split(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _build_example(example: ExampleReport) -> DocumentExample:
    readings = _build_readings(example)
    summary = [f"not judged: {example.why}"] if readings else _split(example.summarize())
    grids = [e.statement.value_grid for e in example.entries if not e.is_factor]
    table = None
    if example.report is not None:
        table = ProblemTable.from_problem(Problem(**example.to_table()))
    return DocumentExample(
        place=format_places([example.place]),
        kind=example.kind,
        verdict=example.verdict,
        summary=summary or ["no result is printed"],
        matrices=sorted({grid for grid in grids if grid >= 0}),
        names=_list_names(example),
        table=table,
        readings=readings,
    )


def _list_names(example: ExampleReport) -> list[str]:
    """Return the names that a matrix of the example may have."""
    if example.kind == "attention":
        heads = {e.part for e in example.entries if e.part is not None}
        steps = [f"{step}_{head}" for head in sorted(heads) for step in _STEPS]
        return [*_GIVENS, *_STEPS, *steps]
    kind = KINDS[example.kind]
    return list(dict.fromkeys([*kind.matrices, *(_format_name(e) for e in example.entries)]))
