"""The lectures' worked examples by name: a fixed list, read once."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi.responses import Response

from workings.errors import UserError, did_you_mean, truncate
from workings.problems import Problem
from workings.problems.problem_file import format_toml
from workings.problems.sheets import make_sheet
from workings.problems.sheets.layout import make_printed_sheet
from workings.web import responses
from workings.web.problem_views import build_problem_table
from workings.web.requests import ExportRequest, SheetRequest
from workings.web.standalone_page import page


@cache
def load_lectures() -> dict[str, Problem]:
    """Read all of them, by name: from the package, or from beside the sources."""
    packaged = files("workings") / "lectures"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[3] / "lectures"
    found = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {
        file.name.removesuffix(".toml"): Problem.from_toml(file.read_text(encoding="utf-8"))
        for file in found
        if file.name.endswith(".toml")
    }


def get_lecture(name: str) -> Problem:
    """Find one by name.

    >>> get_lecture("L2-self").title
    'L2 self-attention: three tokens, 4 to 3, unscaled'
    """
    found = load_lectures().get(name)
    if found is None:
        raise UserError(f"{truncate(name)}: no such lecture: {did_you_mean(name, load_lectures())}")
    return found


def build_sheet(request: SheetRequest) -> responses.SheetView:
    """Make a sheet; the same seed gives the same one."""
    sheet = make_sheet(
        request.kind,
        (request.tokens, request.width),
        request.count,
        request.seed,
        decimals=request.decimals,
        vectors=request.vectors,
    )
    page = make_printed_sheet(sheet)
    return responses.SheetView(
        title=sheet.title,
        rules=page.instructions,
        exercises=[
            responses.ExerciseView(
                name=exercise.name,
                heading=task.heading,
                instructions=task.instructions,
                table=build_problem_table(exercise.problem),
            )
            for exercise, task in zip(sheet.exercises, page.problems, strict=True)
        ],
        notes=sheet.notes,
    )


FILE_TYPES = {
    "toml": ("workings.toml", "application/toml"),
    "latex": ("workings.tex", "application/x-tex"),
    "html": ("workings.html", "text/html; charset=utf-8"),
    "svg": ("workings.svg", "image/svg+xml"),
}


def build_file_response(file_format: str, content: str) -> Response:
    """Answer with a file to keep."""
    name, kind = FILE_TYPES[file_format]
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content.encode("utf-8", "replace"), media_type=kind, headers=headers)


def export_problem(request: ExportRequest) -> str:
    """Write a problem, its solution or the report on it."""
    problem = request.table.to_problem()
    if request.file_format == "toml":
        return format_toml(_problem_fields(request, problem))
    shown = problem.check() if request.report else problem.solve(request.decimals)
    if request.file_format == "svg":
        return shown.svg()
    return shown.latex() if request.file_format == "latex" else page(shown)


def _problem_fields(request: ExportRequest, problem: Problem) -> dict[str, Any]:
    """Write the table as a file has it, cells as they were typed."""
    table, fields = request.table, dict[str, Any]()
    fields |= {"title": table.title} if table.title else {}
    fields |= {"kind": table.kind, "vectors": table.vectors}
    own = {k: v for k, v in table.settings.items() if k not in problem.kind.matrices}
    inside = {k: own.pop(k) for k in ("count", "width", "base") if k in own}
    fields |= own
    for name in ("tokens", "context_tokens"):
        if getattr(table, name) is not None:
            fields[name] = getattr(table, name)
    fields["given"] = {**inside, **table.given_rows()}
    claim = table.nested_claims()
    return {**fields, "claim": claim} if claim else fields
