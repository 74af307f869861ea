"""The answers that the screen Look asks for: each is a job for the models' threads."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response

from workings.web import asked_looks as asked
from workings.web import told_looks as told
from workings.web.exports import attached
from workings.web.shelf import Shelf
from workings.web.worker import Turn

if TYPE_CHECKING:
    from workings.web.looks import Looks

Result = TypeVar("Result")


def looking(app: FastAPI, shelf: Shelf) -> None:
    """Declare what can be asked of the runs of a shelf."""
    kept: list[Looks] = []

    def looks() -> "Looks":
        from workings.web.looks import Looks  # imports torch: only where a run is asked

        if not kept:
            kept.append(Looks(shelf))
        return kept[0]

    async def ask(request: Request, run: str, job: Callable[["Looks", Turn], Result]) -> Result:
        shelf.run(run)  # refused at once, where there is none
        return await shelf.ask(request, lambda turn: job(looks(), turn))

    @app.post("/api/look")
    async def look(given: asked.Look, request: Request) -> told.Looked:
        """Have a run read an input: what comes out, and every head in small."""
        return await ask(request, given.run, lambda looks, _: looks.looked(given))

    @app.post("/api/look/map")
    async def one(given: asked.MapAsked, request: Request) -> told.Map:
        """One head: who looks at whom."""
        return await ask(request, given.run, lambda looks, _: looks.map(given))

    @app.post("/api/look/export", response_class=Response)
    async def export(given: asked.MapAsked, request: Request) -> Response:
        """The heads of a part as one HTML file."""
        content = await ask(request, given.run, lambda looks, _: looks.page(given))
        return attached("html", content)

    @app.post("/api/look/working")
    async def working(given: asked.DerivationAsked, request: Request) -> told.Derivation:
        """One cell of a head, written out; and the head as a problem for Work."""
        return await ask(request, given.run, lambda looks, _: looks.derivation(given))

    @app.post("/api/look/complete")
    async def complete(given: asked.Complete, request: Request) -> told.Completed:
        """Go on with a text, for at most some seconds."""
        return await ask(request, given.run, lambda looks, turn: looks.completed(given, turn))

    @app.post("/api/look/explain")
    async def explain(given: asked.Look, request: Request) -> told.Explained:
        """Which words decided on the class."""
        return await ask(request, given.run, lambda looks, _: looks.explained(given))

    @app.post("/api/look/cells")
    async def cells(given: asked.CellsAsked, request: Request) -> told.Tracked:
        """One cell of a language model, over the text."""
        return await ask(request, given.run, lambda looks, _: looks.tracked(given))

    @app.post("/api/look/positions")
    async def positions(given: asked.RunAsked, request: Request) -> told.Positions:
        """How a model tells places apart."""
        return await ask(request, given.run, lambda looks, _: looks.positions(given))
