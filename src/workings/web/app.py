"""The FastAPI application: routes of Work and Check, the page's files, error responses."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from workings import __version__
from workings.errors import UserError, install_hint, truncate
from workings.plain_text import to_one_line
from workings.problems import Problem
from workings.problems.documents.problem_text import parse_problem_text
from workings.web import problem_files, problem_views, report_views, requests, responses
from workings.web.assets import load_assets
from workings.web.cell_workings import CellWorkings
from workings.web.problem_files import get_lecture, load_lectures
from workings.web.routes_compare import add_compare_routes
from workings.web.routes_inspect import add_inspect_routes
from workings.web.routes_training import add_training_routes
from workings.web.runs import RunRegistry
from workings.web.security import AccessPolicy, App, SecurityMiddleware

_MAX_MESSAGE_LENGTH = 300  # characters of an error message
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": responses.ErrorResponse, "description": description}
    for status, description in (
        (400, "malformed request"),
        (401, "missing or wrong token"),
        (403, "cross-origin request"),
        (404, "not found"),
        (408, "timeout"),
        (413, "request body too large"),
        (415, "not JSON"),
        (421, "unknown host name"),
        (422, "invalid value"),
        (429, "too many requests in the queue"),
    )
}


def build_secured_app(policy: AccessPolicy, registry: RunRegistry | None = None) -> App:
    """Return the application wrapped in the security middleware."""
    return SecurityMiddleware(build_app(registry), policy)


def build_app(registry: RunRegistry | None = None) -> FastAPI:
    """Return the application for these runs; `/api/openapi.json` describes its API."""
    app = FastAPI(
        title="workings",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_ERROR_RESPONSES,
    )
    app.exception_handler(RequestValidationError)(_handle_validation_error)
    app.exception_handler(HTTPException)(_handle_http_error)
    app.exception_handler(ModuleNotFoundError)(_handle_missing_module)
    _add_page_routes(app)
    _add_problem_routes(app)
    _add_text_routes(app)
    registry = registry or RunRegistry()
    app.exception_handler(UserError)(_make_user_error_handler(registry))
    _add_run_routes(app, registry)
    add_inspect_routes(app, registry)
    add_training_routes(app, registry)
    add_compare_routes(app, registry)
    return app


def _add_page_routes(app: FastAPI) -> None:
    files = load_assets()

    @app.get("/", include_in_schema=False)
    @app.head("/", include_in_schema=False)
    async def page() -> Response:
        return Response(files["page.html"][0], media_type=files["page.html"][1])

    @app.get("/page/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "no such file")
        content, media_type = files[name]
        return Response(content, media_type=media_type)


def _add_problem_routes(app: FastAPI) -> None:
    @app.post("/api/work")
    def work(body: requests.ProblemRequest) -> responses.SolutionView:
        """Solve a problem: every step with its formula and its numbers."""
        return problem_views.build_solution_view(body.table.to_problem(), body.decimals)

    @app.post("/api/cell")
    def cell(body: requests.CellRequest) -> responses.CellWorking:
        """Write out the computation of one cell."""
        problem = body.table.to_problem()
        return CellWorkings(problem, body.decimals).write_cell(body.key, body.row, body.column)

    @app.post("/api/check")
    def check(body: requests.ProblemRequest) -> responses.ReportView:
        """Check every claimed number."""
        return report_views.build_report_view(body.table.to_problem().check(), body.decimals)

    @app.post("/api/hint")
    def hint(body: requests.HintRequest) -> responses.HintView:
        """Return a hint for a step."""
        problem = body.table.to_problem()
        return report_views.build_hint(problem, body.key, body.level, body.decimals)

    @app.post("/api/make")
    def make(body: requests.SheetRequest) -> responses.SheetView:
        """Make a problem sheet."""
        return problem_files.build_sheet(body)

    @app.post("/api/export", response_class=Response)
    def export(body: requests.ExportRequest) -> Response:
        """Return a file: the problem (TOML), or its solution or report (LaTeX, HTML, SVG)."""
        content = problem_files.export_problem(body)
        return problem_files.build_file_response(body.file_format, content)


def _add_text_routes(app: FastAPI) -> None:
    @app.post("/api/read")
    def read(body: requests.TextRequest) -> responses.MatrixRows:
        """Parse a matrix from LaTeX, a NumPy or PyTorch print, a list, Markdown or CSV."""
        return responses.MatrixRows(cells=requests.read_bounded_matrix(body.text, "pasted text"))

    @app.post("/api/open")
    def open_text(body: requests.TextRequest) -> responses.ProblemTable:
        """Parse a problem from the text of a problem file or of a slide."""
        return problem_views.build_problem_table(_check_size(_parse_document(body.text)))

    @app.get("/api/lectures")
    def list_lectures() -> list[responses.LectureView]:
        """List the worked examples of the lecture notes."""
        return [
            responses.LectureView(name=name, title=problem.title)
            for name, problem in load_lectures().items()
        ]

    @app.get("/api/lecture/{name}")
    def lecture(name: Annotated[str, Path(max_length=60)]) -> responses.ProblemTable:
        """Return a worked example as a problem with its claims."""
        return problem_views.build_problem_table(get_lecture(name))


def _add_run_routes(app: FastAPI, registry: RunRegistry) -> None:
    @app.get("/api/runs")
    def list_runs() -> list[responses.RunView]:
        """List the runs that the workbench was started with."""
        return [
            responses.RunView(name=run.name, title=run.title, kind=run.kind)
            for run in registry.runs.values()
        ]


def _parse_document(text: str) -> Problem:
    """Parse a problem file if the text has its tables, otherwise a slide."""
    if any(line.strip() in ("[given]", "[claim]") for line in text.splitlines()):
        return Problem.from_toml(text.removeprefix("\ufeff"))
    return parse_problem_text(text)


def _check_size(problem: Problem) -> Problem:
    """Return the problem; raise a `UserError` if a matrix is too large for the page."""
    side = max((max(cells.shape) for cells in problem.exact_matrices.values()), default=0)
    if side > problem_views.MAX_SIDE:
        raise UserError(
            f"a matrix has a side of {side}; the page shows at most {problem_views.MAX_SIDE}:"
            " use `workings check` for larger ones"
        )
    return problem


def _make_user_error_handler(registry: RunRegistry) -> Callable[[Request, Exception], JSONResponse]:
    def handle_user_error(_: Request, error: Exception) -> JSONResponse:
        return _error_response(422, registry.redact_paths(str(error)))

    return handle_user_error


def _handle_validation_error(_: Request, error: Exception) -> JSONResponse:
    """Return the field and the reason, without the invalid value: that may be any text."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    path = [str(part) for part in first["loc"][1:] if isinstance(part, int | str)]
    field = ".".join(truncate(part, 40) for part in path if "[" not in part) or "the request"
    return _error_response(422, f"{field}: {first['msg']}")


def _handle_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _error_response(error.status_code, error.detail)


def _handle_missing_module(_: Request, error: Exception) -> JSONResponse:
    """Return how to install a missing optional package; any other missing module is a bug."""
    assert isinstance(error, ModuleNotFoundError)
    if install_hint(error) is None:
        raise error
    return _error_response(422, f"{error.name} is missing: {install_hint(error)}")


def _error_response(status: int, message: str) -> JSONResponse:
    line = to_one_line(message.encode("utf-8", "replace").decode())
    return JSONResponse({"error": truncate(line, _MAX_MESSAGE_LENGTH)}, status)
