"""The routes of the screens Work and Check: problems, lectures, problem sheets, files."""

from fastapi import FastAPI
from fastapi.responses import Response

from workings.web import problem_answers, requests
from workings.web.problem_answers import FileView
from workings.web.requests import ProblemTable

PROBLEM_PATHS = frozenset(problem_answers.POSTS)
"""What takes computing time: the server answers these in processes that it can stop."""
SLOW_PATHS = frozenset(f"/api/{name}" for name in ("check", "hint", "make", "export", "document"))
"""Those that take a hundred times as long as the others: the quick ones do not wait for them."""
FILE_PATHS = ("/api/export", "/api/answers")


def add_problem_routes(app: FastAPI) -> None:
    """Add the routes to the application."""
    for path, listing in problem_answers.GETS.items():
        app.get(path)(listing)
    for path, function in problem_answers.POSTS.items():
        if path not in FILE_PATHS:
            app.post(path)(function)

    @app.post("/api/export", response_class=Response)
    def export(body: requests.ExportRequest) -> Response:
        """Return a file: the problem (TOML), or its solution or report (LaTeX, HTML, SVG)."""
        return build_file_response(problem_answers.export(body))

    @app.post("/api/answers", response_class=Response)
    def save_answers(body: requests.AnswersRequest) -> Response:
        """Return the answers to a problem sheet as a file that `workings grade` reads."""
        return build_file_response(problem_answers.save_answers(body))

    @app.get(problem_answers.LECTURE_PATH + "{name}")
    def lecture(name: str) -> ProblemTable:
        """Return a worked example as a problem with its claims."""
        return problem_answers.get_lecture(name)


def build_file_response(file: FileView) -> Response:
    """Return a response that the browser saves as a file."""
    content = file.content.encode("utf-8", "replace")
    return Response(content, media_type=file.media_type, headers=file.headers)
