"""The server's answers: every one is a call of the library, and every refusal is a line."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from workings import __version__
from workings.errors import UserError, brief, extra_of
from workings.problems import Problem
from workings.problems.from_text import problem_from_text
from workings.views.plain import one_line
from workings.web import asked, exports, judged, laid, sheets, told
from workings.web.assets import assets
from workings.web.comparing import comparing
from workings.web.guard import App, Door, Guard
from workings.web.lectures import lecture, lectures
from workings.web.looking import looking
from workings.web.shelf import Shelf
from workings.web.training import training
from workings.web.written_out import Workings

_LONGEST_LINE = 300  # characters of a refusal
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": told.Refusal, "description": why}
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


def guarded(door: Door, shelf: Shelf | None = None) -> App:
    """The application behind its door."""
    return Guard(application(shelf), door)


def application(shelf: Shelf | None = None) -> FastAPI:
    """Put the answers together; `/api/openapi.json` describes them. `shelf`: the runs to show."""
    app = FastAPI(
        title="workings",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_REFUSALS,
    )
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_not_there)
    app.exception_handler(ModuleNotFoundError)(_missing)
    _pages(app)
    _problems(app)
    _texts(app)
    shelf = shelf or Shelf()
    app.exception_handler(UserError)(_wrong(shelf))
    _runs(app, shelf)
    looking(app, shelf)
    training(app, shelf)
    comparing(app, shelf)
    return app


def _pages(app: FastAPI) -> None:
    files = assets()

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


def _problems(app: FastAPI) -> None:
    @app.post("/api/work")
    def work(given: asked.Work) -> told.Worked:
        """Work a problem: every step, with its formula and its numbers."""
        return laid.worked(given.table.problem(), given.decimals)

    @app.post("/api/cell")
    def cell(given: asked.CellAsked) -> told.Working:
        """Write one cell out."""
        problem = given.table.problem()
        return Workings(problem, given.decimals).of(given.key, given.row, given.column)

    @app.post("/api/check")
    def check(given: asked.Work) -> told.Report:
        """Judge every claimed number."""
        return judged.judged(given.table.problem().check(), given.decimals)

    @app.post("/api/hint")
    def hint(given: asked.Hint) -> told.Hint:
        """Help with a step that is being worked out."""
        return judged.hint(given.table.problem(), given.key, given.level, given.decimals)

    @app.post("/api/make")
    def make(given: asked.Sheet) -> told.Sheet:
        """Make a problem sheet."""
        return sheets.made(given)

    @app.post("/api/export", response_class=Response)
    def export(given: asked.Export) -> Response:
        """Write a file: the problem (TOML), or its solution or report (LaTeX, HTML, SVG)."""
        return exports.attached(given.form, exports.exported(given))


def _texts(app: FastAPI) -> None:
    @app.post("/api/read")
    def read(given: asked.Text) -> told.Rows:
        """Read a matrix from LaTeX, a NumPy or PyTorch print, a list, Markdown or CSV."""
        rows = asked.bounded(given.text, "what was pasted")
        return told.Rows(cells=rows)

    @app.post("/api/open")
    def open_text(given: asked.Text) -> told.Table:
        """Read a problem from the text of a problem file or of a slide."""
        return laid.table(_small(_opened(given.text)))

    @app.get("/api/lectures")
    def names() -> list[told.Lecture]:
        """List the worked examples of the lecture notes."""
        return [told.Lecture(name=name, title=p.title) for name, p in lectures().items()]

    @app.get("/api/lecture/{name}")
    def one(name: Annotated[str, Path(max_length=60)]) -> told.Table:
        """Give one of them as a problem with its claims."""
        return laid.table(lecture(name))


def _runs(app: FastAPI, shelf: Shelf) -> None:
    @app.get("/api/runs")
    def runs() -> list[told.Run]:
        """List the runs that the workbench was started with."""
        found = shelf.runs.values()
        return [told.Run(name=run.name, title=run.title, kind=run.kind) for run in found]


def _opened(text: str) -> Problem:
    """Read a problem file, or else a slide; what a file lacks is told only where it is one."""
    if any(line.strip() in ("[given]", "[claim]") for line in text.splitlines()):
        return Problem.from_toml(text.removeprefix("\ufeff"))
    return problem_from_text(text)


def _small(problem: Problem) -> Problem:
    """Refuse what is too large to be looked at."""
    side = max((max(cells.shape) for cells in problem.exact.values()), default=0)
    if side > laid.MOST_SIDE:
        raise UserError(
            f"a matrix with a side of {side}; the page takes {laid.MOST_SIDE}:"
            " for more, `workings check`"
        )
    return problem


def _wrong(shelf: Shelf) -> Callable[[Request, Exception], JSONResponse]:
    def refuse(_: Request, error: Exception) -> JSONResponse:
        return _refusal(422, shelf.without_places(str(error)))

    return refuse


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Say what does not fit, without what was given: that may be anything."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    place = [str(part) for part in first["loc"][1:] if isinstance(part, int | str)]
    where = ".".join(brief(part, 40) for part in place if "[" not in part) or "the request"
    return _refusal(422, f"{where}: {first['msg']}")


def _not_there(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _refusal(error.status_code, error.detail)


def _missing(_: Request, error: Exception) -> JSONResponse:
    """Say how to install what a run needs; what no extra brings is a mistake of ours."""
    assert isinstance(error, ModuleNotFoundError)
    if extra_of(error) is None:
        raise error
    return _refusal(422, f"{error.name} is missing: {extra_of(error)}")


def _refusal(status: int, why: str) -> JSONResponse:
    line = one_line(why.encode("utf-8", "replace").decode())
    return JSONResponse({"error": brief(line, _LONGEST_LINE)}, status)
