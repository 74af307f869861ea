"""The answers that the screen Look asks for: each is a job for the models' threads."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response

from workings.web import requests, responses
from workings.web.jobs import Deadline
from workings.web.problem_files import build_file_response
from workings.web.runs import RunRegistry

if TYPE_CHECKING:
    from workings.web.inspector import Inspector

Result = TypeVar("Result")


def add_inspect_routes(app: FastAPI, registry: RunRegistry) -> None:
    """Declare what can be asked of the runs of a shelf."""
    kept: list[Inspector] = []

    def looks() -> "Inspector":
        from workings.web.inspector import Inspector

        if not kept:
            kept.append(Inspector(registry))
        return kept[0]

    async def ask(
        request: Request, run: str, job: Callable[["Inspector", Deadline], Result]
    ) -> Result:
        registry.get_run(run)  # refused at once, where there is none
        return await registry.submit(request, lambda turn: job(looks(), turn))

    @app.post("/api/inspect")
    async def look(given: requests.InspectRequest, request: Request) -> responses.InspectView:
        """Have a run read an input: what comes out, and every head in small."""
        return await ask(request, given.run, lambda looks, _: looks.inspect(given))

    @app.post("/api/inspect/map")
    async def one(given: requests.HeatmapRequest, request: Request) -> responses.Heatmap:
        """One head: who looks at whom."""
        return await ask(request, given.run, lambda looks, _: looks.heatmap(given))

    @app.post("/api/inspect/export", response_class=Response)
    async def export(given: requests.HeatmapRequest, request: Request) -> Response:
        """The heads of a part as one HTML file."""
        content = await ask(request, given.run, lambda looks, _: looks.export_page(given))
        return build_file_response("html", content)

    @app.post("/api/inspect/working")
    async def working(
        given: requests.DerivationRequest, request: Request
    ) -> responses.DerivationView:
        """One cell of a head, written out; and the head as a problem for Work."""
        return await ask(request, given.run, lambda looks, _: looks.derive_cell(given))

    @app.post("/api/inspect/complete")
    async def complete(
        given: requests.CompletionRequest, request: Request
    ) -> responses.CompletionView:
        """Go on with a text, for at most some seconds."""
        return await ask(request, given.run, lambda looks, turn: looks.complete(given, turn))

    @app.post("/api/inspect/explain")
    async def explain(
        given: requests.InspectRequest, request: Request
    ) -> responses.AttributionView:
        """Which words decided on the class."""
        return await ask(request, given.run, lambda looks, _: looks.explain(given))

    @app.post("/api/inspect/cells")
    async def cells(
        given: requests.CellsRequest, request: Request
    ) -> responses.CellActivationsView:
        """One cell of a language model, over the text."""
        return await ask(request, given.run, lambda looks, _: looks.read_cell(given))

    @app.post("/api/inspect/positions")
    async def positions(given: requests.RunRequest, request: Request) -> responses.PositionsView:
        """How a model tells places apart."""
        return await ask(request, given.run, lambda looks, _: looks.describe_positions(given))
