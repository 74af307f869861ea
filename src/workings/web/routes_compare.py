"""The answers that the screen Compare asks for: two runs, two inputs, or one input permuted."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import FastAPI, Query, Request
from pydantic import Field

from workings.web.requests import (
    MAX_INPUT_LENGTH,
    AttentionPart,
    OneBasedIndex,
    RequestModel,
    RunName,
    SceneNumber,
)
from workings.web.run_responses import ComparisonView, PermutationView, TrainingComparison
from workings.web.runs import RunRegistry

if TYPE_CHECKING:
    from workings.web.comparer import Comparer


class SideRequest(RequestModel):
    """A run, and what it is to read; for a captioner, a drawn scene by number."""

    run: RunName
    text: Annotated[str, Field(max_length=MAX_INPUT_LENGTH)] = ""
    scene: SceneNumber = 1


class CompareRequest(RequestModel):
    """Two sides, and a head to be shown of both; without a part, the first that both have."""

    first: SideRequest
    second: SideRequest
    part: AttentionPart | Literal["alignment"] | None = None
    layer: OneBasedIndex = 1
    head: OneBasedIndex = 1


class PermuteRequest(RequestModel):
    """Another order of a text's tokens, and a head; positions that are added can be left out."""

    run: RunName
    text: Annotated[str, Field(max_length=MAX_INPUT_LENGTH)]
    order: Literal["reversed", "swapped", "shuffled"] = "reversed"
    seed: Annotated[int, Field(ge=0, le=2**31)] = 1
    use_positions: bool = True
    layer: OneBasedIndex = 1
    head: OneBasedIndex = 1


def add_compare_routes(app: FastAPI, registry: RunRegistry) -> None:
    """Declare them."""

    def compares() -> "Comparer":
        from workings.web.comparer import Comparer

        return Comparer(registry)

    @app.get("/api/compare/curves")
    def curves(
        first: RunName, second: RunName, width: Annotated[int, Query(ge=240, le=1600)] = 480
    ) -> TrainingComparison:
        """Put the trainings of two runs on the same charts."""
        runs = registry.get_run(first), registry.get_run(second)
        from workings.web.comparer import compare_training

        return compare_training(*runs, width)

    @app.post("/api/compare")
    async def compare(given: CompareRequest, request: Request) -> ComparisonView:
        """Have two runs read an input, or one run two inputs."""
        for side in (given.first, given.second):
            registry.get_run(side.run)
        return await registry.submit(request, lambda _: compares().compare(given))

    @app.post("/api/permute")
    async def permute(given: PermuteRequest, request: Request) -> PermutationView:
        """Have a run read an input's tokens in another order."""
        registry.get_run(given.run)
        return await registry.submit(request, lambda _: compares().permute(given))
