"""The routes of the screens Work and Check: problems, lectures, problem sheets, files."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi import Path as PathParameter
from fastapi.responses import Response

from workings.builtin import builtin_lectures
from workings.errors import UserError, did_you_mean, truncate
from workings.problems import Problem
from workings.problems.documents.reading import read_problem
from workings.problems.problem_file import format_toml
from workings.problems.sheets import make_sheet
from workings.problems.sheets.layout import make_printed_sheet
from workings.problems.sheets.sheet_kinds import SHEET_FAMILIES
from workings.web import problem_views, report_views, requests, responses
from workings.web.requests import ProblemTable
from workings.web.standalone_page import page

PROBLEM_PATHS = frozenset(
    f"/api/{name}" for name in ("work", "cell", "check", "hint", "make", "export", "read", "open")
)
"""What takes computing time: the server answers these in processes that it can stop."""
SLOW_PATHS = frozenset(f"/api/{name}" for name in ("check", "hint", "make", "export"))
"""Those that take a hundred times as long as the others: the quick ones do not wait for them."""
FILE_TYPES = {
    "toml": ("workings.toml", "application/toml"),
    "latex": ("workings.tex", "application/x-tex"),
    "html": ("workings.html", "text/html; charset=utf-8"),
    "svg": ("workings.svg", "image/svg+xml"),
}


@dataclass
class ExerciseView:
    """A problem of a problem sheet."""

    heading: str
    instructions: str
    table: ProblemTable


def add_problem_routes(app: FastAPI) -> None:
    """Add the routes to the application."""

    @app.post("/api/work")
    def work(body: requests.ProblemRequest) -> responses.SolutionView:
        """Solve a problem: every step with its formula and its numbers."""
        return problem_views.build_solution_view(body.table.to_problem(), body.decimals)

    @app.post("/api/cell")
    def cell(body: requests.CellRequest) -> responses.CellWorking:
        """Write out the computation of one cell."""
        workings = problem_views.CellWorkings(body.table.to_problem(), body.decimals)
        return workings.write_cell(body.key, body.row, body.column)

    @app.post("/api/check")
    def check(body: requests.ProblemRequest) -> responses.ReportView:
        """Check every claimed number."""
        return report_views.build_report_view(
            body.table.to_checked_problem().check(), body.decimals
        )

    @app.post("/api/hint")
    def hint(body: requests.HintRequest) -> responses.CellWorking:
        """Return a hint for a step, about one of its cells."""
        problem = body.table.to_checked_problem()
        return report_views.build_hint(problem, body.key, body.level, body.decimals)

    @app.post("/api/make")
    def make(body: requests.SheetRequest) -> list[ExerciseView]:
        """Make a problem sheet; the same seed gives the same sheet."""
        return _build_exercises(body)

    @app.post("/api/export", response_class=Response)
    def export(body: requests.ExportRequest) -> Response:
        """Return a file: the problem (TOML), or its solution or report (LaTeX, HTML, SVG)."""
        return build_file_response(body.file_format, _export_problem(body))

    @app.post("/api/read")
    def read(body: requests.TextRequest) -> responses.Cells:
        """Parse a matrix from LaTeX, a printed array or tensor, a list, Markdown or CSV."""
        return requests.read_bounded_matrix(body.text, "pasted text")

    @app.post("/api/open")
    def open_text(body: requests.TextRequest) -> ProblemTable:
        """Parse a problem from the text of a problem file or of a slide."""
        return ProblemTable.from_problem(_check_size(_parse_document(body.text)))

    @app.get("/api/kinds")
    def list_kinds() -> list[responses.KindView]:
        """List the kinds of problem that can be made, by family."""
        return [
            responses.KindView(kind.name, family, kind.title, kind.picture)
            for family, kinds in SHEET_FAMILIES.items()
            for kind in kinds
        ]

    @app.get("/api/lectures")
    def list_lectures() -> dict[str, str]:
        """List the worked examples of the lecture notes: their titles by name."""
        return {name: problem.title for name, problem in load_lectures().items()}

    @app.get("/api/lecture/{name}")
    def lecture(name: Annotated[str, PathParameter(max_length=60)]) -> ProblemTable:
        """Return a worked example as a problem with its claims."""
        return ProblemTable.from_problem(get_lecture(name))


@cache
def load_lectures() -> dict[str, Problem]:
    """Return the lectures' worked examples by name."""
    return {name: Problem.load(file) for name, file in builtin_lectures().items()}


def get_lecture(name: str) -> Problem:
    """Return a worked example by name.

    >>> get_lecture("L2-self").title
    'L2 self-attention: three tokens, 4 to 3, unscaled'
    """
    problem = load_lectures().get(name)
    if problem is None:
        raise UserError(f"{truncate(name)}: no such lecture: {did_you_mean(name, load_lectures())}")
    return problem


def _build_exercises(request: requests.SheetRequest) -> list[ExerciseView]:
    size = None
    if request.tokens is not None and request.width is not None:
        size = (request.tokens, request.width)
    sheet = make_sheet(
        request.kind,
        size,
        request.count,
        request.seed,
        level=request.level,
        decimals=request.decimals,
        vectors=request.vectors,
    )
    printed = make_printed_sheet(sheet)
    return [
        ExerciseView(
            heading=task.heading,
            instructions=" ".join([*task.instructions, *printed.instructions]),
            table=ProblemTable.from_problem(exercise.problem),
        )
        for exercise, task in zip(sheet.exercises, printed.problems, strict=True)
    ]


def build_file_response(file_format: str, content: str) -> Response:
    """Return a response that the browser saves as a file."""
    name, media_type = FILE_TYPES[file_format]
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content.encode("utf-8", "replace"), media_type=media_type, headers=headers)


def _export_problem(request: requests.ExportRequest) -> str:
    """Return the text of a file: the problem, its solution or its report."""
    problem = request.table.to_problem()
    if request.report:
        problem = request.table.to_checked_problem()
    if request.file_format == "toml":
        return format_toml(_problem_fields(request.table, problem))
    result = problem.check() if request.report else problem.solve(request.decimals)
    if request.file_format == "svg":
        return result.svg()
    return result.latex() if request.file_format == "latex" else page(result)


def _problem_fields(table: ProblemTable, problem: Problem) -> dict[str, Any]:
    """Return the fields of a problem file, with the cells as they were typed."""
    fields: dict[str, Any] = {"title": table.title} if table.title else {}
    fields |= {"kind": table.kind}
    fields |= {name: value for name in ("vectors", "rounded") if (value := getattr(table, name))}
    settings = {k: v for k, v in table.settings.items() if k not in problem.kind.matrices}
    given_settings = {k: settings.pop(k) for k in ("count", "width", "base") if k in settings}
    fields |= {**settings, **requests.read_options(table.options)}
    for name in ("tokens", "context_tokens"):
        if getattr(table, name) is not None:
            fields[name] = getattr(table, name)
    fields["given"] = {**given_settings, **table.given_rows()}
    claim = table.nested_claims()
    return {**fields, "claim": claim} if claim else fields


def _parse_document(text: str) -> Problem:
    """Parse a problem file if the text has its tables, otherwise a slide."""
    if any(line.strip() in ("[given]", "[claim]") for line in text.splitlines()):
        return Problem.from_toml(text.removeprefix("\ufeff"))
    return read_problem(text)


def _check_size(problem: Problem) -> Problem:
    """Return the problem; raise a `UserError` if a matrix is too large for the page."""
    side = max((max(cells.shape) for cells in problem.exact_matrices.values()), default=0)
    if side > problem_views.MAX_SIDE:
        raise UserError(
            f"a matrix has a side of {side}; the page shows at most {problem_views.MAX_SIDE}:"
            " use `workings check` for larger ones"
        )
    return problem
