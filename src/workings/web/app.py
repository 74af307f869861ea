"""The server's answers: every one is a call of the library, and every refusal is a line."""

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

_MAX_MESSAGE_LENGTH = 300  # characters of a refusal
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": responses.ErrorResponse, "description": why}
    for status, why in (
        (400, "not a request"),
        (401, "no token"),
        (403, "from another page"),
        (404, "no such thing"),
        (408, "too slow"),
        (413, "too large"),
        (415, "not JSON"),
        (421, "another host's name"),
        (422, "something in it is wrong"),
        (429, "too many at once"),
    )
}


def build_secured_app(policy: AccessPolicy, registry: RunRegistry | None = None) -> App:
    """The application behind its door."""
    return SecurityMiddleware(build_app(registry), policy)


def build_app(registry: RunRegistry | None = None) -> FastAPI:
    """Put the answers together; `/api/openapi.json` describes them. `shelf`: the runs to show."""
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
    def page() -> Response:
        return Response(files["page.html"][0], media_type=files["page.html"][1])

    @app.get("/page/{name}", include_in_schema=False)
    def part(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, "no such file")
        content, kind = files[name]
        return Response(content, media_type=kind)


def _add_problem_routes(app: FastAPI) -> None:
    @app.post("/api/work")
    def work(given: requests.ProblemRequest) -> responses.SolutionView:
        """Work a problem: every step, with its formula and its numbers."""
        return problem_views.build_solution_view(given.table.to_problem(), given.decimals)

    @app.post("/api/cell")
    def cell(given: requests.CellRequest) -> responses.CellWorking:
        """Write one cell out."""
        problem = given.table.to_problem()
        return CellWorkings(problem, given.decimals).write_cell(given.key, given.row, given.column)

    @app.post("/api/check")
    def check(given: requests.ProblemRequest) -> responses.ReportView:
        """Judge every claimed number."""
        return report_views.build_report_view(given.table.to_problem().check(), given.decimals)

    @app.post("/api/hint")
    def hint(given: requests.HintRequest) -> responses.HintView:
        """Help with a step that is being worked out."""
        return report_views.build_hint(
            given.table.to_problem(), given.key, given.level, given.decimals
        )

    @app.post("/api/make")
    def make(given: requests.SheetRequest) -> responses.SheetView:
        """Make a problem sheet."""
        return problem_files.build_sheet(given)

    @app.post("/api/export", response_class=Response)
    def export(given: requests.ExportRequest) -> Response:
        """Write a file: the problem (TOML), or its solution or report (LaTeX, HTML, SVG)."""
        return problem_files.build_file_response(
            given.file_format, problem_files.export_problem(given)
        )


def _add_text_routes(app: FastAPI) -> None:
    @app.post("/api/read")
    def read(given: requests.TextRequest) -> responses.MatrixRows:
        """Read a matrix from LaTeX, a NumPy or PyTorch print, a list, Markdown or CSV."""
        rows = requests.read_bounded_matrix(given.text, "what was pasted")
        return responses.MatrixRows(cells=rows)

    @app.post("/api/open")
    def open_text(given: requests.TextRequest) -> responses.ProblemTable:
        """Read a problem from the text of a problem file or of a slide."""
        return problem_views.build_problem_table(_check_size(_parse_document(given.text)))

    @app.get("/api/lectures")
    def names() -> list[responses.LectureView]:
        """List the worked examples of the lecture notes."""
        return [
            responses.LectureView(name=name, title=p.title) for name, p in load_lectures().items()
        ]

    @app.get("/api/lecture/{name}")
    def one(name: Annotated[str, Path(max_length=60)]) -> responses.ProblemTable:
        """Give one of them as a problem with its claims."""
        return problem_views.build_problem_table(get_lecture(name))


def _add_run_routes(app: FastAPI, registry: RunRegistry) -> None:
    @app.get("/api/runs")
    def runs() -> list[responses.RunView]:
        """List the runs that the workbench was started with."""
        found = registry.runs.values()
        return [responses.RunView(name=run.name, title=run.title, kind=run.kind) for run in found]


def _parse_document(text: str) -> Problem:
    """Read a problem file, or else a slide; what a file lacks is told only where it is one."""
    if any(line.strip() in ("[given]", "[claim]") for line in text.splitlines()):
        return Problem.from_toml(text.removeprefix("\ufeff"))
    return parse_problem_text(text)


def _check_size(problem: Problem) -> Problem:
    """Refuse what is too large to be looked at."""
    side = max((max(cells.shape) for cells in problem.exact_matrices.values()), default=0)
    if side > problem_views.MAX_SIDE:
        raise UserError(
            f"a matrix with a side of {side}; the page takes {problem_views.MAX_SIDE}:"
            " for more, `workings check`"
        )
    return problem


def _make_user_error_handler(registry: RunRegistry) -> Callable[[Request, Exception], JSONResponse]:
    def refuse(_: Request, error: Exception) -> JSONResponse:
        return _error_response(422, registry.redact_paths(str(error)))

    return refuse


def _handle_validation_error(_: Request, error: Exception) -> JSONResponse:
    """Say what does not fit, without what was given: that may be anything."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    place = [str(part) for part in first["loc"][1:] if isinstance(part, int | str)]
    where = ".".join(truncate(part, 40) for part in place if "[" not in part) or "the request"
    return _error_response(422, f"{where}: {first['msg']}")


def _handle_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _error_response(error.status_code, error.detail)


def _handle_missing_module(_: Request, error: Exception) -> JSONResponse:
    """Say how to install what a run needs; what no extra brings is a mistake of ours."""
    assert isinstance(error, ModuleNotFoundError)
    if install_hint(error) is None:
        raise error
    return _error_response(422, f"{error.name} is missing: {install_hint(error)}")


def _error_response(status: int, message: str) -> JSONResponse:
    line = to_one_line(message.encode("utf-8", "replace").decode())
    return JSONResponse({"error": truncate(line, _MAX_MESSAGE_LENGTH)}, status)
