"""Problems as files: the lectures' worked examples, problem sheets, downloads."""

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
    """Return all worked examples by name, from the package or from the source tree."""
    packaged = files("workings") / "lectures"
    folder = packaged if packaged.is_dir() else Path(__file__).parents[3] / "lectures"
    lectures = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {
        file.name.removesuffix(".toml"): Problem.from_toml(file.read_text(encoding="utf-8"))
        for file in lectures
        if file.name.endswith(".toml")
    }


def get_lecture(name: str) -> Problem:
    """Return a worked example by name.

    >>> get_lecture("L2-self").title
    'L2 self-attention: three tokens, 4 to 3, unscaled'
    """
    problem = load_lectures().get(name)
    if problem is None:
        raise UserError(f"{truncate(name)}: no such lecture: {did_you_mean(name, load_lectures())}")
    return problem


def build_sheet(request: SheetRequest) -> responses.SheetView:
    """Make a problem sheet; the same seed gives the same sheet."""
    sheet = make_sheet(
        request.kind,
        (request.tokens, request.width),
        request.count,
        request.seed,
        decimals=request.decimals,
        vectors=request.vectors,
    )
    printed = make_printed_sheet(sheet)
    return responses.SheetView(
        title=sheet.title,
        rules=printed.instructions,
        exercises=[
            responses.ExerciseView(
                name=exercise.name,
                heading=task.heading,
                instructions=task.instructions,
                table=build_problem_table(exercise.problem),
            )
            for exercise, task in zip(sheet.exercises, printed.problems, strict=True)
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
    """Return a response that the browser saves as a file."""
    name, media_type = FILE_TYPES[file_format]
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content.encode("utf-8", "replace"), media_type=media_type, headers=headers)


def export_problem(request: ExportRequest) -> str:
    """Return the text of a file: the problem, its solution or its report."""
    problem = request.table.to_problem()
    if request.file_format == "toml":
        return format_toml(_problem_fields(request, problem))
    result = problem.check() if request.report else problem.solve(request.decimals)
    if request.file_format == "svg":
        return result.svg()
    return result.latex() if request.file_format == "latex" else page(result)


def _problem_fields(request: ExportRequest, problem: Problem) -> dict[str, Any]:
    """Return the fields of a problem file, with the cells as they were typed."""
    table, fields = request.table, dict[str, Any]()
    fields |= {"title": table.title} if table.title else {}
    fields |= {"kind": table.kind}
    fields |= {name: value for name in ("vectors", "rounded") if (value := getattr(table, name))}
    settings = {k: v for k, v in table.settings.items() if k not in problem.kind.matrices}
    given_settings = {k: settings.pop(k) for k in ("count", "width", "base") if k in settings}
    fields |= settings
    for name in ("tokens", "context_tokens"):
        if getattr(table, name) is not None:
            fields[name] = getattr(table, name)
    fields["given"] = {**given_settings, **table.given_rows()}
    claim = table.nested_claims()
    return {**fields, "claim": claim} if claim else fields
