"""The answers that the screen Compare asks for: two runs, two inputs, or one input permuted."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import FastAPI, Query, Request
from pydantic import Field

from workings.web.asked import Asked, RunName
from workings.web.asked_looks import LONGEST_INPUT, Number, Part, Scene
from workings.web.shelf import Shelf
from workings.web.told_runs import Both, Compared, Permuted

if TYPE_CHECKING:
    from workings.web.compares import Compares


class SideAsked(Asked):
    """A run, and what it is to read; for a captioner, a drawn scene by number."""

    run: RunName
    text: Annotated[str, Field(max_length=LONGEST_INPUT)] = ""
    scene: Scene = 1


class CompareAsked(Asked):
    """Two sides, and a head to be shown of both; without a part, the first that both have."""

    first: SideAsked
    second: SideAsked
    part: Part | Literal["alignment"] | None = None
    layer: Number = 1
    head: Number = 1


class PermuteAsked(Asked):
    """Another order of a text's tokens, and a head; positions that are added can be left out."""

    run: RunName
    text: Annotated[str, Field(max_length=LONGEST_INPUT)]
    order: Literal["reversed", "swapped", "shuffled"] = "reversed"
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1
    positions: bool = True
    layer: Number = 1
    head: Number = 1


def comparing(app: FastAPI, shelf: Shelf) -> None:
    """Declare them."""

    def compares() -> "Compares":
        from workings.web.compares import Compares  # imports torch: only where a run is asked

        return Compares(shelf)

    @app.get("/api/compare/curves")
    def curves(
        first: RunName, second: RunName, width: Annotated[int, Query(ge=240, le=1600)] = 480
    ) -> Both:
        """Put the trainings of two runs on the same charts."""
        runs = shelf.run(first), shelf.run(second)
        from workings.web.trained_both import trained_both

        return trained_both(*runs, width)

    @app.post("/api/compare")
    async def compare(given: CompareAsked, request: Request) -> Compared:
        """Have two runs read an input, or one run two inputs."""
        for side in (given.first, given.second):
            shelf.run(side.run)
        return await shelf.ask(request, lambda _: compares().compared(given))

    @app.post("/api/permute")
    async def permute(given: PermuteAsked, request: Request) -> Permuted:
        """Have a run read an input's tokens in another order."""
        shelf.run(given.run)
        return await shelf.ask(request, lambda _: compares().permuted(given))
