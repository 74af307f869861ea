"""Answers every request of Work and Check, in one function per path.

It needs numpy alone: the server adds these functions to its routes, and the static page calls
`answer` in the browser of its visitor.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import cache
from typing import Any, get_type_hints
from urllib.parse import unquote

from workings.builtin import builtin_lectures
from workings.errors import UserError, did_you_mean, install_hint, truncate
from workings.languages import gettext, use_language
from workings.plain_text import to_one_line
from workings.problems import Problem
from workings.problems.documents.reading import read_problem
from workings.problems.problem_file import format_toml
from workings.problems.sheets import make_sheet
from workings.problems.sheets.layout import make_printed_sheet
from workings.problems.sheets.sheet import Exercise
from workings.problems.sheets.sheet_kinds import SHEET_FAMILIES
from workings.web import document_views, problem_views, report_views, requests, responses
from workings.web.language import choose_language
from workings.web.request_reader import read
from workings.web.requests import ClaimTable, ProblemTable
from workings.web.standalone_page import page

MAX_MESSAGE_LENGTH = 300  # characters of an error message
LECTURE_PATH = "/api/lecture/"
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


@dataclass
class FileView:
    """A file to download."""

    name: str
    media_type: str
    content: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which a browser saves it as a file."""
        return {"content-disposition": f'attachment; filename="{self.name}"'}


@dataclass
class Answer:
    """The answer to a request, as HTTP has it."""

    status: int
    headers: dict[str, str]
    body: str


def work(body: requests.ProblemRequest) -> responses.SolutionView:
    """Solve a problem: every step with its formula and its numbers."""
    return problem_views.build_solution_view(body.table.to_problem(), body.decimals)


def cell(body: requests.CellRequest) -> responses.CellWorking:
    """Write out the computation of one cell."""
    workings = problem_views.CellWorkings(body.table.to_problem(), body.decimals)
    return workings.write_cell(body.key, body.row, body.column)


def check(body: requests.ProblemRequest) -> responses.ReportView:
    """Check every claimed number."""
    return report_views.build_report_view(body.table.to_checked_problem().check(), body.decimals)


def hint(body: requests.HintRequest) -> responses.CellWorking:
    """Return a hint for a step, about one of its cells."""
    problem = body.table.to_checked_problem()
    return report_views.build_hint(problem, body.key, body.level, body.decimals)


def make(body: requests.SheetRequest) -> list[ExerciseView]:
    """Make a problem sheet; the same seed gives the same sheet."""
    size = None
    if body.tokens is not None and body.width is not None:
        size = (body.tokens, body.width)
    sheet = make_sheet(
        body.kind,
        size,
        body.count,
        body.seed,
        level=body.level,
        decimals=body.decimals,
        vectors=body.vectors,
        mistakes=body.mistakes,
    )
    printed = make_printed_sheet(sheet)
    return [
        ExerciseView(
            heading=task.heading,
            instructions=" ".join([*task.instructions, *printed.instructions]),
            table=_build_exercise_table(exercise),
        )
        for exercise, task in zip(sheet.exercises, printed.problems, strict=True)
    ]


def _build_exercise_table(exercise: Exercise) -> ProblemTable:
    """Return an exercise as a problem; a planted mistake is in its claims."""
    table = ProblemTable.from_problem(exercise.problem)
    if exercise.planted_mistake is None:
        return table
    claims = exercise.planted_mistake.claims.items()
    return replace(table, claims=[read(ClaimTable, {"key": k, "cells": c}) for k, c in claims])


def export(body: requests.ExportRequest) -> FileView:
    """Return a file: the problem (TOML), or its solution or report (LaTeX, HTML, SVG)."""
    return build_file(body.file_format, _export_problem(body))


def save_answers(body: requests.AnswersRequest) -> FileView:
    """Return the answers to a problem sheet as a file that `workings grade` reads."""
    tables = {
        f"problem-{number:02d}": {"claim": table.nested_claims()}
        for number, table in enumerate(body.tables, start=1)
    }
    return FileView("answers.toml", FILE_TYPES["toml"][1], format_toml(tables))


def read_matrix(body: requests.TextRequest) -> responses.Cells:
    """Parse a matrix from LaTeX, a printed array or tensor, a list, Markdown or CSV."""
    return requests.read_bounded_matrix(body.text, "pasted text")


def open_text(body: requests.TextRequest) -> ProblemTable:
    """Parse a problem from the text of a problem file or of a slide."""
    return ProblemTable.from_problem(_check_size(_parse_document(body.text)))


def read_document(body: requests.DocumentRequest) -> document_views.DocumentView:
    """Read a document: its lines, its matrices as they were read, and its examples."""
    return document_views.build_document_view(body)


def list_kinds() -> list[responses.KindView]:
    """List the kinds of problem that can be made, by family."""
    return [
        responses.KindView(kind.name, gettext(family), gettext(kind.title), gettext(kind.picture))
        for family, kinds in SHEET_FAMILIES.items()
        for kind in kinds
    ]


def list_lectures() -> dict[str, str]:
    """List the worked examples of the lecture notes: their titles by name."""
    return {name: problem.title for name, problem in load_lectures().items()}


def get_lecture(name: str) -> ProblemTable:
    """Return a worked example as a problem with its claims.

    >>> get_lecture("L2-self").title
    'L2 self-attention: three tokens, 4 to 3, unscaled'
    """
    problem = load_lectures().get(name)
    if problem is None:
        raise UserError(f"{truncate(name)}: no such lecture: {did_you_mean(name, load_lectures())}")
    return ProblemTable.from_problem(problem)


POSTS: dict[str, Callable[[Any], Any]] = {
    "/api/work": work,
    "/api/cell": cell,
    "/api/check": check,
    "/api/hint": hint,
    "/api/make": make,
    "/api/export": export,
    "/api/answers": save_answers,
    "/api/read": read_matrix,
    "/api/open": open_text,
    "/api/document": read_document,
}
GETS: dict[str, Callable[[], Any]] = {"/api/kinds": list_kinds, "/api/lectures": list_lectures}


def answer(path: str, body: str | None = None, language: str = "") -> Answer:
    """Answer a request in a language; without a body, it is a GET.

    >>> answer("/api/read", '{"text": "1 2"}').body
    '[["1","2"]]'
    >>> answer("/api/read", '{"text": "one"}').status
    422
    """
    try:
        with use_language(choose_language(language), decimal_point=True):
            result = _call(path, body)
    except UserError as error:
        return _encode(422, {"error": format_error(str(error))})
    except ModuleNotFoundError as error:
        return _encode(422, {"error": describe_missing_module(error)})
    except MemoryError:
        return _encode(422, {"error": "too large: it needs too much memory"})
    if result is None:
        return _encode(404, {"error": "Not Found"})
    if isinstance(result, FileView):
        return Answer(200, {"content-type": result.media_type, **result.headers}, result.content)
    return _encode(200, result)


def _call(path: str, body: str | None) -> Any:
    """Return the result of a path's function; None if there is no such path."""
    if body is not None:
        function = POSTS.get(path)
        if function is None:
            return None
        return function(read(get_type_hints(function)["body"], json.loads(body)))
    name = path.removeprefix(LECTURE_PATH)
    if name != path and "/" not in name:
        return get_lecture(unquote(name))
    return GETS[path]() if path in GETS else None


def _encode(status: int, result: object) -> Answer:
    text = json.dumps(_to_plain(result), ensure_ascii=False, separators=(",", ":"))
    return Answer(status, {"content-type": "application/json"}, text)


def _to_plain(result: object) -> object:
    if isinstance(result, list):
        return [_to_plain(item) for item in result]
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else result


def describe_missing_module(error: ModuleNotFoundError) -> str:
    """Return how to install an optional package; raise the error if it is another module: a bug."""
    if install_hint(error) is None:
        raise error
    return f"{error.name} is missing: {install_hint(error)}"


def format_error(message: str) -> str:
    """Return an error message as one line that is not too long."""
    line = to_one_line(message.encode("utf-8", "replace").decode())
    return truncate(line, MAX_MESSAGE_LENGTH)


def build_file(file_format: str, content: str) -> FileView:
    """Return a file of a format by its content."""
    name, media_type = FILE_TYPES[file_format]
    return FileView(name, media_type, content)


@cache
def load_lectures() -> dict[str, Problem]:
    """Return the lectures' worked examples by name."""
    return {name: Problem.load(file) for name, file in builtin_lectures().items()}


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
