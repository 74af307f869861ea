"""The routes of the screen Train, and of the curves of Compare: logs, recipes and reports."""

from typing import Annotated

from fastapi import FastAPI, Path, Query
from fastapi.responses import Response

from workings.errors import UserError
from workings.io import read_bytes
from workings.recipes.base import Setting
from workings.training.monitor import LogTail, TrainingStatus
from workings.training.run_folder import read_run_recipe
from workings.web.responses import TableView, TrainingView
from workings.web.runs import RegisteredRun, RunRegistry
from workings.web.training_comparison import compare_training
from workings.web.training_views import build_training_view, list_sections

TRAINING_PREFIXES = ("/api/training/", "/api/recipe/", "/api/report/", "/api/compare/curves")
"""What reads the files of a run: the server answers these in processes that it can stop."""
MAX_REPORT_BYTES = 64 * 2**20
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'; sandbox"
)
"""Policy for a report: it may be styled, but run no script; the file may come from elsewhere."""

RunInPath = Annotated[str, Path(max_length=300)]
RunInQuery = Annotated[str, Query(max_length=300)]
Width = Annotated[int, Query(ge=240, le=1600)]


def add_training_routes(app: FastAPI, registry: RunRegistry) -> None:
    """Add the routes to the application."""
    logs: dict[str, tuple[LogTail, int]] = {}

    def log_and_epochs(run: RegisteredRun) -> tuple[LogTail, int]:
        if run.name not in logs:
            epochs = read_run_recipe(run.folder).train.epochs
            logs[run.name] = LogTail(run.folder / "log.jsonl"), epochs
        return logs[run.name]

    @app.get("/api/training/{run}")
    def training(
        run: RunInPath, revision: Annotated[int, Query(ge=-1, le=2**53)] = -1, width: Width = 480
    ) -> TrainingView:
        """Return the state of a training, with its curves unless `revision` is the current one."""
        registered = registry.get_run(run)
        log, epochs = log_and_epochs(registered)
        current, records = log.read()
        status = TrainingStatus(records, epochs, log.damage)
        new_width = None if revision == current else width
        return build_training_view(registered.folder, status, current, new_width)

    @app.get("/api/recipe/{run}")
    def recipe(run: RunInPath) -> dict[str, list[Setting]]:
        """Return the recipe of a run by section, and the environment it was trained in."""
        return list_sections(registry.get_run(run).folder)

    @app.get("/api/report/{run}", response_class=Response)
    def report(run: RunInPath) -> Response:
        """Return the report of a run, with a policy under which it cannot run scripts."""
        path = registry.get_run(run).folder / "report.html"
        try:
            content = read_bytes(path, MAX_REPORT_BYTES)
        except OSError:
            raise UserError("no report yet: it is written when the training ends") from None
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(content, media_type="text/html; charset=utf-8", headers=headers)

    @app.get("/api/compare/curves")
    def curves(first: RunInQuery, second: RunInQuery, width: Width = 480) -> list[TableView]:
        """Compare two trainings: charts of both, then the best metrics, then the settings."""
        return compare_training(registry.get_run(first), registry.get_run(second), width)
