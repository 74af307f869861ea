"""The routes of the screens Inspect and Compare; each request is a job for the model threads."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from workings.web import requests, responses
from workings.web.jobs import Deadline
from workings.web.problem_answers import build_file
from workings.web.routes_problems import build_file_response
from workings.web.runs import RunRegistry
from workings.web.token_stream import SendToken, stream_tokens

if TYPE_CHECKING:
    from workings.web.comparer import Comparer
    from workings.web.inspector import Inspector

Result = TypeVar("Result")


def add_model_routes(app: FastAPI, registry: RunRegistry) -> None:
    """Add the routes to the application; torch is imported by the first request."""
    _add_inspect_routes(app, registry)
    _add_compare_routes(app, registry)


def _add_inspect_routes(app: FastAPI, registry: RunRegistry) -> None:
    inspectors: list[Inspector] = []

    def get_inspector() -> "Inspector":
        from workings.web.inspector import Inspector

        if not inspectors:
            inspectors.append(Inspector(registry))
        return inspectors[0]

    async def submit(
        request: Request, run: str, job: Callable[["Inspector", Deadline], Result]
    ) -> Result:
        registry.get_run(run)  # an unknown run is an error before the job is queued
        return await registry.submit(request, lambda deadline: job(get_inspector(), deadline))

    @app.post("/api/inspect")
    async def inspect(body: requests.OutcomeRequest, request: Request) -> responses.InspectView:
        """Return the output of a run for an input, and thumbnails of all heads."""
        return await submit(
            request,
            body.run,
            lambda inspector, _: inspector.inspect(body, body.temperature, body.top_k),
        )

    @app.post("/api/inspect/map")
    async def heatmap(body: requests.HeatmapRequest, request: Request) -> responses.Heatmap:
        """Return the attention weights of one head."""
        return await submit(request, body.run, lambda inspector, _: inspector.heatmap(body))

    @app.post("/api/inspect/model")
    async def model(body: requests.InspectRequest, request: Request) -> responses.ModelDrawing:
        """Return what every stage of a run's model computes for an input, as thumbnails."""
        return await submit(request, body.run, lambda inspector, _: inspector.draw_model(body))

    @app.post("/api/inspect/stage")
    async def stage(body: requests.StageRequest, request: Request) -> responses.Heatmap:
        """Return all numbers of one stage of a run's model."""
        return await submit(request, body.run, lambda inspector, _: inspector.read_stage(body))

    @app.post("/api/inspect/export", response_class=Response)
    async def export(body: requests.HeatmapRequest, request: Request) -> Response:
        """Return the heads of a part as one HTML file."""
        content = await submit(request, body.run, lambda inspector, _: inspector.export_page(body))
        return build_file_response(build_file("html", content))

    @app.post("/api/inspect/working")
    async def working(
        body: requests.DerivationRequest, request: Request
    ) -> tuple[responses.DerivationView, requests.ProblemTable | None]:
        """Return the derivation of an attention weight, and the head as a problem for Work.

        The problem is null if the head is too large for Work.
        """
        return await submit(request, body.run, lambda inspector, _: inspector.derive_cell(body))

    @app.post("/api/inspect/complete")
    async def complete(
        body: requests.CompletionRequest, request: Request
    ) -> responses.CompletionView:
        """Continue a text, within a time limit."""
        return await submit(
            request, body.run, lambda inspector, deadline: inspector.complete(body, deadline)
        )

    @app.post("/api/inspect/stream", response_class=StreamingResponse)
    async def stream(body: requests.CompletionRequest, request: Request) -> StreamingResponse:
        """Continue a text: each line is the JSON of a token, and the last one how it ended."""

        def start(send: SendToken) -> Awaitable[responses.CompletionView]:
            return submit(
                request,
                body.run,
                lambda inspector, deadline: inspector.complete(body, deadline, send),
            )

        return StreamingResponse(await stream_tokens(start), media_type="application/x-ndjson")

    @app.post("/api/inspect/explain")
    async def explain(
        body: requests.InspectRequest, request: Request
    ) -> list[responses.TokenStrip]:
        """Attribute the prediction of a classifier to the tokens of the text."""
        return await submit(request, body.run, lambda inspector, _: inspector.explain(body))

    @app.post("/api/inspect/cells")
    async def cells(body: requests.CellsRequest, request: Request) -> responses.CellActivationsView:
        """Return the activations of a language model's cell on a text."""
        return await submit(request, body.run, lambda inspector, _: inspector.read_cell(body))

    @app.post("/api/inspect/positions")
    async def positions(body: requests.RunRequest, request: Request) -> list[responses.Heatmap]:
        """Return the position vectors of a model and their dot products."""
        return await submit(
            request, body.run, lambda inspector, _: inspector.describe_positions(body)
        )


def _add_compare_routes(app: FastAPI, registry: RunRegistry) -> None:
    def get_comparer() -> "Comparer":
        from workings.web.comparer import Comparer

        return Comparer(registry)

    @app.post("/api/compare")
    async def compare(body: requests.CompareRequest, request: Request) -> responses.ComparisonView:
        """Compare two runs on an input, or one run on two inputs."""
        for side in (body.first, body.second):
            registry.get_run(side.run)  # an unknown run is an error before the job is queued
        return await registry.submit(request, lambda _: get_comparer().compare(body))

    @app.post("/api/permute")
    async def permute(body: requests.PermuteRequest, request: Request) -> responses.PermutationView:
        """Compare f(P X) with P f(X) for a permutation of the tokens."""
        registry.get_run(body.run)
        return await registry.submit(request, lambda _: get_comparer().permute(body))
