"""The FastAPI application: all routes, the page's files, error responses."""

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from workings import __version__
from workings.errors import UserError, truncate
from workings.web.assets import load_assets
from workings.web.language import LanguageMiddleware
from workings.web.problem_answers import describe_missing_module, format_error
from workings.web.responses import ErrorResponse
from workings.web.routes_models import add_model_routes
from workings.web.routes_problems import PROBLEM_PATHS, SLOW_PATHS, add_problem_routes
from workings.web.routes_training import TRAINING_PREFIXES, add_training_routes
from workings.web.runs import RunInfo, RunRegistry
from workings.web.security import AccessPolicy, App, SecurityMiddleware
from workings.web.worker_pool import IsolatedRoutes, WorkerPools

_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": description}
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
        (503, "the server is stopping"),
    )
}


def build_secured_app(
    policy: AccessPolicy, registry: RunRegistry | None = None, pools: WorkerPools | None = None
) -> App:
    """Return the application wrapped in the security middleware.

    With pools, requests about problems and logs are answered by their workers.
    """
    app: App = build_app(registry)
    if pools is not None:
        app = IsolatedRoutes(app, pools, PROBLEM_PATHS, SLOW_PATHS, TRAINING_PREFIXES)
    return SecurityMiddleware(app, policy)


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
    app.add_middleware(LanguageMiddleware)
    app.exception_handler(RequestValidationError)(_handle_validation_error)
    app.exception_handler(HTTPException)(_handle_http_error)
    app.exception_handler(ModuleNotFoundError)(_handle_missing_module)
    _add_page_routes(app)
    add_problem_routes(app)
    registry = registry or RunRegistry()
    app.exception_handler(UserError)(_make_user_error_handler(registry))
    _add_run_routes(app, registry)
    add_model_routes(app, registry)
    add_training_routes(app, registry)
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


def _add_run_routes(app: FastAPI, registry: RunRegistry) -> None:
    @app.get("/api/runs")
    def list_runs() -> list[RunInfo]:
        """List the runs that the workbench was started with."""
        return [*registry.runs.values()]  # the response has the fields of RunInfo only


def _make_user_error_handler(registry: RunRegistry) -> Callable[[Request, Exception], JSONResponse]:
    def handle_user_error(_: Request, error: Exception) -> JSONResponse:
        return _error_response(422, registry.redact_paths(str(error)))

    return handle_user_error


def _handle_validation_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _error_response(422, _describe_invalid_field(error.errors()[0]))


def _describe_invalid_field(error: Mapping[str, Any]) -> str:
    """Return the field and the reason; our own readers of bodies tell both."""
    reason = error.get("ctx", {}).get("error")
    if isinstance(reason, UserError):
        return str(reason)
    path = [str(part) for part in error["loc"][1:] if isinstance(part, int | str)]
    return f"{'.'.join(truncate(part, 40) for part in path) or 'the request'}: {error['msg']}"


def _handle_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _error_response(error.status_code, error.detail)


def _handle_missing_module(_: Request, error: Exception) -> JSONResponse:
    """Return how to install a missing optional package; any other missing module is a bug."""
    assert isinstance(error, ModuleNotFoundError)
    return _error_response(422, describe_missing_module(error))


def _error_response(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": format_error(message)}, status)
